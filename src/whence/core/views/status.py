"""What an application or an operator may ask a member of a living group: who is in it, and what is waited for."""

from collections.abc import Collection, Iterable, Sequence
from operator import gt

from whence.core.member import MemberStatus, ViewStatus
from whence.core.views.attempt import Phase
from whence.core.views.changes import Changes
from whence.core.views.items import ViewMessage
from whence.core.views.links import Links
from whence.core.views.newcomer import Newcomer
from whence.core.views.peers import Peer
from whence.core.views.state import ViewState
from whence.core.views.view import VOTERS_MAX, MemberId, View
from whence.epochs import generation_of, number_of
from whence.errors import WITHOUT_QUORUM

PHASES = {
    Phase.PREPARE: "ask the voters",
    Phase.REPORT: "learn what everybody has",
    Phase.FLUSH: "share what was published",
    Phase.ACCEPT: "vote",
}
"""What a change does in each of its phases."""

NO_QUORUM = "there is no quorum"

_WHEN_SILENT = "start it again if it has stopped or, if it is gone for good, remove it at a member (whence remove)"


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
        change, waits_for = self._change()
        return ViewStatus(
            epoch=number_of(state.entered),
            adopted=number_of(state.adopted),
            generation=generation_of(state.adopted),
            members=tuple(self._member(member) for member in state.view.members),
            frozen=tuple(state.frozen),
            leader=changes.wishes.leads(),
            waits_for=waits_for,
            change=change,
            leaving=changes.removal.leaving,
            has_quorum=not self.removal_lacks(list(self._links.suspects.now)),
            survivors=tuple(changes.force.survivors),
            will_vote=state.me not in state.view.voters and len(state.view.voters) < VOTERS_MAX,
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
        live, lag = self._links.is_live(peer) and not suspected, self._lag(peer)
        return MemberStatus(member.pid, number_of(member.joined), voter, live, suspected, lag)

    def _lag(self, peer: Peer) -> int:
        """Return the messages that were got here and that a member's application is not known to have taken."""
        state = self._state
        return sum(
            max(0, stream.got - max(peer.taken[place], stream.held_from - 1))
            for place, member in enumerate(state.latest.members)
            if (stream := state.streams.get(member)) is not None
        )

    def _change(self) -> tuple[str, tuple[int, ...]]:
        """Say which change is under way or wanted, and whom it waits for."""
        state, wishes, force = self._state, self._changes.wishes, self._changes.force
        if force.survivors:
            return f"force a generation of {self._listed(force.survivors)}", tuple(force.waits_for)
        silent = tuple(wishes.missing_voters())
        if (attempt := self._changes.leader.attempt) is not None:
            plan = attempt.plan
            wanted = self._wanted(plan.remove, plan.leavers, plan.joins) or "make voters"
            return f"{wanted}: {NO_QUORUM if silent else PHASES[attempt.phase]}", silent or attempt.missing
        if state.open_cuts:
            missing = tuple(member.pid for member in state.open_cuts)
            return f"enter view {number_of(state.adopted)}: get what the removed published", missing
        gone = dict.fromkeys([*state.frozen, *[member.pid for member in wishes.condemned]])
        leavers = [state.pid] if self._changes.removal.leaving else []
        wanted = self._wanted([*gone, *leavers], leavers, wishes.joining)
        if not wanted:
            return self._opening()
        if silent:
            return f"{wanted}: {NO_QUORUM}", silent
        if gone or leavers:  # everybody that stays must report, and take what a leaver published
            waits = [pid for pid in self._links.suspects.now if pid not in gone] or (leavers and self._behind())
            return wanted, tuple(waits) or (wishes.leads(),)
        return wanted, tuple(self._links.suspects.now) or (wishes.leads(),)  # nobody is added while one is silent

    def _opening(self) -> tuple[str, tuple[int, ...]]:
        """Say which newcomers are not in yet, and whom they wait for: older members that have not entered the view, or
        not received all marks; else the newcomers themselves. At `total` others may wait for them."""
        links, state = self._links, self._state
        coming = [peer.member for peer in links.peers.values() if not links.is_live(peer)]
        if not coming or not state.opened:
            return "", ()
        waits = {pid: None for member in coming for pid, peer in links.peers.items() if self._lacks_marks(peer, member)}
        pids = [member.pid for member in coming]
        return f"let in {self._listed(pids)}", tuple(waits or pids)

    def _lacks_marks(self, peer: Peer, newcomer: MemberId) -> bool:
        """Tell whether a member is older than a newcomer, and has not all that this one needs it to have."""
        if peer.member.joined >= newcomer.joined:
            return False
        bases = [self._state.streams[member].base_for(newcomer.joined) for member in self._state.latest.members]
        return peer.entered < newcomer.joined or any(map(gt, (base or 0 for base in bases), peer.got))

    def _behind(self) -> list[int]:
        """Return the members whose applications have not taken all that was published here."""
        own, links = self._state.own.retained, self._links
        last = max((number for number, message in own.items() if isinstance(message, ViewMessage)), default=0)
        return [pid for pid, peer in links.peers.items() if links.acked(peer) < last]

    def opening(self) -> str:
        """Say what this process waits for before it is live; empty if it is, or was removed."""
        state, removal = self._state, self._changes.removal
        if removal.by is not None:
            return "" if removal.ended else self._until_known(removal.by)
        if state.me is None:
            if rivals := self._newcomer.rivals:
                return (
                    f"an operator: {self._listed(rivals)} is in another group of this name than those that answered "
                    "first"
                )
            if missing := self._newcomer.missing_voters:
                return (
                    f"the voters {self._listed(missing)}, which do not answer and without whom nobody can be "
                    f"added: {WITHOUT_QUORUM}"
                )
            if away := self._newcomer.away:
                return f"{self._listed(away)}, which must answer before anybody is added: {_WHEN_SILENT}"
            asked = self._listed(self._newcomer.contacts)
            return f"a quorum of the voters to add it (it asked {asked})" if asked else "a member to ask"
        if state.live:
            return ""
        if not state.opened:
            waits_for = self._silent(state.me)
            advice = f": {_WHEN_SILENT}" if any(pid in self._links.suspects.now for pid in waits_for) else ""
            return f"the mark or the acknowledgement of {self._listed(waits_for)}{advice}"
        return "what older members published before it came"

    def _until_known(self, view: View) -> str:
        """Say who must learn of the view without this member before its process can be another one."""
        known = self._changes.removal.known_by
        voters = [voter.pid for voter in view.voters if voter.pid not in known]
        return (
            f"enough of the voters {self._listed(voters)} to learn that this process was removed by view "
            f"{number_of(view.epoch)}: it can join anew then"
        )

    def _silent(self, me: MemberId) -> list[int]:
        """Return the older members that have not entered this one's view; if all have, those that lack a mark."""
        peers = self._links.peers.items()
        silent = [pid for pid, peer in peers if peer.member.joined < me.joined and peer.entered < me.joined]
        return silent or self._newcomer.missing()

    def was_member(self, pid: int) -> bool:
        """Tell whether a process was a member in a view that is remembered, and is none in the latest."""
        views = self._state.views.values()
        named = (member for view in views for member in (*view.members, *[cut.member for cut in view.cuts]))
        return any(member.pid == pid for member in named) and self._state.latest.member_of(pid) is None

    def removal_lacks(self, gone: Sequence[int]) -> tuple[int, ...]:
        """Return the voters without whom the others may not remove these members; empty if they may."""
        view = self._state.latest
        without = dict.fromkeys(gone) | {member.pid: None for member in self._changes.wishes.condemned}
        stays = [member.pid for member in view.members if member.pid not in without]
        if view.has_quorum(stays) and any(voter.pid in stays for voter in view.voters):
            return ()
        return tuple(voter.pid for voter in view.voters if voter.pid in without)

    def _wanted(self, gone: Iterable[int], leavers: Collection[int], come: Iterable[int]) -> str:
        """Say who is to be removed, who of them leaves, and who is to be added."""
        removed = [pid for pid in gone if pid not in leavers]
        parts = (("remove", removed), ("let go of", list(leavers)), ("add", list(come)))
        return " and ".join(f"{what} {self._listed(pids)}" for what, pids in parts if pids)

    def _listed(self, pids: Iterable[int]) -> str:
        """Return processes as sentences call them."""
        return ", ".join(str(self._state.named(pid)) for pid in pids)
