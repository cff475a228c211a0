"""What every test can ask for: is this the long mode? And one hypothesis profile per mode.

The normal mode is deterministic: hypothesis derives its examples from the test itself, so that a failure on one
machine fails on every machine. The long mode searches anew each time.
"""

import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from coverage import Coverage
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("normal", derandomize=True, deadline=None)
settings.register_profile("long", max_examples=2_000, deadline=None, print_blob=True)

UNMEASURED = ("bench", "check", "faults", "pipeline", "recorded", "store", "system", "tidy", "trace")
"""Rooms whose tests are about something else than core and wire; their coverage is not asked for."""


TOGETHER = ("tests/pipeline/", "tests/system/test_documents.py")
"""Tests that one worker runs, because what they share takes long to make: a JVM, environments with the wheel."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run at full size, tests marked `long` too")


def is_long(config: pytest.Config) -> bool:
    """Tell whether this run asked for full size."""
    return bool(config.getoption("--long")) or os.environ.get("WHENCE_LONG") == "1"


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if is_long(config) else "normal")
    stray = Coverage.current() if hasattr(config, "workerinput") else None
    if stray is not None:
        stray.stop()  # pytest-cov begins twice in a worker; the first would go on, for nothing, where the second pauses


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """What is made for a test that is not measured is not measured either: tracing makes Python three times slower."""
    measuring = Coverage.current() if item.get_closest_marker("no_cover") else None
    if measuring is not None:
        measuring.stop()
    try:
        yield
    finally:
        if measuring is not None:
            measuring.start()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.split("/")[1] in UNMEASURED:
            item.add_marker(pytest.mark.no_cover)
        if item.get_closest_marker("long") and not is_long(config):
            item.add_marker(pytest.mark.skip(reason="long: needs --long or WHENCE_LONG=1"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give every test to the next worker that is free, but those that share something dear to one.

    Groups of xdist would say the same if it still found them in the names of tests: pytest 9.2 has them elsewhere.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = lambda name: next((room for room in TOGETHER if name.startswith(room)), name)
    return scheduler


@pytest.fixture(scope="session", autouse=True)
def _sockets_of_its_own() -> Iterator[None]:
    """Keep the status sockets of these tests apart from those of other workers, and of nodes that run here."""
    with TemporaryDirectory(prefix="whence-") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", directory)
        yield


@pytest.fixture(scope="session")
def long_mode(request: pytest.FixtureRequest) -> bool:
    """Whether to scale counts up: `schedules = 15_000 if long_mode else 500`."""
    return is_long(request.config)
