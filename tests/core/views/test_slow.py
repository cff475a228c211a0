"""A member whose application is slow, and newcomers: what changes of the view need does not wait for applications."""

import pytest

from tests.core.views.group import Group, between, both, of
from whence.core.views.items import ViewAck, ViewMark
from whence.core.views.settings import MS, ViewSettings

WINDOW = 4
SETTINGS = ViewSettings(window=WINDOW)
BACKLOG = 10 * WINDOW
STEP = 20 * MS


def group_with_a_slow_reader(kind: str) -> Group:
    """Return three members; what the first two publish fills their windows at the third many times over."""
    group = Group(kind, None, SETTINGS)
    group.wait(1_000 * MS)
    group.slow = {2}
    for _ in range(BACKLOG):
        group.publish(0)
        group.publish(1)
        group.wait(STEP)
    assert len(group.untaken[2]) <= 2 * WINDOW
    return group


@pytest.mark.parametrize("kind", ["causal-living", "total-strict"])
def test_a_slow_application_does_not_hold_up_a_newcomer(kind: str) -> None:
    group = group_with_a_slow_reader(kind)
    group.join(7, 0)
    group.wait(1_500 * MS)
    assert group.is_live(7)
    event = group.publish(0)
    group.wait(200 * MS)
    assert event in group.log[7]
    assert not group.broken()


@pytest.mark.parametrize("kind", ["causal-living", "total-strict"])
def test_what_is_sent_for_a_newcomer_ends_with_the_marks(kind: str) -> None:
    """After them the window counts again what the application has taken."""
    group = group_with_a_slow_reader(kind)
    group.join(7, 0)
    group.wait(1_500 * MS)
    got = [stream.got for stream in group.members[2].state.here]
    for _ in range(BACKLOG):
        group.publish(0)
        group.wait(STEP)
    assert [stream.got for stream in group.members[2].state.here][:3] == got[:3]
    assert not group.broken()


def test_a_strict_group_goes_on_while_a_newcomer_with_full_windows_is_not_opened() -> None:
    group = Group("total-strict", None, SETTINGS)
    lost = both(of(ViewAck), between([2], [7]))
    group.join(7, 0)
    group.wait(500 * MS, lose=lost)
    assert 7 in group.pids(0)
    assert not group.is_live(7)
    status = group.members[0].view_status()
    assert status is not None
    assert (status.change, status.waits_for) == ("let in 7", (7,))
    for _ in range(BACKLOG):
        group.publish(0)
        group.wait(STEP, lose=lost)
    assert len(group.log[1]) == BACKLOG
    group.wait(1_000 * MS)
    assert group.is_live(7)
    assert not group.broken()


def test_a_member_says_whom_a_newcomer_waits_for() -> None:
    group = Group("causal-living", None, SETTINGS)
    lost = both(of(ViewMark), between([1], [2]))
    group.join(7, 0)
    group.wait(300 * MS, lose=lost)
    status = group.members[1].view_status()
    assert status is not None
    assert (status.change, status.waits_for) == ("let in 7", (2,))
    group.wait(2_000 * MS)
    status = group.members[1].view_status()
    assert status is not None
    assert (status.change, status.waits_for) == ("", ())
