"""One Spark session for all tests of the pipeline, which the scheduler in tests/conftest.py gives to one worker."""

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from pyspark.sql import SparkSession

from whence.pipeline.session import BRIEF_JAVA, configure_for_size, session
from whence.pipeline.storage import UriPath

BRIEF = {"spark.driver.defaultJavaOptions": BRIEF_JAVA}
"""Tests are short, as are commands on little input."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/pipeline/" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of two cores; it lasts as long as the worker, because starting another takes seconds."""
    made = session("local[2]", input_bytes=0)
    configure_for_size(made, 0)
    yield made
    made.stop()


def mount_option(name: str, behind: Path) -> tuple[str, str]:
    """The setting of Hadoop that shows a directory as viewfs://NAME/data, a file system without paths on any disk."""
    behind.mkdir(parents=True, exist_ok=True)
    return f"fs.viewfs.mounttable.{name}.link./data", behind.as_uri()


@pytest.fixture
def mounted(spark: SparkSession, tmp_path: Path) -> UriPath:
    """A place that only Hadoop knows how to reach; tmp_path / "behind" is what lies there."""
    name = f"m{token_hex(4)}"
    spark.conf.set(*mount_option(name, tmp_path / "behind"))
    return UriPath(spark, f"viewfs://{name}/data")
