"""Schedules that random search hardly finds, one per trap: the protocol keeps its promise, the planted bug does not.

Each is told by hand: what arrives, what is lost, who crashes. A catch counts because the sound member passes the same.
"""

from collections.abc import Callable

import pytest

from tests.core.views.group import Group, Packet, between, both, either, of, touching, watched
from whence.core.views.items import (
    Accept,
    Beat,
    Decree,
    Fetch,
    Freeze,
    JoinRequest,
    Knows,
    Promise,
    Report,
    Target,
    ViewAck,
    ViewMark,
    ViewMessage,
    Wish,
)
from whence.core.views.settings import MS, ViewSettings
from whence.core.views.view import Ballot, MemberId
from whence.types import Process
from whence_lab.mutants import find, mutants_of

CAUSAL, TOTAL = "causal-living", "total-strict"
VOLATILE = ViewSettings(journal=False)
DURABLE = ViewSettings(journal=True)
SECOND = 1_000 * MS


def lets_an_old_request_arrive(bug: str | None) -> bool:
    """T13: a copy of a request to join arrives when its process has left; in strict order all wait for its mark."""
    group = Group(TOTAL, bug, ViewSettings(journal=False, join_timeout_ns=60 * SECOND))
    group.join(9, 0)
    copies = [packet for packet in group.packets if isinstance(packet.item, JoinRequest)]
    group.arrive(of(JoinRequest))
    group.flow(hold=of(JoinRequest))
    copies += [packet for packet in group.packets if isinstance(packet.item, JoinRequest)]
    group.wait(SECOND)
    assert group.is_live(9)
    group.leave(9)
    group.wait(SECOND)
    assert group.told(9, "left")
    group.crash(9)
    for copy in copies:
        group.hand_in(copy)
    group.wait(2 * SECOND)
    return group.pids(0) == group.pids(1) == [0, 1, 2]


def is_not_asked_in_time(bug: str | None) -> bool:
    """T3: the only member that has the last event of a dead one answers after all others, who are a quorum."""
    group = Group(CAUSAL, bug, VOLATILE, founders=5)
    last = _known_to_one(group, gone=4, holder=3, others=(0, 1, 2))
    group.crash(4)
    group.remove(0, 4)
    group.wait(200 * MS, hold=touching(3))
    group.wait(3 * SECOND)
    assert group.pids(0) == group.pids(3) == [0, 1, 2, 3]
    return all(last in group.log[pid] for pid in range(4))


def dies_with_the_only_copy(bug: str | None) -> bool:
    """T4: the only member that has the last event of a dead one dies too, before anybody has fetched it."""
    group = Group(CAUSAL, bug, VOLATILE, founders=5)
    last = _known_to_one(group, gone=4, holder=3, others=(0, 1, 2))
    group.crash(4)
    group.remove(0, 4)
    group.wait(200 * MS, lose=both(of(ViewMessage), between([3], [0, 1, 2])))
    group.crash(3)
    group.remove(0, 3)
    group.wait(5 * SECOND)
    return group.pids(0) == group.pids(1) == [0, 1, 2] and last not in group.log[0]


def loses_a_majority_in_two_steps(bug: str | None) -> bool:
    """T5: two of the three that store an event are removed, and then its publisher."""
    group = Group(CAUSAL, bug, ViewSettings(journal=False, majority=True), founders=5)
    event = group.publish(4)
    asked: set[int] = set()

    def comes_unasked(packet: Packet) -> bool:
        asked.update({packet.source} if isinstance(packet.item, Fetch) else {})
        is_for_those_who_stay = packet.source == 4 and packet.to in (0, 1)
        return isinstance(packet.item, ViewMessage | ViewMark) and is_for_those_who_stay and packet.to not in asked

    group.wait(200 * MS, lose=comes_unasked)
    assert group.told(4, "majority")
    for pid in (2, 3):
        group.crash(pid)
        group.remove(0, pid)
    group.wait(SECOND, lose=comes_unasked)
    assert group.pids(0) == [0, 1, 4]
    group.crash(4)
    group.remove(0, 4)
    group.wait(2 * SECOND)
    assert group.pids(0) == [0, 1]
    return group.log[0] == group.log[1] == [event]


def opens_before_the_others_have_the_marks(bug: str | None) -> bool:
    """T9: a newcomer gets the mark of a member and what it publishes next; nobody has what came before the mark."""
    group = Group(CAUSAL, bug, VOLATILE)
    group.publish(2)
    group.drop(of(ViewMessage))
    of_the_dying = of(ViewMessage, ViewMark)
    group.join(9, 0)
    group.wait(120 * MS, lose=both(of_the_dying, between([2], [0, 1])))
    assert 9 in group.pids(2)
    group.publish(2)
    group.flow(lose=both(of_the_dying, between([2], [0, 1])))
    group.crash(2)
    group.remove(0, 2)
    group.wait(3 * SECOND)
    return group.pids(0) == [0, 1, 9] and group.log[9] == group.log[0] == []


def answers_in_the_view_before(bug: str | None) -> bool:
    """T10: a member answers a message of a newcomer's view, and the newcomer must be handed the answer too."""
    group = Group(CAUSAL, bug, VOLATILE)
    group.join(9, 0)
    held_back = both(of(ViewAck), between([0, 1, 2], [9]))
    group.wait(200 * MS, hold=either(held_back, touching(1)))
    assert group.pids(0) == [0, 1, 2, 9]
    group.arrive(both(of(Decree), between([0], [1])))
    question = group.publish(0)
    group.flow(hold=held_back)
    assert question in group.log[1] or bug is None
    answer = group.publish(1)
    group.wait(2 * SECOND)
    assert group.is_live(9)
    return group.log[9] == [question, answer]


def publishes_after_its_removal(bug: str | None) -> bool:
    """T12: a member that was removed behind a partition publishes in the view it knows, and that arrives."""
    group = Group(CAUSAL, bug, VOLATILE)
    unacknowledged = both(of(ViewAck), between([1], [0]))
    group.publish(2)
    group.flow(lose=unacknowledged)
    group.remove(0, 2)
    group.wait(60 * MS, lose=either(unacknowledged, touching(2)))
    assert group.pids(0) == [0, 1]
    late = group.publish(2)
    group.arrive(both(of(ViewMessage), between([2], [0])))
    group.wait(2 * SECOND)
    return late not in group.log[0]


