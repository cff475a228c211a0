"""What order costs in processor time: every level and rival on one workload and one network, simulated.

The runs are those of `whence reproduce ordering-cost`, which measures latency, bytes, time held and losses. Here the
processor time of a whole run, codec, network and trace included, is divided by its deliveries, in units of `eventual`
with gossip: systems take turns, and medians are compared.
Goal: one order for all, on views, takes at most ten times the processor time of `eventual`.
"""

from functools import partial
from time import process_time

from _common import arguments, finish, interleaved, no_collections

from whence.sim.run import run
from whence.trace.schema import Kind
from whence_lab.experiments.ordering_cost import SYSTEMS, scenario

MEMBERS = 15
UNIT, DEAREST, DEAREST_MAX = "eventual, gossip", "total, strict", 10.0


def us_per_delivery(name: str, network: str, events: int) -> float:
    """Run a system; return the processor time for one delivery."""
    planned = scenario(name, network, MEMBERS, events, 1)
    with no_collections():
        began = process_time()
        trace = run(planned).trace
        took = process_time() - began
    return took / len(trace.rows[Kind.DELIVER]) * 1e6


def main() -> None:
    """Measure all in turns and print medians."""
    given = arguments(__doc__).parse_args()
    events, repeat = (20, 1) if given.quick else (200, given.repeat or 3)
    measures = {name: partial(us_per_delivery, name, "calm", events) for name in SYSTEMS}
    costs = interleaved(repeat, measures)
    ratios = {name: round(cost / costs[UNIT], 2) for name, cost in costs.items()}
    numbers = {"us_per_delivery": {name: round(cost, 1) for name, cost in costs.items()}, "ratios": ratios}
    finish("ordering", numbers, {"total": ratios[DEAREST] <= DEAREST_MAX}, quick=given.quick)


if __name__ == "__main__":
    main()
