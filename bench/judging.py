"""What `whence verify --engine spark` costs for a delivery, from 10^6 to 10^8 of them, and how much memory it takes.

Every judgement is a command of its own, with Spark's start and all. Wall time, processor time and memory are those of
its whole tree of processes: Python, Java and the workers of Python. Nothing is subtracted.

clean    a run that one pass proves correct
trouble  the same with a handful of violations: one pass, and the neighbourhood of what is wrong
crash    the same handful, and a member crashes at the end, so that there is no certificate: every promise is judged
         from all rows, and causal order in slices of true time
many     as `clean`, with 10,000 processes instead of 10
ends     as `many`, and one of them crashes at the end, so that there is no certificate
views    as `trouble`, of a group on views as machines are gathered: no true time, clocks that begin hours apart and
         drift, and one member joins half-way; causal order is judged in slices of the clocks, put right
publishers  as `clean`, with 96 publishers, which takes three passes
wide     as `clean`, with 100 publishers, which no certificate takes: every promise is judged from all rows

Goals: within 4 GiB; the processor time for a row grows by at most a fifth from the smallest size to the largest.
Where the start takes most of the time of a small run, that goal is easy. So the cost of each row more (`slope`: between
two sizes, the difference in time for the difference in rows) may grow by at most a fifth too, where there are three
sizes. `--sizes 1000000,10000000,100000000` is the full range.

`--stages` also reads Spark's own account of each judgement of the largest size: which stages take the time.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from time import perf_counter, sleep
from typing import Any, NamedTuple

from _common import arguments, finish
from _spark import LISTENERS, PUBLISHERS, write_big_trace

from whence.pipeline.certificate import PROVABLE
from whence.pipeline.session import session


class Kind(NamedTuple):
    """What a run is like: how many deliveries are swapped, whether somebody crashes, and who only delivers; and
    whether it is on views."""

    swaps: int = 0
    crash: bool = False
    listeners: int = LISTENERS
    on_views: bool = False
    publishers: int = PUBLISHERS

    def deliveries(self, size: int) -> int:
        """Return how many deliveries a run of a size has: whole rounds."""
        of_round = self.publishers * (self.publishers + self.listeners)
        rounds = -(-size // of_round)
        return rounds * of_round - (self.publishers * (rounds // 2) if self.on_views else 0)

    @property
    def promises(self) -> tuple[str, ...]:
        """What it is judged by."""
        return _ON_VIEWS if self.on_views else tuple(PROVABLE)

    @property
    def verdicts(self) -> dict[str, str]:
        """What is found: two deliveries of different publishers that change places break orders, and nothing else. What
        was published after a member was open, nobody can say without true time."""
        turned = {promise: "broken" if self.swaps and promise in _TURNED else "holds" for promise in self.promises}
        return turned | ({"open": "unknown"} if self.on_views else {})


MANY = 10_000 - PUBLISHERS
WIDE = 96
BEYOND = 100
_TURNED = ("causal", "optimistic_causal", "total_order", "keys")
_ON_VIEWS = ("integrity", "no_duplicates", "fifo", "one_chain", "causal", "open")
KINDS = {
    "clean": Kind(), "trouble": Kind(swaps=10), "crash": Kind(swaps=10, crash=True),
    "many": Kind(listeners=MANY), "ends": Kind(crash=True, listeners=MANY),
    "views": Kind(swaps=10, on_views=True), "publishers": Kind(publishers=WIDE), "wide": Kind(publishers=BEYOND),
}  # fmt: skip
GIB_MAX = 4.0
GROWTH_MAX = 1.2
SAMPLE_S = 0.2
STAGES_SHOWN = 12
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Cost(NamedTuple):
    """What one command took."""

    wall_s: float
    cpu_s: float
    gib: float


# --- measuring a command ---


def measured(command: list[str]) -> tuple[Cost, int, str]:
    """Run a command; return what its tree of processes took, its exit status, and what it printed."""
    spent: dict[int, float] = {}
    most = 0
    with TemporaryFile("w+") as printed:
        began = perf_counter()
        process = subprocess.Popen(command, stdout=printed)
        while process.poll() is None:
            tree = list(_tree(process.pid))
            spent |= {pid: ticks / _TICKS for pid, ticks, _ in tree}
            most = max(most, sum(pages for _, _, pages in tree) * _PAGE)
            sleep(SAMPLE_S)
        took = perf_counter() - began
        printed.seek(0)
        return Cost(took, sum(spent.values()), most / 2**30), process.returncode, printed.read()


def _tree(root: int) -> Iterator[tuple[int, int, int]]:
    """Yield the processes below one and itself: pid, processor time in ticks, resident pages.

    A child that Java has forked and that runs nothing else yet shows Java's memory as its own, under the name of the
    thread that forked it; it counts once.
    """
    about: dict[int, tuple[int, int, int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended
            ticks, room, resident = int(fields[11]) + int(fields[12]), int(fields[20]), int(fields[21])
            about[int(entry.name)] = int(fields[1]), ticks, room, resident
    for pid, (parent, ticks, room, resident) in about.items():
        above = pid
        while above in about and above != root:
            above = about[above][0]
        if above == root:
            is_shared = parent in about and about[parent][2] == room
            yield pid, ticks, 0 if is_shared else resident


def judged(traces: Path, kind: str, conf: dict[str, str]) -> Cost:
    """Judge a trace as users do, and make sure of the verdicts."""
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    asked = [word for promise in KINDS[kind].promises for word in ("--promise", promise)]
    command = [sys.executable, "-m", "whence", "verify", str(traces), "--engine", "spark", "--json", *asked, *options]
    cost, status, printed = measured(command)
    assert json.loads(printed)["verdicts"] == KINDS[kind].verdicts, printed[:2000]
    assert status == (1 if KINDS[kind].swaps else 0), printed[:2000]
    return cost


# --- by size ---


def by_size(kind: str, sizes: list[int], memory: str, stages: bool) -> tuple[dict[str, Any], dict[str, bool]]:
    """Judge a kind of run at some sizes."""
    costs: list[Cost] = []
    numbers: dict[str, Any] = {}
    for size in sizes:
        with TemporaryDirectory(prefix="whence-bench-") as directory:
            traces = Path(directory, "traces")
            written = _written(traces, size, kind)
            conf = {"spark.driver.memory": memory, "spark.local.dir": directory}
            if stages and size == sizes[-1]:
                log = Path(directory, "log")
                log.mkdir()
                conf |= _logged(log)
            costs.append(judged(traces, kind, conf))
            if stages and size == sizes[-1]:
                numbers["stages"] = told_stages(log)
        numbers[f"{written:.0e}".replace("+0", "")] = {
            "rows": written, "wall_s": round(costs[-1].wall_s, 1), "cpu_s": round(costs[-1].cpu_s, 1),
            "wall_us_per_row": round(1e6 * costs[-1].wall_s / written, 2),
            "cpu_us_per_row": round(1e6 * costs[-1].cpu_s / written, 2), "peak_gib": round(costs[-1].gib, 2),
        }  # fmt: skip
        print(kind, size, costs[-1], file=sys.stderr, flush=True)
    growth = (costs[-1].cpu_s / sizes[-1]) / (costs[0].cpu_s / sizes[0])
    slopes = [
        1e6 * (after.cpu_s - before.cpu_s) / (larger - smaller)
        for (smaller, before), (larger, after) in pairwise(zip(sizes, costs, strict=True))
    ]
    numbers |= {"growth": round(growth, 2), "slope_cpu_us_per_row": [round(slope, 2) for slope in slopes]}
    goals = {
        f"{kind}: within {GIB_MAX:.0f} GiB": max(cost.gib for cost in costs) <= GIB_MAX,
        f"{kind}: cost of a row grows by at most a fifth": growth <= GROWTH_MAX,
    }
    if len(slopes) > 1:
        goals[f"{kind}: cost of each row more grows by at most a fifth"] = slopes[-1] <= GROWTH_MAX * slopes[0]
    return numbers, goals


def _written(traces: Path, size: int, kind: str) -> int:
    """Have another process write a trace, so that nothing of that is measured; return its deliveries."""
    subprocess.run([sys.executable, __file__, "--write", str(traces), "--sizes", str(size), "--only", kind], check=True)
    return KINDS[kind].deliveries(size)


# --- by stage ---


def _logged(log: Path) -> dict[str, str]:
    return {
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false",
    }  # fmt: skip


def told_stages(log: Path) -> list[dict[str, Any]]:
    """Return the stages that took most of the time of Spark's tasks, from its event log, the longest first."""
    stages: dict[int, dict[str, Any]] = {}
    (file,) = [file for file in log.iterdir() if file.is_file()]
    with file.open(encoding="utf-8") as lines:
        for event in map(json.loads, lines):
            if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                about, metrics = stages.setdefault(event["Stage ID"], {"tasks": 0}), event["Task Metrics"]
                about["tasks"] += 1
                for name, value in {
                    "run_s": metrics["Executor Run Time"] / 1e3,
                    "cpu_s": metrics["Executor CPU Time"] / 1e9,
                    "written_gib": metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"] / 2**30,
                    "spilled_gib": metrics["Disk Bytes Spilled"] / 2**30,
                }.items():
                    about[name] = about.get(name, 0) + value
                about["longest_task_s"] = max(about.get("longest_task_s", 0), metrics["Executor Run Time"] / 1e3)
            elif event["Event"] == "SparkListenerStageCompleted":
                info = event["Stage Info"]
                names = {json.loads(each["Scope"])["name"] for each in info["RDD Info"] if each.get("Scope")}
                stages.setdefault(info["Stage ID"], {"tasks": 0})["steps"] = sorted(names)
    longest = sorted(stages.values(), key=lambda stage: -stage.get("run_s", 0))[:STAGES_SHOWN]
    return [
        {name: round(value, 2) if isinstance(value, float) else value for name, value in stage.items()}
        for stage in longest
    ]