def follows_what_is_not_for_it(bug: str | None) -> bool:
    """T14: a newcomer knows a mark of a member that dies with everything before the mark, and publishes."""
    group = Group(CAUSAL, bug, VOLATILE)
    for _ in range(3):
        group.publish(2)
    group.drop(of(ViewMessage))
    unheard = both(of(ViewMessage, ViewMark), between([2], [0, 1]))
    group.join(9, 0)
    group.wait(120 * MS, lose=unheard)
    assert group.members[9].state.streams[MemberId(2, 0)].base == 4
    group.join(8, 0)
    group.wait(200 * MS, lose=unheard)
    assert 8 in group.pids(9)
    group.crash(2)
    group.remove(0, 2)
    group.wait(4 * SECOND)
    if not group.is_live(9):
        return False
    event = group.publish(9)
    group.wait(SECOND)
    return event in group.log[0] and event in group.log[1]


def stores_after_the_report(bug: str | None) -> bool:
    """T23: those who are about to be removed store what a member publishes after its report."""
    group = Group(CAUSAL, bug, ViewSettings(journal=False, majority=True), founders=5)
    for pid in (2, 3):
        group.remove(0, pid)
    group.wait(60 * MS, hold=of(Target))
    assert any(isinstance(packet.item, Target) for packet in group.packets)
    event = group.publish(4)
    to_those_who_stay = both(of(ViewMessage), between([2, 3, 4], [0, 1]))
    group.wait(100 * MS, hold=of(Target), lose=to_those_who_stay)
    group.wait(100 * MS, lose=to_those_who_stay)
    assert group.pids(0) == [0, 1, 4]
    group.crash(4)
    group.remove(0, 4)
    group.wait(2 * SECOND)
    assert group.pids(0) == [0, 1]
    return event in group.log[0] or not group.told(4, "majority")


def votes_and_leads(bug: str | None) -> bool:
    """T16: who has voted for a view that was decided leads the next attempt, and nobody has told it."""
    group = _decided_unheard(bug, VOLATILE)
    group.suspect(1, 0)
    group.remove(1, 0)
    group.wait(8 * SECOND)
    return _has_decided(group, [0, 1])


def votes_restarts_and_leads(bug: str | None) -> bool:
    """T17: the same, and it restarts in between."""
    group = _decided_unheard(bug, DURABLE)
    group.crash(1)
    group.restart(1)
    group.suspect(1, 0)
    group.wait(8 * SECOND)
    return _has_decided(group, [0, 1])


def restarts_frozen(bug: str | None) -> bool:
    """T19: a member restarts after its report, and what was on its way to it before arrives."""
    group = Group(CAUSAL, bug, DURABLE, founders=4)
    group.publish(3)
    group.wait(SECOND)
    last = group.publish(3)
    [copy] = [packet for packet in group.packets if packet.to == 1 and isinstance(packet.item, ViewMessage)]
    group.drop(of(ViewMessage))
    group.crash(3)
    group.remove(0, 3)
    group.wait(100 * MS, hold=of(Accept))
    assert group.members[1].state.frozen
    group.crash(1)
    group.restart(1)
    group.hand_in(copy)
    group.wait(3 * SECOND)
    assert group.pids(0) == [0, 1, 2]
    return last not in group.log[1]


def _decided_unheard(bug: str | None, settings: ViewSettings) -> Group:
    """Return a group of three whose first member decided to remove the third, and died before anybody heard of it."""
    group = Group(CAUSAL, bug, settings)
    group.remove(0, 2)
    unheard = either(of(Decree, ViewMark), both(of(ViewAck), between([0], [1, 2])), both(of(Accept), between([0], [2])))
    group.wait(100 * MS, lose=unheard)
    assert group.pids(0) == [0, 1]
    assert group.pids(1) == group.pids(2) == [0, 1, 2]
    group.crash(0)
    return group


def lets_newcomers_outvote(bug: str | None) -> bool:
    """T25: two of three store an event; two newcomers, for whom it is not, vote with the third to remove them."""
    group = Group(CAUSAL, bug, ViewSettings(journal=False, majority=True))
    event = group.publish(0)
    unseen = both(of(ViewMessage), between([0, 1], [2]))
    group.wait(100 * MS, lose=unseen)
    assert group.told(0, "majority")
    for pid in (8, 9):
        group.join(pid, 2)
    group.wait(300 * MS, lose=either(unseen, both(of(ViewAck, ViewMark), between([0, 1], [2, 8, 9])), of(Fetch)))
    assert {8, 9} <= set(group.pids(2))
    for pid in (0, 1):
        group.crash(pid)
        group.remove(2, pid)
    group.suspect(2, 0, 1)
    group.wait(5 * SECOND)
    return group.pids(2)[:1] == [0] or event in group.log[2]


def lets_an_old_target_arrive(bug: str | None) -> bool:
    """T20: a target of an attempt that was given up arrives when a later one has other reports."""
    group = Group(CAUSAL, bug, VOLATILE, founders=5)
    last = _known_to_one(group, gone=4, holder=3, others=(0, 1, 2))
    group.crash(4)
    group.remove(0, 4)
    asks_in_vain = both(of(Fetch), between([0, 2], [1, 2, 3]))
    group.wait(100 * MS, hold=of(Target), lose=asks_in_vain)
    [old] = [packet for packet in group.packets if isinstance(packet.item, Target) and packet.to == 1][:1]
    group.remove(0, 3)
    group.wait(3 * SECOND, hold=of(Target), lose=asks_in_vain)
    latest = max(packet.item.ballot for packet in group.packets if isinstance(packet.item, Target))
    assert latest > old.item.ballot  # type: ignore[attr-defined]
    group.hand_in(old)
    group.flow(hold=of(Target), lose=asks_in_vain)
    group.drop(both(of(Target), lambda packet: isinstance(packet.item, Target) and packet.item.ballot < latest))
    group.wait(2 * SECOND, lose=asks_in_vain)
    assert group.pids(1) == [0, 1, 2]
    return not any(last in group.log[pid] for pid in (0, 1, 2))


