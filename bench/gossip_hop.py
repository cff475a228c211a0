"""What a gossip hop costs, with codec and trace on, in hops of the bare loop measured in the same run.

125 processes at level fifo with PrCast's default settings, 10 publications of 24 bytes per second in the whole group,
with partial views and with full ones; the bare hop is that of the tree broadcast.
Goal: at most 15 bare hops with either view.
"""

from _common import arguments, finish, in_units
from _gossip import Hops, Load, hops_of
from _tree import microseconds_per_hop, on_whence

BARE_HOPS_MAX = 15.0
LOADS = {view: Load(nodes=125, view=view, rounds=6, interval_ns=100_000_000) for view in ("partial", "full")}


def main() -> None:
    """Measure bare hops and gossip hops in turn."""
    given = arguments(__doc__).parse_args()
    messages, hops = (10, 2_000) if given.quick else (300, 150_000)
    last: dict[str, Hops] = {}

    def gossip(view: str) -> float:
        last[view] = hops_of(LOADS[view], hops)
        return last[view].us_per_hop

    costs, ratios = in_units(
        given.repeat or (1 if given.quick else 7),
        lambda: microseconds_per_hop(on_whence, messages),
        {"partial": lambda: gossip("partial"), "full": lambda: gossip("full")},
    )
    finish(
        "gossip_hop",
        {
            "us_per_hop": {name: round(cost, 3) for name, cost in costs.items()},
            "bare_hops_partial": round(ratios["partial"], 2),
            "bare_hops_full": round(ratios["full"], 2),
            "bundles_per_hop": {view: round(seen.bundles_per_hop, 2) for view, seen in last.items()},
        },
        {view: ratio <= BARE_HOPS_MAX for view, ratio in ratios.items()},
        quick=given.quick,
    )


if __name__ == "__main__":
    main()
