"""What a member leaves out is no settled event: its publisher learns who lacks it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.net.live import nodes, open_all, take, within
from whence.core.links.reached import LEFT_OUT_MAX, Reached
from whence.core.ready import Gap
from whence.errors import LeftOutError, OutcomeUnknownError
from whence.net.acknowledgements import Acknowledgements
from whence.net.left_out import SPANS_MAX, LeftOut
from whence.types import Process, Span, packed

spans = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 5)).map(lambda each: (each[0], sum(each))), unique=True, max_size=20
)


@given(spans, st.integers(1, 70), st.integers(0, 70))
def test_spans_say_what_each_of_their_events_says(told: list[tuple[int, int]], first: int, reached: int) -> None:
    events = {event for begin, end in told for event in range(begin, end + 1)}
    left_out = LeftOut()
    left_out.add_all(told)
    assert left_out.has_any(first, first + 3) == bool(events & set(range(first, first + 4)))
    beyond = left_out.beyond(reached)
    assert set(range(reached + 1, beyond + 1)) <= events
    assert beyond + 1 not in events


def test_a_publisher_is_told_of_every_span_once_and_again_when_it_reconnects() -> None:
    async def main() -> None:
        sent: list[Reached] = []
        here = Acknowledgements(Process(1, 1), lambda publisher, reached: sent.append(reached), lambda last: None)
        many = [Span(2, 5, 10 * number, 10 * number + 1) for number in range(1, 2 * LEFT_OUT_MAX + 4)]
        here.left_out(many)
        here._report()
        assert [(first, last) for item in sent for first, last in item.left_out] == [span[2:] for span in many]
        assert max(len(item.left_out) for item in sent) == LEFT_OUT_MAX
        sent.clear()
        here.left_out([Span(2, 5, many[-1].last + 1, many[-1].last + 1)])  # the last one grows
        here._report()
        here._report()
        assert [item.left_out for item in sent] == [[(many[-1].first, many[-1].last + 1)]]
        sent.clear()
        here.peer_up(Process(2, 5))
        here._report()
        assert sum(len(item.left_out) for item in sent) == len(many)

    within(main())


@pytest.mark.parametrize("in_order", [True, False])
def test_a_hole_is_told_no_later_than_what_was_taken_after_it_where_events_come_in_order(in_order: bool) -> None:
    """Whoever hears that a later event was taken must not think that all before it were."""

    async def main() -> None:
        sent: list[Reached] = []
        here = Acknowledgements(
            Process(1, 1), lambda publisher, reached: sent.append(reached), lambda last: None, in_order=in_order
        )
        for first in (4, 5, 9):  # it joined when 1 to 3 had been published
            here.taken(packed(Process(2, 5), first, [b"x"]), 1)
        here._report()
        assert [(item.last, item.left_out) for item in sent] == [(9, [(6, 8)] if in_order else [])]

    within(main())


def test_the_oldest_are_forgotten_where_too_many_are_left_out() -> None:
    left_out = LeftOut()
    left_out.add_all((2 * number, 2 * number) for number in range(1, SPANS_MAX + 3))
    assert not left_out.has_any(1, 4)
    assert left_out.has_any(6, 6)
    assert [left_out.may_have_any(event, event) for event in range(1, 6)] == [False, True, True, True, False]


def test_a_publisher_is_told_of_every_span_before_it_is_forgotten() -> None:
    async def main() -> None:
        sent: list[Reached] = []
        here = Acknowledgements(Process(1, 1), lambda publisher, reached: sent.append(reached), lambda last: None)
        many = [Span(2, 5, 2 * number, 2 * number) for number in range(1, 3 * SPANS_MAX)]
        for span in many:
            here.left_out([span])
        here._report()
        assert [span for item in sent for span in item.left_out] == [span[2:] for span in many]

    within(main())


def test_of_events_that_may_be_among_those_forgotten_settled_says_that_it_does_not_know() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started, settings={"spread": "gossip"})
            receipts = [await here.publish(b"%d" % number) for number in range(3)]
            await asyncio.gather(take(here, 3), take(there, 3))
            await receipts[2].settled(timeout_s=20)
            event = await receipts[1].accepted()
            later = ((event.seq + 100 + 2 * at,) * 2 for at in range(SPANS_MAX))
            here._driver.settling.left_out_by(there.pid, [(event.seq, event.seq), *later])
            with pytest.raises(OutcomeUnknownError, match="not known any more whether these were among them"):
                await receipts[1].settled(timeout_s=20)
            await receipts[2].settled(timeout_s=20)

    within(main())


def test_settled_raises_where_a_member_left_the_event_out_and_names_it() -> None:
    """Events before and after it are settled. The member's protocol says that it leaves one out; the rest is live."""

    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started, settings={"spread": "gossip"})
            receipts = [await here.publish(b"%d" % number) for number in range(3)]
            event = await receipts[1].accepted()
            there._driver.ports.skip(Gap((Span(*event, event.seq),)))
            await asyncio.gather(take(here, 3), take(there, 3))
            with pytest.raises(LeftOutError, match=r"^.*2.* left out events") as refused:
                await receipts[1].settled(timeout_s=20)
            assert len(refused.value.members) == 1
            for receipt in (receipts[0], receipts[2]):
                await receipt.settled(timeout_s=20)

    within(main())


def test_nobody_waits_for_an_event_at_the_end_that_a_member_left_out() -> None:
    async def main() -> None:
        async with nodes(2) as started:
            here, there = await open_all(started, settings={"spread": "gossip"})
            receipt = await here.publish(b"the last")
            event = await receipt.accepted()
            there._driver.acknowledgements.left_out([Span(*event, event.seq)])
            with pytest.raises(LeftOutError):
                await receipt.settled(timeout_s=20)

    within(main())
