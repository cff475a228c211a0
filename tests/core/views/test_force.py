"""Force: an operator names the survivors, and they go on as another generation; and groups of one name never mix."""

from collections.abc import Callable

import pytest

from tests.core.views.group import Group, between, both, of, touching
from whence.core.views.items import Decree, Fetch, Hint, JoinRequest, ViewMark, ViewMessage
from whence.core.views.settings import MS, ViewSettings
from whence.epochs import birth_of, generation_of, number_of
from whence.errors import UsageError

CAUSAL, TOTAL = "causal-living", "total-strict"
KINDS = pytest.mark.parametrize("kind", [CAUSAL, TOTAL])
VOLATILE, DURABLE = ViewSettings(journal=False), ViewSettings(journal=True)
SECOND = 1_000 * MS


@KINDS
def test_a_survivor_alone_goes_on_where_no_quorum_is_left(kind: str) -> None:
    group = Group(kind, None, DURABLE)
    for pid in (1, 2):
        group.crash(pid)
        group.remove(0, pid)
    group.wait(2 * SECOND)
    assert group.pids(0) == [0, 1, 2]
    group.force(0, 0)
    group.wait(2 * SECOND)
    assert group.pids(0) == [0]
    view = group.view(0)
    assert (generation_of(view.epoch), number_of(view.epoch), view.forced_from) == (1, 1, 0)
    event = group.publish(0)
    group.wait(SECOND)
    assert event in group.log[0] or kind == CAUSAL
    assert [note.epoch for note in group.told(0, "forced")] == [view.epoch]
    group.join(9, 0)
    group.wait(2 * SECOND)
    assert group.is_live(9)
    assert group.pids(0) == [0, 9]


@KINDS
def test_survivors_bring_each_other_up_to_what_one_of_them_has(kind: str) -> None:
    group = Group(kind, None, VOLATILE, founders=5)
    known_to_one = group.publish(4)
    group.arrive(both(of(ViewMessage), between([4], [1])))
    group.drop(touching(4))
    for pid in (2, 3, 4):
        group.crash(pid)
    group.force(0, 0, 1)
    group.wait(3 * SECOND)
    assert group.pids(0) == group.pids(1) == [0, 1]
    assert group.log[0] == group.log[1] == [known_to_one]
    later = group.publish(1)
    group.wait(SECOND)
    assert group.log[0] == [known_to_one, later]


def test_who_is_no_survivor_and_alive_is_out_with_an_unknown_verdict() -> None:
    group = Group(CAUSAL, None, VOLATILE)
    group.publish(2)
    group.flow()
    group.force(0, 0, 1)
    group.wait(2 * SECOND)
    assert group.pids(0) == group.pids(1) == [0, 1]
    [verdict] = group.told(2, "removed_unknown")
    assert verdict.epoch == group.view(0).epoch


def test_a_member_that_was_away_during_the_force_is_out_when_it_meets_the_later_generation() -> None:
    group = Group(CAUSAL, None, DURABLE)
    group.crash(2)
    group.crash(1)
    group.force(0, 0)
    group.wait(10 * SECOND)
    assert group.pids(0) == [0]
    group.restart(2)
    group.wait(2 * SECOND)
    assert group.told(2, "removed_unknown")
    assert group.pids(0) == [0]


def test_a_survivor_that_missed_the_view_learns_it_from_acknowledgements() -> None:
    group = Group(CAUSAL, None, VOLATILE, founders=4)
    for pid in (2, 3):
        group.crash(pid)
    group.force(0, 0, 1)
    group.wait(600 * MS, lose=both(of(Decree), between([0], [1])))
    assert group.pids(0) == [0, 1] != group.pids(1)
    event = group.publish(0)
    group.wait(3 * SECOND)
    assert group.pids(1) == [0, 1]
    assert event in group.log[1]


def test_a_survivor_that_knows_a_later_view_than_the_operator_replaced_is_out() -> None:
    group = Group(CAUSAL, None, VOLATILE, founders=4)
    group.force(3, 3, 1)
    kept_apart = both(of(Decree), between([3], [0, 1, 2]))
    group.wait(100 * MS, hold=kept_apart)
    assert group.pids(3) == [1, 3]
    group.join(9, 0)
    group.wait(300 * MS, hold=touching(3))
    group.wait(5 * SECOND)
    assert group.told(1, "removed_unknown") or group.pids(1) == [1, 3]
    assert all(generation_of(group.view(pid).epoch) == 0 or group.pids(pid) == [1, 3] for pid in (1, 3))


@KINDS
def test_a_generation_survives_a_restart_of_its_members(kind: str) -> None:
    group = Group(kind, None, DURABLE)
    group.publish(0)
    group.flow()
    group.crash(2)
    group.force(0, 0, 1)
    group.wait(2 * SECOND)
    for pid in (0, 1):
        group.crash(pid)
    for pid in (0, 1):
        group.restart(pid)
    group.wait(2 * SECOND)
    assert group.pids(0) == group.pids(1) == [0, 1]
    assert generation_of(group.view(1).epoch) == 1
    event = group.publish(1)
    group.wait(SECOND)
    assert event in group.log[0]


