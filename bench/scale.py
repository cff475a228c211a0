"""Whether a gossip hop costs the same in a group of 100, 1,000 and 10,000 processes, and what the largest one needs.

Every size carries the same traffic: the rounds grow with the logarithm of the group, as PrCast needs them to, and the
publications are spaced so that a message carries two bundles in the mean. Only hops after the warm-up count. Each
measurement has a process of its own.
The growth has two causes, and `cold_100` tells them apart: 100 groups of 100 that take turns, so hops of small groups
in a memory as large as that of the largest. What `cold_100` costs more than 100 processes alone is the price of cache
misses, which any program with that much state pays; what 10,000 processes cost more than `cold_100` is the price of a
large group, which is ours. The bare hop of a tree broadcast grows with the tree for the same reason; it is measured
at every size too, as the unit that costs are told in.
Goals, for full and for partial views: a hop among 10,000 within 20 % of a hop of `cold_100`, and, counted in bare hops
of the same number of processes, within 20 % of a hop among 100; 10,000 processes within 2 GiB. The raw ratio of the
dearest size to the cheapest is printed beside them.
"""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from _common import arguments, finish
from _gossip import Load, hops_of
from _tree import microseconds_per_hop, on_whence

FLAT_MAX = 1.20
PEAK_MIB_MAX = 2048
SPACING_MS = {"full": {100: 88, 1000: 98, 10_000: 106}, "partial": {100: 84, 1000: 91, 10_000: 97}}
"""The time between two publications; it gives two bundles per message at every size."""
ROUNDS = {100: 5, 1000: 7, 10_000: 9}
COLD_WORLDS = 100
QUICK_SIZES = (100, 200)
BARE_FACTOR = 4
"""Bare hops per measured hop: they are much cheaper."""


def load_of(nodes: int, view: str) -> Load:
    """Return the traffic that is the same for every size."""
    spacing = SPACING_MS[view].get(nodes, 90)
    return Load(nodes, view, ROUNDS.get(nodes, 6), spacing * 1_000_000)


def measured(nodes: int, view: str, hops: int, worlds: int = 1) -> dict[str, Any]:
    """Measure in a fresh process, so that nothing is left from another size."""
    words = [sys.executable, str(Path(__file__)), "--child", f"{nodes},{view},{hops},{worlds}"]
    line = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    numbers: dict[str, Any] = json.loads(line)
    return numbers


def child(words: str) -> None:
    """Measure here and print the numbers."""
    nodes, view, hops, worlds = words.split(",")
    if view == "bare":
        size = int(nodes)
        cost = microseconds_per_hop(partial(on_whence, nodes=size), max(1, int(hops) // size))
        print(json.dumps({"us_per_hop": cost}))
        return
    print(json.dumps(hops_of(load_of(int(nodes), view), int(hops), worlds=int(worlds))._asdict()))


def main() -> None:
    """Measure every size in turn, and compare their medians."""
    parser = arguments(__doc__)
    parser.add_argument("--child", help="for the script's own use: nodes,view,hops,worlds")
    parser.add_argument("--hops", type=int, help="hops to count in each measurement (default 300,000)")
    given = parser.parse_args()
    if given.child:
        child(given.child)
        return
    sizes = QUICK_SIZES if given.quick else tuple(ROUNDS)
    hops = given.hops or (2_000 if given.quick else 300_000)
    worlds = 2 if given.quick else COLD_WORLDS
    taken: dict[str, dict[str, list[dict[str, Any]]]] = {view: {} for view in SPACING_MS}
    bare: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(given.repeat or (1 if given.quick else 3)):
        for size in sizes:
            bare[size].append(measured(size, "bare", BARE_FACTOR * hops)["us_per_hop"])
        for view, by_name in taken.items():
            for size in sizes:
                by_name.setdefault(str(size), []).append(measured(size, view, hops))
            by_name.setdefault("cold_100", []).append(measured(100, view, hops, worlds))
    medians = {
        view: {
            name: {key: round(median([each[key] for each in runs]), 2) for key in runs[0]}
            for name, runs in by_name.items()
        }
        for view, by_name in taken.items()
    }
    costs = {view: [medians[view][str(size)]["us_per_hop"] for size in sizes] for view in medians}
    flat = {view: max(each) / min(each) for view, each in costs.items()}
    units = [median(bare[size]) for size in sizes]
    in_units = {view: [cost / unit for cost, unit in zip(each, units, strict=True)] for view, each in costs.items()}
    scaled = {view: each[-1] / each[0] for view, each in in_units.items()}
    group = {view: each[-1] / medians[view]["cold_100"]["us_per_hop"] for view, each in costs.items()}
    peak = max(each["peak_mib"] for by_name in taken.values() for each in by_name[str(sizes[-1])])
    finish(
        "scale",
        {
            "measured": medians,
            "bare_us_per_hop": dict(zip(map(str, sizes), [round(unit, 3) for unit in units], strict=True)),
            "bare_hops": {view: [round(each, 2) for each in values] for view, values in in_units.items()},
            "raw_ratio": {view: round(ratio, 3) for view, ratio in flat.items()},
            "ratio_in_bare_hops": {view: round(ratio, 3) for view, ratio in scaled.items()},
            "ratio_at_equal_memory": {view: round(ratio, 3) for view, ratio in group.items()},
            "peak_mib": peak,
        },
        {
            "flat_full": max(group["full"], scaled["full"]) <= FLAT_MAX,
            "flat_partial": max(group["partial"], scaled["partial"]) <= FLAT_MAX,
            "memory": peak <= PEAK_MIB_MAX,
        },
        quick=given.quick,
    )


if __name__ == "__main__":
    main()
