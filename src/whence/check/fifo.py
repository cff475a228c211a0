"""FIFO: events of one process are delivered in the order it published them, and none is skipped without a gap row.

Per receiver and publisher (one incarnation): numbers increase; what a delivery skips was addressed to others or
reported in an earlier gap row; what was reported is not delivered later. A receiver that joined after the start may
begin anywhere with each publisher; from there on the same holds. Only first deliveries count: a second one is a
duplicate, not disorder. One look at every delivery, gap and join.
"""

from typing import TypeAlias

from whence.check.closure import NO_EVENT, Process
from whence.check.expected import addressed
from whence.check.gaps import judge_gaps, skipped_in
from whence.check.history import AT_GRP, KEY_OF, History
from whence.check.verdict import Findings, Verdict, what, who
from whence.trace.memory import Row
from whence.trace.schema import Kind

PROMISE = "fifo"

Publisher: TypeAlias = tuple[str, int, int]
"""(group, node, incarnation)."""


def judge(history: History) -> Verdict:
    """Judge whether every process delivered every publisher's events in order, reporting what it skipped."""
    findings = Findings(PROMISE, history.incomplete)
    places = _Places(history)
    for process in history.lines:
        _judge_receiver(history, findings, places, process)
    judge_gaps(history, findings)
    return findings.verdict(
        "every process delivered every publisher's events in order and reported what it skipped",
        at_stake=sum(places.place[event] > 0 for delivered in history.delivered.values() for event in delivered),
        nothing="nobody delivered anything that its publisher had published something before",
    )


class _Places:
    """Each event's publisher and its place in what that publisher published, by number."""

    def __init__(self, history: History) -> None:
        self.of_publisher: dict[Publisher, list[int]] = {}
        for event, row in enumerate(history.published):
            self.of_publisher.setdefault(row[KEY_OF][:3], []).append(event)
        self.publisher: list[list[int]] = [[]] * len(history.published)
        self.place = [0] * len(history.published)
        for events in self.of_publisher.values():
            events.sort(key=lambda event: history.published[event][KEY_OF][3])
            for place, event in enumerate(events):
                self.publisher[event], self.place[event] = events, place


def _judge_receiver(history: History, findings: Findings, places: _Places, process: Process) -> None:
    delivered, place_of = history.delivered[process], places.place
    here = [stay.grp for stay in history.stays[process] if stay.is_founding]
    heard: dict[str, dict[Publisher, bool]] = {grp: {} for grp in history.run.groups if grp not in here}
    """Per group joined after the start, the publishers heard since: with the others it may begin anywhere."""
    latest: dict[Publisher, int] = {}
    given_up: dict[int, bool] = {}
    for _, _, kind, event, row in history.lines[process]:
        if kind is Kind.DELIVER:
            if event == NO_EVENT or delivered[event] is not row:
                continue
            grp, publisher = row[AT_GRP], row[KEY_OF][:3]
            reached = place_of[latest[publisher]] if publisher in latest else -1
            if place_of[event] < reached:
                _report_inversion(history, findings, row, event, latest[publisher])
                continue
            if grp in heard and publisher not in heard[grp]:
                heard[grp][publisher] = True
            elif place_of[event] > reached + 1:
                skipped_events = places.publisher[event][reached + 1 : place_of[event]]
                silent = [skipped for skipped in skipped_events if skipped not in given_up and skipped not in delivered]
                _report_skipped(history, findings, row, event, silent)
            latest[publisher] = event
        elif kind is Kind.GAP:
            given_up.update(dict.fromkeys(skipped_in(row, history.number), True))
        elif kind is Kind.JOIN and row[AT_GRP] not in here:
            here.append(row[AT_GRP])
            heard[row[AT_GRP]] = {}
        elif kind is Kind.LEAVE and row[AT_GRP] in here:
            here.remove(row[AT_GRP])


def _report_inversion(history: History, findings: Findings, row: Row, event: int, before: int) -> None:
    late, early = history.id_of(event), history.id_of(before)
    shown = history.delivered[history.process_of(row)][before]
    sentence = f"{who(row[0], row[1])} delivered {what(late)} after event {early.seq} of the same process"
    findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[late, early], evs=[shown[2], row[2]])


def _report_skipped(history: History, findings: Findings, row: Row, event: int, silent: list[int]) -> None:
    """Report the events that a delivery skipped without a gap row, one violation each."""
    name = history.id_of(event)
    for skipped in addressed(history, history.process_of(row), silent):
        missing = history.id_of(skipped)
        sentence = (
            f"{who(row[0], row[1])} delivered {what(name)} but neither delivered event {missing.seq} "
            "before it nor reported it as skipped"
        )
        findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[missing, name], evs=[row[2]], rests_on_absence=True)
