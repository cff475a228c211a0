"""FIFO over views: a member is handed each publisher's events in the order they were published, and skips none.

A publisher is a membership: what the same process published before it was removed, or before its disk was wiped, is
another one's. Of each publisher a member is owed the events published in views that it is in, from the first one on; a
joiner of a strict group may begin anywhere, and skips nothing from there on. It may stop anywhere: it may be removed,
or the publisher. Nobody reports gaps: a gap row excuses nothing. Only first deliveries count. One look at every
delivery.
"""

from whence.check.closure import Process
from whence.check.history import AT_GRP
from whence.check.living.members import Living
from whence.check.verdict import Findings, Verdict, what, who
from whence.trace.memory import Row

PROMISE = "fifo"


def judge(living: Living) -> Verdict:
    """Judge whether every member was handed every publisher's events in order."""
    findings = Findings(PROMISE, living.incomplete)
    place = {event: at for own in living.own.values() for at, event in enumerate(own)}
    for process in living.lines:
        _judge_receiver(living, findings, process, place)
    return findings.verdict(
        "every member was handed every publisher's events in order, and skipped none",
        at_stake=sum(place.get(event, 0) > 0 for events in living.delivered.values() for event in events),
        nothing="nobody delivered anything that its publisher had published something before",
    )


def _judge_receiver(living: Living, findings: Findings, process: Process, place: dict[int, int]) -> None:
    handed, meant = living.handed[process], living.meant[process]
    begins_late = living.is_strict and living.is_joiner(process)
    latest: dict[Process, int] = {}
    for event, row in living.delivered[process].items():
        publisher = living.publisher[event]
        if publisher not in latest and begins_late:
            latest[publisher] = event
            continue
        reached = place[latest[publisher]] if publisher in latest else -1
        if place[event] < reached:
            early = living.delivered[process][latest[publisher]]
            _report(living, findings, row, event, latest[publisher], early)
            continue
        for skipped in living.own[publisher][reached + 1 : place[event]]:
            if meant >> skipped & 1 and not handed >> skipped & 1:
                _report(living, findings, row, skipped, event, None)
        latest[publisher] = event


def _report(living: Living, findings: Findings, row: Row, wrong: int, other: int, early: Row | None) -> None:
    name, shown = living.id_of(wrong), living.id_of(other)
    sentence = (
        f"{who(row[0], row[1])} delivered {what(shown)} and skipped {what(name)}, which is for it too"
        if early is None
        else f"{who(row[0], row[1])} delivered {what(name)} after event {shown.seq} of the same publisher"
    )
    evs = [row[2]] if early is None else [early[2], row[2]]
    findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[name, shown], evs=evs, rests_on_absence=early is None)
