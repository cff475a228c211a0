"""What an application hears of the members of a living group: views, and that it is no longer in any.

Members see a view at different places among their deliveries, and deliver messages of the view before after it. What is
the same for all is the set of messages, and at level `total` their sequence.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from whence.core.links.greeting import host_port
from whence.core.member import Living, MemberStatus, ViewStatus
from whence.core.ready import Note
from whence.epochs import NUMBER_BITS, forced_since, number_of
from whence.errors import NotMemberError, QuorumError, RemovedError, UsageError
from whence.types import EventId

if TYPE_CHECKING:
    from whence.net.driver import Driver
    from whence.net.peers import PeerTable

ENTERED = "entered"
"""The reason of notes about a view that was entered."""

OUTSIDE = "outside"
"""The reason of notes that a member learnt of a view without it."""

LEFT, UNKNOWN = "left", "removed_unknown"
"""Reasons of notes that a member is out: it left by itself, or nobody remembers how far its messages count."""


class View(Struct, frozen=True):
    """The group has these members from here on, as far as this one is concerned."""

    epoch: int
    """Its number: one more than that of the view before."""
    members: tuple[int, ...]
    added: tuple[int, ...]
    """Members that were not in the view before; at first, all."""
    removed: tuple[int, ...]
    """Former members: they left or were removed. A process that was replaced under its number is in neither list."""
    generation: int = 0
    """How often an operator forced the group."""


class Removed(Struct, frozen=True):
    """The others removed this member; nothing comes after it."""

    epoch: int
    """A view that is without it: that which removed it or, after a force, one that it met."""
    cut: EventId | None
    """The last of its own events that took effect; later ones never will. None: none did, or it is not known."""
    is_known: bool = True
    """Whether it is known how far its events took effect: after a force, and after a long absence, it is not."""
    generation: int = 0
    """The generation in which an operator let the group go on without it; 0: the others decided it."""


def removal(note: Note, member: object) -> RemovedError | None:
    """Return the error that a member's note about its end stands for; None if it left by itself, or at levels without
    views."""
    if note.reason is None or note.reason == LEFT or note.epoch is None or not isinstance(member, Living):
        return None
    return RemovedError(
        number_of(note.epoch), note.event, is_known=note.reason != UNKNOWN, published=member.has_published,
        is_replaced=member.is_replaced, generation=forced_since(note.epoch, member.line << NUMBER_BITS),
    )  # fmt: skip


def living(driver: "Driver") -> Living:
    """Return a member of a living group. Raises UsageError for one of another group, and what stopped it."""
    driver.check()
    if not isinstance(driver.member, Living):
        raise UsageError(f"the members of group {driver.group!r} do not change by views; see membership=living")
    return driver.member


def with_names(view: ViewStatus | None, peers: "PeerTable") -> ViewStatus | None:
    """Return a view whose members have their names and addresses, as far as they are known."""
    if view is None:
        return None
    named = []
    for each in view.members:
        found = peers.book.find(each.pid)
        address = host_port(found.host, found.port) if found is not None else ""
        named.append(replace(each, name=peers.names.name(each.pid), address=address))
    return replace(view, members=tuple(named))


def as_told(view: ViewStatus | None, peers: "PeerTable") -> ViewStatus | None:
    """Return a view for an application: its members have their names and addresses, and whoever else it speaks of is a
    number that knows its name."""
    found, named = with_names(view, peers), peers.names.named
    if found is None:
        return None
    return replace(
        found,
        leader=named(found.leader),
        waits_for=tuple(map(named, found.waits_for)),
        frozen=tuple(map(named, found.frozen)),
    )


def leaving_waits_for(driver: "Driver") -> str:
    """Say for whom a member that is leaving waits, and for what."""
    member = driver.member
    if behind := driver.settling.behind():
        return f"{', '.join(map(str, behind))} to take what was published here"
    status = member.view_status() if isinstance(member, Living) else None
    if status is None:
        return "the others to learn of the view without it"
    waits = status.waits_for or (status.leader,)
    silent = [each.pid for each in status.members if each.suspected]
    named = ", ".join(str(driver.named(pid)) for pid in waits)
    if any(pid in silent for pid in waits):
        return f"{named}, silent at present, to come back or be removed"
    return f"{named} to decide a view without this process"


def without_the_dead(driver: "Driver") -> str:
    """Say what to do about members that are gone for good: without a quorum they cannot be removed."""
    status = driver.member.view_status() if isinstance(driver.member, Living) else None
    if status is None or status.has_quorum:
        return "remove those that are gone for good"
    return (
        "bring enough of the voters back, because those that answer are no quorum and can remove nobody (where they "
        "are gone for good, whence force at a member that stays)"
    )


def is_out(driver: "Driver", pid: int) -> bool:
    """Tell whether a process was a member and is none any more. Raises UsageError as `living` does."""
    member = living(driver)
    return member.is_member and member.was_member(pid)


def begin_removal(driver: "Driver", pid: int) -> MemberStatus:
    """Begin to remove another member; return what it is. Raises QuorumError where those that stay may not decide it,
    UsageError."""
    member = living(driver)
    view = member.view_status()
    if view is None:
        raise NotMemberError(f"this process is in no view of group {driver.group!r}")
    target = next((each for each in view.members if each.pid == pid), None)
    if pid == driver.context.me.pid:
        raise UsageError(f"a member does not remove itself from group {driver.group!r}: leave it (Group.leave, whence "
                         "leave), or remove this one at another member")  # fmt: skip
    if target is None:
        members = ", ".join(str(driver.named(each.pid)) for each in view.members)
        raise UsageError(f"process {driver.named(pid)} is no member of group {driver.group!r}; these are: {members}")
    if missing := member.removal_lacks([pid]):
        what = f"process {driver.named(pid)} cannot be removed from group {driver.group!r}"
        raise QuorumError(what, [driver.named(each) for each in missing])
    driver.act("remove", pid)
    return target


def begin_force(driver: "Driver", survivors: Sequence[int], *, despite_quorum: bool = False) -> None:
    """Begin to go on with these members only, this one among them, without a vote. Raises UsageError: for wrong
    survivors, where those that answer are a quorum, unless it is to be done all the same, and where this process is
    leaving."""
    view = living(driver).view_status()
    if view is None:
        raise NotMemberError(f"this process is in no view of group {driver.group!r}")
    if view.leaving:
        raise UsageError(
            f"this process is leaving group {driver.group!r}, and would leave the generation that it forces: force it "
            "at a member that stays. To stay with this one, close the group here, open it again with the data "
            "directory it had, and force it then"
        )
    if view.has_quorum and not despite_quorum:
        members = [each.pid for each in view.members]
        wrong = why_no_survivors(members, driver.context.me.pid, survivors, driver.named)
        raise UsageError(wrong or why_not_forced(driver.group, _voters_that_answer(view, driver)))
    driver.force(survivors)


def _voters_that_answer(view: ViewStatus, driver: "Driver") -> str:
    return ", ".join(str(driver.named(each.pid)) for each in view.members if each.voter and not each.suspected)


def why_no_survivors(members: Sequence[int], me: int, chosen: Sequence[int], named: Callable[[int], object]) -> str:
    """Say why a group cannot go on with these of its members, at the one that is to force it; empty if it can."""
    if me not in chosen:
        return f"force: this process, {named(me)}, must be a survivor itself"
    if strangers := [pid for pid in chosen if pid not in members]:
        return (
            f"force: process {named(strangers[0])} is no member; these are: {', '.join(map(str, map(named, members)))}"
        )
    if len(chosen) == len(members):
        return "force: with all members as survivors there is nothing to force"
    return ""


def why_not_forced(group: str, voters: str) -> str:
    """Say that a group has a quorum, and what to do instead of forcing it."""
    return (
        f"group {group!r} has a quorum, because the voters {voters} answer: remove those that are gone (whence remove, "
        "Group.remove), which loses and splits nothing. Who died just now counts until it is missed, some seconds. To "
        "force the group all the same: --despite-quorum, despite_quorum=True"
    )


def check_may_leave(driver: "Driver") -> None:
    """Raise UsageError where a member cannot leave for good: in groups without views, and while it forces the group
    itself, because it must stay until that is done."""
    view = living(driver).view_status()
    if view is not None and view.survivors:
        raise UsageError(
            f"group {driver.group!r} is being forced by this process, which must stay until that is done: leave then"
        )
