"""Starting Spark: what cannot work is said before, what Java says at every start is left out, the rest passed on."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tests.check.worlds import causal_world
from whence.cli.app import run as command
from whence.errors import UsageError
from whence.pipeline import session as sessions
from whence.pipeline.log_reader import read_logs
from whence.pipeline.session import OUT_OF_MEMORY, SMALL_BYTES, configure_for_size, first_line, session
from whence.trace.writer import write_trace

_NO_ROOM_TO_SEND = (
    "org.apache.spark.SparkException: Not enough memory to build and broadcast the table to all worker nodes. As a "
    "workaround, you can either disable broadcast"
)


@pytest.mark.parametrize("words", [["verify"], ["report", "--out", "page.html"], ["metrics", "--out", "tables"]])
def test_paths_are_looked_at_before_spark_starts(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sessions, "session", lambda *_: pytest.fail("Spark was started for nothing"))
    assert command([words[0], str(tmp_path / "nowhere"), *words[1:]]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err


def test_promises_are_looked_at_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sessions, "session", lambda *_: pytest.fail("Spark was started for nothing"))
    write_trace(tmp_path, causal_world(1, 3, 20))
    assert command(["verify", str(tmp_path), "--promise", "kindness"]) == 2
    assert "'kindness'" in capsys.readouterr().err


@pytest.mark.parametrize("master", ["nonsense", "local[x]", "spark://host", "http://host:1", "spark:/host:7077"])
def test_a_master_that_is_none_is_refused_before_anything_starts(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "require_java", lambda: pytest.fail("Java was asked for"))
    with pytest.raises(UsageError, match=r"--master must be local, local\[N\], .* or sc://HOST:PORT, not"):
        session(master)


@pytest.mark.parametrize(
    "master",
    ["local", "local[2]", "local[*]", "local[4, 2]", "local-cluster[2,1,1024]", "spark://a:7077", "spark://a:1,b:2",
     "spark://[::1]:7077", "yarn", "k8s://https://host:443", "sc://host:15002/;token=x"],
)  # fmt: skip
def test_every_master_of_sparks_is_taken(master: str) -> None:
    assert sessions._MASTER.fullmatch(master)


def test_a_python_that_is_not_there_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")
    monkeypatch.setattr(sessions, "require_java", lambda: None)
    with pytest.raises(UsageError, match="PYSPARK_PYTHON is '/nowhere/python', and no program is there; set it"):
        session("local[2]")


def test_a_master_that_nobody_answers_at_is_named_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_start_java", lambda *_: pytest.fail("Java was started"))
    with socket.create_server(("127.0.0.1", 0)) as listens:
        port = listens.getsockname()[1]
        sessions._require_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    for master in (f"spark://127.0.0.1:{port}", "spark://127.0.0.1:1,[::1]:1", "spark://127.0.0.1:99999"):
        with pytest.raises(UsageError, match="nobody answers there; see whether the master runs"):
            sessions._require_master(master)


def test_what_java_says_is_kept_until_it_runs_and_of_one_that_ended_only_the_cause_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard = sessions._Heard()
    for line in (
        "Exception in thread main\n",
        "\tat a.b(C.scala:1)\n",
        "Caused by: java.net.E: No device\n",
        "\t... 10\n",
    ):
        heard.line(line)
    assert heard.cause() == "No device"
    assert capsys.readouterr().err == ""
    heard.started()
    heard.line("more\n")
    assert capsys.readouterr().err.splitlines()[-2:] == ["\t... 10", "more"]


@pytest.mark.parametrize(
    ("said", "found"), [(None, "has no Java that runs"), ('openjdk version "11.0.2"', "has Java 11")]
)
def test_where_java_home_is_wrong_it_is_named(
    said: str | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if said is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\necho '{said}' >&2\n")
        (tmp_path / "bin" / "java").chmod(0o700)
    with pytest.raises(UsageError, match=f"and JAVA_HOME, which is {tmp_path}, {found}; set it .*, or unset it"):
        sessions.require_java()


def test_java_greets_nobody_and_is_heard_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    reads, writes = os.pipe()
    os.write(writes, b'WARNING: Using incubator modules: jdk.incubator.vector\nSetting Spark log level to "FATAL".\n')
    os.write(writes, b"java.lang.OutOfMemoryError: Java heap space\nTo adjust logging level use sc.setLogLevel\n")
    os.close(writes)
    sessions._pass_on(reads)
    assert capsys.readouterr().err == "java.lang.OutOfMemoryError: Java heap space\n"


def test_an_error_of_sparks_is_raised_and_not_printed(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.ndjson").write_text('{"pid": 1, "seq": 1, "l": 1}\n')
    with pytest.raises(UsageError, match="--mapping"):
        read_logs(spark, tmp_path, {"l": "nosuch"})
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        spark.sql("select cast('x' as int)").collect()
    assert capfd.readouterr().err == ""


def test_what_java_says_is_told_by_its_cause() -> None:
    called = "An error occurred while calling o55.load.\n"
    deep = ": org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat a.b(C.scala:1)\n"
    deep += "Caused by: java.lang.RuntimeException: file:/x.parquet is not a Parquet file. Expected\n\tat d\n"
    assert first_line(Exception(called + deep)) == "file:/x.parquet is not a Parquet file. Expected"
    assert first_line(Exception(f"{called}: java.io.IOException: no room\n\tat a.b(C.scala:1)")) == "no room"
    assert (
        first_line(Exception(f"{called}: java.lang.NullPointerException\n\tat a.b")) == "java.lang.NullPointerException"
    )
    assert first_line(Exception(called)) == called.strip()
    assert first_line(ValueError("\n one \n two")) == "one"
    for said in ("SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY]", _NO_ROOM_TO_SEND):
        assert first_line(Exception(f"{called}: {said}")) == OUT_OF_MEMORY
    assert first_line(ValueError()) == "ValueError"


def test_every_command_tells_too_little_memory_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise Py4JError(f"An error occurred while calling o55.parquet.\n: {_NO_ROOM_TO_SEND}")

    monkeypatch.delenv("WHENCE_DEBUG", raising=False)
    monkeypatch.setattr(sessions, "session", fail)
    write_trace(tmp_path / "traces", causal_world(1, 3, 20))
    asked = ["metrics", str(tmp_path / "traces"), "--out", str(tmp_path / "tables"), "--engine", "spark"]
    assert command(asked) == 2
    assert OUT_OF_MEMORY in capsys.readouterr().err


def test_of_large_input_spark_sends_no_table_to_all_only_because_its_files_are_small(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Rows that are much alike take next to nothing as Parquet."""
    many = spark.range(100_000).selectExpr("id div 50000 as a", "id as b")
    many.write.parquet(str(tmp_path / "many"))

    def plan() -> str:
        table = spark.read.parquet(str(tmp_path / "many"))
        joined: Any = table.join(table.withColumnRenamed("b", "c"), "a")
        return str(joined._jdf.queryExecution().executedPlan())

    try:
        configure_for_size(spark, SMALL_BYTES)
        assert "Broadcast" not in plan()
    finally:
        configure_for_size(spark, 0)
    assert "Broadcast" in plan()


def test_sigterm_ends_java_too() -> None:
    """A Java whose memory is full would not see that whoever started it has gone."""
    program = (
        "import sys, time\nfrom pyspark import SparkContext\nfrom whence.pipeline.session import session\nsession()\n"
        "java = SparkContext._gateway.proc.pid\nprint(java, flush=True)\nimport os, signal\n"
        "os.kill(java, signal.SIGSTOP)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        java = int(process.stdout.readline())
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
    deadline = time.monotonic() + 60
    while _runs(java) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(java)


def _runs(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
