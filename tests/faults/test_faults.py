"""Real processes under real faults: nothing acknowledged is lost or repeated, order is kept, everything heals.

The same run at full size: python -m tests.faults.run (see there), or this test in long mode.
"""

import signal
import time
from random import Random

import pytest

from tests.faults import living
from tests.faults.changes import CHANGES
from tests.faults.changes import planned as changes
from tests.faults.points import OF_MEMORY, POINTS
from tests.faults.run import EPISODE_FAULTS, Fault, episodes, level_of, one, planned
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


# --- living groups ---

CHANGES_LONG, LONG_HOURS = 200, 3.0
LIVING = [("causal", True, "proxies"), ("total", False, "namespaces")]


@pytest.mark.no_cover
@pytest.mark.parametrize(("level", "durable", "kind"), LIVING, ids=["causal, journals", "total, none"])
def test_members_change_under_faults_and_nothing_that_a_majority_had_is_lost(
    level: str, durable: bool, kind: str, long_mode: bool
) -> None:
    faults = changes(CHANGES_LONG, 100, 100, 100, 20 if durable else 0, seed=7) if long_mode else SHORT
    ends_at = time.monotonic() + LONG_HOURS * 3600 / len(LIVING)
    for number, thrown in enumerate(episodes_of(faults)):
        wrong, done = living.one(level, number, thrown, kind if can_have_namespaces() else "proxies", durable=durable)
        assert wrong == [], (number, done)
        assert done["acknowledged"] > 100
        if time.monotonic() > ends_at:
            return


SHORT = ["remove live", "kill", "wipe", "cut", "stop"]
"""What a short run throws: two changes, with faults before and during them."""


def episodes_of(faults: list[str]) -> list[list[str]]:
    return [faults[start : start + EPISODE_FAULTS] for start in range(0, len(faults), EPISODE_FAULTS)]


@pytest.mark.no_cover
def test_machines_are_restarted_and_replaced_in_turn_and_those_who_stay_miss_nothing(long_mode: bool) -> None:
    """Five machines by both signals in long mode, at both levels; else three, and one signal."""
    for level in ("causal", "total") if long_mode else ("causal",):
        signals = [signal.SIGTERM, signal.SIGKILL] if long_mode else [signal.SIGKILL]
        wrong, done = living.rolling(level, signals, "proxies", replace=True, machines=5 if long_mode else 3)
        assert wrong == [], done
        assert done["replaced"] == (5 if long_mode else 3)
        assert done["acknowledged"] > 100


def test_as_many_changes_are_planned_as_asked_for() -> None:
    plan = changes(200, 10, 10, 10, 0, seed=1)
    assert sum(fault in CHANGES for fault in plan) == 200
    assert set(plan) == {*CHANGES, "kill", "cut", "stop"}
