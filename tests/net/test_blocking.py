"""The door without asyncio: the same laws, from ordinary threads."""

import pytest

from tests.net.live import QUICK
from whence import blocking
from whence.errors import ClosedError, JoinError, LimitError, NotCoordinatorError, UsageError
from whence.limits import BUNDLE_BYTES_MAX


def test_scripts_publish_and_take_without_a_loop() -> None:
    with blocking.join(1) as one, blocking.join(2, contacts=[one.address]) as two:
        here, there = one.open("alps", settings=QUICK), two.open("alps", settings=QUICK)
        here.gathered(2)
        there.gathered(2)
        first = here.publish(b"a", until="settled")
        assert (first.pid, first.seq) == (1, 1)
        assert here.publish_many([b"b", b"c"]).seq == 2
        assert [delivery.payload for delivery in there.take(3, timeout_s=30)] == [b"a", b"b", b"c"]
        assert list(there.take(1, timeout_s=0.05)) == []
        there.close()
        assert list(there) == []


def test_errors_come_out_where_the_call_was_made() -> None:
    with blocking.join(1) as node:
        group = node.open("alps")
        with pytest.raises(LimitError):
            group.publish(bytes(BUNDLE_BYTES_MAX + 1))
        with pytest.raises(UsageError, match="count is a whole number from 0"):
            list(group.take(-1))
    with blocking.join(1) as node, pytest.raises(JoinError), blocking.join(2, listen=node.address):
        pass


def test_a_script_obtains_a_ticket_and_gives_it_back() -> None:
    settings = {"k": 0, "seeds": "1", "round_ns": 20_000_000, "rounds": 3, "answer_ns": 20_000_000}
    with blocking.join(1) as one, blocking.join(2, contacts=[one.address]) as two:
        here = one.open("alps", "optimistic", settings=settings, write=True)
        there = two.open("alps", "optimistic", settings=settings)
        told = there.acquire_ticket()
        assert told.ticket is not None
        there.publish(b"x")
        assert [(d.payload, d.ticket, d.epoch) for d in here.take(1, 30)] == [(b"x", told.ticket, told.epoch)]
        there.cleave()  # its older name
        after = there.ticket()
        assert after is not None
        assert after.state == "none"
        with pytest.raises(NotCoordinatorError, match="has not asked for a ticket"):
            there.publish(b"y")


def test_a_node_that_does_not_run_says_so() -> None:
    node = blocking.join(1, status=False)
    with pytest.raises(ClosedError, match="use it inside"):
        node.open("alps")
    with node:
        group = node.open("alps", settings=QUICK)
        group.publish(b"x", until="settled", timeout_s=5)
        group.close()
        group.close()
    with pytest.raises(ClosedError, match="use it inside"):
        node.open("alps")
    with pytest.raises(ClosedError, match="the node is closed"):
        group.publish(b"y")
