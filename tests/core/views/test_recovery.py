"""Recovery: a journal says what its member said, and a rewritten journal says the same as the records it replaces."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.views.group import Group, between
from whence.core.views import journal
from whence.core.views.items import Message, ViewMark, ViewMessage
from whence.core.views.member import ViewMember
from whence.core.views.settings import MS, ViewSettings
from whence.core.views.total_order import TotalOrder
from whence.errors import NotMemberError, StorageError
from whence.types import Process, packed

KINDS = ("causal-living", "total-strict")

steps = st.lists(
    st.tuples(
        st.sampled_from(("publish", "publish", "flow", "wait", "lose", "crash", "restart", "join", "remove", "slow")),
        st.sampled_from((0, 1, 2, 9)),
        st.sampled_from((0, 1, 2, 9)),
    ),
    max_size=25,
)


def live_through(group: Group, story: list[tuple[str, int, int]]) -> None:
    """Let a group live through a story; what cannot be done is left out."""
    for what, pid, other in story:
        is_up = pid in group.members
        match what:
            case "publish" if is_up and group.is_live(pid):
                with suppress(NotMemberError):  # it is leaving
                    group.publish(pid)
            case "flow":
                group.flow()
            case "wait":
                group.wait(400 * MS)
            case "lose":
                group.drop(between([pid], [other]))
            case "crash" if is_up:
                group.crash(pid)
            case "restart" if not is_up and pid in group.incarnations:
                group.restart(pid)
            case "join" if pid not in group.incarnations:
                group.join(pid, 0, 1)
            case "remove" if is_up and group.is_live(pid) and other != pid and other in group.pids(pid):
                if group.members[pid].state.latest.member_of(other) is not None:
                    group.remove(pid, other)
            case "slow":
                group.slow ^= {pid}
                if is_up and pid not in group.slow:
                    group.take(pid)


def said_by(member: ViewMember) -> dict[str, Any]:
    """Return what a member must not forget: what it may have told others."""
    state, changes = member.state, member.changes
    acceptor = changes.participant.acceptor
    acceptor.look_at(state.adopted)
    member.state.count_taken()
    return {
        "me": state.me, "views": state.views, "adopted": state.adopted, "entered": state.entered,
        "marked": state.mark_epoch, "opened": state.opened, "frozen": state.frozen, "ballot": state.report_ballot,
        "votes": acceptor.record(),
        "own": {number: _bare(message) for number, message in state.own.retained.items()},
        "bases": {member: stream.base for member, stream in state.streams.items()},
        "slots": {member: stream.slot for member, stream in state.streams.items()},
        "taken": {member: stream.taken for member, stream in state.streams.items()},
        "marks": {member: stream.marks for member, stream in state.streams.items()},
        "removed": member.removal.by, "former": member.removal.former, "lost": member.lost,
    }  # fmt: skip


def _bare(message: Message) -> Message:
    """Return a message without what it says about its publisher's application."""
    return journal.message_in(journal.decode(journal.record_of_own(message)))  # type: ignore[arg-type]


def restored(group: Group, pid: int, records: list[bytes]) -> ViewMember:
    """Return a later incarnation that begins with these records."""
    other = group.twin(pid)
    other.resume(group.members[pid].taken, 1 << 30)
    other.restore(records, group.now)
    return other


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep", ["own", "all"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(story=steps)
def test_a_rewritten_journal_says_the_same_as_the_records_it_replaces(
    kind: str, keep: Any, story: list[tuple[str, int, int]]
) -> None:
    group = Group(kind, None, ViewSettings(keep=keep))
    live_through(group, story)
    for pid, member in group.members.items():
        if not member.is_member or member.removal.by is not None:
            continue
        whole, rewritten = restored(group, pid, group.records[pid]), restored(group, pid, member.checkpoint())
        one, other = said_by(whole), said_by(rewritten)
        known = other["views"].keys() & one["views"].keys()
        one["views"], other["views"] = ({epoch: each["views"][epoch] for epoch in known} for each in (one, other))
        for name in ("bases", "slots", "taken", "marks"):
            one[name] = {member: value for member, value in one[name].items() if member in rewritten.state.streams}
        one["own"] = {number: message for number, message in one["own"].items() if number in other["own"]}
        assert one == other


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(story=steps)
def test_a_later_incarnation_remembers_what_the_earlier_one_said(kind: str, story: list[tuple[str, int, int]]) -> None:
    group = Group(kind, None, ViewSettings())
    live_through(group, story)
    for pid, member in group.members.items():
        if not member.is_member or member.removal.by is not None:
            continue
        before, after = said_by(member), said_by(restored(group, pid, group.records[pid]))
        for name in ("me", "adopted", "entered", "marked", "opened", "frozen", "ballot", "votes"):
            assert after[name] == before[name], name
        assert after["own"].items() >= before["own"].items()
        assert all(after["taken"][stream] >= taken for stream, taken in before["taken"].items())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(story=steps)
