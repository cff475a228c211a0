"""Tells a violation as its smallest story: the few steps, in order, that show how the promise broke, and no others.

A late or missing cause is shown along the shortest chain of happened-before from it to its effect; disorder by the
publications and the deliveries in the wrong order; a missing event by what happened to its receiver.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise

from msgspec import Struct

from whence.check.closure import NO_EVENT, Process
from whence.check.history import AT_GRP, AT_T_TRUE, History
from whence.check.verdict import Violation, what, which, who
from whence.trace.memory import Row
from whence.trace.schema import BOUND, COLUMNS_OF, DESTS, EPOCH, M_PID, M_SEQ, PEER, REASON, T_CLK, TICKET, VALUE, Kind
from whence.types import EventId

WITNESSES_MAX = 3
"""Other receivers shown in a story about one that got nothing."""

RECEIVER_STEPS_MAX = 6
"""Steps shown of what happened to that one: the last ones."""

_AT = COLUMNS_OF[Kind.NOTE].index
_AT_T_CLK, _AT_REASON, _AT_TICKET, _AT_EPOCH = _AT(T_CLK), _AT(REASON), _AT(TICKET), _AT(EPOCH)
_AT_VALUE, _AT_BOUND, _AT_VIEW, _ID = _AT(VALUE), _AT(BOUND), _AT(DESTS), slice(_AT(M_PID), _AT(M_SEQ) + 1)

_VERBS = {
    Kind.CRASH: "crashes",
    Kind.RESTART: "comes back",
    Kind.JOIN: "joins",
    Kind.LEAVE: "leaves",
    Kind.DROP: "drops a copy",
    Kind.REJECT: "rejects a message",
    Kind.RESET: "repairs its state",
    Kind.TICKET_ACQUIRE: "acquires",
    Kind.TICKET_RELEASE: "releases",
    Kind.TICKET_SUSPEND: "suspends",
}
_AT_PEER = COLUMNS_OF[Kind.SEND].index(PEER)
_TICKET_KINDS = (Kind.TICKET_ACQUIRE, Kind.TICKET_RELEASE, Kind.TICKET_SUSPEND)


class StoryStep(Struct, frozen=True, kw_only=True):
    """One step of a story."""

    t: int | None
    """True time where the trace has it, else the process's own clock; ns. None: by the end of the run."""
    node: int
    inc: int
    ev: int | None = None
    kind: str
    """A kind of trace row, or NEVER for what did not happen."""
    event: EventId | None = None
    sentence: str
    wrong: bool = False
    """This step, or its absence, is what breaks the promise."""


NEVER = "never"


class Story(Struct, frozen=True, kw_only=True):
    """A violation with the steps that show it, in order."""

    title: str
    promise: str
    steps: list[StoryStep]

    def lines(self) -> list[str]:
        """Return the story as numbered lines of text."""
        return [
            f"{place}. {when(step.t)}: {step.sentence}{' (here)' if step.wrong else ''}"
            for place, step in enumerate(self.steps, start=1)
        ]


def when(t: int | None) -> str:
    """Say a time in milliseconds."""
    return "at the end" if t is None else f"{t / 1e6:,.3f} ms"


def story(history: History, violation: Violation) -> Story:
    """Return the smallest story that shows a violation."""
    by_row: dict[tuple[object, ...], StoryStep] = {}
    for step in _STEPS_OF.get(violation.promise, _marked_steps)(_Storyteller(history, violation)):
        same = (step.node, step.inc, step.ev, step.kind)
        if same not in by_row or step.wrong:
            by_row[same] = step
    steps = list(by_row.values())
    if all(row[AT_T_TRUE] is not None for row in history.published):
        steps.sort(key=lambda step: float("inf") if step.t is None else step.t)
    return Story(title=violation.sentence, promise=violation.promise, steps=steps)


class _Storyteller:
    """What the tellers need: the history, the violation, and rows turned into steps."""

    def __init__(self, history: History, violation: Violation) -> None:
        self.history = history
        self.violation = violation
        self.process: Process = history.process_of((violation.node, violation.inc))
        self.events = [history.number.get((violation.grp or "", *event), NO_EVENT) for event in violation.ids]

    def published(self, event: int) -> Iterator[StoryStep]:
        """Yield an event's publication, if there was one."""
        if event != NO_EVENT:
            yield self.step(Kind.PUBLISH, self.history.published[event])

    def delivered(self, process: Process, event: int, wrong: bool = False) -> Iterator[StoryStep]:
        """Yield a process's first delivery of an event, if there was one."""
        row = self.history.delivered.get(process, {}).get(event)
        if row is not None:
            yield self.step(Kind.DELIVER, row, wrong)

    def marked(self) -> Iterator[tuple[Kind, Row]]:
        """Yield the rows of the process that the violation points at."""
        violation = self.violation
        kinds = [kind for kind in Kind if kind not in (Kind.SEND, Kind.RECV)]
        for ev in violation.evs:
            at = (violation.node, violation.inc, ev)
            yield from ((kind, row) for kind in kinds for row in self.history.trace.rows[kind] if row[:3] == at)

    def step(self, kind: Kind, row: Row, wrong: bool = False) -> StoryStep:
        """Turn a row into a step of the story."""
        event = EventId(*row[_ID]) if kind in (Kind.PUBLISH, Kind.DELIVER) else None
        t = row[_AT_T_CLK] if row[AT_T_TRUE] is None else row[AT_T_TRUE]
        sentence = f"{who(row[0], row[1])} {_predicate(kind, row, event)}"
        return StoryStep(
            t=t, node=row[0], inc=row[1], ev=row[2], kind=kind.value, event=event, sentence=sentence, wrong=wrong
        )


