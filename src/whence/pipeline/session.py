"""The one place that builds a Spark session: the worker's Python, partitions by data size, quiet logs, ANSI mode.

`local[*]` runs inside this process, `spark://…` on a cluster that sees the same files, `sc://…` through Spark Connect.
PySpark is loaded when a session is made, not before: it takes as long as a small job of the local engine.
"""

import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Lock, Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any, Final

from whence.errors import UsageError
from whence.pipeline.local.session import is_local_engine

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
JAVA_MIN: Final = 17
PARTITION_BYTES: Final = 32 << 20
"""Compressed input per shuffle partition: some 200 MiB once it is rows, which sorts in memory."""
PARTITIONS_MAX: Final = 2000
SMALL_BYTES: Final = 64 << 20
"""Below this a job is over in seconds, most of them spent on planning and compiling."""
BROADCAST_BYTES: Final = 10 << 20
"""A table up to this is sent to every task for a join, where Spark knows its size."""
BRIEF_BYTES: Final = 256 << 20
"""Below this, most of Spark's code runs so seldom that compiling it well takes longer than it would save."""
BRIEF_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m -XX:ReservedCodeCacheSize=240m"
"""Java that compiles briefly sets 48 MiB aside for code and ends where they are full; each plan has code of its own."""
MEMORY: Final = "2g"
"""Enough for 20 million rows; sorts spill to disk beyond it. `--conf spark.driver.memory=…` asks for more."""

ANSWER_S: Final = 10.0
"""How long a master may take to accept a connection."""
ENDED_S: Final = 5.0
"""How long to wait for the last words of a Java that has ended."""

