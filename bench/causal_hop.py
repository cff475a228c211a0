"""What a hop of localized causal multicast costs, with codec, journal and trace on, in hops of the bare loop.

Complete binary trees of 63, 255 and 1,023 nodes, one group of all, 8 publishers of 100 messages a second each,
predicted headers; a hop is one copy received, and carries its share of acknowledgements and timers. The first messages
of every link, which say more, are not counted. The bare hop is that of the tree broadcast, measured in the same run.
Goals: at most 40 bare hops, and the dearest size at most a quarter above the cheapest.
"""

from functools import partial
from time import process_time
from typing import Any

from _common import arguments, finish, in_units, no_collections
from _tree import microseconds_per_hop, on_whence

from whence.sim.cluster import Cluster
from whence.sim.faults import ScenarioScheduler
from whence.sim.lab import spec_of
from whence.sim.run import describe
from whence.trace.memory import Trace
from whence_lab.experiments.headers import EVERY_NS, scenario

BARE_HOPS_MAX = 40.0
FLAT_MAX = 1.25
SIZES = {63: 60, 255: 15, 1023: 4}
"""Nodes, and messages of each publisher that are counted: about as many hops for each."""
WARM_MESSAGES = 3


def causal(nodes: int, messages: int) -> float:
    """Run a tree and return its processor time per hop."""
    planned = scenario("causal", nodes, 8, WARM_MESSAGES + messages, ordered_links=True)
    spec = spec_of("causal")
    cluster = Cluster(planned, spec, Trace(describe(planned, spec)).rows)
    cluster.start()
    ScenarioScheduler(cluster, planned).plan()
    members: list[Any] = [process.member for process in cluster.processes.values()]
    cluster.loop.run(WARM_MESSAGES * EVERY_NS)
    before: int = sum(member.cost.copies for member in members)
    with no_collections():
        began = process_time()
        cluster.loop.run(planned.end_at_ns)
        spent = process_time() - began
    copies: int = sum(member.cost.copies for member in members) - before
    return spent / copies * 1e6


def main() -> None:
    """Measure bare hops and hops of both trees in turn."""
    given = arguments(__doc__).parse_args()
    broadcasts = 10 if given.quick else 300
    costs, ratios = in_units(
        given.repeat or (1 if given.quick else 7),
        lambda: microseconds_per_hop(on_whence, broadcasts),
        {str(nodes): partial(causal, nodes, 1 if given.quick else messages) for nodes, messages in SIZES.items()},
    )
    flat = max(ratios.values()) / min(ratios.values())
    finish(
        "causal_hop",
        {
            "us_per_hop": {name: round(cost, 3) for name, cost in costs.items()},
            "bare_hops": {name: round(ratio, 2) for name, ratio in ratios.items()},
            "flat": round(flat, 3),
        },
        {"at most 40 bare hops": max(ratios.values()) <= BARE_HOPS_MAX, "flat": flat <= FLAT_MAX},
        quick=given.quick,
    )


if __name__ == "__main__":
    main()
