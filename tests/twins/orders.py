"""Deliberately simple orders: they keep everything, search everything, and know single events only."""

from dataclasses import dataclass, field

from whence.limits import Limits
from whence.types import Bundle, Process


@dataclass
class DumbSeen:
    """The numbers seen, as the set it is."""

    runs_max: int
    numbers: set[int] = field(default_factory=set)

    def add(self, first: int, last: int) -> bool:
        wanted = set(range(first, last + 1))
        if wanted & self.numbers:
            return False
        self.numbers |= wanted
        if len(self.runs()) > self.runs_max:
            _, last_of_second = self.runs()[1]
            self.numbers |= set(range(1, last_of_second + 1))
        return True

    def runs(self) -> list[tuple[int, int]]:
        starts = sorted(number for number in self.numbers if number - 1 not in self.numbers)
        ends = sorted(number for number in self.numbers if number + 1 not in self.numbers)
        return list(zip(starts, ends, strict=True))


@dataclass
class Waiting:
    """A bundle that waits, with the time and the place in line it has had since it came."""

    bundle: Bundle
    since: int
    place: int


Outcome = tuple[str, Process, list[int]]
"""delivered, gap or dropped; whose events; their numbers."""


class DumbFifo:
    """Each sender's events in order: sort what waits, look for what is next, again and again."""

    def __init__(self, me: Process, limits: Limits, hold_ns: int) -> None:
        self.limits, self.hold_ns = limits, hold_ns
        self.past: dict[Process, int] = {me: 0}
        """The last event delivered or skipped of every life that is open."""
        self.closed: set[Process] = set()
        self.waiting: list[Waiting] = []
        self.arrivals = 0

    def admit(self, bundle: Bundle, now: int) -> list[Outcome]:
        out: list[Outcome] = []
        process = bundle.process
        numbers = list(range(bundle.first, bundle.last + 1))
        if process not in self.past and not self._open(process, now, out):
            return [("dropped", process, numbers)]
        self.arrivals += 1
        if bundle.last <= self.past[process] or any(each.bundle == bundle for each in self.waiting):
            return [("dropped", process, numbers)]
        self.waiting.append(Waiting(bundle, now, self.arrivals))
        self._deliver_what_is_next(process, out)
        while (
            len(self.waiting) > self.limits.held_bundles_max
            or sum(len(each.bundle.body) for each in self.waiting) > self.limits.held_bytes_max
        ):
            self._give_up(min(self.waiting, key=lambda each: each.place), out)
        return out

    def tick(self, now: int) -> list[Outcome]:
        out: list[Outcome] = []
        while overdue := [each for each in self.waiting if each.since + self.hold_ns <= now]:
            self._give_up(min(overdue, key=lambda each: each.place), out)
        return out

    def wake_at(self) -> int | None:
        return min((each.since + self.hold_ns for each in self.waiting), default=None)

    def _open(self, process: Process, now: int, out: list[Outcome]) -> bool:
        lives = sorted(life for life in self.past if life.pid == process.pid)
        refused = process in self.closed or any(
            process.incarnation < gone.incarnation for gone in self.closed if gone.pid == process.pid
        )
        crowded = len(lives) == self.limits.incarnations_per_sender_max
        if refused or (crowded and process < lives[0]):
            return False
        if not lives and len({life.pid for life in self.past}) == self.limits.senders_max:
            return False
        if crowded:
            for each in sorted((each for each in self.waiting if each.bundle.process == lives[0]), key=_first):
                if each in self.waiting:
                    self._give_up(each, out)
            del self.past[lives[0]]
            self.closed.add(lives[0])
        self.past[process] = 0
        return True

    def _give_up(self, overdue: Waiting, out: list[Outcome]) -> None:
        process = overdue.bundle.process
        while overdue in self.waiting:
            nearest = min((each for each in self.waiting if each.bundle.process == process), key=_first)
            out.append(("gap", process, list(range(self.past[process] + 1, nearest.bundle.first))))
            self.past[process] = nearest.bundle.first - 1
            self._deliver_what_is_next(process, out)

    def _deliver_what_is_next(self, process: Process, out: list[Outcome]) -> None:
        for each in sorted(self.waiting, key=_first):
            if each.bundle.process == process and each.bundle.first == self.past[process] + 1:
                out.append(("delivered", process, list(range(each.bundle.first, each.bundle.last + 1))))
                self.past[process] = each.bundle.last
                self.waiting.remove(each)


def _first(each: Waiting) -> int:
    return each.bundle.first