MASTERS: Final = "local, local[N], local[*], spark://HOST:PORT, yarn, k8s://URL or sc://HOST:PORT"
_MASTER: Final = re.compile(
    r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[.+\]|spark://[^\s/]+:\d+|yarn|k8s://\S+|sc://\S+"
)
_GREETINGS: Final = (
    "WARNING: Using incubator modules", "Using Spark's default log4j profile", "Setting default log level",
    "Setting Spark log level", "To adjust logging level",
)  # fmt: skip
_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""They print every error with its Java stack before it is raised to the caller."""

_LOGGING = Path(__file__).with_name("log4j2.properties")

_SETTINGS: Final[dict[str, str]] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.files.openCostInBytes": "65536",
    "spark.sql.maxPlanStringLength": "65536",  # plans are described for nobody, and a large one fills the heap
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # What a window still holds when it has taken in a whole line of a process cannot be spilled any more, and all of a
    # task's memory might be gone: nothing would be left for what comes after it in the same task.
    "spark.sql.windowExec.buffer.spill.threshold": "262144",
}
_AT_START: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
    "spark.driver.memory": MEMORY,
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    "spark.speculation": "false",
}


def session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, input_bytes: int = BRIEF_BYTES
) -> "SparkSession":
    """Return the Spark session, made on first use. Raises UsageError where Spark, Java or the cluster is missing.

    `input_bytes`: how much it will read, where that is known; a local session for little input is set up to be brief.
    """
    if find_spec("pyspark") is None:
        raise UsageError("this command needs Spark; install it with: pip install 'whence[spark]'")
    from pyspark import SparkConf, SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    master = master or os.environ.get("WHENCE_MASTER") or LOCAL
    if not _MASTER.fullmatch(master):
        raise UsageError(f"--master must be {MASTERS}, not {master!r}")
    for name in _LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):  # else Spark takes whatever the PATH calls python3
        os.environ.setdefault(name, sys.executable)
    wanted = _SETTINGS | dict(conf or {})
    if master.startswith("sc://"):
        return _connected(master, wanted)
    require_java()
    if master.startswith("local"):
        _require_python()
    if SparkContext._gateway is None:
        _require_master(master)
    builder = SparkSession.builder.appName("whence").master(master)
    at_start = dict(_AT_START)
    if master.startswith("local"):
        at_start["spark.driver.host"] = "localhost"
        if input_bytes < BRIEF_BYTES:
            at_start["spark.driver.defaultJavaOptions"] = BRIEF_JAVA
    for name, value in (at_start | wanted).items():
        builder = builder.config(name, value)
    try:
        with _interrupts():
            if SparkContext._gateway is None:
                _start_java(SparkConf().setAll([("spark.master", master), *(at_start | wanted).items()]))
            return builder.getOrCreate()
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"--master {master}: Spark does not start there: {first_line(error)}") from error


class _Heard:
    """What Java says on standard error: kept until it is known whether it starts, and printed from then on."""

    def __init__(self) -> None:
        self._kept: list[str] | None = []
        self._lock = Lock()

    def line(self, line: str) -> None:
        """Take a line."""
        with self._lock:
            if self._kept is None:
                _print(line)
            else:
                self._kept.append(line)

    def started(self) -> None:
        """Print what was said, and whatever comes."""
        with self._lock:
            for line in self._kept or []:
                _print(line)
            self._kept = None

    def cause(self) -> str:
        """Return what Java says last of why it ended, or what it says first."""
        with self._lock:
            said = [line.strip() for line in self._kept or [] if line.strip() and not line.startswith(("\t", " "))]
        causes = [found[1] for line in said if (found := _CAUSE.match(line))]
        return (causes[-1:] or said[:1] or ["it does not say why"])[0][:300]


def _print(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def _start_java(conf: "SparkConf") -> None:
    """Start Java; its messages go to standard error, except the greetings of every start.

    Raises UsageError where it ends at once: its trace speaks of Java's and Spark's own source, which helps nobody.
    """
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    reads, writes = os.pipe()
    heard = _Heard()
    hears = Thread(target=_pass_on, args=(reads, heard.line), name="java says", daemon=True)
    hears.start()
    failed = None
    try:
        launch: Any = launch_gateway
        gateway = launch(conf, {"stderr": writes})
        SparkContext._ensure_initialized(gateway=gateway)
        _end_together(gateway.proc)
    except PySparkRuntimeError as error:
        failed = error
    finally:
        os.close(writes)
        if failed is None:
            heard.started()
    if failed is not None:
        hears.join(ENDED_S)  # what is left in the pipe
        raise UsageError(
            f"Spark's Java ended before it was ready: {heard.cause()}; see what whence doctor says of Java, whether "
            "the loopback device is up, and whether SPARK_LOCAL_IP, if set, is an address of this machine"
        ) from failed


def _end_together(java: "subprocess.Popen[bytes]") -> None:
    """Let SIGTERM end Java too: with a full heap it does not notice that its parent has ended."""
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def end(number: int, frame: object) -> None:
        java.kill()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)


_ends_on_interrupt, _interrupted = Event(), Event()


def end_on_interrupt() -> None:
    """Let an interrupt (SIGINT) end Java at once and quietly, in sessions that are made from here on.

    For commands, which are over then: PySpark would first try to cancel its jobs, in the middle of another call, and
    every worker would print where it was. A notebook goes on with its session, and must not call this.
    """
    _ends_on_interrupt.set()


def was_interrupted() -> bool:
    """Return whether an interrupt has ended Java: then whatever a call of Spark says is a consequence."""
    return _interrupted.is_set()


@contextmanager
def _interrupts() -> Iterator[None]:
    """Make a session within the block: an interrupt waits until there is a Java to end, and from then on ends it."""
    if not _ends_on_interrupt.is_set() or current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: _interrupted.set())
    try:
        yield
    except BaseException:
        signal.signal(signal.SIGINT, before)
        raise
    signal.signal(signal.SIGINT, _end_java)
    if _interrupted.is_set():
        _end_java(signal.SIGINT, None)


def _end_java(number: int, frame: object) -> None:
    from pyspark import SparkContext

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is over already; another one would only disturb the end
    _interrupted.set()
    logging.disable()  # calls of Java that end with it are no news
    gateway: Any = SparkContext._gateway
    if gateway is not None:
        gateway.proc.kill()
    raise KeyboardInterrupt


def _pass_on(pipe: int, take: Callable[[str], None] = _print) -> None:
    """Pass on what is no greeting, line by line, until Java has ended; nothing more after an interrupt."""
    with os.fdopen(pipe, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.startswith(_GREETINGS) and not _interrupted.is_set():
                take(line)


def _connected(url: str, wanted: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
        for name, value in wanted.items():
            if name.startswith("spark.sql."):
                spark.conf.set(name, value)
    except Exception as error:
        raise UsageError(f"--master {url}: no Spark Connect server answers there: {first_line(error)}") from error
    return spark


def require_java() -> None:
    """Make sure that a Java of the right age runs. Raises UsageError that says what to install or to set."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    try:
        printed = subprocess.run([java or "java", "-version"], capture_output=True, text=True, check=True, timeout=60)
        version = int(printed.stderr.split('"')[1].split(".")[0].split("-")[0])
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        version = 0
    if version < JAVA_MIN:
        if home:
            found = f"has Java {version}" if version else "has no Java that runs"
            raise UsageError(
                f"Spark needs Java {JAVA_MIN} or newer, and JAVA_HOME, which is {home}, {found}; set it to the "
                "directory of another one, or unset it: then Spark takes the java of the PATH"
            )
        found = f"only Java {version} was found" if version else "no Java was found"
        raise UsageError(f"Spark needs Java {JAVA_MIN} or newer and {found}; install openjdk-{JAVA_MIN}-jre-headless")