def removes_two_then_one(bug: str | None) -> bool:
    """T21: an attempt to remove two is voted for once; the next one is to remove one of them; a third one decides."""
    group = Group(CAUSAL, bug, VOLATILE, founders=5)
    last = _known_to_one(group, gone=4, holder=3, others=(0, 1, 2))
    away = touching(4)
    group.remove(0, 3)
    group.remove(0, 4)
    group.wait(100 * MS, lose=either(of(Accept), away))
    assert group.members[0].changes.participant.acceptor.value is not None
    group.suspect(1, 0)
    group.remove(1, 4)
    first_votes_unseen = either(both(of(Promise), between([0], [1])), of(Accept), between([0], [3]), away)
    group.wait(200 * MS, lose=first_votes_unseen)
    assert group.members[1].changes.participant.acceptor.value is not None
    group.wait(4 * SECOND, lose=either(both(of(Promise, Accept), touching(1)), away))
    view = group.view(0)
    assert 4 not in [member.pid for member in view.members]
    cut = view.cut_of(MemberId(4, 0))
    assert cut is not None
    return all((last in group.log[pid]) == (cut.number == 2) for pid in (0, 1, 2))


def opens_with_an_open_cut(bug: str | None) -> bool:
    """T22: a newcomer that lacks an event of a removed member is sent one that follows it."""
    group = Group(CAUSAL, bug, VOLATILE)
    group.join(9, 0)
    group.wait(300 * MS, lose=both(of(ViewAck), between([0, 1, 2], [9])))
    assert 9 in group.pids(0)
    assert not group.is_live(9)
    cause = group.publish(2)
    to_the_newcomer = between([0, 1, 2], [9])
    group.flow(lose=both(of(ViewMessage), to_the_newcomer), hold=both(of(ViewAck), to_the_newcomer))
    group.crash(2)
    group.remove(0, 2)
    group.wait(SECOND, lose=both(of(ViewAck, ViewMessage), to_the_newcomer))
    assert group.pids(0) == [0, 1, 9]
    effect = group.publish(0)
    late = both(to_the_newcomer, lambda packet: isinstance(packet.item, ViewMessage) and packet.item.bundle.pid == 2)
    group.wait(SECOND, hold=late)
    group.wait(2 * SECOND)
    return group.log[9] == [cause, effect]


def restarts_with_what_nobody_else_has(bug: str | None) -> bool:
    """T26: one member has taken the last event of a dead one, restarts, and cannot supply it any more."""
    group = Group(CAUSAL, bug, DURABLE, founders=4)
    event = group.publish(3)
    group.flow(lose=both(of(ViewMessage), between([3], [0, 2])))
    assert group.log[1] == [event]
    group.crash(3)
    group.crash(1)
    group.restart(1)
    group.remove(0, 3)
    group.wait(4 * SECOND)
    return 3 not in group.pids(0)


def restarts_all_after_the_flush(bug: str | None) -> bool:
    """T27: everybody restarts after a removal, and no application has taken what the removed one published last."""
    group = Group(CAUSAL, bug, DURABLE, founders=4)
    group.slow = {0, 1, 2}
    event = group.publish(3)
    group.flow(lose=both(of(ViewMessage), between([3], [1, 2])))
    group.crash(3)
    group.remove(0, 3)
    group.wait(SECOND)
    assert group.pids(0) == [0, 1, 2]
    for pid in (0, 1, 2):
        group.crash(pid)
    group.slow = set()
    for pid in (0, 1, 2):
        group.log[pid].clear()  # the application did not take it: it is owed again
        group.restart(pid)
    group.wait(3 * SECOND)
    return [group.log[pid] for pid in (0, 1, 2)] == [[event]] * 3


def dies_without_a_mark(bug: str | None) -> bool:
    """T33: a member dies before it has entered a newcomer's view, with a later clock than the marks of the others."""
    group = Group(TOTAL, bug, VOLATILE)
    for _ in range(9):
        group.publish(2)
    group.join(9, 0)
    group.wait(200 * MS, hold=touching(2))
    assert 9 in group.pids(0)
    group.publish(0)
    group.flow(hold=touching(2))
    group.arrive(both(of(ViewMessage), between([2], [0, 1])))
    group.crash(2)
    group.drop(touching(2))
    group.remove(0, 2)
    group.wait(2 * SECOND)
    group.publish(0)
    group.wait(SECOND)
    assert group.is_live(9)
    return len(group.log[9]) >= 1 and group.log[9] == group.log[0][-len(group.log[9]) :]


def promises_and_restarts(bug: str | None) -> bool:
    """T31: a member promises a clock, restarts and publishes; one other relied on the promise, one had not yet."""
    group = Group(TOTAL, bug, DURABLE)
    group.publish(0)
    group.publish(0)
    group.wait(200 * MS, lose=both(of(ViewAck, Beat), between([1], [2])))
    assert len(group.log[0]) == 2
    assert not group.log[2]
    group.crash(1)
    group.restart(1)
    group.publish(1)
    group.wait(3 * SECOND)
    return len(group.log[2]) == 3 and group.log[0] == group.log[2]


def leaves_as_the_first_of_two(bug: str | None) -> bool:
    """T35: of two members the first one leaves; the other one is no quorum without it."""
    group = Group(CAUSAL, bug, VOLATILE, founders=2)
    group.leave(0)
    group.wait(3 * SECOND)
    return group.pids(1) == [1] and bool(group.told(0, "left"))


def alone_knows_of_its_removal(bug: str | None) -> bool:
    """T37: whoever decided that a member is out dies, and only that member has heard of it; the rest need its vote."""
    group = Group(CAUSAL, bug, VOLATILE, founders=4)
    group.remove(0, 3)
    unheard = either(of(ViewMark), both(of(Decree, ViewAck), between([0, 3], [1, 2])))
    group.wait(100 * MS, lose=unheard)
    assert group.members[3].removal.by is not None
    assert group.pids(1) == group.pids(2) == [0, 1, 2, 3]
    group.crash(0)
    group.suspect(1, 0)
    group.suspect(2, 0)
    group.remove(1, 0)
    group.wait(8 * SECOND)
    return group.pids(1) == group.pids(2) == [1, 2]


def comes_again_under_its_number(bug: str | None) -> bool:
    """T36: a newcomer restarts without a journal, and a copy of the view that added its earlier incarnation arrives."""
    group = Group(CAUSAL, bug, VOLATILE)
    group.join(9, 0)
    group.flow(hold=of(Decree))
    group.wait(100 * MS, hold=both(of(Decree), between([0], [9])))
    copy = next(packet for packet in group.packets if packet.to == 9 and isinstance(packet.item, Decree))
    group.wait(SECOND)
    assert group.is_live(9)
    group.publish(9)
    group.flow(lose=both(of(ViewMessage), between([9], [1, 2])))
    group.crash(9)
    group.restart(9)
    group.hand_in(copy)
    group.wait(100 * MS)
    group.join(9, 0)
    group.wait(3 * SECOND)
    if not group.is_live(9):
        return False
    group.publish(9)
    group.wait(3 * SECOND)
    return len(group.log[0]) == 2 and group.log[0] == group.log[1] == group.log[2]