def test_what_nobody_can_supply_holds_up_no_survivor() -> None:
    group = Group(CAUSAL, None, DURABLE)
    cause = group.publish(2)
    group.arrive(both(of(ViewMessage), between([2], [0])))
    group.drop(touching(2))
    group.crash(2)
    assert group.log[0] == [cause]
    effect = group.publish(0)
    lost = both(of(ViewMessage), between([0], [1]))
    group.flow(lose=lost)
    group.crash(0)
    group.restart(0)
    group.remove(0, 2)
    group.wait(3 * SECOND)
    assert effect not in group.log[1]
    group.force(0, 0, 1)
    group.wait(5 * SECOND)
    assert group.pids(0) == group.pids(1) == [0, 1]
    assert effect in group.log[1]
    assert cause not in group.log[1]


def test_a_group_is_forced_again_and_the_generations_count() -> None:
    group = Group(CAUSAL, None, VOLATILE, founders=4)
    group.crash(3)
    group.force(0, 0, 1, 2)
    group.wait(2 * SECOND)
    group.crash(2)
    group.crash(1)
    group.force(0, 0)
    group.wait(2 * SECOND)
    assert group.pids(0) == [0]
    assert generation_of(group.view(0).epoch) == 2


def test_a_newcomer_that_has_nothing_yet_is_no_survivor_and_comes_again() -> None:
    group = Group(CAUSAL, None, VOLATILE)
    group.join(9, 0)
    group.wait(100 * MS, lose=both(of(ViewMark), between([2], [9])))
    assert 9 in group.pids(0)
    assert not group.is_live(9)
    group.crash(2)
    group.crash(1)
    group.force(0, 0, 9)
    group.wait(3 * SECOND)
    assert group.pids(0) == [0]


def test_survivors_that_do_not_answer_are_waited_for_and_then_nothing_is_forced() -> None:
    group = Group(CAUSAL, None, VOLATILE)
    group.crash(1)
    group.crash(2)
    group.force(0, 0, 1)
    group.wait(2 * SECOND)
    status = group.members[0].view_status()
    assert status is not None
    assert (status.waits_for, status.survivors) == ((1,), (0, 1))
    group.wait(25 * SECOND)
    assert group.told(0, "force_given_up")
    assert group.pids(0) == [0, 1, 2]
    group.force(0, 0)
    group.wait(SECOND)
    assert group.pids(0) == [0]


@pytest.mark.parametrize(
    ("survivors", "why"),
    [((1, 2), "must be a survivor itself"), ((0, 7), "7 is no member"), ((0, 1, 2), "nothing to force")],
)
def test_a_force_that_makes_no_sense_is_refused(survivors: tuple[int, ...], why: str) -> None:
    group = Group(CAUSAL, None, VOLATILE)
    with pytest.raises(UsageError, match=why):
        group.force(0, *survivors)


# --- groups of one name ---


def _two_groups() -> tuple[Group, Group]:
    return Group(CAUSAL, None, VOLATILE, birth=5), Group(CAUSAL, None, VOLATILE, birth=6)


Does = Callable[[Group], object]


@pytest.mark.parametrize(
    "does",
    [lambda group: group.publish(1), lambda group: group.remove(1, 2), lambda group: group.wait(SECOND)],
    ids=["publishes", "removes", "waits"],
)
def test_no_packet_of_a_group_is_taken_in_another_of_its_name(does: Does) -> None:
    here, there = _two_groups()
    assert {birth_of(here.view(0).epoch), birth_of(there.view(0).epoch)} == {5, 6}
    here.wait(SECOND)
    before = here.view(0)
    does(there)
    for packet in list(there.packets):
        here.hand_in(packet)
    here.wait(2 * SECOND)
    assert here.view(0) == before
    assert not here.log[0]
    assert not there.packets or here.told(0, "other_group") or here.told(2, "other_group")


def test_a_newcomer_that_hears_of_two_groups_of_one_name_joins_neither() -> None:
    here, there = _two_groups()
    here.join(9, 0, 1)
    here.arrive(of(JoinRequest))
    here.arrive(of(Hint))
    foreign = there.members[0]
    asked = foreign.receive(here.members[9].me, JoinRequest(0), 0)
    for send in asked.send:
        here.members[9].receive(foreign.me, send.item, here.now)
    assert "another group of this name" in here.members[9].opening_waits_for()
    here.drop(of(JoinRequest, Hint))
    here.wait(3 * SECOND)
    assert here.pids(0) == [0, 1, 2]


def test_a_first_member_that_began_again_is_no_member_of_the_group_it_began_before() -> None:
    former = Group(CAUSAL, None, VOLATILE, founders=2, birth=5)
    again = Group(CAUSAL, None, VOLATILE, founders=1, birth=9)
    former.crash(0)
    event = again.publish(0)
    fetch = Fetch(0, 0, 0, 5)
    for item in (fetch, *[packet.item for packet in again.packets]):
        former.members[1].receive(again.members[0].me, item, former.now)
    assert event not in former.log[1]
    former.wait(2 * SECOND)
    assert 0 in former.members[1].links.suspects.now
