"""Publications on their way: sent again in time, given up in time, told of when nobody has them; all of it bounded."""

from whence.core.clocks.ticks import NEVER
from whence.core.levels.total.items import Batch, Offer, ids_of
from whence.core.levels.total.outbox import SPARE_TIMERS, Outbox
from whence.core.ready import Item, Ready, Unheard
from whence.types import Bundle, Process, packed

RESEND_NS, DELTA_NS, DOUBT_NS = 10, 30, 50
FAR = 1 << 40


def outbox(pending_max: int = 100) -> Outbox:
    return Outbox(RESEND_NS, DELTA_NS, pending_max, DOUBT_NS)


def publication(number: int, body: bytes = b"x") -> Bundle:
    return packed(Process(3, 1), number, [body])


def send(box: Outbox, bundle: Bundle, now: int, to: tuple[int, ...] = (0, 1), last_tick: int = FAR) -> Ready:
    ready = Ready()
    box.send(bundle, 0, to, now, last_tick, ready, own=True, tell=True)
    return ready


def items(ready: Ready) -> list[Item]:
    return [each.item for each in ready.send]


def unheard(ready: Ready) -> list[int]:
    return [step.bundle.first for step in ready.deliver if isinstance(step, Unheard)]


def test_the_next_timer_is_that_of_the_first_publication_that_somebody_has_not_acknowledged() -> None:
    box = outbox()
    assert box.wake_at() == NEVER
    for number, now in ((1, 100), (2, 103), (3, 106)):
        send(box, publication(number), now)
    assert box.wake_at() == 110
    box.acknowledged(0, ids_of([publication(1)]), 104, Ready())
    assert box.wake_at() == 110, "one of two mergers has it"
    box.acknowledged(1, ids_of([publication(1), publication(2)]), 105, Ready())
    box.acknowledged(0, ids_of([publication(3)]), 106, Ready())
    assert box.wake_at() == 113
    ready = Ready()
    box.tick(0, 113, FAR, ready)
    assert [each.to for each in ready.send] == [(0,)], "to whoever has not acknowledged it"
    assert box.wake_at() == 116
    box.acknowledged(0, ids_of([publication(2)]), 117, Ready())
    box.acknowledged(1, ids_of([publication(3)]), 117, Ready())
    assert box.wake_at() == NEVER
    assert box.bytes == len(box) == 0


def test_one_event_of_topic_0_travels_in_the_short_form_and_all_else_in_full() -> None:
    box = outbox()
    assert isinstance(items(send(box, publication(1), 0))[0], Offer)
    ready = Ready()
    box.send(packed(Process(3, 1), 2, [b"a", b"b"]), 0, (0,), 0, FAR, ready, own=True)
    box.send(publication(4), 5, (0,), 0, FAR, ready, own=True)
    box.send(packed(Process(2, 1), 1, [b"of another"]), 0, (0,), 0, FAR, ready, own=False)
    assert all(isinstance(item, Batch) for item in items(ready))


def test_a_full_outbox_gives_up_the_oldest_and_tells_of_it_when_nobody_is_known_to_have_it() -> None:
    box = outbox(pending_max=3)
    for number in range(1, 9):
        ready = send(box, publication(number), number)
    assert len(box) == 3
    assert box.given_up == 5
    assert unheard(ready) == [2], "and at most three are in doubt"
    assert box.wake_at() == min(4 + DOUBT_NS + 2, 6 + RESEND_NS)
    ready = Ready()
    box.tick(0, 200, FAR, ready)
    assert unheard(ready) == [3, 4, 5]


def test_what_stands_in_doubt_is_not_told_of_once_it_came_in_the_stream() -> None:
    box = outbox()
    send(box, publication(1), 0, last_tick=5)
    send(box, publication(2), 0, last_tick=5)
    box.tick(6, 1, FAR, Ready())
    assert len(box) == 0
    assert box.wake_at() == 1 + DOUBT_NS
    box.arrived_in_stream(publication(1))
    ready = Ready()
    box.tick(7, 1 + DOUBT_NS, FAR, ready)
    assert unheard(ready) == [2]
    assert box.wake_at() == NEVER


def test_the_same_publication_sent_again_counts_once() -> None:
    """As at a relay that gets two copies."""
    box = outbox()
    send(box, publication(1), 0)
    send(box, publication(1), 5)
    assert len(box) == box.bytes == 1
    assert box.wake_at() == 5 + RESEND_NS


def test_timers_of_what_was_acknowledged_do_not_pile_up() -> None:
    box = outbox()
    send(box, publication(1), 0, to=(1,))
    for number in range(2, 2000):
        send(box, publication(number), 1, to=(0,))
        box.acknowledged(0, ids_of([publication(number)]), 1, Ready())
        assert box.wake_at() == RESEND_NS, "that of the first"
        assert len(box._timers) <= 2 * len(box) + SPARE_TIMERS + 2
