"""Five real processes under real faults: killed at random moments and at named persist points, stopped, parted.

    python -m tests.faults.run --level causal --kills 500 --points 50 --cuts 100 --stops 100
    python -m tests.faults.run --level causal --kills 0 --points 50 --at "inside a bundle" --cuts 0 --stops 0
    python -m tests.faults.run --level total --changes 200 --kills 100 --points 20 --cuts 100 --stops 100
    python -m tests.faults.run --level causal --rolling both

A run is cut into episodes of some faults each, every one a fresh group of five that publishes 500 events a second.
At the end of an episode everything heals, every process is started again, and the episode is judged: by the oracles,
from the traces that the processes wrote, and from what they acknowledged. No acknowledged event may be lost or
delivered twice, order must be kept, and after healing everybody must get everything. At levels that skip what does not
come in time (optimistic, total) order must be kept, and everything published after healing must come. A failed episode
keeps its directory and is named by its seed; so many faults of each kind as asked for are thrown in all.

With `--changes` the group is a living one, and its members are removed, replaced, added and leave besides; with
`--rolling` all its machines are restarted and then replaced in turn (tests/faults/changes.py, rolling.py).
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from tests.faults.living import SIGNALS, command
from tests.faults.points import INCARNATION, INSIDE, OF_MEMORY, POINTS
from tests.faults.wires import Wires, can_have_namespaces, wires
from tests.faults.worker import Task
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.core.levels.total.settings import TotalSettings
from whence.trace.gathering import gather
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, M_INC, M_PID, M_SEQ, Kind

NODES = 5
RATE = 500.0
EPISODE_FAULTS = 24
NEEDED_S = 90.0
REACHED_S, TRIES, ROUNDS = 5.0, 3, 3
"""How long an armed point may stay unreached, how many processes are tried, and how often what is left is thrown."""

REPAIRED_S = 1.5
"""Tickets survive that `k` processes end within one repair, some 15 ticket rounds; more than that is not thrown."""

RELINKED_S = 5.0
"""After a cut, connections carry on, or are made anew, within this time; until then δ is not kept."""

SETTINGS: dict[str, dict[str, object]] = {
    # What is missing is waited for longer than any fault here lasts, and everything is kept that long.
    "fifo": {"round_ns": 20_000_000, "hold_rounds": 255, "keep_bundles": 65_536, "keep_bytes": 64 << 20},
    "eventual": {"round_ns": 20_000_000, "keep_bundles": 65_536, "keep_bytes": 64 << 20},
    "causal": {"spread": "direct"},
    "causal-tree": {"spread": "tree"},
    # Rounds so short that a ticket is free again, and a stream goes on, within a second of a crash.
    "optimistic": {"round_ns": 20_000_000, "rounds": 5, "answer_ns": 50_000_000, "k": 2},
    "total": {"order": "timed", "beat_ns": 20_000_000, "delta": 500},
}
"""By level; at level causal there are two ways for a message, and both are tried."""
REMEMBERS = ("causal",)
"""Levels whose members are owed what they missed while they were down."""
SKIPS = ("optimistic", "total")
"""Levels that keep order and tell what is missing: what is published while something is wrong may be skipped or late.
At the levels that neither remember nor skip, process 0 is never killed, and sees everything."""
NEEDED = {
    "eventual": (), "fifo": ("fifo",), "causal": ("fifo", "causal"),
    "optimistic": ("optimistic_causal", "ticket_exclusivity"), "total": ("optimistic_causal", "total_order"),
}  # fmt: skip
"""Promises that the trace of each level must show to hold, beside integrity and no duplicates."""

Event = tuple[int, ...]


class Fault(NamedTuple):
    """One thing that goes wrong."""

    kind: str
    point: str = ""

    @property
    def name(self) -> str:
        """Return what it is counted as."""
        return f"{self.kind} {self.point}".strip()


class Worker:
    """One process through its lives; remembers everything it acknowledged."""

    def __init__(self, task: Task, before: list[str]) -> None:
        self.task = task
        self.stored: list[Event] = []
        self.handed: list[tuple[Event, bool]] = []
        """What its application says it was handed, and whether that was said to come again."""
        self.starts = 0
        self._before = before
        self.start()

    def start(self, die_at_start: str = "") -> None:
        """Begin a life."""
        self.joined, self.quiet = threading.Event(), threading.Event()
        given = msgspec.structs.replace(self.task, die_at_start=die_at_start)
        command = [*self._before, sys.executable, "-m", "tests.faults.worker", msgspec.json.encode(given).decode()]
        root = Path(__file__).parents[2]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        self.starts += 1
        self._reader = threading.Thread(target=self._read, args=(self.process, self.joined, self.quiet), daemon=True)
        self._reader.start()

    def _read(self, process: "subprocess.Popen[str]", joined: threading.Event, quiet: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            word, *rest = line.split()
            if word == "joined":
                joined.set()
            elif word == "quiet":
                quiet.set()
            elif word == "handed" and line.endswith("\n") and len(rest) == 4:
                self.handed.append((tuple(map(int, rest[:3])), rest[3] == "1"))
            elif line.endswith("\n") and len(rest) == 3:
                self.stored.append(tuple(map(int, rest)))
        process.stdout.close()

    def tell(self, words: str) -> None:
        """Say something to the process; it may be dead."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(words + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            pass

    def end(self, how: int = signal.SIGKILL) -> None:
        """End a life and read what it said to the last."""
        self.process.send_signal(how)
        self.process.wait(30)
        self._reader.join(30)
        if self.process.stdin is not None:
            self.process.stdin.close()


