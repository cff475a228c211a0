"""Runs of living groups under real faults: changes of the members in episodes, and machines restarted in turn."""

import json
import shutil
import signal
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.faults.changes import MACHINES, MACHINES_MAX, RATE, Changing, Episode, Setting, planned
from tests.faults.rolling import Rolling
from tests.faults.wires import wires

HOURS_MAX = 3.0

SIGNALS = {"term": [signal.SIGTERM], "kill": [signal.SIGKILL], "both": [signal.SIGTERM, signal.SIGKILL]}

Found = tuple[list[str], Counter[str]]
"""What is wrong, and what was done."""


def one(level: str, seed: int, faults: Sequence[str], kind: str, *, durable: bool, rate: float = RATE) -> Found:
    """Run one episode; a failed one keeps its directory."""

    def run(setting: Setting) -> tuple[list[str], Changing]:
        episode = Episode(setting, seed)
        return episode.run(faults), episode

    return _in_directory(run, level, kind, durable=durable, rate=rate)


def rolling(
    level: str, signals: Sequence[int], kind: str, *, replace: bool, rate: float = RATE, machines: int = MACHINES
) -> Found:
    """Restart every machine by each signal, then replace every one if asked for; a failed run keeps its directory."""

    def run(setting: Setting) -> tuple[list[str], Changing]:
        group = Rolling(setting, 0, machines)
        return group.run(signals, replace=replace), group

    return _in_directory(run, level, kind, durable=True, rate=rate)


def _in_directory(
    run: Callable[[Setting], tuple[list[str], Changing]], level: str, kind: str, *, durable: bool, rate: float
) -> Found:
    directory = Path(tempfile.mkdtemp(prefix="whence-faults-"))
    with wires(kind, list(range(MACHINES_MAX))) as laid:
        wrong, group = run(Setting(level, durable, laid, directory, rate))
    if wrong:
        wrong.append(f"see {directory}")
    else:
        shutil.rmtree(directory)
    return wrong, group.done


def command(given: Namespace, kind: str) -> int:
    """Run what a command line asks for, and print one JSON object; return an exit code."""
    began, total, failed, number = time.monotonic(), Counter[str](), list[dict[str, object]](), 0
    for name, run in _runs(given, kind):
        number += 1
        wrong, done = run()
        for what, count in done.items():
            total[what] = max(total[what], count) if what.startswith("longest") else total[what] + count
        print(f"{name}: {dict(done)} {wrong or 'holds'}", file=sys.stderr, flush=True)  # noqa: T201
        if wrong:
            failed.append({"run": name, "wrong": wrong})
    print(json.dumps({  # noqa: T201
        "faults": given.level, "memory": given.memory, "seed": given.seed, "wires": kind, "machines": MACHINES,
        "rate": RATE, "runs": number, "seconds": round(time.monotonic() - began), "done": dict(sorted(total.items())),
        "failed": failed,
    }))  # fmt: skip
    return 1 if failed else 0


def _runs(given: Namespace, kind: str) -> Iterator[tuple[str, Callable[[], Found]]]:
    """Yield the runs by name; where a time is given, begin anew with other seeds until it has passed."""
    until = time.monotonic() + min(given.hours, HOURS_MAX) * 3600
    seed = given.seed
    while True:
        if given.rolling:
            yield f"rolling {given.rolling}", partial(rolling, given.level, SIGNALS[given.rolling], kind, replace=True)
        faults = planned(given.changes, given.kills, given.cuts, given.stops, given.points, seed=seed)
        for start in range(0, len(faults) if given.changes else 0, given.episode):
            part = faults[start : start + given.episode]
            durable = given.memory == "durable"
            yield f"seed {seed}", partial(one, given.level, seed, part, kind, durable=durable)
            seed += 1
        if time.monotonic() >= until:
            return
