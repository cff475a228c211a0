"""Merged groups, of eight kinds: replicated, relayed, cramped, by the paper's stamps, with wild clocks, corrupted, with
bursts beyond what a tick may have, and with mergers that are killed, whoever they are. Half of them have processes with
arbitrary ids.

Clocks keep ε once the run has healed, and δ covers the slowest link, so that nothing may be late in the liveness phase.
Before healing, wild clocks jump at random, by less than what counts as corrupt; they jump back at the latest when the
run heals.
"""

from itertools import cycle
from random import Random
from typing import Any

from whence.limits import MERGED_PEER_ID_MAX
from whence.sim.corruption import CORRUPT_STATE, KINDS
from whence.sim.merge_timing import clocks_within_epsilon, deadline_ns, merge_settings
from whence.sim.process_ids import draw_process_ids
from whence.sim.random_faults import ROUND_NS, draw_faults, draw_network
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import MS, Act, Fault, Publish, Scenario

TICK_NS = 10 * MS
JUMP_NS_MAX = 1500 * MS
"""Two jumps of one clock may add up: still less than `stall_max` ticks."""

BASE: dict[str, Any] = {
    "tick_ns": TICK_NS, "epsilon": 3, "delta": 40, "stall_max": 400, "beat_ns": 100 * MS, "patience_beats": 5,
    "log_ticks": 600,
}  # fmt: skip


