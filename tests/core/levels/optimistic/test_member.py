"""A member of a cluster: what only this level can do, by its own names and by the paper's."""

from random import Random

import pytest

from whence.core.level import BuildContext
from whence.core.levels.optimistic.level import OptimisticLevel
from whence.core.levels.optimistic.member import OptimisticMember
from whence.core.membership.full_view import Directory
from whence.core.ticket_status import dead_argument
from whence.errors import NotCoordinatorError, UsageError
from whence.types import Process


def founder() -> OptimisticMember:
    """Return one of the first members of a cluster."""
    level = OptimisticLevel()
    member = level.build(Process(1, 1), level.settings_from({}), BuildContext(Random(1).random, 0, Directory()))
    member.found([Process(pid, 1) for pid in (0, 2, 3)], 0)
    return member


@pytest.mark.parametrize(("acquire", "release"), [("acquire_ticket", "release_ticket"), ("cjoin", "cleave")])
def test_a_ticket_is_asked_for_and_given_back_under_either_name(acquire: str, release: str) -> None:
    member = founder()
    assert member.status(0).state == "none"
    asked = member.act(acquire, 0, 0)
    assert [note.reason for note in asked.notes] == ["ticket_asked"]
    assert member.status(0).state == "joining"
    with pytest.raises(UsageError, match="already has a ticket, or asks for one"):
        member.act(acquire, 0, 0)
    given_back = member.act(release, 0, 1)
    assert [note.reason for note in given_back.notes] == ["ticket_given_back"]
    assert member.status(1).state == "none"
    with pytest.raises(UsageError, match="neither has a ticket nor asks for one"):
        member.act(release, 0, 1)


def test_an_unknown_act_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="know acquire_ticket, release_ticket and declare_dead, not 'fly'"):
        founder().act("fly", 0, 0)


def test_only_a_member_asks_for_a_ticket_and_is_told_so_by_the_new_name() -> None:
    level = OptimisticLevel()
    outside = level.build(Process(1, 1), level.settings_from({}), BuildContext(Random(1).random, 0, Directory()))
    with pytest.raises(UsageError, match="only a member may acquire_ticket, and this process is outside"):
        outside.act("cjoin", 0, 0)


def test_without_a_ticket_publishing_says_what_to_call() -> None:
    with pytest.raises(NotCoordinatorError, match="call acquire_ticket first"):
        founder().publish([b"x"], 0)


def test_a_process_is_declared_dead_by_its_number_and_incarnation() -> None:
    member = founder()
    member.act("declare_dead", dead_argument(Process(7, 5)), 0)
    assert list(member._tickets.dead) == [Process(7, 5)]
    with pytest.raises(UsageError, match="this process is alive"):
        member.act("declare_dead", dead_argument(member.me), 0)