def main() -> None:
    """Judge runs of several kinds and sizes; print one JSON line, and exit with status 1 if a goal was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--sizes", default=None, help="deliveries, separated by commas; 1000000,4000000 unless said")
    parser.add_argument("--only", choices=list(KINDS), action="append", help="only this; may be given again")
    parser.add_argument("--memory", default="2g", help="Java's heap")
    parser.add_argument("--stages", action="store_true", help="tell which stages took the time of the largest size")
    parser.add_argument("--write", type=Path, help="only write a trace there, to look at")
    given = parser.parse_args()
    sizes = [int(size) for size in (given.sizes or ("20000,40000" if given.quick else "1000000,4000000")).split(",")]
    if given.write:
        spark = session("local[2]")
        write_big_trace(spark, given.write, sizes[0], **KINDS[given.only[0]]._asdict())
        spark.stop()
        return
    numbers: dict[str, Any] = {"memory": given.memory}
    goals: dict[str, bool] = {}
    for kind in given.only or ("clean", "trouble", "crash"):
        numbers[kind], met = by_size(kind, sizes, given.memory, given.stages)
        goals |= met
        print(json.dumps({kind: numbers[kind]}), file=sys.stderr, flush=True)
    finish("judging", numbers, goals, quick=given.quick)


if __name__ == "__main__":
    main()