def _require_master(master: str) -> None:
    """Make sure that somebody listens at a master spark://HOST:PORT,…: Spark would ask for a minute, and then say
    which of its own parts is missing. Raises UsageError."""
    if not master.startswith("spark://"):
        return
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
        except (OSError, ValueError, OverflowError):
            continue
        return
    raise UsageError(f"--master {master}: nobody answers there; see whether the master runs, and its host and port")


def _require_python() -> None:
    """Make sure that the Python that tasks on this machine run in is there. Raises UsageError."""
    python = os.environ["PYSPARK_PYTHON"]
    if shutil.which(python) is None:
        raise UsageError(
            f"PYSPARK_PYTHON is {python!r}, and no program is there; set it to the Python that Spark's tasks run in, "
            f"or unset it: then it is {sys.executable}"
        )


def configure_for_size(spark: "SparkSession", input_bytes: int) -> int:
    """Configure the session for the size of its input; return the number of shuffle partitions.

    A small job is over before the code compiled for it would pay, and its plan needs no second thoughts.

    What Spark sends to every task without being told to, it chooses by the size of files. Rows that are much alike take
    next to nothing there: millions of them would be sent. So of large input it chooses only once it has counted bytes.
    """
    if is_local_engine(spark):
        return 1
    is_small = input_bytes < SMALL_BYTES
    partitions = min(PARTITIONS_MAX, max(cores_of(spark), -(-input_bytes // PARTITION_BYTES)))
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    spark.conf.set("spark.sql.codegen.wholeStage", str(not is_small).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if is_small else "FALLBACK")
    spark.conf.set("spark.sql.adaptive.enabled", str(not is_small).lower())
    spark.conf.set("spark.sql.constraintPropagation.enabled", str(not is_small).lower())
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", str(BROADCAST_BYTES if is_small else -1))
    spark.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", str(BROADCAST_BYTES))
    return partitions


def is_local(spark: "SparkSession") -> bool:
    """Return whether Spark runs inside this process and sees its files."""
    return (
        not is_local_engine(spark)
        and not is_connected(spark)
        and (spark.conf.get("spark.master", "") or "").startswith("local")
    )


def is_connected(spark: "SparkSession") -> bool:
    """Return whether Spark's driver is a server elsewhere."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def cores_of(spark: "SparkSession") -> int:
    """Return how many tasks Spark runs at once; two where it cannot be asked."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - a Connect session has no context to ask
        return 2


_MISSING: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")


def missing_module(error: BaseException) -> str | None:
    """Return a sentence about the module of Python that an executor lacks, if that is what an error of Spark's says."""
    found = _MISSING.search(str(error))
    if found is None:
        return None
    return (
        f"the executors' Python has no module {found[1]}; build what they need with whence pack --out FILE.tar.gz, "
        "and give it to Spark as that command says"
    )


_CALLING: Final = re.compile(r"An error occurred while calling \S+$")
OUT_OF_MEMORY: Final = (
    "Spark had too little memory: give it more, with --conf spark.driver.memory=4g, or on a cluster with "
    "--conf spark.executor.memory=4g"
)

_TOO_LITTLE: Final = (
    "OutOfMemoryError", "UNABLE_TO_ACQUIRE_MEMORY", "Not enough memory to build and broadcast",
)  # fmt: skip
"""What Spark says then, where tasks sort and where the driver sends a table to all."""

_CAUSE: Final = re.compile(r"(?:Caused by)?: (?:[\w.$]+: )?(.+)")


def is_overflow(error: BaseException) -> bool:
    """Return whether an engine failed on a number that leaves no room to reckon with it."""
    return any(word in str(error)[:2000] for word in ("ARITHMETIC_OVERFLOW", "Out of Range Error: Overflow"))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether Spark had too little memory."""
    return any(word in str(error)[:2000] for word in _TOO_LITTLE)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says that says something; of Java's, what caused it at the bottom.

    Of an executor that lacks a module of Python, which one and what to do; of one without memory, what to do.
    """
    if missing := missing_module(error):
        return missing
    if is_out_of_memory(error):
        return OUT_OF_MEMORY
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and _CALLING.match(lines[0]):
        causes = [line for line in lines[1:] if line.startswith((":", "Caused by:"))]
        cause = _CAUSE.match(causes[-1]) if causes else None
        lines = [cause[1]] if cause else lines
    return lines[0][:300] if lines else type(error).__name__