class Episode:
    """A group of five, some faults, and the judgement."""

    def __init__(self, way: str, seed: int, faults: list[Fault], laid: Wires, directory: Path) -> None:
        self.level, self.directory, self.faults = level_of(way), directory, faults
        self.done: Counter[str] = Counter()
        self._random = Random(f"{way} {seed}")
        self._wires = laid
        self._mended_at: float | None = None
        everyone = list(range(NODES))
        self.workers = []
        for pid in everyone:
            contacts = [laid.contact(other) for other in everyone if other < pid]
            place = (pid, laid.listen(pid), laid.advertise(pid), contacts, str(directory))
            task = Task(*place, self.level, everyone, RATE / NODES, SETTINGS[way], self.level not in SKIPS)
            self.workers.append(Worker(task, laid.command(pid)))

    # --- what goes wrong ---

    def run(self) -> list[str]:
        """Throw all faults, heal, judge; return what is wrong."""
        try:
            self._all_joined()
            for fault in self.faults:
                self._pause(0.05, 0.5)
                if getattr(self, f"_{fault.kind}")(fault):
                    self.done[fault.name] += 1
                self._mend_if_due()
            return self._heal_and_judge()
        finally:
            for worker in self.workers:
                worker.end()

    def _pause(self, least: float, most: float) -> None:
        time.sleep(self._random.uniform(least, most))

    def _victim(self) -> Worker:
        first = 0 if self.level in REMEMBERS + SKIPS else 1
        return self.workers[self._random.randrange(first, NODES)]

    def _writer(self) -> Worker:
        """Return a process that writes all the time: at level total only mergers do."""
        return (
            self.workers[self._random.randrange(TotalSettings().merge.mergers)]
            if self.level == "total"
            else self._victim()
        )

    def _restart(self, victim: Worker, die_at_start: str = "") -> None:
        """Start a process again; sometimes it is not waited for, so that faults meet processes that begin."""
        victim.end()
        victim.start(die_at_start)
        if not die_at_start and (self.level == "optimistic" or self._random.random() < 0.6):
            self._wait(victim, victim.joined, "to come back")
        if self.level == "optimistic":
            time.sleep(REPAIRED_S)

    def _kill(self, fault: Fault) -> bool:
        victim = self._victim()
        if self._random.random() < 0.3:  # stays down for a while
            victim.end()
            self._pause(0.2, 1.5)
        self._restart(victim)
        return True

    def _point(self, fault: Fault) -> bool:
        """Arm a point and wait until it is reached; a process that does not reach it is killed, another one tried."""
        for _ in range(TRIES):
            victim = self._writer()
            if fault.point == INCARNATION:
                self._restart(victim, INCARNATION)
            else:
                self._wait(victim, victim.joined, "to run")
                victim.tell(f"die {fault.point}")
            try:
                victim.process.wait(REACHED_S)
                return True
            except subprocess.TimeoutExpired:
                self.done["points not reached"] += 1
            finally:
                self._restart(victim)
        return False

    def _stop(self, fault: Fault) -> bool:
        victim = self._victim()
        victim.process.send_signal(signal.SIGSTOP)
        self._pause(0.1, 2.0)
        victim.process.send_signal(signal.SIGCONT)
        return True

    def _cut(self, fault: Fault) -> bool:
        self._wires.cut(self._random, list(range(NODES)))
        self._mended_at = time.monotonic() + self._random.uniform(0.2, 2.5)
        return True

    def _mend_if_due(self) -> None:
        if self._mended_at is not None and time.monotonic() > self._mended_at:
            self._wires.mend()
            self._mended_at = None

    # --- healing and judging ---

    def _wait(self, worker: Worker, event: threading.Event, what: str) -> None:
        deadline = time.monotonic() + NEEDED_S
        while not event.wait(0.1):
            self._mend_if_due()
            if worker.process.poll() is not None:
                raise TimeoutError(f"process {worker.task.pid} ended by itself; waited for {what}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {NEEDED_S:.0f} s for process {worker.task.pid}: {what}")

    def _all_joined(self) -> None:
        for worker in self.workers:
            self._wait(worker, worker.joined, "to join")

    def _heal_and_judge(self) -> list[str]:
        self._wires.mend()
        for worker in self.workers:
            if worker.process.poll() is not None:
                worker.end()
                worker.start()
        self._all_joined()
        time.sleep(RELINKED_S if self.level in SKIPS else 0.3)  # what was published before is acknowledged by now
        healed = [len(worker.stored) for worker in self.workers]
        time.sleep(0.5)  # published by all, to all, in a world without faults
        for worker in self.workers:
            worker.tell("quiet")
        for worker in self.workers:
            self._wait(worker, worker.quiet, "its last acknowledgements")
        wanted = {event for worker in self.workers for event in worker.stored}
        after = {event for worker, count in zip(self.workers, healed, strict=True) for event in worker.stored[count:]}
        missing = self._settle(wanted, after)
        for worker in self.workers:
            worker.end(signal.SIGTERM)
        wrong = [f"process {pid} never delivered {len(events)} events owed to it, such as {min(events)}"
                 for pid, events in missing.items() if events]  # fmt: skip
        self.done["acknowledged"] = len(wanted)
        self.done["acknowledged after healing"] = len(after)
        if self.level in REMEMBERS:
            wrong += [told for worker in self.workers for told in self._as_told(worker, wanted)]
        if len(after) < NODES:
            wrong.append(f"only {len(after)} events were acknowledged after healing")
        return wrong + self._verdicts(wanted)

    def _as_told(self, worker: Worker, wanted: set[Event]) -> list[str]:
        """Return what is wrong with what an application was handed in all its lives, as it told itself."""
        times = Counter(event for event, _ in worker.handed)
        said = Counter(event for event, again in worker.handed if not again)
        self.done["handed again, and said so"] += sum(again for _, again in worker.handed)
        lost, repeated = wanted - times.keys(), [event for event, count in said.items() if count > 1]
        told = [f"process {worker.task.pid} was never handed {len(lost)} events, such as {min(lost)}"] if lost else []
        if repeated:
            told.append(
                f"process {worker.task.pid} was handed {len(repeated)} events twice without a word: {repeated[:3]}"
            )
        return told

    def _settle(self, wanted: set[Event], after: set[Event]) -> dict[int, set[Event]]:
        """Wait until everybody has what it is owed; return what is missing then."""
        deadline, pause = time.monotonic() + NEEDED_S, 0.25
        while True:
            missing = self._missing(wanted, after)
            if not any(missing.values()) or time.monotonic() > deadline:
                return missing
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    def _missing(self, wanted: set[Event], after: set[Event]) -> dict[int, set[Event]]:
        delivered: dict[int, set[Event]] = {pid: set() for pid in range(NODES)}
        trace = self._trace()
        at = [COLUMNS_OF[Kind.DELIVER].index(name) for name in (M_PID, M_INC, M_SEQ)]
        for row in trace.rows[Kind.DELIVER]:
            delivered[row[0]].add(tuple(row[place] for place in at))
        owed_all = range(NODES) if self.level in REMEMBERS else range(0 if self.level in SKIPS else 1)
        return {pid: (wanted if pid in owed_all else after) - seen for pid, seen in delivered.items()}

    def _trace(self) -> Trace:
        everyone = list(range(NODES))
        durable = self.level in REMEMBERS
        return gather(
            [self.directory / "trace"], "alps", "faults", "test", durable=durable,
            groups={"alps": everyone if durable else []}, one_clock=True,
        )  # fmt: skip

    def _verdicts(self, wanted: set[Event]) -> list[str]:
        trace = self._trace()
        verdicts = judge(trace)
        held = {verdict.promise for verdict in verdicts if verdict.holds}
        at = [COLUMNS_OF[Kind.PUBLISH].index(name) for name in (M_PID, M_INC, M_SEQ)]
        published = {tuple(row[place] for place in at) for row in trace.rows[Kind.PUBLISH]}
        self.done["deliveries"] = len(trace.rows[Kind.DELIVER])
        wrong = [f"{v.promise}: {v.sentence}" for v in verdicts if v.outcome is Outcome.BROKEN]
        needed = {"integrity", "no_duplicates", *NEEDED[self.level]}
        wrong += [f"{promise} cannot be told from the trace" for promise in needed - held
                  if not any(line.startswith(promise) for line in wrong)]  # fmt: skip
        if (unknown := wanted - published) and self.level not in SKIPS:
            wrong.append(f"{len(unknown)} acknowledged events were never published, such as {min(unknown)}")
        return wrong


