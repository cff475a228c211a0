"""What a broadcast by PrCast to 1,000 up to 1,000,000 members costs on arrays: processor time and memory of one event.

One event in one group, with full views and the rounds that reach all but one member on average, and with partial views
and two rounds more (whence_lab/figures/gossip_scale.py). Partial views are kept fresh for ten rounds before it, and
while it spreads. Each measurement has a process of its own.
Goals: a million members within 8 GiB and ten minutes. The processor time for one member is printed for every size.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from _common import arguments, finish

from whence_lab.arrays.prcast import Broadcast, Engine

ROUNDS = {1_000: 8, 10_000: 10, 100_000: 12, 1_000_000: 14}
PARTIAL_ROUNDS_MORE = 2
VIEWS = ("full", "partial")
QUICK_SIZES = (1_000,)
PEAK_MIB_MAX = 8 * 1024
SECONDS_MAX = 600


def child(words: str) -> None:
    """Measure here and print the numbers."""
    nodes, view, seed = words.split(",")
    rounds = ROUNDS[int(nodes)] + PARTIAL_ROUNDS_MORE * (view == "partial")
    broadcast = Broadcast(nodes=int(nodes), view=view, rounds=rounds)
    began, wall = process_time(), perf_counter()
    spread = Engine(broadcast, int(seed)).finish()
    seconds, elapsed = process_time() - began, perf_counter() - wall
    copies = int(spread.copies.sum())
    numbers = {
        "rounds": broadcast.rounds, "reached": int(spread.reached().sum()), "copies": copies, "cpu_s": seconds,
        "wall_s": elapsed, "us_per_member": seconds / broadcast.nodes * 1e6, "us_per_copy": seconds / copies * 1e6,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }  # fmt: skip
    print(json.dumps(numbers))


def measured(nodes: int, view: str, seed: int) -> dict[str, Any]:
    """Measure in a fresh process, so that nothing is left from another size."""
    words = [sys.executable, str(Path(__file__)), "--child", f"{nodes},{view},{seed}"]
    numbers: dict[str, Any] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return numbers


def main() -> None:
    """Measure every size in turn; print the medians."""
    parser = arguments(__doc__)
    parser.add_argument("--child", help="for the script's own use: members,view,seed")
    given = parser.parse_args()
    if given.child:
        child(given.child)
        return
    sizes = QUICK_SIZES if given.quick else tuple(ROUNDS)
    seeds = range(1, 1 + (given.repeat or (1 if given.quick else 3)))
    table: dict[str, dict[str, Any]] = {}
    for view in VIEWS:
        for nodes in sizes:
            runs = [measured(nodes, view, seed) for seed in seeds]
            table[f"{view}, {nodes}"] = {key: round(median([run[key] for run in runs]), 3) for key in runs[0]}
    peak = max(row["peak_mib"] for row in table.values())
    slowest = max(row["wall_s"] for row in table.values())
    goals = {"memory": peak <= PEAK_MIB_MAX, "time": slowest <= SECONDS_MAX}
    finish("million", {"measured": table, "peak_mib": peak, "slowest_s": slowest}, goals, quick=given.quick)


if __name__ == "__main__":
    main()
