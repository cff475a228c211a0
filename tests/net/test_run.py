"""How a program of live nodes runs."""

import os
import platform
import subprocess
import sys

import pytest

CHURN = """
import asyncio, resource
from whence.net.run import run

async def churn():
    for turn in range(40):
        if turn == 20:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        held = [bytes(100_000 + number) for number in range(60)]
        del held
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

{runner}(churn())
"""


def faults(runner: str, **environment: str) -> int:
    """Return how many pages a process asks for while it holds bundles and lets them go, again and again."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    told = subprocess.run(
        [sys.executable, "-c", CHURN.format(runner=runner)],
        env=clean | environment, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return int(told.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is tuned")
def test_memory_that_bundles_leave_is_kept_for_the_next_ones() -> None:
    """What is held and let go again and again costs pages once, not every time."""
    assert faults("run") < 200 < 10_000 < faults("asyncio.run")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is tuned")
def test_who_tunes_the_memory_by_the_environment_is_heard() -> None:
    """An operator's own setting counts, even where it is worse."""
    assert faults("run", MALLOC_TRIM_THRESHOLD_="131072") > 10_000
