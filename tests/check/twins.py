"""Deliberately dumb twins of the oracles: each promise as its definition says it, all pairs, no cleverness.

They read the rows of a trace on their own and share nothing with the oracles but the rules of membership, which the
random executions keep simple: a process is a member from its founding or its join row on.
"""

from itertools import combinations, product
from typing import Any, TypeAlias

from whence.trace.memory import Trace
from whence.trace.schema import Kind

Process: TypeAlias = tuple[int, int]
Event: TypeAlias = tuple[str, int, int, int]
Step: TypeAlias = dict[str, Any]


def event_of(row: Step) -> Event:
    return row["grp"], row["m_pid"], row["m_inc"], row["m_seq"]


class Twin:
    """A run, read in the plainest way."""

    def __init__(self, trace: Trace) -> None:
        self.founders = trace.run.groups
        steps = [row | {"kind": kind} for kind in Kind for row in trace.records(kind)]
        self.lines: dict[Process, list[Step]] = {}
        for step in sorted(steps, key=lambda step: (step["node"], step["inc"], step["ev"])):
            self.lines.setdefault((step["node"], step["inc"]), []).append(step)
        self.published = {event_of(row): row for row in trace.records(Kind.PUBLISH)}
        self.deliveries = {
            process: [event_of(step) for step in line if step["kind"] is Kind.DELIVER]
            for process, line in self.lines.items()
        }
        self.first = {process: list(dict.fromkeys(events)) for process, events in self.deliveries.items()}

    def past(self, event: Event) -> set[Event]:
        """Return every event that can be reached backwards over program order and deliveries."""
        found: set[Event] = set()
        seen: set[tuple[int, int, int]] = set()
        todo = [self.published[event]]
        while todo:
            step = todo.pop()
            for earlier in self.lines[step["node"], step["inc"]]:
                place = (earlier["node"], earlier["inc"], earlier["ev"])
                if earlier["ev"] >= step["ev"] or earlier["kind"] not in (Kind.PUBLISH, Kind.DELIVER) or place in seen:
                    continue
                seen.add(place)
                found.add(event_of(earlier))
                todo.append(self.published[event_of(earlier)])
        return found

    def is_meant_for(self, event: Event, process: Process) -> bool:
        row = self.published[event]
        if row["dests"] is not None and process[0] not in row["dests"]:
            return False
        if process[1] == 1 and process[0] in self.founders[event[0]]:
            return True
        joins = [step for step in self.lines[process] if step["kind"] is Kind.JOIN]
        return any(step["t_true"] <= row["t_true"] for step in joins)

    def duplicates(self) -> int:
        return sum(len(self.deliveries[process]) - len(self.first[process]) for process in self.lines)

    def causal(self) -> set[tuple[Process, Event]]:
        """Return (process, cause): an effect was delivered there, and the cause not before."""
        broken = set()
        for process, events in self.first.items():
            own = {event for event in self.published if event[1:3] == process}
            for place, effect in enumerate(events):
                lacking = self.past(effect) - set(events[:place]) - own
                broken |= {
                    (process, cause) for cause in lacking if cause in events or self.is_meant_for(cause, process)
                }  # fmt: skip
        return broken

    def optimistic(self) -> set[tuple[Process, Event]]:
        """Return (process, event): it was delivered after one that follows it, or after it was given up."""
        broken = set()
        for process, events in self.first.items():
            for early, late in combinations(events, 2):
                if late in self.past(early):
                    broken.add((process, late))
        return broken | self.taken_back()

    def taken_back(self) -> set[tuple[Process, Event]]:
        broken = set()
        for process, line in self.lines.items():
            for gap, step in product(line, line):
                if gap["kind"] is not Kind.GAP or step["kind"] is not Kind.DELIVER or gap["ev"] > step["ev"]:
                    continue
                first = next(s for s in line if s["kind"] is Kind.DELIVER and event_of(s) == event_of(step))
                if first is step and event_of(step)[1:] in gap["ids"]:
                    broken.add((process, event_of(step)))
        return broken

    def fifo(self) -> bool:
        """Tell whether the promise is broken anywhere."""
        return bool(self.taken_back()) or any(self._out_of_order(process) for process in self.lines)

    def _out_of_order(self, process: Process) -> bool:
        events, line = self.first[process], self.lines[process]
        if any(one[:3] == two[:3] and one[3] > two[3] for one, two in combinations(events, 2)):
            return True
        began = process[1] == 1 and process[0] in self.founders["g"]
        joined = [step["ev"] for step in line if step["kind"] is Kind.JOIN]
        for effect, skipped in product(events, self.published):
            if effect[:3] != skipped[:3] or skipped[3] >= effect[3] or skipped in events:
                continue
            dests = self.published[skipped]["dests"]
            at = min(s["ev"] for s in line if s["kind"] is Kind.DELIVER and event_of(s) == effect)
            gaps = [s["ids"] for s in line if s["kind"] is Kind.GAP and s["ev"] < at]
            if (dests is not None and process[0] not in dests) or any(skipped[1:] in ids for ids in gaps):
                continue
            first_heard = next(event for event in events if event[:3] == effect[:3])
            if began or skipped[3] > first_heard[3] or not joined:
                return True
        return False

    def total(self) -> bool:
        """Tell whether the union of all sequences has a cycle, by closing it."""
        events = list(self.published)
        before = {pair for line in self.first.values() for pair in combinations(line, 2) if pair[0][0] == pair[1][0]}
        for middle, one, two in product(events, events, events):
            if (one, middle) in before and (middle, two) in before:
                before.add((one, two))
        return any((event, event) in before for event in events)
