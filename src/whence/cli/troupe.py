"""The live part of the demo: eight real processes on loopback, two of them killed, the network parted, all judged.

The same oracles as for the simulator, from what the processes wrote down themselves. Bounded: every wait has its end.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from whence import __version__
from whence.check.judge import judge
from whence.check.verdict import Verdict
from whence.cli.player import SETTINGS, Part
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

QUIETLY = ("-W", "ignore::RuntimeWarning:runpy")
"""The package has imported the module that is run, which is harmless here."""
NODES = 8
COORDINATOR, INNER = 2, 1
"""Who is killed: a coordinator of the cluster, and an inner node of the tree, which is a merger too."""
FAR = (5, 6, 7)
"""Who is parted from the rest for a while."""
WRITERS = {
    "eventual": list(range(NODES)), "fifo": list(range(NODES)), "optimistic": [0, 1, COORDINATOR],
    "causal": list(range(NODES)), "total": list(range(NODES)),
}  # fmt: skip
HEAL_S, LIVE_S, REST_S = 3.0, 1.5, 15.0
"""After the last fault: until everything works again; how long events are then published that everybody is owed; and
how long they may take."""

REACH_MIN = 0.95
"""Of what is owed, at levels that do not promise everything: what a busy machine makes late is skipped, and told."""


class Player:
    """One process through its lives."""

    def __init__(self, part: Part) -> None:
        self._command = [sys.executable, *QUIETLY, "-m", "whence.cli.player", msgspec.json.encode(part).decode()]
        self._log = Path(part.directory) / f"process-{part.pid}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        """Begin a life."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def joined(self) -> None:
        """Wait until it is a member of every group. Raises JoinError."""
        if not _open(self._process.stdout).readline():
            raise JoinError(f"a process of the live demo ended before it had joined; {self._log} says why")

    def quiet(self) -> None:
        """Let it publish no more."""
        with contextlib.suppress(OSError):
            _open(self._process.stdin).write(b"quiet\n")
            _open(self._process.stdin).flush()

    def end(self, *, kill: bool = False) -> None:
        """End a life: at once, or after everything was written down."""
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


def perform(into: Path, advance: Callable[[float, str], None]) -> dict[str, tuple[Trace, list[Verdict], str]]:
    """Play the whole piece; return each level's trace, verdicts and where the trace was written. Raises JoinError."""
    directory = into / "live"
    pids = list(range(NODES))
    proxies = Proxies(pids)
    players: list[Player] = []
    try:
        for pid in pids:
            contacts = [proxies.advertise(other) for other in pids if other < pid]
            place = (pid, proxies.listen(pid), proxies.advertise(pid), contacts)
            players.append(Player(Part(*place, str(directory), pids, WRITERS)))
        for player in players:
            player.joined()
        advance(0.3, "all publish at every level")
        time.sleep(2.0)
        advance(0.4, f"process {COORDINATOR}, a coordinator, and {INNER}, an inner node of the tree, are killed")
        for pid in (COORDINATOR, INNER):
            players[pid].end(kill=True)
        time.sleep(1.0)
        for pid in (COORDINATOR, INNER):
            players[pid].start()
        for pid in (COORDINATOR, INNER):
            players[pid].joined()
        advance(0.6, f"processes {', '.join(map(str, FAR))} are parted from the rest")
        proxies.starve(between(FAR, [pid for pid in pids if pid not in FAR]))
        time.sleep(1.5)
        proxies.mend()
        healed = time.monotonic()
        advance(0.7, "the network is whole again")
        time.sleep(HEAL_S + LIVE_S)
        for player in players:
            player.quiet()
        advance(0.8, "everybody gets what is owed")
        _rest(directory)
    finally:
        for player in players:
            player.end()
        proxies.close()
    advance(0.9, "judging")
    return {level: _judged(into, directory, level, time.monotonic() - healed) for level in WRITERS}


def _judged(into: Path, directory: Path, level: str, healed_ago_s: float) -> tuple[Trace, list[Verdict], str]:
    from whence.trace.writer import write_trace

    heal_at = wall_ns() - int(healed_ago_s * SECOND_NS)
    live_from = heal_at + int(HEAL_S * SECOND_NS)
    live_until = live_from + int(LIVE_S * SECOND_NS)
    trace = _trace(directory, level, Phases(heal_at, live_from, live_until, int(REST_S * SECOND_NS)))
    return trace, judge(trace), str(write_trace(into, trace))


def _trace(directory: Path, level: str, phases: Phases | None = None) -> Trace:
    """Return what was written down; all processes are on one machine, which has one clock."""
    durable = level == "causal"
    members = {level: list(range(NODES)) if durable else []}
    given = settings_of(level, range(NODES), SETTINGS.get(level, {}))
    return gather(
        [directory / "spools"], level, f"live-{level}", __version__, durable=durable, groups=members, phases=phases,
        one_clock=True, reach_min=1.0 if durable else REACH_MIN, parameters=by_name(LEVELS[level].settings_from(given)),
    )  # fmt: skip


def _rest(directory: Path) -> None:
    """Wait until everything published at the level that owes it to all has reached all, for some seconds at most."""
    deadline = time.monotonic() + REST_S
    while time.monotonic() < deadline:
        time.sleep(1.0)
        rows = _trace(directory, "causal").rows
        if len(rows[Kind.DELIVER]) >= NODES * len(rows[Kind.PUBLISH]):
            return


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