def level_of(way: str) -> str:
    """Return the level that a key of SETTINGS is of."""
    return way.partition("-")[0]


def planned(way: str, kills: int, at_points: int, cuts: int, stops: int, *, seed: int) -> list[Fault]:
    """Return all faults of a run, mixed."""
    level = level_of(way)
    remembers = level in REMEMBERS
    points = [point for point in POINTS if remembers or point not in OF_MEMORY]
    if level == "optimistic":
        points = []  # its members write when tickets change hands, and a point may stay unreached for minutes
    faults = [Fault("kill")] * kills + [Fault("cut")] * cuts + [Fault("stop")] * stops
    faults += [Fault("point", point) for point in points for _ in range(at_points * (4 if point == INSIDE else 1))]
    Random(seed).shuffle(faults)
    return faults


def still_to_throw(faults: list[Fault], done: Counter[str]) -> list[Fault]:
    """Return the faults that have not been thrown: at some points no process came by in time."""
    left, rest = Counter(done), []
    for fault in faults:
        if left[fault.name] > 0:
            left[fault.name] -= 1
        else:
            rest.append(fault)
    return rest


def episodes(faults: list[Fault], size: int = EPISODE_FAULTS) -> Iterator[list[Fault]]:
    """Cut the faults into episodes."""
    for start in range(0, len(faults), size):
        yield faults[start : start + size]


