"""What all benchmarks share: the command line, the machine, medians of interleaved repetitions, and the JSON line.

Only ratios measured side by side in one run mean anything elsewhere. The repetitions of the things compared are
interleaved, so that a burst of other load falls on all of them, and the median of each is taken.
"""

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options every benchmark has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it works; goals do not count")
    parser.add_argument("--repeat", type=int, help="repetitions, of which the median counts")
    return parser


def interleaved(repeat: int, measures: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Take every measure in turn, `repeat` times, and return the median of each."""
    taken: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(repeat):
        for name, measure in measures.items():
            taken[name].append(measure())
    return {name: median(values) for name, values in taken.items()}


def in_units(
    repeat: int, unit: Callable[[], float], measures: Mapping[str, Callable[[], float]]
) -> tuple[dict[str, float], dict[str, float]]:
    """Take every measure between two of the unit, `repeat` times; return the median of each, and of each in units.

    The speed of a shared machine changes from second to second: divide only what was measured at the same time.
    """
    costs: dict[str, list[float]] = {name: [] for name in ("bare", *measures)}
    ratios: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(repeat):
        before = unit()
        for name, measure in measures.items():
            cost, after = measure(), unit()
            costs[name].append(cost)
            costs["bare"].append(after)
            ratios[name].append(2 * cost / (before + after))
            before = after
    return (
        {name: median(values) for name, values in costs.items()},
        {name: median(values) for name, values in ratios.items()},
    )


@contextmanager
def no_collections() -> Iterator[None]:
    """Keep the cycle collector out of the measurement: after every run of a loop it would scan all new objects."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Have an earlier commit checked out beside the repository, and take it away again."""
    with TemporaryDirectory(prefix="whence-beside-") as scratch:
        tree = Path(scratch) / "tree"
        _git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def machine() -> dict[str, Any]:
    """Return a description of what the numbers were measured on."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "commit": _commit(),
    }


def finish(name: str, numbers: Mapping[str, Any], goals: Mapping[str, bool], *, quick: bool) -> None:
    """Print the JSON line, and exit with status 1 if a goal was missed in a full run."""
    met = all(goals.values())
    line = {"bench": name, "quick": quick, **numbers, "goals": goals, "ok": met, "machine": machine()}
    print(json.dumps(line), flush=True)
    sys.exit(0 if met or quick else 1)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _commit() -> str:
    """Return the commit, marked + if the sources differ from it."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--", "src", "bench") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
