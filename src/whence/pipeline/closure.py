"""True happened-before, closed over publications and deliveries alone; stamps are never looked at.

What a process knows of another is always a beginning of what that one published, because whoever knows an event knows
everything its publisher published before it. So the past of an event is a short vector: how many events of each
publishing process come before it. One run is closed at a time, in memory, reading four numbers per publication and
delivery: all lines are walked at once, and a delivery waits until its event's past is known. Where everyone waits, the
trace tells of an effect before its cause; one delivery is then passed over, and noted, so that the walk always ends.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Process: TypeAlias = tuple[int, int]


class Step(NamedTuple):
    """A publication or delivery in a process's program order."""

    event: int
    is_publish: bool
    inc: int
    ev: int
    is_first: bool
    """False for repeated deliveries."""


class Closure:
    """The past of every event of a run, as vectors."""

    def __init__(self, lines: dict[Process, list[Step]], events: int) -> None:
        """Close happened-before over the lines; events are numbered from 0."""
        self.past: list[list[int] | None] = [None] * events
        """By event, how many events of each slot come before it; None for those nobody could have published."""
        self.slot = [-1] * events
        self.place = [-1] * events
        """Whose how-many-eth event it is."""
        self.of_slot: list[list[int]] = []
        self.impossible: list[tuple[Process, int]] = []
        self._walk(lines)

    def precedes(self, event: int, other: int) -> bool:
        """Tell whether an event is in the past of another."""
        past = self.past[other]
        return past is not None and self.slot[event] >= 0 and past[self.slot[event]] > self.place[event]

    def _walk(self, lines: dict[Process, list[Step]]) -> None:
        publishing = [process for process, line in lines.items() if any(step.is_publish for step in line)]
        self.of_slot = [[] for _ in publishing]
        slots = {process: slot for slot, process in enumerate(publishing)}
        walks = {
            process: _Walk(line, slots.get(process, -1), len(publishing)) for process, line in sorted(lines.items())
        }
        waiting: dict[int, list[Process]] = {}
        ready = list(reversed(walks))
        while True:
            while ready:
                process = ready.pop()
                awaited = walks[process].advance(self, ready, waiting)
                if awaited is not None:
                    waiting.setdefault(awaited, []).append(process)
            if not waiting:
                return
            event = next(iter(waiting))
            process = waiting[event].pop(0)
            if not waiting[event]:
                del waiting[event]
            self.impossible.append((process, event))
            walks[process].next += 1
            ready.append(process)


class _Walk:
    """How far one process's line is walked, and what the process knows there."""

    def __init__(self, line: Sequence[Step], slot: int, slots: int) -> None:
        self.next = 0
        self._line = line
        self._slot = slot
        self._known = [0] * slots

    def advance(self, closure: Closure, ready: list[Process], waiting: dict[int, list[Process]]) -> int | None:
        """Walk on; return the event that must be published first, or None at the end of the line."""
        known, line, end = self._known, self._line, len(self._line)
        while self.next < end:
            event, is_publish = line[self.next][:2]
            slot = closure.slot[event]
            if slot < 0:
                if not is_publish:
                    return event
                self._publish(closure, event)
                ready += waiting.pop(event, ())
            elif known[slot] <= closure.place[event]:
                self._learn(closure.past[event] or (), slot, closure.place[event])
            self.next += 1
        return None

    def _publish(self, closure: Closure, event: int) -> None:
        mine = closure.of_slot[self._slot]
        closure.past[event] = self._known.copy()
        closure.slot[event], closure.place[event] = self._slot, len(mine)
        mine.append(event)
        self._known[self._slot] = len(mine)

    def _learn(self, past: Sequence[int], slot: int, place: int) -> None:
        known = self._known
        for at, count in enumerate(past):
            if count > known[at]:
                known[at] = count
        known[slot] = place + 1
