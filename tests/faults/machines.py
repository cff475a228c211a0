"""The machines of a living group as the one who treats them badly sees them: processes, disks, and what they said.

Law: what is believed of a machine is what its process said on standard output, nothing else.
"""

import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from tests.faults.member import REMOVED, Task

Event = tuple[int, ...]
"""The process, its incarnation, a number."""

RECEIPTS = ("majority", "settled")


class Membership:
    """What one member was told and handed, through the restarts that it survived."""

    def __init__(self, pid: int, joined: int, since_ns: int) -> None:
        self.pid, self.joined = pid, joined
        self.since_ns = since_ns
        """What is published after this is owed to it."""
        self.handed: list[tuple[Event, bool]] = []
        """What its application was handed, and whether that was said to come again."""
        self.published: dict[Event, int] = {}
        """Its own events, and when each call began."""
        self.told: dict[str, dict[Event, None]] = {level: {} for level in RECEIPTS}
        self.verdict: tuple[bool, Event] | None = None
        """Whether it is known how far its events count, and how far; once it heard that it was removed."""

    def __repr__(self) -> str:
        return f"member {self.pid} of view {self.joined}"


class Seen:
    """A view that a machine said it is in."""

    def __init__(self, epoch: str, latest: str, members: str, voters: str) -> None:
        self.epoch, self.latest = int(epoch), int(latest)
        self.members = {int(pid): int(joined) for pid, joined in (each.split(":") for each in members.split(","))}
        self.voters = [int(pid) for pid in voters.split(",")] if voters != "-" else []


class Machine:
    """One machine: its disk, and its process through all its lives."""

    def __init__(self, task: Task, before: list[str]) -> None:
        self.task, self.pid = task, task.pid
        self.memberships: list[Membership] = []
        self.wanted = True
        """Whether it shall be a member in the end."""
        self.restart_at: float | None = None
        """When it is started again, if it is down on purpose."""
        self.stopped_until: float | None = None
        self.down = False
        """Whether it was ended on purpose."""
        self.starts = 0
        self.refused: list[str] = []
        self._before = before
        self._is_fresh = True
        """Whether nothing of an earlier life is left on its disk."""
        self.start()

    # --- its process ---

    def start(self, die_at_start: str = "") -> None:
        """Begin a life."""
        self.joined, self.quiet, self.left = threading.Event(), threading.Event(), threading.Event()
        self.view: Seen | None = None
        self.restart_at, self.down = None, False
        given = msgspec.structs.replace(self.task, die_at_start=die_at_start)
        command = [*self._before, sys.executable, "-m", "tests.faults.member", msgspec.json.encode(given).decode()]
        root = Path(__file__).parents[2]
        with (Path(self.task.directory) / f"said-{self.pid}").open("a") as said:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, cwd=root
            )
        self.starts += 1
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()

    def end(self, how: int = signal.SIGKILL) -> None:
        """End a life, and read what it said to the last."""
        if self.stopped_until is not None:
            self.process.send_signal(signal.SIGCONT)
            self.stopped_until = None
        self.process.send_signal(how)
        self.reap()
        self.down = True

    def reap(self) -> int:
        """Wait for the end of a life, and read what it said to the last; return its exit code."""
        code = self.process.wait(60)
        self._reader.join(60)
        if self.process.stdin is not None:
            self.process.stdin.close()
        return code

    def wipe(self) -> None:
        """Take away what is on its disk."""
        shutil.rmtree(Path(self.task.directory) / f"data-{self.pid}", ignore_errors=True)
        self._is_fresh = True

    def tell(self, words: str) -> None:
        """Say something to the process; it may be dead."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(words + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            pass

    @property
    def is_up(self) -> bool:
        """Tell whether the process runs, and is a member as far as it said."""
        return self.process.poll() is None and self.joined.is_set()

    @property
    def was_removed(self) -> bool:
        """Tell whether the process ended because its member was removed."""
        return not self.down and self.process.poll() == REMOVED

    @property
    def member(self) -> Membership | None:
        """Return the member it is or was last."""
        return self.memberships[-1] if self.memberships else None

    # --- what it says ---

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # else it died in the middle
                word, *rest = line.split(maxsplit=1)
                self._take(word, rest[0].split() if rest else [])
        process.stdout.close()

    def _take(self, word: str, rest: list[str]) -> None:
        if word == "joined":
            self._begin(int(rest[0]), int(rest[1]))
            self.joined.set()
        elif word == "handed":
            self.memberships[-1].handed.append((tuple(map(int, rest[:3])), rest[3] == "1"))
        elif word == "accepted":
            self.memberships[-1].published.update(dict.fromkeys(events(rest), int(rest[4])))
        elif word in RECEIPTS:
            self.memberships[-1].told[word].update(dict.fromkeys(events(rest)))
        elif word == "view":
            self.view = Seen(*rest)
        elif word == "removed":
            if self.memberships and not self._is_fresh:
                self.memberships[-1].verdict = (rest[1] == "1", tuple(map(int, rest[2:5])))
        elif word == "quiet":
            self.quiet.set()
        elif word == "left":
            self.left.set()
        elif word == "refused":
            self.refused.append(" ".join(rest))

    def _begin(self, joined: int, now_ns: int) -> None:
        """Take note of the member that the process is now: the one it was, or another one."""
        former = self.member
        goes_on = self.task.durable and not self._is_fresh and former is not None and former.joined == joined
        if not goes_on or former is None:
            founder = joined == 0
            self.memberships.append(Membership(self.pid, joined, 0 if founder else now_ns))
        self._is_fresh = False


def events(rest: list[str]) -> list[Event]:
    """Return the events that a line names: process, incarnation, first number and how many."""
    pid, incarnation, first, count = map(int, rest[:4])
    return [(pid, incarnation, seq) for seq in range(first, first + count)]
