"""What an application or an operator may ask a member of a living group: who is in it, and what is waited for."""

from collections.abc import Sequence

from whence.core.member import MemberStatus, ViewStatus
from whence.core.views.changes import Changes
from whence.core.views.links import Links
from whence.core.views.newcomer import Newcomer
from whence.core.views.peers import Peer
from whence.core.views.state import ViewState
from whence.core.views.view import MemberId
from whence.epochs import generation_of, number_of


class Status:
    """Answers questions about one member, and changes nothing."""

    def __init__(self, changes: Changes, newcomer: Newcomer) -> None:
        self._changes, self._newcomer = changes, newcomer
        self._state: ViewState = changes.state
        self._links: Links = changes.links

    def view(self) -> ViewStatus | None:
        """Return the view that was entered, and how far a change of it is; None outside any view."""
        state, changes = self._state, self._changes
        if state.me is None or state.entered not in state.views:
            return None
        return ViewStatus(
            epoch=number_of(state.entered),
            adopted=number_of(state.adopted),
            generation=generation_of(state.adopted),
            members=tuple(self._member(member) for member in state.view.members),
            frozen=tuple(state.frozen),
            leader=changes.wishes.leads(),
            waits_for=tuple(self._waits_for()),
        )

    def _member(self, member: MemberId) -> MemberStatus:
        state, peer = self._state, self._links.peers.get(member.pid)
        voter = member in state.view.voters
        if member == state.me:
            lag = sum(max(0, stream.got - stream.taken) for stream in state.here)
            return MemberStatus(member.pid, number_of(member.joined), voter, state.live, False, lag)
        if peer is None or peer.member != member:  # a later view, which is not entered yet, is without it
            return MemberStatus(member.pid, number_of(member.joined), voter, False, True, 0)
        suspected = member.pid in self._links.suspects.now
        live, lag = self._links.is_live(peer), self._lag(peer)
        return MemberStatus(member.pid, number_of(member.joined), voter, live, suspected, lag)

    def _lag(self, peer: Peer) -> int:
        """Return the messages that were got here and that a member's application is not known to have taken."""
        state = self._state
        return sum(
            max(0, stream.got - max(peer.taken[place], stream.held_from - 1))
            for place, member in enumerate(state.latest.members)
            if (stream := state.streams.get(member)) is not None
        )

    def _waits_for(self) -> list[int]:
        """Return the members that a change led here waits for, or those of which something is missing here."""
        state, leader = self._state, self._changes.leader
        if self._changes.force.survivors:
            return self._changes.force.waits_for
        if leader.attempt is not None:
            return leader.waits_for
        return [member.pid for member in state.open_cuts]

    def opening(self) -> str:
        """Say what this process waits for before it is live; empty if it is, or was removed."""
        state = self._state
        if state.me is None:
            if rivals := self._newcomer.rivals:
                others = ", ".join(map(str, rivals))
                return f"an operator: process {others} is in another group of this name than those that answered first"
            asked = ", ".join(map(str, self._newcomer.contacts))
            return f"a quorum of the voters to add it (it asked {asked})" if asked else "a member to ask"
        if state.live or self._changes.removal.by is not None:
            return ""
        if not state.opened:
            return f"the mark or the acknowledgement of {', '.join(map(str, self._silent(state.me)))}"
        return "what older members published before it came"

    def _silent(self, me: MemberId) -> list[int]:
        """Return the older members that have not entered this one's view; if all have, those that lack a mark."""
        peers = self._links.peers.items()
        silent = [pid for pid, peer in peers if peer.member.joined < me.joined and peer.entered < me.joined]
        return silent or self._newcomer.missing()

    def removal_lacks(self, gone: Sequence[int]) -> tuple[int, ...]:
        """Return the voters without whom the others may not remove these members; empty if they may."""
        view = self._state.latest
        without = dict.fromkeys(gone) | {member.pid: None for member in self._changes.wishes.condemned}
        stays = [member.pid for member in view.members if member.pid not in without]
        if view.has_quorum(stays) and any(voter.pid in stays for voter in view.voters):
            return ()
        return tuple(voter.pid for voter in view.voters if voter.pid in without)
