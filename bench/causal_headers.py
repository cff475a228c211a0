"""Bytes of ordering metadata per copy: LoCaMu beside CBCAST, Causal Barriers and Delta-Neighbourhood, fault-free.

publishers: a binary tree of 511 nodes, one group of all, 1 to 511 publishers of 100 messages a second each.
sizes: 63 to 8,191 nodes, the root publishes (the thesis's figure 5.1a); and, without a goal, 8 publishers anywhere,
whose names are 1 byte long in a small tree and 3 in a large one.
Counted are headers and names once links are warm, by the papers' own formulas for the rivals and the thesis's coding.
Goals: ours at most 15 B in the mean for any number of publishers, and within 5 % at all sizes; the thesis's coding
within 5 % of 200 B on 511 nodes, and at all sizes within 5 %.
"""

import sys

from _common import arguments, finish

from whence_lab.experiments.headers import PUBLISHERS, SCHEMES, SIZES, compared

OURS, THESIS = "causal", "causal, thesis coding"
MEAN_MAX = 15.0
THESIS_BYTES = 200.0
FLAT_MAX = 1.05
QUICK_NODES, QUICK_PUBLISHERS, QUICK_SIZES = 31, (1, 8), (31, 63)
NEIGHBOURHOOD_MAX = 32
"""Delta-Neighbourhood has one message in transit per publisher: more publishers only take longer, at 24 B each."""


def main() -> None:
    """Measure, print the table to standard error and the numbers as one line."""
    parser = arguments(__doc__)
    parser.add_argument("--no-sizes", action="store_true", help="only the table of publishers")
    given = parser.parse_args()
    nodes, publishers = (QUICK_NODES, QUICK_PUBLISHERS) if given.quick else (511, PUBLISHERS)
    table: dict[str, dict[str, float]] = {}
    for scheme in SCHEMES:
        counts = [count for count in publishers if scheme != "neighbourhood" or count <= NEIGHBOURHOOD_MAX]
        table[scheme] = {str(count): round(compared(scheme, nodes, count).mean, 2) for count in counts}
        print(f"{scheme:24}", *(f"{mean:>12,.1f}" for mean in table[scheme].values()), file=sys.stderr, flush=True)
    sizes: dict[str, dict[str, float]] = {}
    each = () if given.no_sizes else QUICK_SIZES if given.quick else SIZES
    for scheme, count in ((OURS, 1), (THESIS, 1), (OURS, 8)):
        name = f"{scheme}, {count} publishing"
        sizes[name] = {str(size): round(compared(scheme, size, count).mean, 2) for size in each}
        print(f"{name:34}", *(f"{mean:>8,.1f}" for mean in sizes[name].values()), file=sys.stderr, flush=True)
    goals = {
        "ours at most 15 B": max(table[OURS].values()) <= MEAN_MAX,
        "thesis coding about 200 B": all(
            THESIS_BYTES / FLAT_MAX <= mean <= THESIS_BYTES * FLAT_MAX for mean in table[THESIS].values()
        ),
    }
    for name, means in sizes.items():
        if name.endswith(" 1 publishing") and means:
            goals[f"{name}: within 5 % at all sizes"] = max(means.values()) <= FLAT_MAX * min(means.values())
    finish("causal_headers", {"publishers": table, "sizes": sizes}, goals, quick=given.quick)


if __name__ == "__main__":
    main()