def keeps_what_a_removed_newcomer_said_after_it(bug: str | None) -> bool:
    """T38: a restarted member lacks an event, and has one that follows it of a newcomer that was removed since."""
    group = Group(CAUSAL, bug, DURABLE)
    group.join(9, 0)
    group.wait(SECOND)
    assert group.is_live(9)
    group.slow = {1}
    cause = group.publish(0)
    group.flow()
    effect = group.publish(9)
    group.flow()
    group.crash(9)
    group.remove(0, 9)
    group.wait(2 * SECOND)
    assert group.pids(1) == [0, 1, 2]
    group.crash(1)
    group.slow = set()
    group.log[1].clear()  # the application did not take it: it is owed again
    group.restart(1)
    group.wait(3 * SECOND)
    return group.log[1] == [cause, effect]


def acts_on_what_is_lost(bug: str | None) -> bool:
    """T39: a member publishes what follows an event that it was handed, restarts before it has taken that, and nobody
    else has it."""
    group = Group(CAUSAL, bug, DURABLE, founders=5)
    group.slow = {0}
    group.publish(4)
    group.flow(lose=both(of(ViewMessage), between([4], [1, 2, 3])))
    effect = group.publish(0)
    group.flow(lose=of(ViewMessage))
    group.crash(4)
    group.crash(0)
    group.slow = set()
    group.restart(0)
    group.remove(1, 4)
    group.wait(5 * SECOND)
    return 4 not in group.pids(1) and (0 not in group.pids(1) or effect in group.log[1])


def forgets_whom_it_removes(bug: str | None) -> bool:
    """T40: all that stay have reported for a removal; whoever leads it restarts and has forgotten it."""
    group = Group(CAUSAL, bug, DURABLE, founders=4)
    group.remove(0, 3)
    group.wait(100 * MS, hold=of(Target))
    assert all(group.members[pid].state.frozen for pid in (0, 1, 2))
    group.drop(of(Target))
    group.crash(0)
    group.restart(0)
    group.wait(6 * SECOND)
    event = group.publish(3)
    group.wait(2 * SECOND)
    return event in group.log[1]


def leaves_while_another_joins(bug: str | None) -> bool:
    """T41: the member that leads leaves, and a newcomer asks another one."""
    group = Group(CAUSAL, bug, VOLATILE)
    group.leave(0)
    group.join(9, 1)
    group.wait(5 * SECOND)
    return group.is_live(9) and bool(group.told(0, "left"))


def only_listens(bug: str | None) -> bool:
    """T42: a member that says nothing is removed, and the first copy of the decree to it is lost."""
    group = Group(CAUSAL, bug, VOLATILE)
    group.wait(3 * SECOND)
    group.mute = {2}
    group.remove(0, 2)
    group.wait(200 * MS, lose=touching(2))
    assert group.pids(0) == [0, 1]
    group.wait(3 * SECOND)
    return bool(group.told(2, "removed"))


def removes_too_many_together(bug: str | None) -> bool:
    """T52: two members remove a dead one, and each a live one besides: all three are more than can be removed, and
    neither has heard of the other's wish."""
    group = Group(CAUSAL, bug, DURABLE, founders=5)
    group.crash(4)
    for leader, others in ((0, (3, 4)), (1, (0, 4))):
        for pid in others:
            group.remove(leader, pid)
    group.wait(4 * SECOND)
    return 4 not in group.pids(2)


def removes_in_a_circle(bug: str | None) -> bool:
    """T59: one member removes the first voter, and another one that member: the first voter and the third one end its
    attempts, of which it learns nothing, and it begins anew."""
    group = Group(CAUSAL, bug, DURABLE)
    group.remove(1, 0)
    group.remove(2, 1)
    group.wait_slowly(8 * SECOND)
    return len(group.pids(2)) == 2


def lets_an_old_request_wait(bug: str | None) -> bool:
    """T60: a request of an earlier incarnation arrives at one member while another adds the later one; in strict order
    all would wait for the mark of the earlier one."""
    group = Group(TOTAL, bug, ViewSettings(journal=False, join_timeout_ns=60 * SECOND))
    group.join(9, 1)
    group.flow(hold=of(JoinRequest))
    group.arrive(of(JoinRequest))
    group.flow(hold=of(JoinRequest))
    (copy,) = [packet for packet in group.packets if isinstance(packet.item, JoinRequest)]
    group.crash(9)
    group.join(9, 0)
    wishes = both(of(Wish), between([1], [0]))
    group.flow(hold=wishes)
    group.hand_in(copy)
    group.wait(100 * MS, lose=wishes)
    assert 9 in group.pids(0)
    group.wait(2 * SECOND)
    return group.is_live(9) and not group.told(9, "removed")


def adds_who_never_comes(bug: str | None) -> bool:
    """T60: a newcomer is added and dies before it has said a word, and all others restart. The next newcomer waits for
    its mark."""
    group = Group(CAUSAL, bug, ViewSettings(journal=True, join_timeout_ns=SECOND))
    group.join(9, 0)
    group.wait(200 * MS, lose=both(touching(9), of(Decree)))
    assert 9 in group.pids(0)
    group.crash(9)
    for pid in (0, 1, 2):
        group.crash(pid)
    for pid in (0, 1, 2):
        group.restart(pid)
    group.join(8, 0)
    group.wait(10 * SECOND)
    return group.is_live(8) and 9 not in group.pids(0)


def gives_up_waiting(bug: str | None) -> bool:
    """T61: a newcomer is added and has marked, hears nothing of the others, and gives up. Another newcomer comes."""
    group = Group(CAUSAL, bug, ViewSettings(journal=True, join_timeout_ns=SECOND))
    group.join(8, 0)
    group.wait(200 * MS, lose=both(of(ViewAck), between([0, 1, 2], [8])))
    assert 8 in group.pids(0)
    assert not group.is_live(8)
    group.crash(8)
    group.wait(4 * SECOND)
    group.join(7, 0)
    group.wait(SECOND)
    return group.is_live(7) and group.pids(0) == [0, 1, 2, 7]


