"""What every test can ask for: is this the long mode? And one hypothesis profile per mode.

The normal mode is deterministic: hypothesis derives its examples from the test itself, so that a failure on one
machine fails on every machine. The long mode searches anew each time.
"""

import os
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("normal", derandomize=True, deadline=None)
settings.register_profile("long", max_examples=2_000, deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run at full size, tests marked `long` too")


def is_long(config: pytest.Config) -> bool:
    """Tell whether this run asked for full size."""
    return bool(config.getoption("--long")) or os.environ.get("WHENCE_LONG") == "1"


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if is_long(config) else "normal")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if is_long(config):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="long: needs --long or WHENCE_LONG=1"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give every test to the next worker that is free, but all of the pipeline to the first, so that one JVM starts.

    Groups of xdist would say the same if it still found them in the names of tests: pytest 9.2 has them elsewhere.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = lambda name: "pipeline" if name.startswith("tests/pipeline/") else name
    return scheduler


@pytest.fixture(scope="session")
def long_mode(request: pytest.FixtureRequest) -> bool:
    """Whether to scale counts up: `schedules = 15_000 if long_mode else 500`."""
    return is_long(request.config)
