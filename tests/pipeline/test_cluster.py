"""The same commands on a real cluster and through Spark Connect: one master, two workers, processes of their own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.check.trace_builder import TraceBuilder
from tests.check.worlds import causal_world
from tests.pipeline.conftest import BRIEF
from tests.pipeline.logs import in_order, made_log, write_files
from whence.net.proxy import free_port
from whence.trace.writer import write_trace

SPARK = Path(pyspark.__file__).parent
HERE = "127.0.0.1"
ENVIRONMENT = os.environ | {
    "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": HERE, "PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1",
    "JDK_JAVA_OPTIONS": BRIEF["spark.driver.defaultJavaOptions"],
}  # fmt: skip
UP_SECONDS = 240

pytestmark = pytest.mark.long


@contextmanager
def running(log: Path, *command: str) -> Iterator[None]:
    """Run a process of Spark's and end it, with what it started."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=out, stderr=out, start_new_session=True)
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


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server for Spark Connect."""
    where, port = tmp_path_factory.mktemp("connect"), free_port()
    server = [
        str(SPARK / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", f"spark.sql.warehouse.dir={where}/warehouse", "spark-internal",
    ]  # fmt: skip
    with running(where / "server.log", *server):
        wait_until(where / "server.log", "Spark Connect server started")
        yield f"sc://{HERE}:{port}"


def whence(*words: str) -> dict[str, Any]:
    command = [sys.executable, "-c", "from whence.cli import main; main()", *words, "--json"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    assert done.stdout, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told | {"exit": done.returncode}


def test_a_cluster_judges_and_merges_like_this_process(cluster: str, tmp_path: Path) -> None:
    judged_and_merged(cluster, tmp_path)


def test_spark_connect_judges_and_merges_like_this_process(connect: str, tmp_path: Path) -> None:
    judged_and_merged(connect, tmp_path)


def judged_and_merged(master: str, tmp_path: Path) -> None:
    write_trace(tmp_path / "traces", causal_world(1, 4, 60))
    broken = TraceBuilder(level="causal")
    cause = broken.publish(0)
    broken.deliver(1, cause)
    broken.deliver(2, broken.publish(1))
    broken.deliver(2, cause)
    broken.trace.run.run_id = "broken"
    write_trace(tmp_path / "traces", broken.trace)
    here = whence("verify", str(tmp_path / "traces"), "--master", "local[1]", "--promise", "causal")
    there = whence("verify", str(tmp_path / "traces"), "--master", master, "--promise", "causal")
    assert there == here
    assert there["runs"]["broken"] == {"causal": "broken"}
    rows = made_log(1)
    write_files(tmp_path / "logs", rows, 3, 50)
    merged = whence("merge", str(tmp_path / "logs"), "--out", str(tmp_path / "out"), "--master", master)
    assert merged["rows"] == len(rows)
    assert merged_rows(tmp_path / "out") == in_order(rows)


def merged_rows(out: Path) -> list[tuple[str, int, bytes]]:
    import pyarrow.dataset as ds

    table = ds.dataset(out, format="parquet", partitioning="hive").to_table(columns=["grp", "pos", "payload"])
    return sorted((row["grp"], row["pos"], row["payload"]) for row in table.to_pylist())
