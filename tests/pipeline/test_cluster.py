"""The same commands on a real cluster and through Spark Connect: one master, two workers, processes of their own."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest

from tests.check.trace_builder import TraceBuilder
from tests.check.worlds import causal_world
from tests.pipeline.conftest import BRIEF, mount_option
from tests.pipeline.logs import Row, in_order, made_log, write_files
from whence.net.proxy import free_port
from whence.trace.memory import Trace
from whence.trace.writer import write_trace

SPARK = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
HERE = "127.0.0.1"
ENVIRONMENT = os.environ | {
    "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": HERE, "PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1",
    "JDK_JAVA_OPTIONS": BRIEF["spark.driver.defaultJavaOptions"],
}  # fmt: skip
UP_SECONDS = 240


@contextmanager
def running(log: Path, *command: str) -> Iterator[None]:
    """Run a process of Spark's in a directory of its own and end it, with what it started."""
    home = log.with_suffix("")
    home.mkdir()
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=ENVIRONMENT, cwd=home, stdout=out, stderr=out, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def wait_until(told: Path, words: str, count: int = 1) -> None:
    until = time.monotonic() + UP_SECONDS
    while told.read_text(errors="replace").count(words) < count:
        assert time.monotonic() < until, told.read_text(errors="replace")[-2000:]
        time.sleep(0.5)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and two workers of one core each."""
    where = tmp_path_factory.mktemp("cluster")
    java, port = str(SPARK / "bin" / "spark-class"), free_port()
    url = f"spark://{HERE}:{port}"
    master = [java, "org.apache.spark.deploy.master.Master", "--host", HERE, "--port", str(port), "--webui-port", "0"]
    with ExitStack() as stack:
        stack.enter_context(running(where / "master.log", *master))
        wait_until(where / "master.log", "Starting Spark master")
        for number in range(2):
            worker = [java, "org.apache.spark.deploy.worker.Worker", "--host", HERE, "--cores", "1", "--memory", "1g",
                      "--webui-port", "0", "--work-dir", str(where / f"work-{number}"), url]  # fmt: skip
            stack.enter_context(running(where / f"worker-{number}.log", *worker))
        wait_until(where / "master.log", "Registering worker", 2)
        yield url


class Connect(NamedTuple):
    """A server for Spark Connect, and what lies behind viewfs://connect/data there."""

    url: str
    behind: Path


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    where, port = tmp_path_factory.mktemp("connect"), free_port()
    name, behind = mount_option("connect", where / "behind")
    server = [
        str(SPARK / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", f"spark.sql.warehouse.dir={where}/warehouse", "--conf", f"spark.hadoop.{name}={behind}",
        "spark-internal",
    ]  # fmt: skip
    with running(where / "server.log", *server):
        wait_until(where / "server.log", "Spark Connect server started")
        yield Connect(f"sc://{HERE}:{port}", where / "behind")


def whence(*words: str) -> dict[str, Any]:
    command = [sys.executable, "-c", "from whence.cli import main; main()", *words, "--json"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    assert done.stdout, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told | {"exit": done.returncode}


def written(behind: Path) -> list[Row]:
    """Write a trace that holds, one that does not, and publishers' logs; return the rows of these."""
    write_trace(behind / "traces", causal_world(1, 4, 60))
    write_trace(behind / "traces", broken_trace())
    rows = made_log(1, events=150)
    write_files(behind / "logs", rows, 4, 20)
    return rows


def on_cluster(master: str, tmp_path: Path, *settings: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Judge, merge and stream what lies at viewfs://cluster/data, from a driver in a directory of its own."""
    name, behind = mount_option("cluster", tmp_path / "behind")
    (tmp_path / "driver").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "tests.pipeline.on_cluster", master, "viewfs://cluster/data",
         f"spark.hadoop.{name}={behind}", *(f"{name}={value}" for name, value in BRIEF.items()), *settings],
        env=ENVIRONMENT | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))} | environment,
        cwd=tmp_path / "driver", capture_output=True, text=True, timeout=900,
    )  # fmt: skip


def check_told(done: subprocess.CompletedProcess[str], rows: list[Row]) -> None:
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert sorted(told["verdicts"].values(), key=str) == [{"causal": "broken"}, {"causal": "holds"}]
    assert told["verdicts"]["broken"] == {"causal": "broken"}
    assert told["merged"] == told["released"] == len(rows)
    assert [(grp, pos, payload.encode()) for grp, pos, payload in told["order"]] == in_order(rows)


