"""Run one benchmark in this tree and in an earlier commit's, in turns, and print how the medians compare.

python bench/_beside.py COMMIT [--rounds 5] SCRIPT [ARGUMENTS ...]

COMMIT is checked out beside the repository for as long as this runs. Both trees use the packages of this Python. Each
number that both trees print is compared: `ratio` is this tree's median divided by the earlier one's, so whether more is
better depends on the number.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from _common import ROOT, checked_out, machine

NOT_COMPARED = frozenset({"machine", "goals"})


def numbers(told: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of a benchmark's line with the path to it."""
    if isinstance(told, dict):
        for key, value in told.items():
            if key not in NOT_COMPARED:
                yield from numbers(value, f"{name}.{key}" if name else key)
    elif isinstance(told, list):
        for index, value in enumerate(told):
            yield from numbers(value, f"{name}[{index}]")
    elif isinstance(told, int | float) and not isinstance(told, bool):
        yield name, float(told)


def measured(tree: Path, script: str, words: list[str]) -> dict[str, float]:
    """Run the benchmark once in a tree and return its numbers."""
    paths = os.pathsep.join((str(tree / "src"), str(tree / "bench")))
    ran = subprocess.run(
        [sys.executable, f"bench/{script}.py", *words],
        cwd=tree, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"bench/{script}.py printed no line in {tree}:\n{ran.stderr[-2000:]}")
    return dict(numbers(json.loads(lines[-1])))


def compared(earlier: Path, script: str, words: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Run both trees in turns, each first in every second round, and return the medians and their ratio."""
    trees = {"earlier": earlier, "now": ROOT}
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in trees}
    for number in range(rounds):
        for tree in sorted(trees, reverse=number % 2 == 1):
            for name, value in measured(trees[tree], script, words).items():
                taken[tree].setdefault(name, []).append(value)
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    both = {name: (median(taken["earlier"][name]), median(taken["now"][name]))
            for name in taken["earlier"] if name in taken["now"]}  # fmt: skip
    return {
        name: {"earlier": before, "now": now, "ratio": round(now / before, 3) if before else float("nan")}
        for name, (before, now) in both.items()
    }


def main() -> None:
    """Check the earlier commit out, compare, print one JSON line, and take the checkout away again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=5, help="how often each tree is measured (default 5)")
    parser.add_argument("script", help="the benchmark's name, without .py")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the benchmark's own arguments")
    given = parser.parse_args()
    with checked_out(given.commit) as tree:
        told = compared(tree, given.script, given.words, given.rounds)
    print(json.dumps({"bench": given.script, "words": given.words, "commit": given.commit, "rounds": given.rounds,
                      "compared": told, "machine": machine()}))  # fmt: skip


if __name__ == "__main__":
    main()