def draw(level: str, seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng, more = RandomStreams(seed).of("swarm"), RandomStreams(seed).of("swarm", "more")
    shape = rng.choice(DRAWN_EVENLY)
    drawn = more.random() * DRAWN_APART
    if drawn < 2:
        shape = "bursting" if drawn < 1 else "deposed"
    nodes, settings = SHAPES[shape](rng)
    return _phased(level, seed, shape, nodes, BASE | settings, rng, more)


# --- the kinds of groups ---


def _replicated(rng: Random) -> tuple[int, dict[str, Any]]:
    """Two or three mergers with few followers each."""
    mergers = rng.choice((2, 2, 3))
    return mergers + rng.randint(2, 4), {"mergers": mergers, "release": _rule(rng)}


def _relayed(rng: Random) -> tuple[int, dict[str, Any]]:
    """Publications reach the mergers through relays, each by two of them."""
    return 2 + 2 + rng.randint(2, 4), {"mergers": 2, "relays": 2, "delta": 80}


def _cramped(rng: Random) -> tuple[int, dict[str, Any]]:
    """Every memory as small as it may be: overflow is the rule in the safety phase."""
    settings = {
        "mergers": 2, "buffer_bundles_max": 12, "buffer_bytes_max": 600, "remembered_max": 24, "log_bundles_max": 12,
        "log_bytes_max": 600, "outbox_bundles_max": 6,
    }  # fmt: skip
    return rng.randint(3, 5), settings


def _papers(rng: Random) -> tuple[int, dict[str, Any]]:
    """Stamps of the paper; clocks keep their bound throughout."""
    settings = {"mergers": 2, "stamp": "kn", "publishers_max": 16, "events_per_tick_max": 60, "release": _rule(rng)}
    return rng.randint(3, 6), settings


def _wild(rng: Random) -> tuple[int, dict[str, Any]]:
    """Clocks that jump at random."""
    return rng.randint(4, 6), {"mergers": rng.choice((2, 3)), "release": _rule(rng)}


def _corrupted(rng: Random) -> tuple[int, dict[str, Any]]:
    """States that claim to be from the future."""
    return rng.randint(3, 6), {"mergers": 2, "release": rng.choice(("paper", "frontier"))}


def _bursting(rng: Random) -> tuple[int, dict[str, Any]]:
    """Few events are allowed in a tick, so that bursts reach the bound."""
    settings = {"mergers": 2, "events_per_tick_max": rng.choice((1, 2)), "publishers_max": rng.choice((1, 2, 6)),
                "epsilon": rng.choice((1, 2, 3)), "stamp": rng.choice(("hlc", "hlc", "kn"))}  # fmt: skip
    return rng.randint(3, 5), settings


def _deposed(rng: Random) -> tuple[int, dict[str, Any]]:
    """All mergers are killed at once, and others one by one while everything is owed."""
    return rng.randint(7, 9), {"mergers": rng.choice((2, 2, 3)), "release": rng.choice(("paper", "paper", "frontier"))}


def _rule(rng: Random) -> str:
    return rng.choice(("paper", "paper", "tight", "frontier"))


SHAPES = {
    "replicated": _replicated, "relayed": _relayed, "cramped": _cramped, "papers": _papers, "wild": _wild,
    "corrupted": _corrupted, "bursting": _bursting, "deposed": _deposed,
}  # fmt: skip

DRAWN_EVENLY = tuple(SHAPES)[:6]
DRAWN_APART = 7
"""One group of so many is bursting, and one deposed."""

BURST_EVENTS = 40
"""Events that one member publishes at one instant: more than a bursting group's tick may have."""

LONG_CUT_ROUNDS = 80
"""How much longer the safety phase lasts where a link is cut for most of it: longer than a merger's log."""

DEPOSED_ROUNDS = 30
"""From one killing of a merger to the next while everything is owed: another has taken its place by then."""


# --- phases ---


def _phased(
    level: str, seed: int, shape: str, nodes: int, settings: dict[str, Any], rng: Random, more: Random
) -> Scenario:
    values = merge_settings(settings)
    safety = rng.randint(10, 30) * ROUND_NS
    has_long_cut = more.random() < 0.2
    if has_long_cut:
        safety += LONG_CUT_ROUNDS * ROUND_NS
    settle = (50 if shape in ("wild", "corrupted", "deposed") else 30) * ROUND_NS
    live_from = safety + settle
    live_until = live_from + (2 * DEPOSED_ROUNDS if shape == "deposed" else 10) * ROUND_NS
    deadline = deadline_ns(values)
    rest = live_until + deadline + 5 * ROUND_NS
    faults = [fault for fault in draw_faults(nodes, safety, rng) if fault.kind != "clock_jump"]
    if shape == "wild":
        faults += _jumps(nodes, safety, rng)
    if shape == "deposed":
        faults += _depositions(safety, live_from, more)
    if has_long_cut:
        faults += _long_cuts(nodes, safety, more)
    everyone = [*range(nodes), *(pid for fault in faults if fault.kind == "join" for pid in fault.nodes)]
    publishes = _traffic(everyone, safety, 1.0 if has_long_cut else rng.choice((1.0, 3.0, 8.0)), rng)
    publishes += _steady(everyone, live_from, live_until, 1 if shape == "cramped" else rng.choice((1, 3)), rng)
    if shape == "bursting":
        publishes += [*_bursts(everyone, 0, safety, more), *_bursts(everyone, live_from, live_until, more)]
    acts = _switches(everyone, safety, rng) + _switches(everyone, live_until - live_from, rng, live_from)
    if shape == "corrupted":
        times = sorted(rng.randrange(safety) for _ in range(rng.randint(1, 6)))
        acts += [
            Act(at_ns=at, node=rng.randrange(nodes), name=CORRUPT_STATE, argument=rng.randrange(KINDS)) for at in times
        ]  # fmt: skip
    ids = draw_process_ids(max(everyone) + 1, more, MERGED_PEER_ID_MAX) if more.random() < 0.5 else []
    return Scenario(
        level=level, seed=seed, shape=shape, nodes=nodes, numbers=ids, settings=settings,
        network=draw_network(rng), clocks=clocks_within_epsilon(values), sync_ns=rng.choice((0, 2 * MS)),
        publishes=publishes, acts=acts, faults=sorted(faults, key=lambda fault: fault.at_ns),
        heal_at_ns=safety, live_from_ns=live_from, live_until_ns=live_until, deadline_ns=deadline,
        rest_at_ns=rest, end_at_ns=rest + ROUND_NS,
    )  # fmt: skip


def _jumps(nodes: int, end: int, rng: Random) -> list[Fault]:
    """Return clocks that jump and jump back; some of their processes restart in between."""
    faults = []
    for _ in range(rng.randint(1, 2)):
        some = rng.sample(range(nodes), rng.randint(1, max(1, nodes // 2)))
        by = float(rng.choice((-1, 1)) * rng.randint(TICK_NS, JUMP_NS_MAX))
        at = rng.randrange(end - 4 * MS)
        back = rng.randint(at + 3 * MS, end - MS)
        faults += [
            Fault(kind="clock_jump", at_ns=at, nodes=some, amount=by),
            Fault(kind="clock_jump", at_ns=back, nodes=some, amount=-by),
        ]
        if rng.random() < 0.5:
            faults.append(Fault(kind="crash", at_ns=at + MS, until_ns=at + 2 * MS, nodes=some[:1]))
    return faults


def _depositions(safety: int, live_from: int, rng: Random) -> list[Fault]:
    """Return crashes of those who merge: all at once before the run heals, for good or for a while, and after that one
    at a time, for good, so that in the end nobody merges who did in the beginning."""
    at = rng.randrange(safety)
    until = rng.choice((0, min(safety, at + rng.randint(1, 20) * ROUND_NS)))
    faults = [Fault(kind="crash", at_ns=at, until_ns=until, mergers=rng.choice((1, 3, 3)))]
    for turn in range(2):
        kill_at = live_from + turn * DEPOSED_ROUNDS * ROUND_NS + rng.randrange(5 * ROUND_NS)
        faults.append(Fault(kind="crash", at_ns=kill_at, mergers=1, lasting=True))
    return faults


def _long_cuts(nodes: int, end: int, rng: Random) -> list[Fault]:
    """Return a one-way cut from some members to one, for most of the time."""
    one = rng.randrange(nodes)
    others = [pid for pid in range(nodes) if pid != one]
    some = rng.sample(others, rng.randint(1, len(others)))
    at = rng.randrange(end // 4)
    return [Fault(kind="cut", at_ns=at, until_ns=end - rng.randrange(end // 8), nodes=some, others=[one])]


def _bursts(nodes: list[int], start: int, end: int, rng: Random) -> list[Publish]:
    """Return bursts: many bundles of one member at one instant."""
    instants = [(rng.randrange(start, end), rng.choice(nodes)) for _ in range(rng.randint(1, 3))]
    return [Publish(at_ns=at, node=node, size=8) for at, node in instants for _ in range(BURST_EVENTS)]


def _traffic(nodes: list[int], end: int, per_round: float, rng: Random) -> list[Publish]:
    """Return random publications: one bundle at a time, sometimes several by one member in a row."""
    publishes, at = [], 0
    while (at := at + int(rng.expovariate(per_round) * ROUND_NS)) < end:
        node = rng.choice(nodes)
        for extra in range(rng.choice((1, 1, 4))):
            size = rng.choice((0, 8, 40))
            publishes.append(Publish(at_ns=at + extra * MS, node=node, events=rng.choice((1, 1, 3)), size=size))
    return publishes


def _steady(nodes: list[int], start: int, end: int, per_round: int, rng: Random) -> list[Publish]:
    """Return publications by all in turn at an even rate."""
    turns = cycle(rng.sample(nodes, len(nodes)))
    times = range(start, end, ROUND_NS // per_round)
    return [Publish(at_ns=at, node=next(turns), events=rng.choice((1, 1, 3))) for at in times]


def _switches(nodes: list[int], span: int, rng: Random, start: int = 0) -> list[Act]:
    """Return acts by which a few followers change their merger."""
    return [
        Act(at_ns=start + rng.randrange(span), node=rng.choice(nodes), name="switch", argument=-1)
        for _ in range(rng.choice((0, 1, 3)))
    ]