def main() -> int:
    """Run everything, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", choices=list(SETTINGS), default="causal")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--points", type=int, default=1, help="kills at each named persist point")
    parser.add_argument("--at", choices=POINTS, help="kills at this point only, of all that are named")
    parser.add_argument("--cuts", type=int, default=5)
    parser.add_argument("--stops", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--wires", choices=["proxies", "namespaces"], default=None)
    parser.add_argument("--episode", type=int, default=EPISODE_FAULTS, help="faults in one episode")
    parser.add_argument("--changes", type=int, default=0, help="a living group: changes of its members")
    parser.add_argument("--memory", choices=["durable", "volatile"], default="durable", help="with changes: journals?")
    parser.add_argument("--rolling", choices=list(SIGNALS), help="all machines in turn, ended by these signals")
    parser.add_argument("--hours", type=float, default=0.0, help="with changes: go on for so long, at most 3 hours")
    given = parser.parse_args()
    kind = given.wires or ("namespaces" if can_have_namespaces() else "proxies")
    if given.changes or given.rolling:
        return command(given, kind)
    began, total, failed = time.monotonic(), Counter[str](), []
    faults = planned(given.level, given.kills, given.points, given.cuts, given.stops, seed=given.seed)
    faults = [fault for fault in faults if not given.at or fault.point in ("", given.at)]
    number = 0
    for _ in range(ROUNDS):
        plan = list(episodes(still_to_throw(faults, total), given.episode))
        for part, thrown in enumerate(plan):
            wrong, done = one(given.level, given.seed + number, thrown, kind)
            total.update(done)
            number += 1
            told = f"episode {part + 1} of {len(plan)}: {dict(done)} {wrong or 'holds'}"
            print(told, file=sys.stderr, flush=True)  # noqa: T201
            if wrong:
                failed.append({"episode": number, "wrong": wrong})
    print(json.dumps({  # noqa: T201
        "faults": given.level, "seed": given.seed, "wires": kind, "nodes": NODES, "rate": RATE, "episodes": number,
        "seconds": round(time.monotonic() - began), "done": dict(sorted(total.items())), "failed": failed,
    }))  # fmt: skip
    return 1 if failed else 0


def one(way: str, seed: int, faults: list[Fault], kind: str) -> tuple[list[str], Counter[str]]:
    """Run one episode; return what is wrong and what was done. A failed one keeps its directory."""
    directory = Path(tempfile.mkdtemp(prefix="whence-faults-"))
    with wires(kind, list(range(NODES))) as laid:
        episode = Episode(way, seed, faults, laid, directory)
        try:
            wrong = episode.run()
        except TimeoutError as late:
            wrong = [str(late)]
    if wrong:
        wrong.append(f"see {directory}")
    else:
        shutil.rmtree(directory)
    return wrong, episode.done


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that processes and namespaces are taken away then too
    sys.exit(main())
