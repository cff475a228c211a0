"""Our levels and the survey's systems side by side: promises, messages, bytes, latency, load and repair, by size.

All on one workload and one network (whence_lab/experiments/survey.py). Goal: what each promises holds in its calm run,
and who promises to survive a crash repairs itself.
"""

import sys

from _common import arguments, finish
from msgspec import structs

from whence.sim.lab import REPAIRING
from whence_lab.experiments.survey import LEVELS, ORDER_OF, SIZES, compared, promise_of

QUICK_SIZES = (15,)


def main() -> None:
    """Measure, print the table to standard error and the numbers as one line."""
    parser = arguments(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of processes")
    parser.add_argument("--levels", nargs="+", default=LEVELS, help="levels to compare")
    given = parser.parse_args()
    rows = []
    for nodes in given.sizes or (QUICK_SIZES if given.quick else SIZES):
        for level in given.levels:
            row = compared(level, nodes)
            rows.append(row)
            repair = "never" if row.repair_ms is None else f"{row.repair_ms:,.0f}"
            print(
                f"| `{level}` | {ORDER_OF[level]} | {nodes} | {row.messages:,.1f} | {row.copies:,.1f} | "
                f"{row.metadata_bytes:,.0f} | {row.latency_ms:,.1f} | {row.latency_p99_ms:,.1f} | "
                f"{row.busiest:,.1f} | {repair} | {row.lost:,} |",
                file=sys.stderr, flush=True,
            )  # fmt: skip
    goals = {
        "promises hold": all(row.holds for row in rows),
        "who survives crashes repairs itself": all(
            row.repair_ms is not None for row in rows if row.level in (*REPAIRING, "eventual", "fifo", "causal")
        ),
    }
    table = {f"{row.level}, {row.nodes}": structs.asdict(row) | {"promise": promise_of(row.level)} for row in rows}
    finish("survey", table, goals, quick=given.quick)


if __name__ == "__main__":
    main()