def test_a_later_incarnation_promises_no_earlier_clock(story: list[tuple[str, int, int]]) -> None:
    group = Group("total-strict", None, ViewSettings())
    live_through(group, story)
    for pid, member in group.members.items():
        if member.is_member and member.removal.by is None and isinstance(member.order, TotalOrder):
            for records in (group.records[pid], member.checkpoint()):
                later = restored(group, pid, records).order
                assert isinstance(later, TotalOrder)
                assert later.clock >= member.order.clock


messages = st.one_of(
    st.builds(
        lambda number, clock, asks: ViewMessage(
            0, 3, [number, 5], clock, asks, [], packed(Process(7, 1), number + 1, [b"x", b"y"])
        ),
        st.integers(0, 9), st.integers(0, 9), st.booleans(),
    ),
    st.builds(lambda number, clock, prev: ViewMark(1, 4, [5, number], clock, prev), *[st.integers(0, 4)] * 3),
)  # fmt: skip


@given(messages)
def test_a_message_comes_back_from_the_journal_as_it_was(message: Message) -> None:
    own, custody = journal.decode(journal.record_of_own(message)), journal.decode(journal.record_of_custody(message))
    assert type(own) is not type(custody)
    assert journal.message_in(own) == journal.message_in(custody) == message  # type: ignore[arg-type]


def test_a_record_that_no_member_wrote_is_refused() -> None:
    with pytest.raises(StorageError):
        journal.decode(b"\x93\xcc\xff\x01\x02")


def test_a_removed_member_does_not_become_live_again() -> None:
    """It learns of its removal and is told packets of its former group; it publishes no more."""
    group = Group("causal-living", None, ViewSettings(journal=False))
    group.remove(0, 2)
    group.wait(100 * MS, lose=between([2], [0, 1]))
    assert group.members[2].removal.by is not None
    assert not group.is_live(2)
    with pytest.raises(NotMemberError):
        group.publish(2)
    group.wait(1_000 * MS)
    assert group.told(2, "removed")
    assert [note.kind for note in group.notes[2]].count("join") == 1