def test_a_cluster_needs_no_disk_that_its_machines_share(cluster: str, tmp_path: Path) -> None:
    """Master, workers and driver each in a directory of their own, and all input and output behind a URI."""
    rows = written(tmp_path / "behind")
    check_told(on_cluster(cluster, tmp_path), rows)
    assert sorted(path.name for path in (tmp_path / "driver").iterdir()) == []


@pytest.mark.long
def test_executors_without_whence_say_so_and_run_with_the_packed_archive(cluster: str, tmp_path: Path) -> None:
    """The Python outside of this environment has the same version and none of its packages."""
    bare = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    if subprocess.run([bare, "-c", "import pyarrow"], capture_output=True).returncode == 0:
        pytest.skip("the Python outside of this environment has what executors need")
    rows = written(tmp_path / "behind")
    lacking = on_cluster(cluster, tmp_path, PYSPARK_PYTHON=bare)
    assert lacking.returncode != 0
    assert "No module named" in lacking.stderr
    packed = whence("pack", "--out", str(tmp_path / "whence.tar.gz"))
    settings = [f"{name}={value}" for name, value in packed["settings"].items()]
    for directory in ("merged", "out", "work"):
        shutil.rmtree(tmp_path / "behind" / directory, ignore_errors=True)
    check_told(on_cluster(cluster, tmp_path, *settings, PYSPARK_PYTHON=bare), rows)


@pytest.mark.long
def test_a_cluster_judges_and_merges_like_this_process(cluster: str, tmp_path: Path) -> None:
    judged_and_merged(cluster, tmp_path)


@pytest.mark.long
def test_spark_connect_judges_and_merges_like_this_process(connect: Connect, tmp_path: Path) -> None:
    judged_and_merged(connect.url, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("how", ["--by-group", "--one"])
def test_spark_connect_judges_measures_and_merges_what_only_its_server_reaches(connect: Connect, how: str) -> None:
    """And says what it cannot do: streams, and what needs a file to be put or removed."""
    rows = written(connect.behind / how)
    place, master = f"viewfs://connect/data/{how}", ("--master", connect.url)
    judged = whence("verify", f"{place}/traces", "--promise", "causal", *master)
    assert judged["runs"]["broken"] == {"causal": "broken"}
    assert whence("metrics", f"{place}/traces", "--out", f"{place}/tables", *master)["exit"] == 0
    assert (connect.behind / how / "tables" / "run_metrics" / "_SUCCESS").exists()
    merged = whence("merge", f"{place}/logs", "--out", f"{place}/merged", how, *master)
    assert (merged["rows"], merged["read"]) == (len(rows), len(rows))
    assert (connect.behind / how / "merged" / "_SUCCESS").exists()
    if how == "--by-group":
        assert merged_rows(connect.behind / how / "merged") == in_order(rows)
    again = whence("merge", f"{place}/logs", "--out", f"{place}/merged", *master)
    assert (again["exit"], "is not empty" in again["error"]) == (2, True)
    refused = whence("gather", f"{place}/logs", "--out", f"{place}/gathered", "--group", "alps", *master)
    assert refused["exit"] == 2


def judged_and_merged(master: str, tmp_path: Path) -> None:
    write_trace(tmp_path / "traces", causal_world(1, 4, 60))
    write_trace(tmp_path / "traces", broken_trace())
    here = whence("verify", str(tmp_path / "traces"), "--master", "local[1]", "--promise", "causal")
    there = whence("verify", str(tmp_path / "traces"), "--master", master, "--promise", "causal")
    assert there == here
    assert there["runs"]["broken"] == {"causal": "broken"}
    rows = made_log(1)
    write_files(tmp_path / "logs", rows, 3, 50)
    merged = whence("merge", str(tmp_path / "logs"), "--out", str(tmp_path / "out"), "--master", master)
    assert merged["rows"] == len(rows)
    assert merged_rows(tmp_path / "out") == in_order(rows)


def broken_trace() -> Trace:
    """A run whose causal order is broken."""
    broken = TraceBuilder(level="causal")
    cause = broken.publish(0)
    broken.deliver(1, cause)
    broken.deliver(2, broken.publish(1))
    broken.deliver(2, cause)
    broken.trace.run.run_id = "broken"
    return broken.trace


def merged_rows(out: Path) -> list[tuple[str, int, bytes]]:
    import pyarrow.dataset as ds

    table = ds.dataset(out, format="parquet", partitioning="hive").to_table(columns=["grp", "pos", "payload"])
    return sorted((row["grp"], row["pos"], row["payload"]) for row in table.to_pylist())
