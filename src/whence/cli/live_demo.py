"""The live part of the demo: eight real processes on loopback. Two are killed and come back, one is lost for good and
replaced, the network is partitioned, and all is judged.

The oracles are those of the simulator; they judge what the processes recorded. Every wait has a limit.
"""

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from whence import __version__
from whence.check.diagrams.views import view_diagram
from whence.check.judge import judge
from whence.check.verdict import Verdict
from whence.cli.demo_replacement import Replacement, replacement_facts
from whence.cli.demo_worker import SETTINGS, WorkerConfig, data_of
from whence.core.level import remembers
from whence.core.registry import LEVELS
from whence.core.settings import by_name
from whence.errors import JoinError
from whence.net.clock import wall_ns
from whence.net.proxy import Proxies, between
from whence.net.settings import settings_of
from whence.sim.scenario import SECOND_NS
from whence.trace.gathering import gather
from whence.trace.memory import Phases, Trace
from whence.trace.schema import Kind
from whence.types import EventId

IGNORED_WARNINGS = ("-W", "ignore::RuntimeWarning:runpy")
"""runpy warns that the package has imported the module that is run, which is harmless here."""
NODES = 8
COORDINATOR, INNER = 2, 1
"""Processes that are killed: a coordinator of the cluster, and an inner node of the tree, which is a merger too."""
LOST = 4
"""The process whose machine dies for good: another one with an empty disk takes its place."""
CUT_OFF = (5, 6, 7)
"""Processes that are cut off from the rest for a while."""
PUBLISHERS = {
    "eventual": list(range(NODES)), "fifo": list(range(NODES)), "optimistic": [0, 1, COORDINATOR],
    "causal": list(range(NODES)), "total": list(range(NODES)),
}  # fmt: skip
CALM_S, UNNOTICED_S = 2.0, 0.5
"""How long all goes well at first, and how long nobody knows that a machine is lost."""
HEAL_S, LIVE_S, DEADLINE_S = 3.0, 1.5, 15.0
"""After the last fault: until everything works again, how long the liveness phase lasts, and its deadline."""

REACH_MIN = 0.95
"""The part of the expected deliveries at levels that may skip: a busy machine makes some events late."""


class WorkerProcess:
    """A worker through its incarnations."""

    def __init__(self, config: WorkerConfig) -> None:
        self._command = [
            sys.executable,
            *IGNORED_WARNINGS,
            "-m",
            "whence.cli.demo_worker",
            msgspec.json.encode(config).decode(),
        ]
        self._log = Path(config.directory) / f"process-{config.pid}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        """Start an incarnation."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def wait_until_joined(self) -> None:
        """Wait until it is a member of every group. Raises JoinError."""
        if not _open(self._process.stdout).readline():
            raise JoinError(f"a process of the live demo ended before it had joined; {self._log} says why")

    def remove(self, pid: int) -> None:
        """Let it remove a process from every group that has views, and wait until that is out. Raises JoinError."""
        self._say(b"remove %d\n" % pid)
        if not _open(self._process.stdout).readline():
            raise JoinError(f"process {pid} of the live demo could not be removed; {self._log} says why")

    def stop_publishing(self) -> None:
        """Tell it to publish no more."""
        with contextlib.suppress(OSError):
            self._say(b"stop\n")

    def _say(self, line: bytes) -> None:
        _open(self._process.stdin).write(line)
        _open(self._process.stdin).flush()

    def end(self, *, kill: bool = False) -> None:
        """End the incarnation: at once, or after everything was recorded."""
        if kill:
            self._process.kill()
        with contextlib.suppress(OSError):
            _open(self._process.stdin).close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        _open(self._process.stdout).close()


class LiveResult(Struct, frozen=True):
    """What became of one level's group."""

    trace: Trace
    verdicts: list[Verdict]
    path: str
    """Where the trace was written."""
    facts: dict[str, str]
    """What a lost machine meant to the others."""
    picture: Path | None
    """The group over time, where it has views."""