@pytest.mark.parametrize("rewrites", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_verdict_on_a_removed_member_is_told_until_a_later_membership_is_opened(kind: str, rewrites: bool) -> None:
    """It is back and may fail again before its application hears anything; and being removed once more before it
    published says nothing about what it published before."""
    group = Group(kind, None, ViewSettings(journal=True))

    def comes_back() -> None:
        if rewrites:
            group.records[2] = group.members[2].checkpoint()
        group.crash(2)
        group.restart(2)

    last = group.publish(2)
    group.wait(400 * MS)
    group.crash(2)
    group.remove(0, 2)
    group.wait(400 * MS)
    group.restart(2)
    assert _former(group) == "None", "it does not know yet"
    group.wait(400 * MS)
    assert group.told(2, "removed")
    comes_back()
    former = group.members[2].former
    assert former is not None
    assert (former.cut, former.is_known, former.is_replaced, former.generation) == (last, True, False, 0)
    group.join(2, 0)
    group.wait(400 * MS, lose=between([1], [2]))
    assert group.members[2].is_member
    assert not group.is_live(2)
    group.remove(0, 2)
    group.wait(400 * MS)
    comes_back()
    assert _former(group) == str(former)
    group.join(2, 0)
    group.wait(400 * MS)
    assert group.is_live(2)
    assert _former(group) == str(former), "who opened the group can still be told"
    comes_back()
    assert _former(group) == "None"


@pytest.mark.parametrize("rewrites", [False, True], ids=["appended", "rewritten"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_view_leaves_out_is_in_the_journal_until_the_application_was_told(kind: str, rewrites: bool) -> None:
    """The member was removed, ended, and was one again meanwhile."""
    group = Group(kind, None, ViewSettings(journal=True))

    def comes_back() -> list[int]:
        if rewrites:
            group.records[2] = group.members[2].checkpoint()
        group.crash(2)
        group.restart(2)
        return [bundle.first for bundle in group.members[2].lost]

    group.publish(2)
    group.wait(400 * MS)
    lost = [group.publish(2).seq for _ in range(3)]
    group.drop(between([2], [0, 1]))
    group.crash(2)
    group.remove(0, 2)
    group.wait(400 * MS)
    group.restart(2)
    assert group.members[2].lost == []
    group.wait(400 * MS, lose=between([2], [0, 1]))
    assert comes_back() == lost, "it knows that it is out, and nobody knows that it does"
    group.wait(400 * MS)
    assert group.told(2, "removed")
    assert comes_back() == lost
    group.join(2, 0)
    group.wait(400 * MS)
    assert group.is_live(2)
    assert comes_back() == lost, "its application may not have had the group"
    group.records[2] += group.members[2].lost_told(group.now).persist
    assert group.members[2].lost == []
    assert comes_back() == []


@pytest.mark.parametrize("rewrites", [False, True], ids=["appended", "rewritten"])
def test_who_was_told_what_it_lost_is_not_told_again(rewrites: bool) -> None:
    """It was told while it ran, and ended before enough of the others knew that it did; what it is later is told what
    that one loses."""
    group = Group("causal-living", None, ViewSettings(journal=True))
    for again in range(2):
        lost = group.publish(2).seq
        group.drop(between([2], [0, 1]))
        group.remove(0, 2)
        group.wait(400 * MS, lose=lambda packet: packet.source == 2 and packet.to != 2)
        member = group.members[2]
        assert [bundle.first for bundle in member.lost] == [lost]
        group.records[2] += member.lost_told(group.now).persist
        for _ in range(2):
            if rewrites:
                group.records[2] = group.members[2].checkpoint()
            group.crash(2)
            group.restart(2)
            assert group.members[2].lost == [], again
            group.wait(400 * MS)
        group.join(2, 0)
        group.wait(400 * MS)
        assert group.is_live(2)


def _former(group: Group) -> str:
    return str(group.members[2].former)


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_alone_is_handed_after_a_restart_what_its_application_had_not_taken(kind: str) -> None:
    """Nobody's promise will ever come: that it is alone must be enough."""
    group = Group(kind, None, ViewSettings(journal=True), founders=1)
    group.slow.add(0)
    events = [group.publish(0) for _ in range(3)]
    group.crash(0)
    group.log[0].clear()
    group.restart(0)
    assert group.log[0] == events


def test_what_waited_after_a_restart_is_kept_when_the_journal_is_rewritten() -> None:
    """T49: it was not taken yet, and all restart once more."""
    group = Group("causal-living", None, ViewSettings(journal=True))
    group.slow = {0, 1}
    causes = [group.publish(0), group.publish(1)]
    group.flow()
    last = group.publish(2)
    group.flow()
    group.remove(0, 2)
    group.wait(400 * MS)
    for again in range(2):
        for pid in (0, 1):
            group.crash(pid)
        group.slow = {0, 1} if again == 0 else set()
        for pid in (0, 1):
            group.log[pid].clear()
            group.restart(pid)
        group.wait(3_000 * MS)
        for pid in (0, 1):
            group.records[pid] = group.members[pid].checkpoint()
    assert all(set(group.log[pid]) == {*causes, last} for pid in (0, 1))
