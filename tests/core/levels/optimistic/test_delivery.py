"""Two-layer delivery: never against causal order, nothing twice, skips are told (docs/papers/optimistic.md 6)."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.core.clocks import cct
from whence.core.clocks.cct import entry_of, precedes
from whence.core.levels.optimistic.delivery import TwoLayerDelivery
from whence.core.levels.optimistic.recovery import Recover, Recovered, RecoveryBuffer, TokenBucket
from whence.core.levels.optimistic.settings import DeliverySettings
from whence.core.levels.optimistic.sizing import (
    buffer_size,
    fan_out,
    free_ticket,
    overflow_log10,
    sizes_for,
    stay_rounds,
    success,
)
from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.core.ready import Delivery, Gap, Ready
from whence.errors import SettingError
from whence.limits import Limits
from whence.types import Bundle, Process, Span, packed

TICKETS = 3
ROUND_NS = 10
HOLD_NS = RECOVER_NS = 6 * ROUND_NS


class Member:
    """A member of a small cluster: publishes under a ticket, hears bundles, remembers what it delivered."""

    def __init__(self, pid: int, **given: object) -> None:
        self.me = Process(pid, 1)
        layer = DeliverySettings(**given)  # type: ignore[arg-type]
        self.delivery = TwoLayerDelivery(self.me, TICKETS, layer, ROUND_NS, Limits())
        self.delivery.requests.targets = lambda count: (90,)
        self.published = 0
        self.delivered: list[Bundle] = []
        self.skipped: list[Span] = []
        self.ready = Ready()

    def take(self, ready: Ready) -> None:
        self.ready = ready
        for step in ready.deliver:
            if isinstance(step, Delivery):
                self.delivered.append(step.bundle)
            elif isinstance(step, Gap):
                self.skipped += step.spans

    def publish(self, ticket: int, epoch: int = 1, events: int = 1, base: int = 0) -> Bundle:
        self.delivery.epoch.begin(TicketEpoch(ticket, epoch), base)
        bundle = packed(self.me, self.published + 1, [b"x"] * events, self.delivery.stamp(0))
        self.published += events
        ready = Ready()
        self.delivery.publish(bundle, 0, ready)
        self.take(ready)
        return bundle

    def hear(self, bundle: Bundle, now: int = 0) -> None:
        ready = Ready()
        self.delivery.admit(bundle, now, ready)
        self.take(ready)

    def seek(self, ticket: int, epoch: int, base: int, now: int = 0) -> None:
        ready = Ready()
        self.delivery.handover.begin(TicketEpoch(ticket, epoch), base, now, ready)
        self.take(ready)

    def recover(self, bundles: list[Bundle], now: int) -> None:
        ready = Ready()
        self.delivery.receive(Process(1, 1), Recovered(bundles), now, ready)
        self.take(ready)

    def wait(self, now: int) -> None:
        while (at := self.delivery.wake_at()) is not None and at <= now:
            ready = Ready()
            self.delivery.tick(at, ready)
            self.take(ready)


def test_an_event_waits_for_every_event_it_follows() -> None:
    one, two, three = Member(1), Member(2), Member(3)
    first = one.publish(0)
    two.hear(first)
    second = two.publish(1)
    three.hear(second)
    assert three.delivered == []
    three.hear(first)
    assert three.delivered == [first, second]


def test_its_publisher_delivers_an_event_at_creation_and_never_waits_for_it() -> None:
    """Trap C3: else it would wait for, and try to recover, its own events."""
    one = Member(1)
    bundle = one.publish(0, events=3)
    assert one.delivered == [bundle]
    one.hear(bundle)
    assert one.delivered == [bundle]
    assert one.delivery.clock[0] == entry_of(1, 3)


def test_what_did_not_come_is_asked_for_once_and_then_skipped_and_told() -> None:
    one, two = Member(1), Member(2)
    lost, kept = one.publish(0, events=2), one.publish(0)
    two.hear(kept)
    two.wait(HOLD_NS)
    asked = [send for send in two.ready.send if isinstance(send.item, Recover)]
    assert [send.to for send in asked] == [(1,)], "R1 first: its publisher"
    two.wait(HOLD_NS + RECOVER_NS // 2)
    assert [send.to for send in two.ready.send] == [(90,)], "then some members"
    two.wait(HOLD_NS + RECOVER_NS)
    assert two.delivered == [kept]
    assert two.skipped == [Span(1, 1, 1, 2)]
    two.hear(lost)
    assert two.delivered == [kept], "what was skipped stays skipped"


def test_where_nothing_has_come_of_an_epoch_yet_its_owner_by_hearsay_is_asked() -> None:
    one, two, three = Member(1), Member(2), Member(3)
    two.hear(one.publish(0))
    later = two.publish(1)
    three.delivery.publishers.owner_of = {TicketEpoch(0, 1): Process(1, 1)}.get
    three.hear(later)
    three.wait(HOLD_NS)
    assert [send.to for send in three.ready.send] == [(1,)]


def test_what_was_asked_for_is_delivered_in_its_place() -> None:
    one, two = Member(1), Member(2)
    lost, kept = one.publish(0), one.publish(0)
    two.hear(kept)
    two.wait(HOLD_NS)
    request = next(send.item for send in two.ready.send if isinstance(send.item, Recover))
    answer = Ready()
    one.delivery.receive(two.me, request, 5, answer)
    (send,) = answer.send
    assert isinstance(send.item, Recovered)
    back = Ready()
    two.delivery.receive(one.me, send.item, HOLD_NS + 1, back)
    two.take(back)
    assert two.delivered == [lost, kept]
    assert two.skipped == []


def test_a_timer_does_nothing_for_a_bundle_that_was_delivered_meanwhile() -> None:
    """Trap C5: printed as it is, Algorithm 5 delivers it a second time."""
    one, two = Member(1), Member(2)
    first, second = one.publish(0), one.publish(0)
    two.hear(second)
    two.hear(first, 1)
    assert two.delivery.wake_at() is None
    two.wait(10**6)
    assert two.delivered == [first, second]


def test_what_is_forced_comes_after_all_it_follows_that_is_there() -> None:
    """Trap C6: the text's "all that causally precede e", not the pseudo-code's "that can be delivered"."""
    one, two, three = Member(1), Member(2), Member(3)
    lost, first = one.publish(0), one.publish(0)
    two.hear(lost)
    two.hear(first)
    second = two.publish(1)
    three.hear(second, 0)
    three.hear(first, 1)
    three.wait(HOLD_NS + RECOVER_NS)
    assert three.delivered == [first, second]
    assert three.skipped == [Span(1, 1, 1, 1)]


def test_events_of_a_former_owner_are_delivered_before_the_next_ones_and_never_after() -> None:
    """optimistic 6.7, traps C10, C11 and C14: epochs before numbers; the base orders the hand-over."""
    old, new, other = Member(1), Member(2), Member(3)
    first, second, unseen = old.publish(0, epoch=1), old.publish(0, epoch=1), old.publish(0, epoch=1)
    for bundle in (first, second):
        new.hear(bundle)
    taken = new.publish(0, epoch=5, base=entry_of(1, 2))
    other.hear(first)
    other.hear(taken)
    assert other.delivered == [first], "it waits for what its owner had seen of the last"
    other.hear(second)
    assert other.delivered == [first, second, taken]
    other.hear(unseen)
    assert other.delivered == [first, second, taken], "obsolete once the next owner was heard"


def test_a_new_owner_asks_at_once_for_what_its_predecessors_left_and_it_lacks() -> None:
    """X4: nothing it holds follows them, so nothing else would ask."""
    one, two = Member(1), Member(2)
    seen, last = one.publish(0), one.publish(0, events=2)
    two.hear(seen)
    two.seek(0, 2, entry_of(1, 3))
    assert [(send.to, type(send.item)) for send in two.ready.send] == [((1,), Recover)]
    two.recover([last], 5)
    assert two.delivered == [seen, last]
    own = two.publish(0, epoch=2, base=entry_of(1, 3))
    assert (two.delivered, two.skipped) == ([seen, last, own], [])
    assert two.delivery.wake_at() is None


def test_what_a_new_owner_asks_for_waits_for_what_it_follows_and_no_longer_than_anything() -> None:
    one, two, three = Member(1), Member(2), Member(3)
    cause = three.publish(2)
    one.hear(cause)
    last = one.publish(0)
    two.seek(0, 2, entry_of(1, 1))
    two.recover([last], 5)
    assert two.delivered == []
    assert [type(send.item) for send in two.ready.send] == [Recover], "what it follows is asked for at once too"
    two.wait(5 + RECOVER_NS)
    assert (two.delivered, two.skipped) == ([last], []), "and skipped; its publisher is not known yet"
    two.hear(three.publish(2))
    assert two.skipped == [Span(3, 1, 1, 1)]


def test_what_a_new_owner_asked_for_in_vain_is_not_asked_for_for_ever() -> None:
    two = Member(2)
    two.seek(0, 2, entry_of(1, 3))
    assert len(two.delivery.requests) == 3
    two.wait(HOLD_NS + RECOVER_NS)
    assert len(two.delivery.requests) == 0
    assert two.delivery.wake_at() is None


def test_a_new_owner_whose_predecessor_published_for_years_asks_for_the_last_of_it() -> None:
    two = Member(2)
    two.seek(0, 2, entry_of(1, 1 << 31))
    assert len(two.delivery.requests) == 64


def test_two_owners_of_a_ticket_never_share_an_id() -> None:
    old, new = Member(1), Member(2)
    stamps = [cct.read(each.stamp, TICKETS, 1) for each in (old.publish(0, epoch=1), new.publish(0, epoch=2))]
    assert stamps[0].entry != stamps[1].entry


def test_a_gap_whose_publisher_is_not_known_is_told_when_it_is() -> None:
    one, two, three = Member(1), Member(2), Member(3)
    lost, later = one.publish(0), one.publish(0)
    two.hear(lost)
    second = two.publish(1)
    three.hear(second)
    three.wait(10**6)
    assert three.delivered == [second]
    assert three.skipped == []
    assert [(note.kind, note.reason) for note in three.ready.notes] == [("reset", "unnamed")], "it may never be"
    three.hear(later)
    assert three.skipped == [Span(1, 1, 1, 1)]
    assert three.delivered == [second, later]


def test_a_newcomer_with_a_snapshot_misses_nothing_of_the_past() -> None:
    """optimistic 6.6, trap C12: without it the first event looks as if the whole past were missing."""
    one, old, new = Member(1), Member(2), Member(3)
    for _ in range(50):
        old.hear(one.publish(0))
    new.delivery.adopt(old.delivery.snapshot())
    late = one.publish(0)
    new.hear(late)
    assert new.delivered == [late]
    assert new.delivery.wake_at() is None


@pytest.mark.parametrize("snapshot", [b"odd", b"\xff" * 18])
def test_a_snapshot_that_is_none_is_refused(snapshot: bytes) -> None:
    with pytest.raises(ValueError, match=r"snapshot|entry"):
        Member(1).delivery.adopt(snapshot)


def test_a_gap_of_years_is_not_written_out() -> None:
    one, two = Member(1), Member(2, recovery_ids=8)
    one.delivery.clock[0] = entry_of(1, 2**31)
    two.hear(one.publish(0))
    two.wait(HOLD_NS)
    assert ("reset", "too_old") in [(note.kind, note.reason) for note in two.ready.notes]
    assert len(two.delivery.requests) <= 8
    two.wait(10**6)
    assert len(two.delivered) == 1


@given(st.binary(max_size=60), st.integers(1, 5))
def test_a_stamp_that_is_none_is_rejected_and_nothing_else_happens(stamp: bytes, events: int) -> None:
    member = Member(1)
    member.hear(packed(Process(2, 1), 1, [b"x"] * events, stamp))
    assert all(isinstance(step, Delivery) for step in member.ready.deliver)
    assert member.ready.notes or member.delivered


@given(st.lists(st.integers(0, 2**40), min_size=TICKETS, max_size=TICKETS), st.integers(0, TICKETS - 1))
def test_a_stamp_is_read_as_it_was_written(clock: list[int], ticket: int) -> None:
    before = entry_of(999, 7)
    stamp = cct.read(cct.packed(ticket, before, 3, clock), TICKETS, 2)
    expected = list(clock)
    expected[ticket] = before + 2
    assert (stamp.ticket, stamp.before, stamp.base, list(stamp.vector)) == (ticket, before, 3, expected)


@settings(max_examples=max(200, settings().max_examples))
@given(st.integers(0, 2**32))
def test_no_member_ever_delivers_an_event_after_one_that_follows_it(seed: int) -> None:
    """Random publications, losses, orders, duplicates, changes of owner and times, against causality kept by hand."""
    random = Random(seed)
    members = [Member(pid, recovery=random.choice(("R1", "Rk", "R1+Rk"))) for pid in range(TICKETS)]
    past: dict[tuple[int, int], set[tuple[int, int]]] = {}
    known: list[set[tuple[int, int]]] = [set() for _ in members]
    flying: list[tuple[int, Bundle]] = []
    owner, epoch = list(range(TICKETS)), [1] * TICKETS
    now = 0

    def note(at: int, before: int) -> None:
        for bundle in members[at].delivered[before:]:
            name = (bundle.pid, bundle.first)
            if bundle.pid == at and name not in past:
                past[name] = set(known[at])
            assert not any(name in past[other] for other in known[at]), "it came after something that follows it"
            assert name not in known[at], "it came twice"
            known[at].add(name)

    for _ in range(60):
        now += random.randrange(20)
        at = random.randrange(TICKETS)
        before = len(members[at].delivered)
        draw = random.random()
        if draw < 0.35:
            ticket = owner.index(at) if at in owner else None
            if ticket is not None and members[at].delivery.clock[ticket] >> 32 <= epoch[ticket]:
                bundle = members[at].publish(ticket, epoch[ticket])
                flying += [
                    (to, bundle) for to in range(TICKETS) if to != at for _ in range(random.choice((0, 1, 1, 2)))
                ]
        elif draw < 0.85 and flying:
            at, bundle = flying.pop(random.randrange(len(flying)))
            before = len(members[at].delivered)
            members[at].hear(bundle, now)
        elif draw < 0.9:
            ticket = random.randrange(TICKETS)
            epoch[ticket] = max(epoch) + 1
            owner[ticket] = at if at not in owner else owner[ticket]
        else:
            members[at].wait(now)
        note(at, before)


@given(st.lists(st.integers(0, 4), min_size=3, max_size=3), st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_one_vector_precedes_another_if_it_is_nowhere_above_and_somewhere_below(
    one: list[int], other: list[int]
) -> None:
    pairs = list(zip(one, other, strict=True))
    assert precedes(tuple(one), tuple(other)) == (all(a <= b for a, b in pairs) and any(a < b for a, b in pairs))


def test_a_bucket_gives_a_burst_and_then_its_rate() -> None:
    bucket = TokenBucket(2.0, 5, 100)
    assert [bucket.take(9, 0), bucket.take(9, 0), bucket.take(9, 100), bucket.take(9, 10**6)] == [5, 0, 2, 5]


def test_the_library_keeps_each_bundle_once_and_drops_the_oldest() -> None:
    """Trap C8: duplicates must not push others out."""
    library = RecoveryBuffer(2, 1 << 20)
    bundles = [packed(Process(1, 1), seq, [b"x"]) for seq in (1, 2, 3)]
    for number in (0, 1, 1, 1):
        library.keep(0, entry_of(1, number), entry_of(1, number + 1), bundles[number])
    assert len(library) == 2
    library.keep(0, entry_of(1, 2), entry_of(1, 3), bundles[2])
    everything = b"\x00\x00" + (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + (9).to_bytes(4, "little")
    assert library.find(everything) == bundles[1:]


def test_the_library_keeps_so_many_bytes_and_always_the_last_bundle() -> None:
    library = RecoveryBuffer(100, 1000)
    bundles = [packed(Process(1, 1), seq, [bytes(size)]) for seq, size in enumerate((400, 400, 400, 3000), 1)]
    for number, bundle in enumerate(bundles):
        library.keep(0, entry_of(1, number), entry_of(1, number + 1), bundle)
        assert library.bytes <= max(1000, len(bundle.body))
        assert len(library) == (1, 2, 2, 1)[number]
    library.keep(0, entry_of(1, 4), entry_of(1, 5), bundles[0])
    assert (len(library), library.bytes) == (1, 400)


@pytest.mark.parametrize(
    "given", [{"hold_rounds": 0}, {"recover_rounds": 999}, {"recovery": "R9"}, {"recovery_fanout": 0}]
)
def test_a_setting_that_cannot_work_is_refused_by_name(given: dict[str, object]) -> None:
    with pytest.raises(SettingError, match=next(iter(given))):
        DeliverySettings(**given)  # type: ignore[arg-type]


def test_sizes_are_those_of_the_papers_theorems() -> None:
    """Theorem 5.1: np = 6, PrCast and both timeouts 5 rounds: T_stay = 20, B = 240, failure below 1e-20."""
    assert stay_rounds(5, 5, 5) == 20
    assert buffer_size(6, 20) == 240
    assert buffer_size(12.5, 20) == 500
    assert overflow_log10(6, 20) < -20
    assert fan_out(25, 0.08) == 4
    assert success(4, 1.0, 0.08, 0.0) > 0.9999
    assert free_ticket(0.1, 0.75)
    assert not free_ticket(0.3, 0.75)
    sizes = sizes_for(
        members=25, events_per_round=6, down=0.08, loss=0.01, used=0.5, tickets=32,
        spread_rounds=5, hold_rounds=5, recover_rounds=5,
    )  # fmt: skip
    assert (sizes.recovery_bundles, sizes.recovery_fanout) == (240, 4)