def _predicate(kind: Kind, row: Row, event: EventId | None) -> str:
    if event is not None:
        name = f"its event {event.seq}" if event[:2] == row[:2] else what(event)
        return f"{'publishes' if kind is Kind.PUBLISH else 'delivers'} {name}"
    if kind in (Kind.SEND, Kind.RECV):
        return f"{'sends a copy to' if kind is Kind.SEND else 'receives a copy from'} process {row[_AT_PEER]}"
    if kind is Kind.GAP:
        return "reports events as skipped for good"
    if kind is Kind.VIEW and row[_AT_EPOCH] is not None:
        return f"enters {which(row[_AT_EPOCH])}, of {', '.join(map(str, row[_AT_VIEW] or ()))}"
    if kind is Kind.VIEW:
        return f"has the view {', '.join(map(str, row[_AT_VIEW] or ()))}"
    if kind is Kind.NOTE and row[_ID][0] is not None:
        return f"is told that {what(EventId(*row[_ID]))} is {row[_AT_REASON]}"
    if kind is Kind.NOTE:
        return f"has {row[_AT_REASON]} at {row[_AT_VALUE]}, with a bound of {row[_AT_BOUND]}"
    if kind in _TICKET_KINDS:
        return f"{_VERBS[kind]} ticket {row[_AT_TICKET]} with epoch {row[_AT_EPOCH]}"
    reason = f" ({row[_AT_REASON]})" if row[_AT_REASON] else ""
    return f"{_VERBS.get(kind, kind.value)}{reason}"


# --- one teller per shape of violation ---


def _marked_steps(teller: _Storyteller) -> Iterator[StoryStep]:
    """Yield the publications and the rows that the violation points at; the last one is wrong."""
    for event in teller.events:
        yield from teller.published(event)
    rows = list(teller.marked())
    for place, (kind, row) in enumerate(rows, start=1):
        yield teller.step(kind, row, wrong=place == len(rows))


def _causal_steps(teller: _Storyteller) -> Iterator[StoryStep]:
    """Yield how the effect came to follow its cause, then how the receiver took them."""
    if len(teller.events) < 2 or NO_EVENT in teller.events:
        yield from _marked_steps(teller)
        return
    cause, effect = teller.events[:2]
    yield from _chain(teller, cause, effect)
    late = list(teller.delivered(teller.process, cause, wrong=True))
    yield from teller.delivered(teller.process, effect, wrong=not late)
    yield from late
    if not late:
        yield from _receiver_steps(teller, cause)
        yield _never(teller, cause)


def _chain(teller: _Storyteller, cause: int, effect: int) -> Iterator[StoryStep]:
    """Yield the shortest chain from one publication to another that follows it."""
    history = teller.history
    path = _shortest_path(history, cause, effect)
    for before, after in pairwise(path):
        yield from teller.published(before)
        publisher = history.process_of(history.published[after])
        if publisher != history.process_of(history.published[before]):
            yield from teller.delivered(publisher, before)
    yield from teller.published(effect)


def _shortest_path(history: History, cause: int, effect: int) -> list[int]:
    """Return events from cause to effect, each known to the publisher of the next; breadth first, backwards."""
    leads_to: dict[int, int] = {effect: NO_EVENT}
    queue = deque([effect])
    while queue and cause not in leads_to:
        event = queue.popleft()
        for known in _known_before(history, event):
            relevant = known == cause or history.past[known] >> cause & 1
            if relevant and known not in leads_to:
                leads_to[known] = event
                queue.append(known)
    path = [cause]
    while leads_to.get(path[-1], NO_EVENT) != NO_EVENT:
        path.append(leads_to[path[-1]])
    return path


def _known_before(history: History, event: int) -> Iterator[int]:
    """Yield the events that an event's publisher had published or delivered before it."""
    for _, _, kind, known, _ in history.lines[history.process_of(history.published[event])]:
        if kind is Kind.PUBLISH and known == event:
            return
        if known != NO_EVENT:
            yield known


def _cycle_steps(teller: _Storyteller) -> Iterator[StoryStep]:
    """Tell, for each event and the next on the cycle, a process that delivered them in that order."""
    history, events = teller.history, teller.events
    for event in events:
        yield from teller.published(event)
    for place, (before, after) in enumerate(pairwise([*events, events[0]])):
        processes = [teller.process] if not place else list(history.delivered)
        for process in processes:
            order = [event for event in history.delivered[process] if event in (before, after)]
            if order == [before, after]:
                yield from teller.delivered(process, before)
                yield from teller.delivered(process, after, wrong=place == len(events) - 1)
                break


