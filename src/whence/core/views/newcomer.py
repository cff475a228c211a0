"""Joining: a process asks, is added to a view, learns where every stream begins, and is opened.

Law: a newcomer counts nothing as got before every older member has everything up to the marks with which they entered
its view. From then on nothing older than the newcomer can be lost, and what it has is closed with what all have.
"""

from collections.abc import Sequence

from whence.core.ready import NEVER, Note, Ready, Send
from whence.core.views.changes import Changes
from whence.core.views.items import Hint, JoinRequest
from whence.core.views.journal import Opened
from whence.core.views.streams import Stream
from whence.core.views.view import MemberId, View
from whence.epochs import is_foreign
from whence.types import Instant


class Newcomer:
    """The way of one process into a group."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.state, self.links, self.journal = changes.state, changes.links, changes.journal
        self.contacts: tuple[int, ...] = ()
        self.missing_voters: tuple[int, ...] = ()
        """Voters without whom nobody can be added, as a member says that was asked."""
        self.away: tuple[int, ...] = ()
        """Members that must answer before anybody is added, as it says."""
        self._was_hinted = False
        """Somebody answered the last request."""
        self._at = 0
        self.rivals: dict[int, int] = {}
        """Who answered in the name of another group than the first that did, and its epoch: they have one name, and
        this process asks neither of them any more."""
        self.ask_at: Instant = NEVER
        self._now: Instant = 0
        changes.inbox.on_base = self._base_found

    # --- asking ---

    def ask(self, contacts: Sequence[int], now: Instant, ready: Ready) -> None:
        """Ask these processes to be added."""
        self.contacts = tuple(pid for pid in contacts if pid != self.state.pid)
        self._at, self.rivals = 0, {}
        self.repeat(now, ready)

    def repeat(self, now: Instant, ready: Ready) -> None:
        """Ask again, while nothing was decided."""
        self.ask_at = NEVER
        if not self._was_hinted:
            self.missing_voters = self.away = ()  # what was said before the last request need not hold any more
        self._was_hinted = False
        if self.state.me is None and self.contacts and not self.rivals:
            ready.send.append(Send(self.contacts, JoinRequest(self._at)))
            self.ask_at = now + self.changes.settings.retry_ns

    def hint(self, sender: int, hint: Hint, ready: Ready) -> None:
        """Ask again, quoting the current epoch, unless that was quoted: then note which voters are missing."""
        epoch = hint.epoch
        if self.state.me is not None:
            return
        if self._at and is_foreign(epoch, self._at - 1):
            if not self.rivals:
                ready.notes.append(Note("note", "two_groups", peer=sender, epoch=epoch))
            self.rivals[sender] = epoch
        elif epoch + 1 >= self._at and not self.rivals:
            self.missing_voters, self.away, self._was_hinted = tuple(hint.missing), tuple(hint.away), True
            if epoch + 1 > self._at or not (hint.missing or hint.away):
                self._at = epoch + 1
                ready.send.append(Send((sender,), JoinRequest(self._at)))

    def added(self, view: View, now: Instant, ready: Ready) -> None:
        """Become a member, if this process, and no earlier one with its number, was added by a view."""
        state = self.state
        member = view.member_of(state.pid)
        if member is None or member.joined != view.epoch or view.nonce_of(state.pid) != state.incarnation:
            return
        self.begin(member)
        state.adopted = state.entered = view.epoch - 1
        self.changes.adopt(view, now, ready)
        self.try_open(now, ready)

    def begin(self, member: MemberId) -> None:
        """Take an identity."""
        self.state.me = member
        self.state.mark_epoch = member.joined - 1
        self.ask_at = NEVER

    # --- opening ---

    def _base_found(self, stream: Stream, ready: Ready) -> None:
        self.journal.begins(stream, ready)

    def try_open(self, now: Instant, ready: Ready) -> None:
        """Open this member, if every older one has everything up to the marks."""
        state = self.state
        self._now = now
        if state.me is None:
            return
        if state.opened:
            self._go_live(ready)
            return
        self.changes.inbox.stage.may_mark()
        self.changes.mark(now, ready)
        if not self._is_complete(state.me):
            return
        state.opened = True
        self.journal.write(Opened(self.changes.inbox.stage.start or 0), ready)
        state.look_at_entered()
        self.links.owe(now, at_once=True)
        self._go_live(ready)
        self.changes.inbox.ask_at = now  # what waits is handed out by the next Ready, after this note

    def _go_live(self, ready: Ready) -> None:
        state = self.state
        assert state.me is not None
        if not state.live and self.changes.inbox.stage.is_caught_up():
            state.live = True
            self.changes.inbox.ask_at = min(self.changes.inbox.ask_at, self._now)
            ready.notes.append(Note("join", epoch=state.me.joined, value=state.own.nonce))

    def missing(self) -> list[int]:
        """Return the members whose mark or acknowledgement is missing."""
        assert self.state.me is not None
        return [pid for pid in self.links.peers if not self._has_all(pid, self.state.me)]

    def _is_complete(self, me: MemberId) -> bool:
        state = self.state
        for member in state.latest.members:
            if member.joined < me.joined and state.streams[member].base is None:
                return False
        return all(self._has_all(pid, me) for pid in self.links.peers)

    def _has_all(self, pid: int, me: MemberId) -> bool:
        """Tell whether an older member has entered this one's view, and has every older member's mark."""
        peer, state = self.links.peers[pid], self.state
        if peer.member.joined >= me.joined:
            return True
        if peer.entered < max(me.joined, self._last_removal(me)):
            return False
        for place, member in enumerate(state.latest.members):
            if member.joined < me.joined:
                base = state.streams[member].base
                if base is None or peer.got[place] < base:
                    return False
        return True

    def _last_removal(self, me: MemberId) -> int:
        """Return the last epoch that removed an older member."""
        return max(
            [
                epoch
                for epoch, view in self.state.views.items()
                if epoch >= me.joined and any(cut.member.joined < me.joined for cut in view.cuts)
            ],
            default=me.joined,
        )
