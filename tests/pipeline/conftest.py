"""One Spark session for all tests of the pipeline, which the scheduler in tests/conftest.py gives to one worker."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from whence.pipeline.session import configure_for_size, session

BRIEF = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"}
"""Tests are short: most of Spark's code runs once or twice, and compiling it well would never pay."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/pipeline/" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of two cores; it lasts as long as the worker, because starting another takes seconds."""
    made = session("local[2]", BRIEF)
    configure_for_size(made, 0)
    yield made
    made.stop()
