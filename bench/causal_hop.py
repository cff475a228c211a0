"""What a hop of localized causal multicast costs, with codec, journal and trace on, in hops of the bare loop.

Complete binary trees of 63 and 255 nodes, one group of all, 8 publishers of 100 messages a second each, predicted
heads; a hop is one copy received, and carries its share of acknowledgements and timers. The bare hop is that of the
tree broadcast, measured in the same run. Goal: at most 40 bare hops, whatever the number of nodes.
"""

from time import process_time
from typing import Any

from _common import arguments, finish, interleaved
from _tree import microseconds_per_hop, on_whence

from whence.core.levels import LEVELS
from whence.experiments.headers import scenario
from whence.sim.cluster import Cluster
from whence.sim.faults import Director
from whence.sim.run import describe
from whence.trace.memory import Trace

BARE_HOPS_MAX = 40.0
SIZES = (63, 255)


def causal(nodes: int, messages: int) -> float:
    """Run a tree and return its processor time per hop."""
    planned = scenario("causal", nodes, 8, messages, ordered_links=True)
    recipe = LEVELS["causal"]
    cluster = Cluster(planned, recipe, Trace(describe(planned, recipe)).rows)
    cluster.start()
    Director(cluster, planned).plan()
    began = process_time()
    cluster.loop.run(planned.end_at_ns)
    spent = process_time() - began
    members: list[Any] = [process.member for process in cluster.processes.values()]
    copies: int = sum(member.cost.copies for member in members)
    return spent / copies * 1e6


def main() -> None:
    """Measure bare hops and hops of both trees in turn."""
    given = arguments(__doc__).parse_args()
    broadcasts, messages = (10, 4) if given.quick else (300, 60)
    costs = interleaved(
        given.repeat or (1 if given.quick else 5),
        {
            "bare": lambda: microseconds_per_hop(on_whence, broadcasts),
            "63": lambda: causal(63, messages),
            "255": lambda: causal(255, messages // 4 or 1),
        },
    )
    ratios = {size: costs[str(size)] / costs["bare"] for size in SIZES}
    finish(
        "causal_hop",
        {
            "us_per_hop": {name: round(cost, 3) for name, cost in costs.items()},
            "bare_hops_63": round(ratios[63], 2),
            "bare_hops_255": round(ratios[255], 2),
        },
        {"at most 40 bare hops": max(ratios.values()) <= BARE_HOPS_MAX},
        quick=given.quick,
    )


if __name__ == "__main__":
    main()
