"""Groups that gossip, of four kinds: sparse, dense, busy and cramped. A third of them spread as live groups do."""

from itertools import cycle
from random import Random
from typing import Any

from msgspec import structs

from whence.sim.random_faults import ROUND_NS, draw_faults, draw_network
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import MS, Clocks, Fault, Publish, Scenario

LIVE: dict[str, Any] = {"spread": "direct", "view": "partial", "view_size": 64, "subs_max": 64, "unsubs_max": 64}
"""How live groups are opened: each member sends to all it knows, and knows all."""

REPAIR_ROUNDS = 8
"""Rounds until what a link lost was announced, missed for a round, requested, and requested again elsewhere."""

SETTLE_ROUNDS = 30
"""Rounds from healing until every lost member has been found: retries, reaching out, dropping the dead."""


def draw(level: str, seed: int) -> Scenario:
    """Return the scenario of a seed: a group that gossips, or, one time in three, spreads as live groups do."""
    scenario = draw_gossiped(level, seed)
    live = RandomStreams(seed).of("spread")
    if live.random() < 1 / 3:
        scenario = structs.replace(scenario, shape=f"{scenario.shape} live", settings=scenario.settings | LIVE)
        return _with_link_cut(scenario, live) if live.random() < 1 / 2 else scenario
    return scenario


def draw_gossiped(level: str, seed: int) -> Scenario:
    """Return the scenario of a seed: a group that gossips."""
    rng = RandomStreams(seed).of("swarm")
    shape = rng.choice(tuple(SHAPES))
    nodes, settings = SHAPES[shape](rng)
    return _phased(level, seed, shape, nodes, settings, rng)


def _with_link_cut(scenario: Scenario, rng: Random) -> Scenario:
    """Return the scenario with one link cut for a while, even after all else healed: other links must repair it."""
    one, other = rng.sample(range(scenario.nodes), 2)
    at = scenario.live_from_ns + rng.randrange(4 * ROUND_NS)
    rounds = rng.randint(1, 4)
    lasts = Fault(
        kind="cut", at_ns=at, until_ns=at + rounds * ROUND_NS, nodes=[one], others=[other], lasting=True
    )  # fmt: skip
    more = (rounds + REPAIR_ROUNDS) * ROUND_NS
    return structs.replace(
        scenario, faults=[*scenario.faults, lasts], deadline_ns=scenario.deadline_ns + more,
        rest_at_ns=scenario.rest_at_ns + more, end_at_ns=scenario.end_at_ns + more,
    )  # fmt: skip


# --- the kinds of groups ---


def _sparse(rng: Random) -> tuple[int, dict[str, Any]]:
    """Few targets among more members: spreading takes many hops."""
    nodes = rng.randint(6, 9)
    return nodes, {"fanout": 2, "rounds": 16, "idle_rounds": 1}


def _dense(rng: Random) -> tuple[int, dict[str, Any]]:
    """Many targets: spreading is fast, duplicates abound."""
    nodes = rng.randint(4, 9)
    return nodes, {"fanout": rng.choice((3, 4)), "rounds": 9, "idle_rounds": rng.choice((1, 2))}


def _busy(rng: Random) -> tuple[int, dict[str, Any]]:
    """Buffers smaller than what is in transit: each bundle must make the most of its first round."""
    nodes = rng.randint(3, 5)
    settings = {"fanout": 7, "rounds": 8, "idle_rounds": 1, "gossip_bundles": 1, "buffer_bundles": 4, "history": 400}
    return nodes, settings


def _cramped(rng: Random) -> tuple[int, dict[str, Any]]:
    """Every memory as small as it may be: overflow is the rule in the safety phase."""
    nodes = rng.randint(3, 6)
    settings = {
        "fanout": 3, "rounds": 8, "idle_rounds": 1, "history": 24,
        "held_bundles_max": 3, "held_bytes_max": 200, "spans_per_sender_max": 2, "incarnations_per_sender_max": 2,
    }  # fmt: skip
    return nodes, settings


SHAPES = {"sparse": _sparse, "dense": _dense, "busy": _busy, "cramped": _cramped}


# --- phases ---


def _phased(level: str, seed: int, shape: str, nodes: int, settings: dict[str, Any], rng: Random) -> Scenario:
    rounds = settings["rounds"]
    settings |= {
        "view": rng.choice(("partial", "partial", "partial", "full")),
        "view_size": rng.choice((settings["fanout"] + 3, 20)),
        "announce_rounds": 3, "isolation_rounds": 4, "reach_rounds": 4, "join_tries_max": 4,
        "hold_rounds": rounds + 2, "farewell_rounds": 2 * rounds, "round_ns": ROUND_NS,
    }  # fmt: skip
    safety = rng.randint(10, 35)
    flush = safety + SETTLE_ROUNDS
    live_from = flush + 2 * rounds + 4
    live_until = live_from + 8
    deadline = rounds + 4
    faults = draw_faults(nodes, safety * ROUND_NS, rng)
    everyone = [*range(nodes), *(pid for fault in faults if fault.kind == "join" for pid in fault.nodes)]
    publishes = _traffic(everyone, 0, safety, rng.choice((0.3, 1.0, 4.0)), rng)
    publishes += [Publish(at_ns=flush * ROUND_NS + pid % 7 * MS, node=pid) for pid in everyone]
    publishes += _steady_traffic(everyone, live_from, live_until, rng.choice((1, 2)), rng)
    return Scenario(
        level=level, seed=seed, shape=shape, nodes=nodes, settings=settings, faults=faults, publishes=publishes,
        network=draw_network(rng),
        clocks=Clocks(offset_ns=rng.choice((0, 10**9)), drift_ppm=rng.choice((0, 20_000))),
        sync_ns=rng.choice((0, 2 * MS)),
        heal_at_ns=safety * ROUND_NS,
        live_from_ns=live_from * ROUND_NS,
        live_until_ns=live_until * ROUND_NS,
        deadline_ns=deadline * ROUND_NS,
        rest_at_ns=(live_until + 2 * rounds + 3) * ROUND_NS,
        end_at_ns=(live_until + 2 * rounds + 4) * ROUND_NS,
    )  # fmt: skip


def _steady_traffic(nodes: list[int], start: int, end: int, per_round: int, rng: Random) -> list[Publish]:
    """Return publications by all in turn at an even rate, so that nobody forwards two new bundles in one round."""
    turns = cycle(rng.sample(nodes, len(nodes)))
    times = range(start * ROUND_NS, end * ROUND_NS, ROUND_NS // per_round)
    return [Publish(at_ns=at, node=next(turns), events=rng.choice((1, 1, 3))) for at in times]


def _traffic(nodes: list[int], start: int, end: int, per_round: float, rng: Random) -> list[Publish]:
    """Return random publications: one bundle at a time, sometimes several by one member in a row."""
    publishes = []
    at = start * ROUND_NS
    while (at := at + int(rng.expovariate(per_round) * ROUND_NS)) < end * ROUND_NS:
        node = rng.choice(nodes)
        for extra in range(rng.choice((1, 1, 6))):
            events = rng.choice((1, 1, 3))
            publishes.append(Publish(at_ns=at + extra * MS, node=node, events=events, size=rng.choice((0, 8, 40))))
    return publishes
