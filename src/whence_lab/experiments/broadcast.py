"""One broadcast by PrCast, on the event loop and on arrays, with the same measures of both: how the two are compared.

A measure has one value for each group: how many members have the bundle in the middle of every round, and in the end;
how many copies it took; and, with partial views, how many messages kept the views fresh before it, how unevenly members
are known, and how many peers a member has kept for some rounds.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.core.levels.gossip.level import GOSSIP
from whence.sim.cluster import Cluster
from whence.sim.network import NetworkModel
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import Scenario
from whence.trace.memory import Row
from whence.trace.schema import COLUMNS_OF, PAYLOAD_BYTES, T_TRUE, Kind
from whence_lab.arrays.prcast import Broadcast, Engine, Spread
from whence_lab.experiments.two_samples import Samples

LEVEL = "eventual"
PAYLOAD = bytes(16)
KEPT_ROUNDS = 3
"""The rounds after which kept peers are counted: not so many that all have been replaced."""


def on_arrays(broadcast: Broadcast, seed: int, engine: Callable[[Broadcast, int], Engine] = Engine) -> Samples:
    """Return the measures of all groups of a broadcast, run on arrays."""
    made = engine(broadcast, seed)
    views = []
    for rounds in (broadcast.warm_up - KEPT_ROUNDS, broadcast.warm_up):
        made.run_until(rounds * broadcast.round_ns)
        views += [] if made.partial is None else [made.partial.peers.copy()]
    spread = made.finish()
    samples = spread_measures(broadcast, spread)
    if not views:
        return samples
    shape = (broadcast.groups, broadcast.nodes, broadcast.view_size)
    base = np.arange(broadcast.groups)[:, None, None] * broadcast.nodes
    before, after = (each.reshape(shape) - base for each in views)
    return samples | {"messages": spread.messages} | view_measures(before, after)


def on_the_loop(broadcast: Broadcast, seeds: range) -> Samples:
    """Return the measures of one group for each seed, run on the event loop."""
    rows = [_run_one(broadcast, seed) for seed in seeds]
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def spread_measures(broadcast: Broadcast, spread: Spread) -> dict[str, NDArray[Any]]:
    """Return what is measured of where the bundle got."""
    half = broadcast.round_ns // 2
    within = {f"after {at / 2:g} rounds": spread.reached_within(at * half) for at in range(1, 2 * broadcast.rounds, 2)}
    return {**within, "in the end": spread.reached(), "copies": spread.copies}


def view_measures(before: NDArray[np.int64], after: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return what is measured of views at two times, given as group, member, peers."""
    known = np.stack([np.bincount(group.ravel(), minlength=group.shape[0]) for group in after])
    kept = (after[:, :, :, None] == before[:, :, None, :]).any(axis=3).sum(axis=2)
    return {"unevenly known": known.var(axis=1), "kept peers": kept.mean(axis=1)}


def _run_one(broadcast: Broadcast, seed: int) -> Samples:
    """Run one group and return its measures, each an array of one."""
    network = NetworkModel(latency=broadcast.latency, loss=broadcast.loss)
    settings = dict(broadcast.settings())
    scenario = Scenario(level=LEVEL, seed=seed, nodes=broadcast.nodes, settings=settings, network=network)
    rows: dict[Kind, list[Row]] = {kind: [] for kind in Kind}
    cluster = Cluster(scenario, GOSSIP[LEVEL], rows)
    draw = RandomStreams(seed).of("broadcast")
    cluster.start()
    views = []
    for rounds in (broadcast.warm_up - KEPT_ROUNDS, broadcast.warm_up):
        cluster.loop.run(max(0, rounds) * broadcast.round_ns)
        views += [_views(cluster)] if broadcast.view == "partial" else []
    messages = len(rows[Kind.SEND])
    at = int((broadcast.warm_up + draw.random()) * broadcast.round_ns)
    cluster.loop.run(at)
    cluster.processes[draw.randrange(broadcast.nodes)].publish([PAYLOAD])
    cluster.loop.run(at + broadcast.rounds * (2 * broadcast.round_ns + broadcast.latency.high_ns))
    at_t, at_payload = COLUMNS_OF[Kind.DELIVER].index(T_TRUE), COLUMNS_OF[Kind.SEND].index(PAYLOAD_BYTES)
    delays = np.full((1, broadcast.nodes), np.iinfo(np.int64).max)
    for row in rows[Kind.DELIVER]:
        delays[0, row[0]] = row[at_t] - at
    copies = sum(row[at_payload] > 0 for row in rows[Kind.SEND])
    spread = Spread(delays, np.array([copies]), np.array([messages]))
    measured = spread_measures(broadcast, spread)
    return measured | {"messages": spread.messages} | view_measures(*views) if views else measured


def _views(cluster: Cluster) -> NDArray[np.int64]:
    """Return the views of all members, as group, member, peers."""
    members = [cluster.processes[pid].member for pid in sorted(cluster.processes)]
    return np.array([[member.view() for member in members if member is not None]], np.int64)
