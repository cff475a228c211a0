"""What members count and measure."""

from msgspec.structs import replace

from tests.core.levels.total.group import Group, metric
from whence.core.clocks.kn import KnStamp
from whence.core.levels.total.items import Ack, Batch, Offer
from whence.types import Process


def test_metrics_tell_what_happened() -> None:
    group = Group(4)
    group.publish(2, b"x")
    group.publish(2, b"y")
    group.run(30)
    merger, follower = group.members[0], group.members[2]
    assert metric(merger, "position") == 2
    assert metric(merger, "buffer_len") == metric(merger, "late_total") == metric(merger, "duplicate_total") == 0
    assert metric(merger, "observed_delay_ticks_bucket", "0") == metric(merger, "observed_delay_ticks_count") == 2
    assert metric(merger, "buffer_ticks", "0.5") == metric(merger, "buffer_ticks", "1") == 20 + 3
    assert metric(merger, "release_lag_ticks") == 0
    assert metric(merger, "k_max") == 2, "its publisher's start and two events in one tick"
    assert metric(merger, "lead_ticks") <= 0
    assert metric(follower, "switches_total") == metric(follower, "stalled") == 0
    names = {each.name for each in merger.metrics()}
    assert names >= {"rejected_total", "g2_violation_total", "reset_total", "stall_ticks", "tick_full_total"}
    assert merger.view() is None


def test_metrics_count_what_goes_wrong() -> None:
    group = Group(4)
    group.lost = (Ack,)
    group.publish(3, b"x")
    group.run(15)
    assert metric(group.members[0], "duplicate_total") > 0
    group.lost = (Offer, Batch)
    group.publish(3, b"late")
    bundle = group.members[3].outbox._pending[3, 1, 2].item
    group.lost = ()
    group.run(60)
    group.do(0, group.members[0].receive(Process(3, 1), bundle, group.now))
    assert metric(group.members[0], "g2_violation_total") == 1
    assert metric(group.members[0], "observed_delay_ticks_bucket", "+Inf") == metric(
        group.members[0], "observed_delay_ticks_count"
    )
    group.corrupt(3, 0)
    group.run(1)
    assert metric(group.members[3], "reset_total", "stamp") == 1
    group.run(10)
    assert metric(group.members[3], "stall_ticks") == 3, "a repaired process is silent for ε ticks"


def test_how_long_an_event_took_is_counted_from_when_it_was_published() -> None:
    """Not from the greatest clock its publisher knew of, which may be ε − 1 ticks ahead and would hide a violation."""
    group = Group(4, stamp="kn")
    group.lost = (Offer, Batch)
    group.publish(3, b"slow")
    offer = group.members[3].outbox._pending[3, 1, 1].item
    clock = group.members[0].clock.stamps
    r = group.members[0].clock.rt
    stamp = clock.write(KnStamp(r, 2, (0, 0, 0, 1, 0, 1)))
    slow = replace(offer, stamp=stamp)
    group.run(23)
    assert group.members[0].clock.rt - r == 23 > 20 + 2
    group.do(0, group.members[0].receive(Process(3, 1), slow, group.now))
    assert metric(group.members[0], "g2_violation_total") == 1