def asks_while_a_member_is_away(bug: str | None) -> bool:
    """T61: a newcomer asks while a member is known to be away, and gives up: it takes no place, and is told why."""
    group = Group(CAUSAL, bug, DURABLE)
    group.crash(2)
    group.wait(SECOND)
    group.publish(0)
    group.wait(2 * SECOND)
    group.join(8, 0)
    group.wait(SECOND)
    waits_for = group.members[8].opening_waits_for()
    group.crash(8)
    group.wait(SECOND)
    return group.pids(0) == [0, 1, 2] and waits_for.startswith("2, which must answer")


def is_removed_while_another_comes_back(bug: str | None) -> bool:
    """T62: a machine is wiped, and the operator removes another member. The removal waits for the wiped one, and that
    one comes back as a newcomer, whose requests are slow: first it is replaced, and then the removal is done."""
    group = Group(CAUSAL, bug, ViewSettings(journal=True, attempt_ns=40 * MS))
    group.crash(0)
    group.records[0] = []
    group.publish(1)
    group.wait(2 * SECOND)
    group.remove(1, 2)
    group.wait(SECOND)
    assert group.pids(1) == [0, 1, 2]
    group.join(0, 1)
    group.join(9, 1)
    for _ in range(20):
        group.wait(200 * MS, hold=of(JoinRequest))
        group.arrive(of(JoinRequest))
    return sorted(group.pids(1)) == [0, 1, 9] and group.is_live(9)


def answers_again_while_it_is_removed(bug: str | None) -> bool:
    """T64: a member is silent, the first voter begins to remove it, and it answers again. What was frozen is let go of
    at once, long before a change counts as abandoned."""
    group = Group(TOTAL, bug, ViewSettings(journal=False, remove_after_ns=500 * MS))
    slow = both(of(Report), between([1], [0]))
    group.suspect(0, 2)
    group.wait(SECOND, lose=slow)
    assert list(group.members[0].state.frozen) == [2]
    group.trust(0, 2)
    group.wait(SECOND, lose=slow)
    event = group.publish(2)
    group.wait(SECOND)
    return event in group.log[0] and group.pids(0) == [0, 1, 2]


def is_taken_for_dead_by_who_promotes(bug: str | None) -> bool:
    """T64: a removal is abandoned, and another member takes the first voter for dead and wants to promote the newcomer:
    its attempts are no removal, and do not keep the first voter from letting go."""
    group = Group(TOTAL, bug, VOLATILE, founders=2)
    group.join(9, 0)
    group.wait(60 * MS)
    assert [voter.pid for voter in group.view(0).voters] == [0, 1]
    group.hand_in(Packet(Process(0, 1), 0, Freeze(group.view(0).epoch, Ballot(9, 0), [9])))
    group.suspect(1, 0)
    event = group.publish(9)
    group.wait(5 * SECOND)
    return event in group.log[0]


def _out_with_nobody_told(bug: str | None) -> Group:
    """Let a member leave while another, which is cut off, is removed, and all who know that go: only the one that left
    knows it, and a newcomer of later views."""
    group = Group(CAUSAL, bug, DURABLE)
    cut_off = either(touching(1), both(of(Knows, ViewAck), between([0, 9], [2])))
    group.publish(0)
    group.wait(SECOND, lose=cut_off)
    group.remove(0, 1)
    group.leave(2)
    group.wait(SECOND, lose=cut_off)
    assert group.pids(0) == [0]
    assert group.members[2].verdict() is not None
    group.join(9, 0)
    group.wait(SECOND, lose=cut_off)
    group.leave(0)
    group.wait(8 * SECOND, lose=cut_off)
    assert group.told(0, "left")
    assert not group.told(2, "left")
    group.crash(0)
    return group


def restarts_after_its_removal(bug: str | None) -> bool:
    """T63: the only one of its time that knows that it is out restarts. It is no member, and says so."""
    group = _out_with_nobody_told(bug)
    group.crash(2)
    group.restart(2)
    group.wait(3 * SECOND, lose=touching(9))
    know = [group.members[pid].verdict() is not None for pid in (1, 2)]
    for pid in (1, 2):
        group.meet(pid, 9)
        group.wait(SECOND)
    return all(know)


def is_asked_after_its_removal(bug: str | None) -> bool:
    """T63: a member that nobody told asks the one that is out; and both are done when they meet the newcomer."""
    group = _out_with_nobody_told(bug)
    group.wait(3 * SECOND, lose=touching(9))
    told = group.members[1].verdict() is not None
    for pid in (1, 2):
        group.meet(pid, 9)
        group.wait(SECOND)
    return told and bool(group.told(1, "removed")) and bool(group.told(2, "left"))


def is_told_by_a_stranger(bug: str | None) -> bool:
    """T51: while a member is cut off, a newcomer comes, it is removed itself, and all others leave: the newcomer alone
    can tell it, of a view that does not follow the one it knows."""
    group = Group(CAUSAL, bug, VOLATILE)
    group.mute = {2}
    group.join(9, 1)
    group.wait(SECOND, lose=touching(2))
    group.remove(1, 2)
    group.wait(SECOND, lose=touching(2))
    assert group.pids(9) == [0, 1, 9]
    for pid in (0, 1):
        group.leave(pid)
        group.wait(SECOND, lose=touching(2))
        assert group.told(pid, "left")
        group.crash(pid)
    group.wait(3 * SECOND)
    return bool(group.told(2, "removed"))


def hears_of_a_newcomer_before_the_force(bug: str | None) -> bool:
    """T48: a survivor hears from a newcomer, before anybody, that an operator went on with it."""
    group = Group(CAUSAL, bug, DURABLE)
    group.crash(0)
    group.force(1, 1, 2)
    late = both(of(Decree), between([1], [2]))
    group.wait(2 * SECOND, hold=late)
    assert group.pids(1) == [1, 2]
    group.join(9, 1)
    group.wait(SECOND, hold=late)
    assert group.pids(1) == [1, 2, 9]
    group.wait(3 * SECOND)
    return group.pids(2) == [1, 2, 9] and group.is_live(9)


