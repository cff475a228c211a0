"""Uniform delivery in strict groups: nothing is handed out before a quorum of the voters has it."""

import pytest

from tests.core.views.group import Group
from whence.core.views.settings import MS, ViewSettings

SECOND = 1_000 * MS

STORING = pytest.mark.parametrize(
    "settings",
    [
        ViewSettings(journal=False),
        ViewSettings(journal=True),
        ViewSettings(journal=True, majority=True),
        ViewSettings(journal=True, keep="all"),
    ],
    ids=["volatile", "own", "majority", "all"],
)


@STORING
def test_it_needs_no_other_setting(settings: ViewSettings) -> None:
    """Journals that hold only what was taken would wait for what waits for them."""
    group = Group("total-strict", None, settings, uniform=True)
    events = [group.publish(pid) for pid in range(3)]
    group.wait(2 * SECOND)
    assert set(group.log[0]) == set(events)
    assert group.log[0] == group.log[1] == group.log[2]
    assert group.told(0, "majority")
