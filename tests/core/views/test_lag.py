"""Applications that lag behind: up to a bound they hold the others up, and for `lag_max_ns` they may."""

import pytest

from tests.core.views.group import STEP_NS, Group, between, both, of, touching
from whence.core.views.items import ViewAck
from whence.core.views.lag import LOOKS
from whence.core.views.settings import MS, ViewSettings
from whence.errors import LimitError, RemovedError, SettingError

LAG = 800 * MS
BOTH = pytest.mark.parametrize("kind", ["causal-living", "total-strict"])
MEMORY = pytest.mark.parametrize("journal", [True, False], ids=["journal", "no journal"])


def group_of(
    kind: str, *, founders: int = 4, journal: bool = True, lag_max_ns: int = LAG, records_max: int = 8192
) -> Group:
    """Return a group that removes whose application lags."""
    settings = ViewSettings(journal=journal, lag_max_ns=lag_max_ns, records_max=records_max)
    return Group(kind, None, settings, founders=founders)


def load(group: Group, ns: int, *publishers: int) -> None:
    """Let some members publish now and then while time goes on."""
    for _ in range(ns // (5 * STEP_NS)):
        for pid in publishers:
            group.publish(pid)
        group.wait(5 * STEP_NS)


@BOTH
@MEMORY
@pytest.mark.parametrize("stuck", [0, 3], ids=["the first voter", "another"])
def test_who_does_not_take_for_so_long_is_removed_and_told_how_far_its_events_count(
    kind: str, journal: bool, stuck: int
) -> None:
    group = group_of(kind, journal=journal)
    others = [pid for pid in range(4) if pid != stuck]
    own = group.publish(stuck)
    group.wait(4 * STEP_NS)
    group.slow = {stuck}
    load(group, 3 * LAG, *others)
    for pid in others:
        assert group.pids(pid) == others
    (verdict,) = group.told(stuck, "removed")
    assert verdict.event == own
    with pytest.raises(RemovedError):
        group.publish(stuck)


@BOTH
@MEMORY
def test_who_takes_within_the_time_stays_however_far_behind_it_is(kind: str, journal: bool) -> None:
    group = group_of(kind, journal=journal)
    for _ in range(8):
        group.slow = {3}
        load(group, LAG // 2, 0, 1, 2)
        group.slow = set()
        group.take(3)
        group.wait(5 * STEP_NS)
    assert group.pids(0) == [0, 1, 2, 3]


@BOTH
def test_without_the_setting_nobody_is_removed_and_the_others_go_on_up_to_the_bound(kind: str) -> None:
    group = group_of(kind, lag_max_ns=0, records_max=64)
    group.slow = {3}
    for _ in range(16):
        group.publish(0)
        group.wait(STEP_NS)
    with pytest.raises(LimitError, match="records_max // 4") as full:
        group.publish(0)
    assert full.value.transient
    group.wait(4 * LAG)
    assert group.pids(0) == [0, 1, 2, 3]
    status = group.members[0].view_status()
    assert status is not None
    assert [member.lag for member in status.members] == [0, 0, 0, 16]
    assert group.members[0].missing((group.members[0].settled() or 0) + 1) == (3,)
    group.slow = set()
    group.take(3)
    group.wait(4 * STEP_NS)
    group.publish(0)


@BOTH
def test_a_process_that_stood_still_finds_nobody_late(kind: str) -> None:
    """What it took just before is not acknowledged to it yet, and time has passed for it at once."""
    group = group_of(kind)
    load(group, LAG, 0, 1, 2, 3)
    group.publish(0)
    group.flow(hold=lambda packet: isinstance(packet.item, ViewAck) and packet.to == 0)
    for _ in range(3):
        group.now += 4 * LAG
        group.wake(0)
    assert group.pids(0) == [0, 1, 2, 3]
    assert not group.members[0].changes.wishes.lags.late
    group.wait(LAG)
    assert group.pids(1) == [0, 1, 2, 3]


@BOTH
def test_of_many_that_are_stuck_only_so_many_go_that_a_quorum_stays(kind: str) -> None:
    group = group_of(kind, founders=5)
    group.slow = {2, 3, 4}
    load(group, 4 * LAG, 0, 1)
    assert group.pids(0) == [0, 1, 2, 3, 4], "two of five may remove nobody"
    group.slow = {3, 4}
    group.take(2)
    load(group, 4 * LAG, 0, 1)
    assert group.pids(0) == [0, 1, 2]


def test_nobody_is_late_where_nothing_is_handed_out_because_one_is_silent() -> None:
    """Strict order waits for the promise of everybody. Whoever is down holds all back, and is no application that lags:
    when it is back, all take at once what waited, and nobody is removed."""
    group = group_of("total-strict")
    group.wait(LAG)
    group.crash(3)
    for pid in (0, 1, 2):
        group.publish(pid)
    group.wait(4 * LAG)
    assert not any(group.log[pid] for pid in (0, 1, 2))
    group.restart(3)
    group.wait(2 * LAG)
    assert [len(group.log[pid]) for pid in range(4)] == [3, 3, 3, 3]
    assert group.pids(0) == [0, 1, 2, 3]


@BOTH
def test_a_member_that_is_silent_is_no_matter_of_its_application(kind: str) -> None:
    group = group_of(kind)
    load(group, LAG, 0, 1)
    group.suspect(0, 3)
    group.suspect(1, 3)
    group.suspect(2, 3)
    group.publish(0)
    group.wait(4 * LAG, lose=touching(3))
    assert group.pids(0) == [0, 1, 2, 3]


@BOTH
def test_a_newcomer_that_is_not_opened_is_not_late(kind: str) -> None:
    """It takes nothing before it has heard of every older member how far that one is."""
    group = group_of(kind)
    load(group, LAG, 0, 1)
    group.join(4, 0)
    unheard = both(of(ViewAck), between([3], [4]))
    group.wait(2 * STEP_NS, lose=unheard)
    for _ in range(40):
        group.publish(0)
        group.wait(5 * STEP_NS, lose=unheard)
    assert group.pids(0) == [0, 1, 2, 3, 4]
    assert not group.is_live(4)
    group.wait(2 * LAG)
    assert group.is_live(4)
    assert group.pids(0) == [0, 1, 2, 3, 4]


def test_late_is_counted_in_looks() -> None:
    group = group_of("causal-living")
    group.slow = {3}
    group.publish(0)
    lags = group.members[0].changes.wishes.lags
    looks = 0
    while 3 in group.pids(0):
        before = lags.next_at
        group.wait(STEP_NS)
        looks += lags.next_at != before
        assert looks <= LOOKS + 2
    assert looks >= LOOKS


def test_a_negative_time_is_refused() -> None:
    with pytest.raises(SettingError, match="lag_max_ns"):
        ViewSettings(lag_max_ns=-1)