def run_live_demo(into: Path, advance: Callable[[float, str], None]) -> dict[str, LiveResult]:
    """Run the live demo; return what became of each level's group. Raises JoinError."""
    directory = into / "live"
    if directory.exists():
        shutil.rmtree(directory)  # groups of an earlier demo would come back from its journals
    pids = list(range(NODES))
    proxies = Proxies(pids)
    workers: list[WorkerProcess] = []
    try:
        for pid in pids:
            contacts = [proxies.advertise(other) for other in pids if other < pid]
            place = (pid, proxies.listen(pid), proxies.advertise(pid), contacts)
            workers.append(WorkerProcess(WorkerConfig(*place, str(directory), pids, PUBLISHERS)))
        for worker in workers:
            worker.wait_until_joined()
        advance(0.2, "all publish at every level")
        time.sleep(CALM_S)
        calm_until = wall_ns()
        advance(0.3, f"process {COORDINATOR}, a coordinator, and {INNER} are killed, and come back")
        for pid in (COORDINATOR, INNER):
            workers[pid].end(kill=True)
        time.sleep(1.0)
        for pid in (COORDINATOR, INNER):
            workers[pid].start()
        for pid in (COORDINATOR, INNER):
            workers[pid].wait_until_joined()
        replaced = _lose_a_machine(workers, directory, calm_until, advance)
        advance(0.6, f"processes {', '.join(map(str, CUT_OFF))} are cut off from the rest")
        proxies.starve(between(CUT_OFF, [pid for pid in pids if pid not in CUT_OFF]))
        time.sleep(1.5)
        proxies.mend()
        healed = time.monotonic()
        advance(0.7, "the network is whole again")
        time.sleep(HEAL_S + LIVE_S)
        for worker in workers:
            worker.stop_publishing()
        advance(0.8, "everybody gets what is missing")
        _wait_for_deliveries(directory)
    finally:
        for worker in workers:
            worker.end()
        proxies.close()
    advance(0.9, "judging")
    return {level: _judged(into, directory, level, time.monotonic() - healed, replaced) for level in PUBLISHERS}


def _lose_a_machine(
    workers: list[WorkerProcess], directory: Path, calm_until: int, advance: Callable[[float, str], None]
) -> Replacement:
    """Kill a process for good, with its disk; let another one remove it, and an empty machine take its place."""
    advance(0.4, f"process {LOST} dies for good, and its disk with it")
    workers[LOST].end(kill=True)
    died = wall_ns()
    shutil.rmtree(data_of(str(directory), LOST))
    time.sleep(UNNOTICED_S)
    advance(0.45, f"process {LOST} is removed, and all others go on")
    workers[0].remove(LOST)
    removed = wall_ns()
    advance(0.5, f"an empty machine takes the place of process {LOST}")
    workers[LOST].start()
    workers[LOST].wait_until_joined()
    calm = calm_until - int(CALM_S * SECOND_NS), calm_until
    return Replacement(LOST, calm, died, removed, wall_ns())


def _judged(into: Path, directory: Path, level: str, healed_ago_s: float, replaced: Replacement) -> LiveResult:
    from whence.trace.writer import write_trace

    heal_at = wall_ns() - int(healed_ago_s * SECOND_NS)
    live_from = heal_at + int(HEAL_S * SECOND_NS)
    live_until = live_from + int(LIVE_S * SECOND_NS)
    trace = _trace(directory, level, Phases(heal_at, live_from, live_until, int(DEADLINE_S * SECOND_NS)))
    picture = None
    if any(row["epoch"] is not None for row in trace.records(Kind.VIEW)):
        picture = into / f"views-{level}.svg"
        picture.write_text(view_diagram(trace), encoding="utf-8")
    facts = replacement_facts(trace, replaced)
    return LiveResult(trace, judge(trace), str(write_trace(into, trace)), facts, picture)


def _trace(directory: Path, level: str, phases: Phases | None = None) -> Trace:
    """Return the trace so far; all processes are on one machine, which has one clock."""
    settings = _settings(level)
    durable = remembers(LEVELS[level], settings)
    members = {level: list(range(NODES)) if durable else []}
    return gather(
        [directory / "spools"], level, f"live-{level}", __version__, durable=durable, groups=members, phases=phases,
        one_clock=True, reach_min=1.0 if durable else REACH_MIN, parameters=by_name(settings),
    )  # fmt: skip


def _settings(level: str) -> Any:
    """Return the settings that a level's group is opened with."""
    return LEVELS[level].settings_from(settings_of(level, range(NODES), SETTINGS.get(level, {}), data=True))


def _wait_for_deliveries(directory: Path) -> None:
    """Wait until events at durable levels, which skip nothing, have reached all; for DEADLINE_S at most."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        time.sleep(1.0)
        traces = [_trace(directory, level) for level in PUBLISHERS if remembers(LEVELS[level], _settings(level))]
        if all(map(_have_the_last, traces)):
            return


def _have_the_last(trace: Trace) -> bool:
    """Tell whether every process was handed the last event of each: it was handed all before, then, that are for it."""
    last: dict[int, EventId] = {}
    for row in trace.records(Kind.PUBLISH):
        event = EventId(row["m_pid"], row["m_inc"], row["m_seq"])
        last[event.pid] = max(event, last.get(event.pid, event))
    handed = {(row["node"], EventId(row["m_pid"], row["m_inc"], row["m_seq"])) for row in trace.records(Kind.DELIVER)}
    return all((node, event) in handed for node in trace.run.nodes for event in last.values())


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
