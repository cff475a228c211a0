"""LoCaMu at its extremes: the thesis's base configuration at saturation, and 65,536 nodes with 32,767 groups.

saturation: 511 nodes, one group of all, 100 Mb/s per node, the root publishes as fast as its bandwidth lets it, for
0.2 simulated seconds; thesis coding. Goal: everything delivered within ten minutes of processor time.
forest: 65,536 nodes, one group per subtree, one message for each. Goal: all delivered, nothing kept, within 8 GiB.
flat: the same forest with 2,047 and 16,383 nodes. Goal: a hop costs the same within a quarter, the first of its
link and id pattern as nearly all of them are here.
Each part has a process of its own. Some minutes each: name one to run it alone.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from _common import arguments, finish

from whence_lab.experiments.forest import one_for_each_subtree, run, saturated

PARTS = {"saturation": 511, "forest_2k": 2_047, "forest_16k": 16_383, "forest_65k": 65_536}
QUICK = {"saturation": 31, "forest_2k": 63, "forest_16k": 127, "forest_65k": 255}
SECONDS, QUICK_SECONDS = 0.2, 0.005
SATURATION_S_MAX = 600
PEAK_MIB_MAX = 8 * 1024
FLAT_MAX = 1.25


def measured(part: str, nodes: int, seconds: float) -> dict[str, Any]:
    """Measure in a fresh process, so that its peak of memory is its own."""
    words = [sys.executable, str(Path(__file__)), "--child", f"{part},{nodes},{seconds}"]
    line = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    numbers: dict[str, Any] = json.loads(line)
    return numbers


def child(words: str) -> None:
    """Measure here and print the numbers."""
    part, nodes, seconds = words.split(",")
    planned = saturated(int(nodes), float(seconds)) if part == "saturation" else one_for_each_subtree(int(nodes))
    seen = run(planned)
    numbers = {name: getattr(seen, name) for name in seen.__struct_fields__}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rounded = {name: round(value, 2) if isinstance(value, float) else value for name, value in numbers.items()}
    print(json.dumps(rounded | {"us_per_hop": round(seen.us_per_hop, 1), "peak_mib": round(peak)}))


def main() -> None:
    """Run the parts that are asked for, all by default."""
    parser = arguments(__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--child", help="for the script's own use: part,nodes,seconds")
    given = parser.parse_args()
    if given.child:
        child(given.child)
        return
    if unknown := [part for part in given.parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    sizes, seconds = (QUICK, QUICK_SECONDS) if given.quick else (PARTS, SECONDS)
    seen = {part: measured(part, sizes[part], seconds) for part in given.parts or PARTS}
    goals = {f"{part} delivered and forgotten": _is_settled(numbers) for part, numbers in seen.items()}
    if "saturation" in seen:
        goals["saturation within minutes"] = seen["saturation"]["ran_s"] <= SATURATION_S_MAX
        seen["saturation"]["messages_per_second"] = round(seen["saturation"]["messages"] / seconds)
    if "forest_65k" in seen:
        goals["forest within 8 GiB"] = seen["forest_65k"]["peak_mib"] <= PEAK_MIB_MAX
    hops = [numbers["us_per_hop"] for part, numbers in seen.items() if part.startswith("forest")]
    if len(hops) > 1:
        goals["flat"] = max(hops) <= FLAT_MAX * min(hops)
    finish("causal_scale", {"measured": seen}, goals, quick=given.quick)


def _is_settled(numbers: dict[str, Any]) -> bool:
    return bool(numbers["delivered"] == numbers["owed"] and numbers["records_left"] == 0)


if __name__ == "__main__":
    main()
