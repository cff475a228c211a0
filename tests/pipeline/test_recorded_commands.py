"""What the commands that run on Spark print for scripts is what was written down."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.recorded import commands


def test_what_commands_on_spark_print_is_what_was_written_down(spark: SparkSession, tmp_path: Path) -> None:
    """Names and values under --json: python -m tests.recorded.commands."""
    assert commands.changed(tmp_path, on_spark=True) == {}
