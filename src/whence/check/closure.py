"""Happened-before closed over the lines of all processes: the past of an event is one int with a bit per event.

One OR per delivery. All lines are walked at once, and a delivery waits until its event's past is known. When all lines
wait, the trace has an effect before its cause: deliveries of events that follow them are skipped and noted; without
them the walk always ends.
"""

from collections.abc import Iterator
from typing import TypeAlias

Process: TypeAlias = tuple[int, int]
"""(node, incarnation), with ALL_INCARNATIONS where the node remembers across crashes."""

Steps: TypeAlias = list[tuple[int, bool]]
"""A process's line as (event, is this its publication): publications, and the first deliveries of published events."""

NO_EVENT = -1


def close(lines: dict[Process, Steps], events: int) -> tuple[list[int], list[tuple[Process, int]]]:
    """Return the past of every event, and the deliveries (process, event) that no order of the steps allows."""
    past: list[int] = [0] * events
    known: list[int | None] = [None] * events
    walks = {process: _Walk(line) for process, line in lines.items()}
    if _all_walked(walks, past, known):
        return past, []
    impossible = _circular({process: walk.left() for process, walk in walks.items()})
    for process, walk in walks.items():
        walk.pass_over(dict.fromkeys(impossible[process], True))
    walked = _all_walked(walks, past, known)
    assert walked
    return past, [(process, event) for process, found in impossible.items() for event in found]


def _all_walked(walks: dict[Process, "_Walk"], past: list[int], known: list[int | None]) -> bool:
    """Walk every line as far as it goes; tell whether all came to their end."""
    waiting: dict[int, list[Process]] = {}
    ready = list(reversed(walks))
    while ready:
        process = ready.pop()
        awaited = walks[process].advance(past, known, ready, waiting)
        if awaited != NO_EVENT:
            waiting.setdefault(awaited, []).append(process)
    return not waiting


def _circular(lines: dict[Process, Steps]) -> dict[Process, list[int]]:
    """Return, per process, the deliveries of events that follow them, in lines that wait for each other.

    What follows an event is a mask that grows until nothing changes: the next publication of everyone who delivered
    it, of its publisher, and all that follows these.
    """
    leads_to: dict[int, list[int]] = {}
    deliveries: list[tuple[Process, int, int]] = []
    for process, line in lines.items():
        upcoming = NO_EVENT
        for event, is_publish in reversed(line):
            leads_to.setdefault(event, []).append(upcoming)
            if is_publish:
                upcoming = event
            else:
                deliveries.append((process, event, upcoming))
    reach = {event: 1 << event for event in leads_to}
    changed = True
    while changed:
        changed = False
        for event, following in leads_to.items():
            wider = reach[event]
            for other in following:
                wider |= reach.get(other, 0)
            changed |= wider != reach[event]
            reach[event] = wider
    found: dict[Process, list[int]] = {process: [] for process in lines}
    for process, event, upcoming in reversed(deliveries):
        if reach.get(upcoming, 0) >> event & 1:
            found[process].append(event)
    return found


class _Walk:
    """How far the closure has come on one process's line, and what the process knows there."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._next = 0
        self._known = 0

    def left(self) -> Steps:
        """Return the steps that are not walked yet."""
        return self._steps[self._next :]

    def pass_over(self, deliveries: dict[int, bool]) -> None:
        """Leave out some deliveries of what is not walked yet."""
        left = [step for step in self.left() if step[1] or step[0] not in deliveries]
        self._steps, self._next = left, 0

    def advance(
        self, past: list[int], known: list[int | None], ready: list[Process], waiting: dict[int, list[Process]]
    ) -> int:
        """Walk on; return the event that must be published first, or NO_EVENT at the end of the line."""
        mine, steps, place, end = self._known, self._steps, self._next, len(self._steps)
        awaited = NO_EVENT
        while place < end:
            event, is_publish = steps[place]
            reach = known[event]
            if reach is None:
                if not is_publish:
                    awaited = event
                    break
                past[event] = mine
                reach = known[event] = mine | 1 << event
                if event in waiting:
                    ready += waiting.pop(event)
            mine |= reach
            place += 1
        self._known, self._next = mine, place
        return awaited


def bits(mask: int) -> Iterator[int]:
    """Yield the events in a mask, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