def _absence_steps(teller: _Storyteller) -> Iterator[StoryStep]:
    """Yield a publication, some deliveries of it, and what happened to the process that did not deliver, or late."""
    if not teller.events or teller.events[0] == NO_EVENT:
        yield from _membership_steps(teller)
        return
    event = teller.events[0]
    yield from teller.published(event)
    others = [process for process, rows in teller.history.delivered.items() if event in rows]
    itself = teller.history.process_of(teller.history.published[event])
    for process in [other for other in others if other not in (teller.process, itself)][:WITNESSES_MAX]:
        yield from teller.delivered(process, event)
    yield from _receiver_steps(teller, event)
    if teller.process in others:
        yield from teller.delivered(teller.process, event, wrong=True)
    else:
        yield _never(teller, event)


def _membership_steps(teller: _Storyteller) -> Iterator[StoryStep]:
    """Yield the last that happened to a process as a member, and what is wrong with where that left it."""
    violation, rows = teller.violation, teller.history.trace.rows
    kinds = (Kind.VIEW, Kind.JOIN, Kind.LEAVE, Kind.CRASH, Kind.RESTART)
    done = [(kind, row) for kind in kinds for row in rows[kind] if row[0] == violation.node]
    for kind, row in sorted(done, key=lambda each: each[1][1:3])[-RECEIVER_STEPS_MAX:]:
        yield teller.step(kind, row)
    yield StoryStep(t=None, node=violation.node, inc=violation.inc, kind=NEVER, sentence=violation.sentence, wrong=True)


def _receiver_steps(teller: _Storyteller, event: int) -> Iterator[StoryStep]:
    """Yield what happened to the receiver since the publication: crashes, leaves, dropped copies."""
    history, (node, _) = teller.history, teller.process
    since = history.published[event][AT_T_TRUE]
    shown: list[StoryStep] = []
    for kind in (Kind.CRASH, Kind.RESTART, Kind.JOIN, Kind.LEAVE, Kind.DROP, Kind.RESET):
        for row in history.trace.rows[kind]:
            names = row[_ID] if kind is Kind.DROP else None
            is_about_it = names is None or names == tuple(history.id_of(event))
            if row[0] == node and is_about_it and since is not None and (row[AT_T_TRUE] or 0) >= since:
                shown.append(teller.step(kind, row))
    yield from sorted(shown, key=lambda step: step.t or 0)[-RECEIVER_STEPS_MAX:]


def _never(teller: _Storyteller, event: int) -> StoryStep:
    violation, name = teller.violation, teller.history.id_of(event)
    sentence = f"{who(violation.node, violation.inc)} has not delivered {what(name)}"
    return StoryStep(
        t=None, node=violation.node, inc=violation.inc, kind=NEVER, event=name, sentence=sentence, wrong=True
    )


def _fifo_steps(teller: _Storyteller) -> Iterator[StoryStep]:
    """Yield disorder from one publisher: an inversion, a skipped event, or a delivery after a gap."""
    yield from _marked_steps(teller)
    if len(teller.events) == 2 and teller.events[0] not in teller.history.delivered[teller.process]:
        yield from _receiver_steps(teller, teller.events[0])
        yield _never(teller, teller.events[0])


def _ticket_steps(teller: _Storyteller) -> Iterator[StoryStep]:
    """Yield the last changes of ownership of the ticket, up to the row that was wrong."""
    marked = list(teller.marked())
    tickets = [row[_AT_TICKET] for kind, row in marked if kind in _TICKET_KINDS]
    rows = teller.history.trace.rows
    until = max((row[AT_T_TRUE] or 0 for _, row in marked), default=0)
    shown = [
        teller.step(kind, row)
        for kind in _TICKET_KINDS
        for row in rows[kind]
        if row[_AT_TICKET] in tickets and row[AT_GRP] == teller.violation.grp and (row[AT_T_TRUE] or 0) <= until
    ]
    yield from sorted(shown, key=lambda step: step.t or 0)[-RECEIVER_STEPS_MAX:]
    yield from _marked_steps(teller)


def _crash_steps(teller: _Storyteller) -> Iterator[StoryStep]:
    """Yield the last that the process did, and that it failed."""
    violation, rows = teller.violation, teller.history.trace.rows
    done = [(kind, row) for kind in Kind for row in rows[kind] if row[:2] == (violation.node, violation.inc)]
    for kind, row in sorted(done, key=lambda each: each[1][2])[-RECEIVER_STEPS_MAX:]:
        yield teller.step(kind, row)
    yield StoryStep(
        t=None, node=violation.node, inc=violation.inc, kind=violation.promise, sentence=violation.sentence, wrong=True
    )


_STEPS_OF: dict[str, Callable[[_Storyteller], Iterator[StoryStep]]] = {
    "causal": _causal_steps,
    "optimistic_causal": _causal_steps,
    "fifo": _fifo_steps,
    "total_order": _cycle_steps,
    "agreement": _absence_steps,
    "liveness": _absence_steps,
    "receipts": _absence_steps,
    "ticket_exclusivity": _ticket_steps,
    "crash": _crash_steps,
}
