"""Random networks and faults, for the groups of any level."""

from random import Random

from whence.sim.network import LATENCY_SHAPES, Latency, NetworkModel
from whence.sim.scenario import MS, Fault

ROUND_NS = 100 * MS
"""The unit in which faults last: a gossip round of the swarm's groups."""


def draw_network(rng: Random) -> NetworkModel:
    """Return a random network; each kind of damage is in half of the draws."""

    def sometimes(most: float) -> float:
        return rng.random() * most if rng.random() < 0.5 else 0.0

    shape = rng.choice(LATENCY_SHAPES)
    low = MS // 10 if shape == "heavy" else rng.choice((MS // 10, 2 * MS))
    return NetworkModel(
        latency=Latency(shape=shape, low_ns=low, high_ns=rng.choice((5 * MS, 25 * MS))),
        bandwidth_bps=rng.choice((0, 0, 2_000_000)),
        bandwidth_both_ways=rng.random() < 0.5,
        fifo_links=shape != "heavy" and rng.random() < 0.3,
        loss=sometimes(0.3), duplicate=sometimes(0.2), reorder=sometimes(0.3), replay=sometimes(0.1),
        corrupt=sometimes(0.05),
    )  # fmt: skip


def draw_faults(nodes: int, end: int, rng: Random) -> list[Fault]:
    """Return random faults before `end`: some kinds, and some of each. At most one member is lost for good.

    Processes that join are numbered from `nodes` on.
    """
    faults: list[Fault] = []
    founders = list(range(nodes))

    def span(least: int, most: int) -> tuple[int, int]:
        at = rng.randrange(end)
        return at, min(end, at + rng.randint(least, most) * ROUND_NS)

    def some() -> list[int]:
        return rng.sample(founders, rng.randint(1, max(1, nodes // 2)))

    def times() -> range:
        return range(rng.randint(1, 2)) if rng.random() < 0.4 else range(0)

    for _ in times():
        at, until = span(1, 12)
        faults.append(
            Fault(
                kind="crash", at_ns=at, until_ns=until, nodes=some(), disk=rng.choice(("lost", "torn", "wiped")),
                between_effects=rng.random() < 0.4,
            )
        )  # fmt: skip
    for _ in times():
        at, until = span(1, 20)
        faults.append(Fault(kind="pause", at_ns=at, until_ns=until, nodes=some()))
    for _ in times():
        at, until = span(2, 25)
        faults.append(Fault(kind="cut", at_ns=at, until_ns=until, nodes=some(), others=some()))
    for _ in times():
        at, until = span(2, 35)
        faults.append(Fault(kind="partition", at_ns=at, until_ns=until, nodes=some()))
    for _ in times():
        at, until = span(2, 20)
        faults.append(Fault(kind="slow", at_ns=at, until_ns=until, nodes=some(), amount=rng.choice((10.0, 1000.0))))
    for _ in times():
        at, until = span(1, 10)
        faults.append(Fault(kind="burst", at_ns=at, until_ns=until, amount=rng.uniform(0.3, 1.0)))
    for _ in times():
        jump = rng.choice((-1, 1)) * rng.randint(1, 10**10)
        faults.append(Fault(kind="clock_jump", at_ns=rng.randrange(end), nodes=some(), amount=float(jump)))
    faults += [Fault(kind="join", at_ns=rng.randrange(end), nodes=[nodes + newcomer]) for newcomer in times()]
    if rng.random() < 0.4 and nodes > 3:
        gone = rng.choice(founders)
        kind = rng.choice(("leave", "crash"))
        faults.append(Fault(kind="leave" if kind == "leave" else "crash", at_ns=rng.randrange(end), nodes=[gone]))
    return sorted(faults, key=lambda fault: fault.at_ns)
