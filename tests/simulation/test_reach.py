"""How many members an event of PrCast reaches: statistics over seeds, each claim with its one-sided 99.9 % bound.

The paper's setting: fan-out 4, rounds that are not synchronised, every member known to every other. Latency is uniform
from 1 to 20 ms of a round of 100 ms. Each seed founds a group, lets it run for a second so that phases are spread, and
publishes five events, three rounds apart. One seed is one observation, its mean over the five, so that events of one
run need not be independent of each other.
"""

from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

import pytest

from whence.core.level import LevelSpec
from whence.core.levels.gossip.level import GOSSIP
from whence.sim.random_streams import RandomStreams
from whence.sim.run import run
from whence.sim.scenario import Publish, Scenario
from whence.trace.schema import Kind
from whence_lab.mutants.gossip import InfectsAndDies

pytestmark = pytest.mark.no_cover

ROUND_NS = 100_000_000
EVENTS = 5
WARM_UP_ROUNDS = 10
Z_999 = 3.09
"""One-sided: a normal variable exceeds it once in a thousand."""


class Setting(NamedTuple):
    """A group, how it gossips, and the mean reach it must have."""

    nodes: int
    rounds: int
    view: str
    goal: float


PAPER = [Setting(125, 5, "full", 0.995), Setting(250, 6, "full", 0.999)]


def scenario_of(setting: Setting, seed: int) -> Scenario:
    rng = RandomStreams(seed).of("reach")
    starts = [(WARM_UP_ROUNDS + 3 * at) * ROUND_NS for at in range(EVENTS)]
    publishes = [Publish(at_ns=start + rng.randrange(ROUND_NS), node=rng.randrange(setting.nodes)) for start in starts]
    return Scenario(
        level="eventual",
        seed=seed,
        nodes=setting.nodes,
        settings={"fanout": 4, "rounds": setting.rounds, "view": setting.view, "round_ns": ROUND_NS},
        publishes=publishes,
        end_at_ns=starts[-1] + (setting.rounds + 4) * ROUND_NS,
    )


def reaches(setting: Setting, seeds: int, spec: LevelSpec | None = None) -> list[float]:
    """Return the part of the group that an event reached, its mean over the events of each seed."""
    delivered = [len(run(scenario_of(setting, seed), spec).trace.rows[Kind.DELIVER]) for seed in range(seeds)]
    return [count / (EVENTS * setting.nodes) for count in delivered]


def error_of(observed: list[float]) -> float:
    """Return the standard error of the mean."""
    return stdev(observed) / sqrt(len(observed))


@pytest.mark.parametrize("setting", PAPER, ids=lambda setting: f"{setting.nodes} members, {setting.rounds} rounds")
def test_with_full_views_an_event_reaches_as_many_as_promised(setting: Setting, long_mode: bool) -> None:
    """The mean over 48 seeds, 200 in long mode, is above the goal by more than its 99.9 % bound."""
    observed = reaches(setting, 200 if long_mode else 48)
    assert fmean(observed) - Z_999 * error_of(observed) >= setting.goal


PARTIAL = [
    Setting(125, 5, "partial", 0.988),
    Setting(250, 6, "partial", 0.993),
    Setting(125, 7, "partial", 0.999),
    Setting(250, 8, "partial", 0.999),
]


@pytest.mark.parametrize("setting", PARTIAL, ids=lambda setting: f"{setting.nodes} members, {setting.rounds} rounds")
def test_with_partial_views_an_event_reaches_nearly_as_many(setting: Setting, long_mode: bool) -> None:
    """Views of 20 cost some reach: 0.5 and 0.4 points below full views in the paper's rounds, nothing with two more."""
    if setting.nodes > 125 and not long_mode:
        pytest.skip("long: the larger group, whose full views are measured above")
    observed = reaches(setting, 200 if long_mode else 15)
    assert fmean(observed) - Z_999 * error_of(observed) >= setting.goal


def test_passing_an_event_on_only_once_would_not_meet_the_goal() -> None:
    """The statistic has teeth: read as "forward on first receipt", the same gossip stays far below the goal."""
    observed = reaches(PAPER[0], 12, GOSSIP["eventual"]._replace(spread=InfectsAndDies))
    assert fmean(observed) + Z_999 * error_of(observed) < PAPER[0].goal
