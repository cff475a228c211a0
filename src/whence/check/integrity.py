"""Integrity: what is delivered was published before, as it was, in this group, and was meant for this member.

Assumes nothing of the level. An event is published once, by the process whose name it carries; a delivery shows the
payload's size and checksum as published; the receiver is among the event's destinations and is a member, by its own
program order, when it delivers. Writers that keep no checksums leave payloads uncompared; where one was kept on one
side alone, the verdict is unknown. One look at every delivery.
"""

from whence.check.closure import Process
from whence.check.history import AT_DESTS, AT_GRP, AT_T_TRUE, KEY_OF, History
from whence.check.verdict import Findings, Verdict, counted, what, who
from whence.trace.memory import Row
from whence.trace.schema import COLUMNS_OF, PAYLOAD_BYTES, PAYLOAD_CRC, Kind
from whence.types import EventId

PROMISE = "integrity"

UNCOMPARED = ", as far as sizes tell: no row has a checksum of its payload"
"""What is said where payloads could not be compared."""

_PUBLISHED, _DELIVERED = COLUMNS_OF[Kind.PUBLISH].index, COLUMNS_OF[Kind.DELIVER].index
_SIZES = (_PUBLISHED(PAYLOAD_BYTES), _DELIVERED(PAYLOAD_BYTES), "bytes")
_SUMS = (_PUBLISHED(PAYLOAD_CRC), _DELIVERED(PAYLOAD_CRC), "checksum")


def judge(history: History) -> Verdict:
    """Judge whether everything delivered was published, unchanged and for this member."""
    return judge_with(history, Findings(PROMISE, history.incomplete))


def judge_with(history: History, findings: Findings) -> Verdict:
    """Judge it with what was already found against it."""
    _judge_publications(history, findings)
    for row in history.unpublished:
        event = EventId(*row[KEY_OF][1:])
        sentence = f"{who(row[0], row[1])} delivered {what(event)}, which nobody published in group {row[AT_GRP]!r}"
        findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[event], evs=[row[2]], rests_on_absence=True)
    lost_sums = 0
    for process, rows in history.delivered.items():
        _judge_deliveries(history, findings, process, rows)
        lost_sums += sum(map(_lacks_a_sum, map(history.published.__getitem__, rows), rows.values()))
    _judge_causes(history, findings)
    summed = any(row[_SUMS[1]] is not None for rows in history.delivered.values() for row in rows.values())
    return findings.verdict(
        f"{counted(history.deliveries, 'delivery', 'deliveries')} of events as they were published"
        + ("" if summed or not history.deliveries else UNCOMPARED),
        at_stake=history.deliveries, nothing="nothing was delivered",
        doubts=f"{counted(lost_sums, 'delivery', 'deliveries')} cannot be compared with what was published: "
        "only one of the two has a checksum" if lost_sums else None,
    )  # fmt: skip


def _judge_publications(history: History, findings: Findings) -> None:
    for row in history.republished:
        event = EventId(*row[KEY_OF][1:])
        sentence = f"{what(event)} was published a second time, by {who(row[0], row[1])}"
        first = history.published[history.number[row[KEY_OF]]]
        reported_again = row[0] == first[0] and row[1] != first[1]  # around a crash, unless no row that says so is lost
        findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[event], evs=[row[2]], rests_on_absence=reported_again)
    for row in history.published:
        event = EventId(*row[KEY_OF][1:])
        if row[0] != event.pid or (row[1] != event.incarnation and not history.is_durable(row[0], row[1])):
            sentence = f"{who(row[0], row[1])} published {what(event)}: an event with the id of another process"
            findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[event], evs=[row[2]])


def _judge_deliveries(history: History, findings: Findings, process: Process, rows: dict[int, Row]) -> None:
    published = history.published
    everywhere = [stay.grp for stay in history.stays[process] if stay.covers(None)]
    for event, row in rows.items():
        origin = published[event]
        dests, grp = origin[AT_DESTS], row[AT_GRP]
        wrong, outside = None, False
        if dests is not None and row[0] not in dests:
            wrong = "which was not addressed to it"
        elif grp not in everywhere and not _is_member(history, process, grp, (row[1], row[2])):
            wrong, outside = f"and is no member of group {grp!r} at that point", True
        elif origin[AT_T_TRUE] is not None and row[AT_T_TRUE] is not None and row[AT_T_TRUE] < origin[AT_T_TRUE]:
            wrong = "before it was published"
        else:
            for at_publish, at_deliver, name in (_SIZES, _SUMS):
                before, after = origin[at_publish], row[at_deliver]
                if before != after and before is not None and after is not None:
                    wrong = f"with {name} {after} where {before} was published"
        if wrong:
            name_of = history.id_of(event)
            sentence = f"{who(row[0], row[1])} delivered {what(name_of)}, {wrong}"
            findings.add(row[:2], sentence, grp=grp, ids=[name_of], evs=[row[2]], rests_on_absence=outside)


def _lacks_a_sum(origin: Row, row: Row) -> bool:
    return (origin[_SUMS[0]] is None) != (row[_SUMS[1]] is None)


def _is_member(history: History, process: Process, grp: str, place: tuple[int, int]) -> bool:
    return any(stay.grp == grp and stay.first <= place <= stay.last for stay in history.stays[process])


def _judge_causes(history: History, findings: Findings) -> None:
    """Without true time, an effect before its cause still shows: the steps then fit no order at all."""
    if all(row[AT_T_TRUE] is not None for row in history.published):
        return
    for process, event in history.impossible:
        row, name_of = history.delivered[process][event], history.id_of(event)
        sentence = f"{who(row[0], row[1])} delivered {what(name_of)} before it can have been published"
        findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[name_of], evs=[row[2]])
