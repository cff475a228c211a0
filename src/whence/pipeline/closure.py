"""True happened-before, closed over publications and deliveries alone; stamps are never looked at.

What a process knows of another is always a beginning of what that one published, because whoever knows an event knows
everything its publisher published before it. So the past of an event is a short vector: how many events of each
publishing process come before it.

An event rests on the one its publisher published before it and on what that process delivered in between. Events that
rest on each other (Tarjan 1972: strongly connected components) cannot all have been: between them, deliveries count for
nothing, and are noted as impossible. Components come out with those they rest on first, so that one look at every event
closes the run, in memory and in time linear in the deliveries, times the publishers.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Process: TypeAlias = tuple[int, int]

NONE = -1


class Step(NamedTuple):
    """An event's publication, or a process's first delivery of it, in program order."""

    event: int
    is_publish: bool
    inc: int
    ev: int


class Closure:
    """The past of every event of a run, as vectors."""

    def __init__(self, lines: dict[Process, list[Step]], events: int) -> None:
        """Close happened-before over the lines; events are numbered from 0 and each is published in one line."""
        self.slot = [NONE] * events
        self.place = [NONE] * events
        """By event, its publisher's slot, and its index among that publisher's events."""
        self.of_slot: list[list[int]] = []
        self.past: list[list[int]] = [[]] * events
        """By event, how many events of each slot come before it."""
        self.impossible: list[tuple[Process, int]] = []
        self._heard: list[list[int]] = [[]] * events
        """What each event's publisher delivered since it published the one before."""
        self._read(lines)
        rank = [NONE] * events
        for number, component in enumerate(self._components()):
            for event in component:
                rank[event] = number
            for event in sorted(component, key=lambda event: self.place[event]):
                self.past[event] = self._past_of(event, rank)
        self._note_impossible(lines, rank)

    def _read(self, lines: dict[Process, list[Step]]) -> None:
        for _, line in sorted(lines.items()):
            mine: list[int] = []
            heard: list[int] = []
            for step in line:
                if not step.is_publish:
                    heard.append(step.event)
                    continue
                self.slot[step.event], self.place[step.event] = len(self.of_slot), len(mine)
                self._heard[step.event], heard = heard, []
                mine.append(step.event)
            if mine:
                self.of_slot.append(mine)

    def _rests_on(self, event: int) -> list[int]:
        heard, place = self._heard[event], self.place[event]
        return [*heard, self.of_slot[self.slot[event]][place - 1]] if place else heard

    def _components(self) -> list[list[int]]:
        """Return the events in components that rest on each other, each after those that it rests on."""
        search = _Search(len(self.slot))
        for root in range(len(self.slot)):
            if search.seen[root] == NONE:
                self._search_from(root, search)
        return search.found

    def _search_from(self, root: int, search: "_Search") -> None:
        trail = [(root, iter(self._rests_on(root)))]
        search.enter(root)
        while trail:
            event, rest = trail[-1]
            fresh = next((other for other in rest if search.is_fresh(event, other)), NONE)
            if fresh != NONE:
                search.enter(fresh)
                trail.append((fresh, iter(self._rests_on(fresh))))
                continue
            trail.pop()
            search.leave(event, trail[-1][0] if trail else NONE)

    def _past_of(self, event: int, rank: Sequence[int]) -> list[int]:
        slot, place = self.slot[event], self.place[event]
        if place:
            known = self.past[self.of_slot[slot][place - 1]].copy()
            known[slot] = place
        else:
            known = [0] * len(self.of_slot)
        for other in self._heard[event]:
            if rank[other] == rank[event] or known[self.slot[other]] > self.place[other]:
                continue
            for at, count in enumerate(self.past[other]):
                if count > known[at]:
                    known[at] = count
            known[self.slot[other]] = self.place[other] + 1
        return known

    def _note_impossible(self, lines: dict[Process, list[Step]], rank: Sequence[int]) -> None:
        if len(set(rank)) == len(rank) and not any(event in heard for event, heard in enumerate(self._heard)):
            return
        for process, line in sorted(lines.items()):
            for step in line:
                if step.is_publish:
                    heard = self._heard[step.event]
                    circular = [other for other in heard if rank[other] == rank[step.event]]
                    self.impossible += [(process, other) for other in circular]


class _Search:
    """A depth-first search for components: when each event was entered, and how far back it leads."""

    def __init__(self, events: int) -> None:
        self.seen, self._low, self._is_open = [NONE] * events, [0] * events, bytearray(events)
        self._stack: list[int] = []
        self._clock = 0
        self.found: list[list[int]] = []

    def enter(self, event: int) -> None:
        self.seen[event] = self._low[event] = self._clock
        self._clock += 1
        self._stack.append(event)
        self._is_open[event] = 1

    def is_fresh(self, event: int, other: int) -> bool:
        """Return whether an event that another rests on was not entered yet; if it is open, they may be in a circle."""
        if self.seen[other] == NONE:
            return True
        if self._is_open[other] and self.seen[other] < self._low[event]:
            self._low[event] = self.seen[other]
        return False

    def leave(self, event: int, back_to: int) -> None:
        """Go back; where nothing leads further back than here, a component is complete."""
        low = self._low
        if back_to != NONE and low[event] < low[back_to]:
            low[back_to] = low[event]
        if low[event] < self.seen[event]:
            return
        component: list[int] = []
        while not component or component[-1] != event:
            component.append(self._stack.pop())
            self._is_open[component[-1]] = 0
        self.found.append(component)