def comes_back_to_a_newcomer(bug: str | None) -> bool:
    """T66: a member whose messages everybody has taken dies and is removed, and meets a newcomer first when it is back:
    that one does not know how far they count, and the older members do."""
    group = Group(CAUSAL, bug, DURABLE)
    last = group.publish(2)
    group.wait(SECOND)
    group.crash(2)
    group.remove(0, 2)
    group.wait(SECOND)
    group.join(9, 0)
    group.wait(SECOND)
    assert group.is_live(9)
    group.restart(2)
    group.meet(2, 9)
    group.wait(SECOND, lose=either(between([2], [0, 1]), between([0, 1], [2])))
    group.wait(2 * SECOND)
    return [note.event for note in group.told(2, "removed")] == [last]


def asks_whoever_has_nothing_to_do(bug: str | None) -> bool:
    """T65: a guest is away and the group is quiet, so that nobody can be added, and whoever leads has nothing to say to
    those who pass a newcomer's request on. Nobody takes anybody for dead who is up."""
    group = Group(CAUSAL, bug, DURABLE)
    group.join(7, 0)
    group.wait(SECOND)
    group.crash(7)
    group.publish(1)
    group.wait(20 * SECOND)
    for voter in (2, 1, 0):
        group.join(9, voter)
    for _ in range(300):
        group.wait(20 * MS)
        for pid in range(3):
            if not group.members[pid].links.suspects.now.keys() <= {7}:
                return False
    return group.pids(0) == [0, 1, 2, 7]


def leave_all_together(bug: str | None) -> bool:
    """T67: whoever should lead leaves as well, and the others do not know it: each waits for another one to lead."""
    group = Group(CAUSAL, bug, VOLATILE)
    for pid in range(3):  # who comes later knows of the one before it, and of nobody else
        group.leave(pid)
        group.wait(20 * MS, lose=lambda packet: not isinstance(packet.item, Wish))
    group.wait(20 * SECOND)
    return all(group.told(pid, "left") for pid in range(3))


def leave_where_the_last_one_is_unwanted(bug: str | None) -> bool:
    """T68: all but one leave, and one of these asked for the removal of the other, which answers: both it and the first
    of those that leave would lead, with other members to be removed."""
    group = Group(CAUSAL, bug, VOLATILE, founders=4)
    group.leave(1)
    group.remove(0, 3)
    group.leave(0)
    group.wait_slowly(20 * MS)
    group.leave(2)
    group.wait_slowly(12 * SECOND)
    return all(group.told(pid, "left") for pid in range(3))


def is_trusted_again(bug: str | None) -> bool:
    """T53: a member begins to remove another, while it suspects whoever should lead; nobody hears of the freeze, and
    then both are heard of again."""
    group = Group(CAUSAL, bug, ViewSettings(journal=False, remove_after_ns=SECOND), founders=5)
    group.suspect(1, 4)
    group.wait(SECOND)
    group.suspect(1, 0)
    group.wait(200 * MS, lose=both(of(Freeze), between([1], [0, 2, 3])))
    assert list(group.members[1].state.frozen) == [4]
    group.trust(1, 0, 4)
    event = group.publish(4)
    group.wait(10 * SECOND)
    assert group.pids(1) == [0, 1, 2, 3, 4]
    return event in group.log[1]


def restarts_before_the_removed_hears_of_it(bug: str | None) -> bool:
    """T56: the only one that knows of a removal restarts, and the removed one is silent."""
    group = Group(CAUSAL, bug, DURABLE, founders=2)
    group.mute = {0, 1}
    group.wait(3 * SECOND)
    group.remove(0, 1)
    group.wait(200 * MS, lose=touching(1))
    assert group.pids(0) == [0]
    group.crash(0)
    group.restart(0)
    group.wait(3 * SECOND)
    return bool(group.told(1, "removed"))


def lacks_what_is_lost(bug: str | None) -> bool:
    """T54: what a dead member said in two views follows what another dead one said; of the two survivors one has lost
    that in a crash, and the other has neither."""
    group = Group(CAUSAL, bug, DURABLE, founders=4)
    unheard = both(of(ViewMessage, ViewMark), between([0, 2, 3], [1]))
    cause = group.publish(2)
    group.flow(lose=unheard)
    group.crash(2)
    group.crash(0)
    group.restart(0)
    effect = group.publish(3)
    group.join(9, 0)
    group.wait(400 * MS, lose=unheard)
    assert group.log[0] == [cause, effect]
    assert group.pids(0) == group.pids(1) == [0, 1, 2, 3, 9]
    for pid in (3, 9):
        group.crash(pid)
    group.force(0, 0, 1)
    group.wait(5 * SECOND)
    assert group.pids(0) == [0, 1]
    return group.pids(1) == [0, 1] and group.log[1] == [effect]


def ends_behind_an_open_connection(bug: str | None) -> bool:
    """T55: a member says nothing any more, and no connection to it breaks."""
    group = Group(TOTAL, bug, ViewSettings(journal=False, remove_after_ns=SECOND))
    group.crash(2)
    event = group.publish(0)
    group.wait(10 * SECOND)
    return group.pids(0) == group.pids(1) == [0, 1] and group.log[0] == group.log[1] == [event]


def restarts_with_what_must_wait(bug: str | None) -> bool:
    """T49: what a removed member said follows events of both others, who keep it, have not taken these, and restart."""
    group = Group(CAUSAL, bug, DURABLE)
    group.slow = {0, 1}
    causes = [group.publish(0), group.publish(1)]
    group.flow()
    last = group.publish(2)
    group.flow()
    group.remove(0, 2)
    group.wait(400 * MS)
    assert group.pids(0) == group.pids(1) == [0, 1]
    for pid in (0, 1):
        group.crash(pid)
    group.slow = set()
    for pid in (0, 1):
        group.log[pid].clear()
        group.restart(pid)
    group.wait(3 * SECOND)
    return all(set(group.log[pid]) == {*causes, last} for pid in (0, 1))


def publishes_before_what_it_had_comes_again(bug: str | None) -> bool:
    """T47: a member publishes while its application has an event in hand, and crashes. What it publishes next follows
    that event, too, which has not come again yet."""
    group = Group(CAUSAL, bug, DURABLE)
    group.slow, group.mute = {1}, {0, 2}
    first = group.publish(0)
    group.flow()
    group.publish(1)
    group.crash(1)
    group.slow = set()
    group.log[1].clear()
    group.restart(1)
    group.publish(1)
    group.wait(3 * SECOND)
    return first in group.log[1]


