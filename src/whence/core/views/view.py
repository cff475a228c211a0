"""A view: who is in the group, from one epoch to the next, and who votes on the next one.

Laws: there is one view per epoch (whence/epochs.py). A member is a peer and the epoch of the view that added it, so a
peer that comes again is another member, and no packet for one is taken by the other. Two quorums of the voters of a
view meet.
"""

from collections.abc import Iterable
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta, Struct

from whence.epochs import EPOCH_MAX, first_epoch
from whence.limits import CLOCK_NODES_MAX, SEQ_MAX
from whence.types import Incarnation, PeerId

VOTERS_MAX = 7
"""More voters would make changes slower and hardly safer."""


MARKS_MAX = 32
"""Marks of one member that others remember. A newcomer that needs an older one is not opened, and joins anew."""

Epoch: TypeAlias = Annotated[int, Meta(ge=0, le=EPOCH_MAX)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=SEQ_MAX)]
Clock: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]


class MemberId(NamedTuple):
    """A peer, and the epoch of the view that added it."""

    pid: PeerId
    joined: Epoch


class Ballot(NamedTuple):
    """The number of an attempt at a change: later rounds win, then higher peers."""

    round: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    pid: PeerId


NO_BALLOT = Ballot(0, 0)


class MarkAt(Struct, frozen=True, array_like=True, gc=False):
    """A mark in a member's stream: it entered `epoch` there, and its mark before that was of `prev`."""

    prev: Epoch
    epoch: Epoch
    number: Number
    clock: Clock

    def is_base_for(self, joined: int) -> bool:
        """Tell whether a member that was added in epoch `joined` begins this stream here."""
        return self.prev < joined <= self.epoch


class Cut(Struct, frozen=True, array_like=True, gc=False):
    """How far the messages of a removed member count: up to `number`, with the marks among them."""

    member: MemberId
    number: Number
    clock: Clock
    marks: Annotated[list[MarkAt], Meta(max_length=MARKS_MAX)]


class View(Struct, frozen=True, array_like=True, gc=False):
    """The members of an epoch in order, those of them that vote on the next view, and how far the removed count."""

    epoch: Epoch
    members: Annotated[list[MemberId], Meta(max_length=CLOCK_NODES_MAX)]
    voters: Annotated[list[MemberId], Meta(max_length=VOTERS_MAX)]
    nonces: Annotated[list[Incarnation], Meta(max_length=CLOCK_NODES_MAX)]
    """Per member, the incarnation of the process that was added: no other process may act for it before it has a
    journal. 0: any, for founders."""
    cuts: Annotated[list[Cut], Meta(max_length=CLOCK_NODES_MAX)]
    forced_from: Epoch | None = None
    """The view that an operator replaced by this one, without asking its voters: a generation begins here."""

    def is_valid(self) -> bool:
        """Tell whether every peer is one member, voters are members, and nobody was added later than this."""
        pids = {member.pid for member in self.members}
        return (
            len(pids) == len(self.members) == len(self.nonces)
            and all(member.joined <= self.epoch for member in self.members)
            and len(set(self.voters)) == len(self.voters) > 0
            and all(voter in self.members for voter in self.voters)
            and all(cut.member not in self.members for cut in self.cuts)
        )

    def member_of(self, pid: int) -> MemberId | None:
        """Return the member that a peer is in this view."""
        for member in self.members:
            if member.pid == pid:
                return member
        return None

    def place_of(self, pid: int) -> int:
        """Return the place of a peer among the members, or -1."""
        for place, member in enumerate(self.members):
            if member.pid == pid:
                return place
        return -1

    def nonce_of(self, pid: int) -> int:
        """Return the incarnation of the process that was added under this number."""
        return self.nonces[self.place_of(pid)]

    def cut_of(self, member: MemberId) -> Cut | None:
        """Return how far a removed member counts, if this view removed it."""
        for cut in self.cuts:
            if cut.member == member:
                return cut
        return None

    def may_lose(self, member: MemberId) -> bool:
        """Tell whether those that stay may remove a member: of two, the second may not remove the first."""
        return self.has_quorum([voter.pid for voter in self.voters if voter != member])

    def has_quorum(self, some: Iterable[int]) -> bool:
        """Tell whether peers among the voters are a quorum. Each weighs 2, the first one 3 if their number is even: so
        that of two, the first alone decides."""
        voters = self.voters
        if not voters:
            return False
        casting = 1 - len(voters) % 2
        chosen = dict.fromkeys(some)
        weight = sum(2 for voter in voters if voter.pid in chosen) + (casting if voters[0].pid in chosen else 0)
        return 2 * weight > 2 * len(voters) + casting


def first_view(pids: Iterable[int], birth: int = 0) -> View:
    """Return the view with which a group begins: its founders, the first of which vote."""
    epoch = first_epoch(birth)
    members = [MemberId(pid, epoch) for pid in sorted(pids)]
    return View(epoch, members, members[:VOTERS_MAX], [0] * len(members), [])
