"""The declarative pipeline runs as its example says, and gives the verdicts that verify gives."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.check.worlds import any_world, causal_world
from tests.pipeline.conftest import BRIEF
from whence.check.judge import judge
from whence.trace.writer import write_trace

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "declarative"


@pytest.mark.long
def test_the_example_gives_the_verdicts_of_the_oracles(spark: SparkSession, tmp_path: Path) -> None:
    traces = {"kept": causal_world(1, 4, 60), "any": any_world(3, 4, 60)}
    for name, trace in traces.items():
        trace.run.run_id = name
        write_trace(tmp_path / "traces", trace)
    text = (
        (EXAMPLE / "spark-pipeline.yml").read_text().replace("file:///tmp/whence-pipeline", f"file://{tmp_path}/kept")
    )
    (tmp_path / "spark-pipeline.yml").write_text(f"{text}  whence.promises: integrity,fifo,causal\n")
    (tmp_path / "transformations").symlink_to(EXAMPLE / "transformations")
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run", "--spec", "spark-pipeline.yml",
        "--conf", f"spark.sql.warehouse.dir={tmp_path}/warehouse", "--conf", "spark.sql.shuffle.partitions=2",
    ]  # fmt: skip
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "JDK_JAVA_OPTIONS": BRIEF["spark.driver.defaultJavaOptions"],
    }  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[:6000]
    rows = spark.read.parquet(str(tmp_path / "warehouse" / "verdicts")).collect()
    told = {(row["run_id"], row["promise"]): (row["outcome"], row["count"]) for row in rows}
    wanted = {
        (name, verdict.promise): (verdict.outcome.value, verdict.count)
        for name, trace in traces.items()
        for verdict in judge(trace, ["integrity", "fifo", "causal"])
    }
    assert told == wanted
    assert spark.read.parquet(str(tmp_path / "warehouse" / "run_metrics")).count() == 2