def speaks_before_it_acknowledges(bug: str | None) -> bool:
    """T50: a newcomer opens in a view without a dead member, whose last event it lacks; what it publishes then comes to
    the others before its acknowledgement, which says what it lacks."""
    group = Group(CAUSAL, bug, VOLATILE)
    group.join(9, 0)
    unopened = both(of(ViewAck), between([0, 1, 2], [9]))
    group.wait(200 * MS, hold=unopened)
    assert group.pids(2) == [0, 1, 2, 9]
    last = group.publish(2)
    lost = both(of(ViewMessage), between([0, 1, 2], [9]))
    group.flow(hold=unopened, lose=lost)
    assert last in group.log[0]
    assert last in group.log[1]
    group.crash(2)
    group.remove(0, 2)
    unasked, unheard = both(of(Fetch), between([9], [0, 1])), both(of(ViewAck), between([9], [0, 1]))
    group.wait(200 * MS, hold=either(unopened, unheard), lose=either(lost, unasked))
    assert group.pids(9) == [0, 1, 9]
    group.drop(unheard)
    group.flow(hold=unheard, lose=either(lost, unasked))
    assert group.is_live(9)
    group.publish(9)
    group.wait(100 * MS, hold=unheard, lose=either(lost, unasked))
    group.wait(3 * SECOND)
    return last in group.log[9]


def restarts_with_what_one_lacks(bug: str | None) -> bool:
    """T58: all but one have taken the last event of a dead member, and all restart together: nobody can supply the one,
    and without the many there would be no quorum."""
    group = Group(CAUSAL, bug, DURABLE, founders=5)
    last = group.publish(4)
    group.flow(lose=between([4], [3]))
    assert all(group.log[pid] == [last] for pid in (0, 1, 2))
    for pid in range(5):
        group.crash(pid)
    for pid in range(4):
        group.restart(pid)
    group.remove(0, 4)
    group.wait(4 * SECOND)
    later = group.publish(0)
    group.wait(2 * SECOND)
    return group.pids(0) == [0, 1, 2] and bool(group.told(3, "removed")) and group.log[2] == [last, later]


def restarts_with_what_a_newcomer_lacks(bug: str | None) -> bool:
    """T57: of two newcomers of one view the first publishes and dies; the second is not opened yet and has nothing of
    it, and all that had taken it restart."""
    group = Group(CAUSAL, bug, DURABLE)
    for pid in (8, 9):
        group.join(pid, 0)
    unopened = both(of(ViewAck), between([0, 1, 2], [9]))
    group.wait(300 * MS, hold=unopened)
    assert {8, 9} <= set(group.pids(0))
    assert group.is_live(8)
    assert not group.is_live(9)
    event = group.publish(8)
    group.flow(hold=unopened, lose=between([8], [9]))
    assert all(group.log[pid] == [event] for pid in (0, 1, 2))
    group.drop(touching(9))
    for pid in (8, 0, 1, 2):
        group.crash(pid)
    for pid in (0, 1, 2):
        group.restart(pid)
    group.wait(200 * MS, hold=unopened)
    group.remove(0, 8)
    group.wait(SECOND, hold=unopened)
    assert 8 not in group.pids(0)
    later = group.publish(0)
    group.wait(5 * SECOND)
    return bool(group.told(9, "removed")) or later in group.log[9]


def restarts_with_the_only_copy(bug: str | None) -> bool:
    """T43: the only member that has the last event of a dead one has taken it, and restarts."""
    group = Group(CAUSAL, bug, ViewSettings(journal=True, keep="all"))
    event = group.publish(2)
    group.flow(lose=both(of(ViewMessage), between([2], [0])))
    assert group.log[1] == [event]
    group.wait(100 * MS, lose=touching(2, 0))
    group.crash(2)
    group.crash(1)
    group.restart(1)
    group.remove(0, 2)
    group.wait(4 * SECOND)
    return group.pids(0) == [0, 1] and event in group.log[0]


def comes_with_another(bug: str | None) -> bool:
    """T44: two newcomers of one view: one marks late, with a later clock, and the other one has published meanwhile."""
    group = Group(TOTAL, bug, VOLATILE)
    for pid in (8, 9):
        group.join(pid, 0)
    late_mark, unheard = both(of(ViewMark), between([1], [8])), between([9], [8])
    group.wait(300 * MS, hold=either(late_mark, unheard))
    assert {8, 9} <= set(group.pids(0))
    assert group.is_live(9)
    early = group.publish(9)
    group.flow(hold=between([0, 1, 2, 9], [8]))  # until 8 promises, nobody is handed it, so `late` follows nothing
    late = group.publish(0)
    group.wait(100 * MS, hold=either(late_mark, unheard))
    group.wait(SECOND, hold=unheard)
    assert group.is_live(8)
    group.wait(2 * SECOND)
    return group.log[0] == group.log[8] == [early, late]


def restarts_after_leaving_out(bug: str | None) -> bool:
    """T45: a newcomer leaves out an event from before its first key, takes the next one, and restarts."""
    group = Group(TOTAL, bug, DURABLE)
    for _ in range(9):
        group.publish(1)
    group.join(9, 0)
    group.wait(200 * MS, hold=touching(1))
    assert 9 in group.pids(0)
    left_out = group.publish(0)
    group.wait(2 * SECOND)
    assert left_out in group.log[0]
    assert group.is_live(9)
    after = group.publish(0)
    group.wait(SECOND)
    assert group.log[9] == [after]
    group.crash(9)
    group.restart(9)
    group.wait(2 * SECOND)
    last = group.publish(0)
    group.wait(SECOND)
    return group.log[9] == [after, last]


def _known_to_one(group: Group, gone: int, holder: int, others: tuple[int, ...]) -> object:
    """Let a member publish two events: everybody gets the first, one member alone the second; return that one."""
    group.publish(gone)
    group.flow()
    last = group.publish(gone)
    group.drop(both(of(ViewMessage), between([gone], others)))
    group.arrive(between([gone], [holder]))
    assert last in group.log[holder]
    return last


def _has_decided(group: Group, pids: list[int]) -> bool:
    """Tell whether the first change had this result, for all that know one."""
    views = [member.state.views[1] for member in group.members.values() if 1 in member.state.views]
    return all([member.pid for member in view.members] == pids for view in views)


