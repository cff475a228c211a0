"""Scenarios of merged groups: how far clocks and delays may go so that nothing is late, and runs for people."""

from random import Random
from typing import Any

from whence.core.levels.total.settings import TotalSettings
from whence.core.registry import LEVELS
from whence.sim.load import Load
from whence.sim.network import Latency, NetworkModel
from whence.sim.scenario import Clocks, Fault, Publish, Scenario
from whence.sim.streams import Streams
from whence.sim.swarm.weather import MS, draw_faults, draw_network

SPACING_NS = 10 * MS
"""Between two publications of the whole group."""

TROUBLED = {"delta": 400, "epsilon": 20}
"""Under a swarm's network: δ covers its slowest links. In ticks of a millisecond."""

DRIFT_PPM = 20


def settings_of(given: dict[str, Any]) -> TotalSettings:
    """Return the settings of a merged group. Raises SettingError."""
    settings = LEVELS["total"].settings_from(given)
    assert isinstance(settings, TotalSettings)
    return settings


def clocks_within(settings: TotalSettings) -> Clocks:
    """Return clocks that differ by less than ε ticks for as long as a run lasts."""
    spare_ns = (settings.timing.epsilon - 1) * settings.merge.tick_ns * 9 // 10
    return Clocks(offset_ns=spare_ns // 2, drift_ppm=DRIFT_PPM if spare_ns > MS else 0)


def deadline_of(settings: TotalSettings) -> int:
    """Return the time within which everything owed is delivered: the merge, the stream, and one change of mergers."""
    timing, merge = settings.timing, settings.merge
    merging = (timing.delta + 3 * timing.epsilon) * merge.tick_ns
    return merging + (merge.patience_beats + 6) * merge.beat_ns + 1000 * MS


def settle_of(settings: TotalSettings) -> int:
    """Return the time from healing until all streams run again: 2δ+6ε, and a few changes of mergers."""
    timing, merge = settings.timing, settings.merge
    recovery = (2 * timing.delta + 6 * timing.epsilon) * merge.tick_ns
    return recovery + 3 * merge.patience_beats * merge.beat_ns + 1000 * MS


def simulation(
    nodes: int, events: int, seed: int, faults: str, chosen: dict[str, Any], trouble: Any, load: Load | None = None
) -> Scenario:
    """Make a run for people; `trouble` is a file's faults, or None where they are none or drawn here."""
    if faults == "swarm":
        chosen = TROUBLED | chosen
    settings = settings_of(chosen)
    dice = Streams(seed).of("workload")
    troubled = 0 if faults == "none" else events * 2 // 3
    spacing = (load or Load()).spacing_ns(SPACING_NS)
    heal_at = troubled * spacing
    live_from = heal_at + settle_of(settings) if troubled else 0
    live_until = live_from + (events - troubled) * spacing
    network, clocks, planned = NetworkModel(), clocks_within(settings), []
    if trouble is not None:
        network, clocks, planned = trouble.network, trouble.clocks, trouble.faults
    elif faults == "swarm":
        network = draw_network(dice)
        planned = [fault for fault in draw_faults(nodes, heal_at, dice) if fault.kind != "clock_jump"]
    wait = deadline_of(settings)
    publishes = [_some(nodes, at * spacing, spacing, dice) for at in range(troubled)]
    publishes += [_some(nodes, live_from + at * spacing, spacing, dice) for at in range(events - troubled)]
    return Scenario(
        level="total", seed=seed, nodes=nodes, settings=chosen, network=network, clocks=clocks, faults=planned,
        publishes=publishes, heal_at_ns=heal_at, live_from_ns=live_from, live_until_ns=live_until, deadline_ns=wait,
        end_at_ns=live_until + wait,
    )  # fmt: skip


def failover(nodes: int, events: int, seed: int) -> Scenario:
    """Make the demo's scenario: two mergers, one of which dies for good while everybody publishes."""
    chosen = {"mergers": 2, "delta": 150, "epsilon": 5}
    settings = settings_of(chosen)
    dice = Streams(seed).of("failover")
    span = events * SPACING_NS
    wait = deadline_of(settings)
    everyone_but_one = [pid for pid in range(nodes) if pid != 1]
    publishes = [
        Publish(at_ns=at * SPACING_NS + int(dice.random() * SPACING_NS), node=dice.choice(everyone_but_one))
        for at in range(events)
    ]
    return Scenario(
        level="total", seed=seed, nodes=nodes, settings=chosen, clocks=clocks_within(settings),
        network=NetworkModel(latency=Latency(shape="uniform", low_ns=MS, high_ns=20 * MS), loss=0.02, duplicate=0.02),
        publishes=publishes, faults=[Fault(kind="crash", at_ns=span // 2, nodes=[1])],
        live_from_ns=1, live_until_ns=span, deadline_ns=wait, end_at_ns=span + wait,
    )  # fmt: skip


def _some(nodes: int, start: int, spacing: int, dice: Random) -> Publish:
    return Publish(at_ns=start + int(dice.random() * spacing), node=int(dice.random() * nodes))
