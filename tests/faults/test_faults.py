"""Real processes under real faults: nothing acknowledged is lost or repeated, order is kept, everything heals.

The same run at full size: python -m tests.faults.run (see there), or this test in long mode.
"""

from random import Random

import pytest

from tests.faults.points import OF_MEMORY, POINTS
from tests.faults.run import Fault, episodes, level_of, one, planned
from tests.faults.wires import can_have_namespaces

KILLS, KILLS_LONG = 1, 500
AT_POINTS, AT_POINTS_LONG = 1, 50
CUTS, CUTS_LONG = 1, 100
STOPS, STOPS_LONG = 1, 100

WIRES = {
    "causal": "namespaces", "fifo": "proxies", "eventual": "namespaces", "optimistic": "namespaces", "total": "proxies",
}  # fmt: skip
LONG = [pytest.param(level, marks=pytest.mark.long) for level in ("eventual", "optimistic")]


@pytest.mark.no_cover
@pytest.mark.parametrize("way", ["causal", "causal-tree", "fifo", "total", *LONG])
def test_five_processes_lose_and_repeat_nothing_whatever_befalls_them(way: str, long_mode: bool) -> None:
    kind = WIRES[level_of(way)] if can_have_namespaces() else "proxies"
    for number, faults in enumerate(thrown(way, long_mode)):
        wrong, done = one(way, number, faults, kind)
        assert wrong == [], (number, done)
        assert done["acknowledged"] > 100
        assert done["points not reached"] <= 1 + len(faults) // 4


def thrown(level: str, long_mode: bool) -> list[list[Fault]]:
    """Return the faults of each episode: all of them in long mode, else one short episode with some points."""
    if long_mode:
        return list(episodes(planned(level, KILLS_LONG, AT_POINTS_LONG, CUTS_LONG, STOPS_LONG, seed=7)))
    everything = planned(level, KILLS, 1, CUTS, STOPS, seed=7)
    points = [fault for fault in everything if fault.point]
    chosen = Random(level).sample(points, AT_POINTS) if points else []
    chosen += [fault for fault in points if fault.point in OF_MEMORY]
    return [[fault for fault in everything if not fault.point or fault in chosen]]


def test_every_level_meets_every_point_that_it_has() -> None:
    for level in ("eventual", "fifo", "causal", "total"):
        met = {fault.point for fault in planned(level, 0, 1, 0, 0, seed=1)}
        assert met == set(POINTS) - set(() if level == "causal" else OF_MEMORY), level
