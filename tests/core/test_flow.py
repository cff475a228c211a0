"""A publication is admitted, waits for a reason that passes by itself, or is refused; and it is said why."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from tests.core.parts import node_of, one
from whence.core.credit import AWAY_S, CREDIT_BYTES, CREDIT_BYTES_MIN
from whence.core.flow import BUSY_BYTES, CREDIT_LOOK_S, BundleLimits, Flow, Reason, Sources, named, passes
from whence.core.member import Member
from whence.core.pacing import GAP_S_MAX, QUICK_S
from whence.errors import (
    BackPressureError,
    ClosedError,
    EventsLostError,
    LeaseSuspendedError,
    LimitError,
    NotCoordinatorError,
    Refusal,
    StalledError,
    UsageError,
)
from whence.limits import BUNDLE_BYTES_MAX, BUNDLE_EVENTS_MAX
from whence.types import Process, packed

SETTINGS = {"publish_events_max": 10, "publish_bytes_max": 1000}
ME = 0


@dataclass
class Consumer:
    events: int = 0
    events_max: int = 100

    def full(self) -> bool:
        return self.events >= self.events_max


@dataclass
class Outboxes:
    most_waiting: int = 0
    unlooked_bytes: int = 0
    high_bytes: int = 1 << 20

    def congested(self) -> bool:
        return self.waiting_bytes() > self.high_bytes

    def waiting_bytes(self) -> int:
        return self.most_waiting

    def waiting_by_peer(self) -> dict[int, int]:
        return {3: self.high_bytes, 4: self.most_waiting, 5: self.most_waiting}


@dataclass
class Windowed:
    """What a flow asks of a member that has a window of its own."""

    full: bool = False

    def held_back(self) -> bool:
        return self.full

    def full_window(self) -> tuple[str, int, int] | None:
        return ("bytes on their way", 10, 11) if self.full else None


@dataclass
class World:
    """All that a flow looks at or asks for, set by the test."""

    inbox: Consumer = field(default_factory=Consumer)
    outbox: Outboxes = field(default_factory=Outboxes)
    member: Member = field(default_factory=node_of)
    now: float = 1_000.0
    publishers: int = 1
    unsettled: Sequence[int] = (7, 9)
    disk_is_behind: bool = False
    refusal: Refusal | None = None
    looks: int = 0

    def flow(self, *, may_refuse: bool = False, **settings: int) -> Flow:
        def publishers() -> int:
            self.looks += 1
            return self.publishers

        sources = Sources(
            lambda: self.now, lambda: 8, publishers, lambda: self.unsettled, lambda: self.disk_is_behind,
            (lambda: self.refusal) if may_refuse else None,
        )  # fmt: skip
        limits = BundleLimits.of({**SETTINGS, **settings})
        return Flow(ME, self.member, limits, self.inbox, self.outbox, sources)


@pytest.fixture
def world() -> World:
    return World()


def send(flow: Flow, last: int, size: int) -> None:
    """Publish an event of so many bytes."""
    flow.published(one(ME, last, bytes(size)), 1)


# --- admitted ---


def test_where_nothing_is_in_the_way_an_event_is_admitted_and_no_object_is_made(world: World) -> None:
    flow = world.flow()
    assert flow.admit(1, 5) is None
    before = sys.getallocatedblocks()
    for _ in range(1000):
        flow.admit(1, 5)
    assert sys.getallocatedblocks() - before < 100


def test_while_little_is_under_way_nobody_asks_how_credit_is_shared(world: World) -> None:
    flow = world.flow()
    send(flow, 1, CREDIT_BYTES_MIN)
    assert flow.admit(1, 5) is None
    assert world.looks == 0


# --- refused ---


def test_what_no_bundle_can_carry_is_refused_with_the_limit_of_whoever_sets_it(world: World) -> None:
    flow = world.flow()
    with pytest.raises(LimitError, match="publish_events_max is 10, and 11"):
        flow.admit(11, 5000)
    with pytest.raises(LimitError, match="publish_bytes_max is 1000, and 1001"):
        flow.admit(1, 1001)
    with pytest.raises(LimitError, match="retained_bytes_max // 4 is 100, and 101"):
        world.flow(retained_bytes_max=400).admit(1, 101)
    wide = world.flow(publish_events_max=1 << 30, publish_bytes_max=1 << 30, retained_bytes_max=1 << 40)
    with pytest.raises(LimitError, match=f"BUNDLE_BYTES_MAX is {BUNDLE_BYTES_MAX}"):
        wide.admit(1, BUNDLE_BYTES_MAX + 1)
    with pytest.raises(LimitError, match=f"BUNDLE_EVENTS_MAX is {BUNDLE_EVENTS_MAX}"):
        wide.admit(BUNDLE_EVENTS_MAX + 1, 0)


def test_what_the_member_would_refuse_is_refused_at_the_door_and_admitted_once_it_would_not(world: World) -> None:
    flow = world.flow(may_refuse=True)
    assert flow.admit(1, 5) is None
    for refusal in (NotCoordinatorError("never asked", None), LeaseSuspendedError("run out", 5), StalledError("x", 5)):
        world.refusal = refusal
        with pytest.raises(type(refusal)):
            flow.admit(1, 5)
    world.refusal = None
    assert flow.admit(1, 5) is None


def test_lost_events_are_told_once_and_before_anything_else(world: World) -> None:
    flow = world.flow()
    why = ClosedError("planted")
    flow.lost(EventsLostError([b"1"], why))
    flow.lost(EventsLostError([b"2"], why))
    flow.close(ClosedError("the group is closed"))
    with pytest.raises(EventsLostError, match="2 events") as told:
        flow.admit(1, 5)
    assert told.value.payloads == [b"1", b"2"]
    for _ in range(2):
        with pytest.raises(ClosedError, match="the group is closed"):
            flow.admit(1, 5)


def test_who_was_told_what_was_lost_goes_on(world: World) -> None:
    flow = world.flow()
    flow.tell_lost()
    flow.lost(EventsLostError([b"1"], ClosedError("planted")))
    with pytest.raises(EventsLostError):
        flow.tell_lost()
    assert flow.admit(1, 5) is None


def test_who_has_no_right_to_write_is_refused_each_time_with_a_trace_of_that_time_alone(world: World) -> None:
    flow = world.flow()
    error = UsageError("no right to write")
    flow.forbid(error)
    depths = []
    for _ in range(3):
        with pytest.raises(UsageError, match="no right"):
            flow.admit(1, 5)
        depth, trace = 0, error.__traceback__
        while trace is not None:
            depth, trace = depth + 1, trace.tb_next
        depths.append(depth)
    assert len(set(depths)) == 1
    flow.lost(EventsLostError([b"1"], ClosedError("planted")))
    with pytest.raises(EventsLostError):
        flow.admit(1, 5)
    with pytest.raises(UsageError, match="no right"):
        flow.admit(1, 5)


# --- waits ---


def test_nothing_overtakes_a_bundle_that_its_member_does_not_take_yet(world: World) -> None:
    flow = world.flow()
    flow.refused = LimitError("retained_bytes_max // 4", 1024, 1100, transient=True)
    world.inbox.events = world.inbox.events_max
    assert flow.admit(1, 5) is Reason.MEMBER
    assert flow.describe() == "retained_bytes_max // 4 is 1024, and processes 7, 9 must take more"
    flow.refused = StalledError("the clock was set back", 1_000_000)
    assert flow.error(Reason.MEMBER) is flow.refused
    assert flow.describe() == str(flow.refused)


def test_a_bundle_that_its_member_does_not_take_waits_for_the_application_here_too(world: World) -> None:
    """Even where it has taken nothing for so long that it was given up."""
    flow = world.flow()
    send(flow, 1, CREDIT_BYTES + 1)
    world.now += 2 * AWAY_S
    assert flow.ahead() is None
    flow.refused = LimitError("retained_bytes_max // 4", 1024, 1100, transient=True)
    assert flow.describe().endswith("and processes 7, 9 and the application here must take more")
    world.unsettled = ()
    assert str(flow.error(Reason.MEMBER)).endswith("and it waits for the application here")
    world.disk_is_behind = True
    assert str(flow.error(Reason.MEMBER)).endswith("and it waits for the disk here")
    flow.reached(ME, 1)
    assert flow.describe() == "retained_bytes_max // 4 is 1024"


def test_a_full_inbox_a_full_outbox_and_used_up_credit_are_waited_for_in_this_order(world: World) -> None:
    flow = world.flow()
    flow.credit.expect(3)
    send(flow, 1, 2 * CREDIT_BYTES)
    flow.reached(ME, 1)
    world.inbox.events, world.outbox.most_waiting = 100, (1 << 20) + 1
    assert flow.admit(1, 5) is Reason.INBOX
    assert flow.describe(Reason.INBOX) == "inbox_events_max is 100, and the application here must take more"
    world.inbox.events = 99
    assert flow.admit(1, 5) is Reason.OUTBOX
    error = flow.error(Reason.OUTBOX)
    assert isinstance(error, BackPressureError)
    assert (error.name, error.asked, error.behind) == ("outbox_high_bytes", (1 << 20) + 1, "processes 4, 5")
    world.outbox.most_waiting = 0
    assert flow.admit(1, 5) is Reason.CREDIT
    assert flow.describe().endswith("and process 3 must take more")
    flow.reached(3, 1)
    assert flow.admit(1, 5) is None


def test_a_member_that_has_enough_on_its_way_holds_publishers_back(world: World) -> None:
    window = Windowed()
    world.member = cast(Member, window)
    flow = world.flow()
    assert flow.admit(1, 5) is None
    window.full = True
    assert flow.admit(1, 5) is Reason.WINDOW
    assert flow.describe().startswith("bytes on their way is 10")


def test_who_is_behind_at_home_is_the_application_or_the_disk(world: World) -> None:
    flow = world.flow()
    send(flow, 1, 2 * CREDIT_BYTES)
    assert flow.admit(1, 5) is Reason.CREDIT
    assert flow.describe().endswith("and the application here must take more")
    world.disk_is_behind = True
    assert flow.describe().endswith("and the disk here must take more")


def test_a_member_that_takes_nothing_for_long_is_waited_for_no_more(world: World) -> None:
    flow = world.flow()
    flow.credit.expect(3)
    send(flow, 1, 2 * CREDIT_BYTES)
    flow.reached(ME, 1)
    assert flow.admit(1, 5) is Reason.CREDIT
    world.now += AWAY_S + 0.1
    assert flow.admit(1, 5) is None


def test_credit_is_shared_anew_now_and_then_however_often_it_is_asked_for(world: World) -> None:
    flow = world.flow()
    send(flow, 1, CREDIT_BYTES_MIN + 1)
    for _ in range(10):
        flow.admit(1, 5)
    assert world.looks == 1
    world.now += 2 * CREDIT_LOOK_S
    flow.admit(1, 5)
    assert world.looks == 2


def test_a_wait_that_is_over_still_names_what_is_under_way(world: World) -> None:
    flow = world.flow()
    send(flow, 1, 10)
    assert flow.reason() is None
    error = flow.error(Reason.MEMBER)
    assert isinstance(error, BackPressureError)
    assert (error.name, error.asked) == ("CREDIT_BYTES", 10)


# --- pacing ---


def test_peers_are_busy_while_much_waits_for_one_or_a_quarter_of_the_credit_is_used(world: World) -> None:
    flow = world.flow()
    assert not flow.is_busy()
    world.outbox.most_waiting = BUSY_BYTES
    assert not flow.is_busy()
    world.outbox.most_waiting += 1
    assert flow.is_busy()
    assert not flow.may_go_alone(1.0)
    world.outbox.most_waiting = 0
    send(flow, 1, CREDIT_BYTES // 4)
    assert not flow.is_busy()
    send(flow, 2, 1)
    assert flow.is_busy()


def test_slow_delivery_makes_gaps_between_bundles_that_nobody_waits_for(world: World) -> None:
    flow = world.flow()
    assert flow.gap_s() == 0.0
    assert flow.may_go_alone(1.0)
    for last in range(1, 60):
        send(flow, last, 1)
        world.now += 4 * QUICK_S
        flow.reached(3, last)
    send(flow, 60, 1)
    assert 0 < flow.gap_s() <= GAP_S_MAX
    assert not flow.may_go_alone(2.0)
    world.now += 2 * GAP_S_MAX
    assert flow.may_go_alone(3.0)


def test_events_are_counted_and_word_that_is_no_news_measures_nothing(world: World) -> None:
    flow = world.flow()
    flow.published(packed(Process(ME, 1), 5, [b"a", b"b", b"c"]), 3)
    assert (flow.published_events, flow.credit.last) == (3, 7)
    assert flow.reached(3, 7)
    world.now += 100
    assert not flow.reached(3, 7)
    assert flow.pacer.delivery_s == 0.0


# --- words ---


def test_only_a_limit_that_eases_and_a_clock_that_catches_up_pass_by_themselves() -> None:
    assert passes(LimitError("x", 1, 2, transient=True))
    assert passes(StalledError("x", 5))
    assert not passes(LimitError("x", 1, 2))
    assert not passes(NotCoordinatorError("x", 5))


def test_a_sentence_names_at_most_eight_processes() -> None:
    assert named([]) == ""
    assert named([3]) == "process 3"
    assert named(range(8)) == "processes 0, 1, 2, 3, 4, 5, 6, 7"
    assert named(range(9)) == "processes 0, 1, 2, 3, 4, 5, 6, 7 and others"
