"""Who published under which ticket and epoch, and how what is skipped is named (6.4, 6.5; traps C10, C12)."""

from whence.core.clocks.cct import Stamp, entry_of
from whence.core.levels.optimistic.publishers import EPOCHS_MAX, SUSPECTS_MAX, UNNAMED_MAX, Publishers
from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.core.ready import Gap, Ready
from whence.types import Bundle, Process, Span, packed

ANNA, BERT = Process(1, 1), Process(2, 4)


def event(process: Process, number: int, ticket: int, epoch: int, count: int) -> tuple[Bundle, Stamp]:
    """Return a process's event of this number, the `count`-th of its epoch."""
    vector = [0, 0]
    vector[ticket] = entry_of(epoch, count)
    return packed(process, number, [b"x"], b""), Stamp(ticket, entry_of(epoch, count - 1), 0, tuple(vector))


def spans(ready: Ready) -> list[Span]:
    return [span for step in ready.deliver if isinstance(step, Gap) for span in step.spans]


def test_what_is_skipped_is_named_by_its_publishers_own_numbers() -> None:
    publishers, ready = Publishers(), Ready()
    publishers.learn(*event(ANNA, 12, 0, 3, 2), ready)
    publishers.report_skipped(event(ANNA, 15, 0, 3, 5)[1], [entry_of(3, 2), 0], ready)
    assert spans(ready) == [Span(*ANNA, 13, 14)]
    assert not ready.notes


def test_what_is_skipped_of_an_unknown_publisher_is_named_as_soon_as_one_bundle_of_it_comes() -> None:
    publishers, ready = Publishers(), Ready()
    follows = Stamp(0, entry_of(1, 0), 0, (entry_of(1, 1), entry_of(2, 3)))
    publishers.report_skipped(follows, [0, 0], ready)
    assert spans(ready) == []
    assert [note.reason for note in ready.notes] == ["unnamed"]
    later = Ready()
    publishers.learn(*event(BERT, 24, 1, 2, 4), later)
    assert spans(later) == [Span(*BERT, 21, 23)]
    again = Ready()
    publishers.learn(*event(BERT, 25, 1, 2, 5), again)
    assert spans(again) == []


def test_the_publisher_is_asked_until_it_stops_answering_and_again_once_it_is_heard() -> None:
    publishers = Publishers()
    publishers.learn(*event(ANNA, 1, 0, 1, 1), Ready())
    publishers.owner_of = {TicketEpoch(1, 7): BERT}.get
    assert (publishers.pid_of(0, 1), publishers.pid_of(1, 7), publishers.pid_of(1, 6)) == (1, 2, None)
    publishers.suspect(1)
    assert publishers.pid_of(0, 1) is None
    publishers.trust(1)
    assert publishers.pid_of(0, 1) == 1


def test_what_is_remembered_is_bounded() -> None:
    publishers = Publishers()
    for epoch in range(1, EPOCHS_MAX + 3):
        publishers.learn(*event(ANNA, epoch, 0, epoch, 1), Ready())
        publishers.suspect(1000 + epoch)
    assert publishers.of(0, 2) is None
    assert publishers.of(0, 3) is not None
    for epoch in range(1, UNNAMED_MAX + 9):
        publishers.report_skipped(Stamp(0, entry_of(99, 0), 0, (entry_of(99, 1), entry_of(epoch, 1))), [0, 0], Ready())
    [gauge] = publishers.gauges()
    assert gauge.value == gauge.bound == UNNAMED_MAX
    for pid in range(SUSPECTS_MAX + 1):
        publishers.suspect(pid)
    publishers.learn(*event(Process(0, 1), 1, 1, 1, 1), Ready())
    assert publishers.pid_of(1, 1) == 0, "the one suspected first is asked again"