STORIES: list[tuple[str, Callable[[str | None], bool]]] = [
    ("report_quorum", is_not_asked_in_time),
    ("never_yields", removes_too_many_together),
    ("tries_again_and_again", removes_in_a_circle),
    ("keeps_old_requests", lets_an_old_request_wait),
    ("forgets_who_is_new", adds_who_never_comes),
    ("waits_for_who_gave_up", gives_up_waiting),
    ("adds_whom_nobody_opens", asks_while_a_member_is_away),
    ("begins_at_once_again", is_removed_while_another_comes_back),
    ("waits_for_itself", answers_again_while_it_is_removed),
    ("promotes_in_vain", is_taken_for_dead_by_who_promotes),
    ("forgets_its_removal", restarts_after_its_removal),
    ("answers_nobody_once_removed", is_asked_after_its_removal),
    ("remembers_what_does_not_move", is_trusted_again),
    ("tells_before_a_crash", restarts_before_the_removed_hears_of_it),
    ("waits_for_what_is_lost", lacks_what_is_lost),
    ("asks_only_whom_it_knows", is_told_by_a_stranger),
    ("takes_messages_for_acknowledgements", speaks_before_it_acknowledges),
    ("stale_joins", lets_an_old_request_arrive),
    ("no_flush", dies_with_the_only_copy),
    ("no_floor", loses_a_majority_in_two_steps),
    ("no_closing", opens_before_the_others_have_the_marks),
    ("no_epoch_hold", answers_in_the_view_before),
    ("no_fence", publishes_after_its_removal),
    ("past_below_base", follows_what_is_not_for_it),
    ("ack_after_report", stores_after_the_report),
    ("no_adopt", votes_and_leads),
    ("acceptor_forgets", votes_restarts_and_leads),
    ("freeze_not_durable", restarts_frozen),
    ("promote_at_once", lets_newcomers_outvote),
    ("old_targets", lets_an_old_target_arrive),
    ("D_may_shrink", removes_two_then_one),
    ("cut_not_awaited", opens_with_an_open_cut),
    ("no_supply_check", restarts_with_what_nobody_else_has),
    ("removes_none_that_lack", restarts_with_what_one_lacks),
    ("supplies_the_older_only", restarts_with_what_a_newcomer_lacks),
    ("no_custody", restarts_all_after_the_flush),
    ("K_without_removed", dies_without_a_mark),
    ("promise_not_durable", promises_and_restarts),
    ("leaver_is_dead", leaves_as_the_first_of_two),
    ("fenced_is_mute", alone_knows_of_its_removal),
    ("no_nonce", comes_again_under_its_number),
    ("waits_for_any_cut", keeps_what_a_removed_newcomer_said_after_it),
    ("reports_what_is_there", acts_on_what_is_lost),
    ("gives_up_in_silence", forgets_whom_it_removes),
    ("waits_for_the_leaver", leaves_while_another_joins),
    ("tells_who_speaks", only_listens),
    ("speaks_of_what_it_never_knew", hears_of_a_newcomer_before_the_force),
    ("tells_the_removed_what_it_never_knew", comes_back_to_a_newcomer),
    ("takes_silence_for_death", asks_whoever_has_nothing_to_do),
    ("leaves_without_a_word", leave_all_together),
    ("leads_because_another_is_unwanted", leave_where_the_last_one_is_unwanted),
    ("forgets_what_was_taken", restarts_with_the_only_copy),
    ("forgets_what_waits", restarts_with_what_must_wait),
    ("says_that_it_came", publishes_before_what_it_had_comes_again),
    ("misses_nobody", ends_behind_an_open_connection),
    ("own_mark_as_promise", comes_with_another),
    ("forgets_what_it_left_out", restarts_after_leaving_out),
]


MASKED = {
    "acks_any_epoch": (loses_a_majority_in_two_steps, stores_after_the_report, lets_newcomers_outvote),
    "live_before_K": (dies_without_a_mark, comes_with_another, restarts_after_leaving_out),
}
"""Bugs that other rules make harmless, and stories that come near them; docs/papers/views.md says which (T24, T34)."""


@pytest.mark.parametrize(("bug", "story"), STORIES)
def test_the_protocol_passes_and_the_planted_bug_does_not(bug: str, story: Callable[[str | None], bool]) -> None:
    """What a story asserts on its way must come about in both; it returns whether the promise was kept."""
    assert story(None)
    assert not story(bug)


@pytest.mark.parametrize(("bug", "story"), [(bug, story) for bug, stories in MASKED.items() for story in stories])
def test_a_bug_that_other_rules_mask_breaks_nothing(bug: str, story: Callable[[str | None], bool]) -> None:
    assert story(bug)


UNSEEN = {
    "tells_the_removed_what_it_never_knew": "a verdict may be that nobody knows",
    "leads_because_another_is_unwanted": "a trace does not show who wants to leave",
    "leaves_without_a_word": "a trace does not show who wants to leave",
    "takes_silence_for_death": "who is suspected is asked, and heard of before the deadline",
    "waits_for_itself": "a change that nobody pursues is let go of in the end, within the deadline",
    "promotes_in_vain": "a change that nobody pursues is let go of in the end, within the deadline",
    "begins_at_once_again": "once requests are as quick as everything else, they come before the removal",
    "forgets_its_removal": "the newcomer tells both what they should have known before they met it",
    "adds_whom_nobody_opens": "a newcomer that is not live yet has promised nothing, and was promised nothing",
    "waits_for_who_gave_up": "a trace does not show that a process with a journal will not come back",
    "forgets_who_is_new": "a trace does not show that a process with a journal will not come back",
    "no_closing": "a newcomer that has what nobody can supply is removed with the dead: nobody who stays has it",
    "leaver_is_dead": "a trace does not show who wants to leave",
    "removes_none_that_lack": "the group says that it cannot supply somebody, and may then stand still",
    "tries_again_and_again": "a trace does not show who is to be removed, and at `causal` nobody waits for it",
    "never_yields": "a trace does not show who is to be removed, and at `causal` nobody waits for it",
}
"""Bugs whose stories show what goes wrong, and that break no promise an oracle can see."""


@pytest.mark.parametrize(("bug", "story"), [each for each in STORIES if each[0] not in UNSEEN])
def test_oracles_find_the_planted_bug_in_the_trace_of_the_story(bug: str, story: Callable[[str | None], bool]) -> None:
    """They find nothing against the sound protocol, and the broken promise that the bug is listed with."""
    with watched() as made:
        story(None)
    assert made[-1].broken() == {}
    with watched() as made:
        story(bug)
    kinds = [kind for kind in (CAUSAL, TOTAL) if bug in {mutant.name for mutant in mutants_of(kind)}]
    assert find(kinds[0], bug).law in made[-1].broken()
