"""What drivers and observers ask a member of a living group. They change nothing, and the protocol asks none of it."""

from collections.abc import Callable, Sequence

from whence.core.member import OverlayStatus, ViewStatus
from whence.core.ready import Gauge, Note, Ready
from whence.core.views.early import Early
from whence.core.views.inbox import Inbox
from whence.core.views.items import ViewMessage
from whence.core.views.links import Links
from whence.core.views.publisher import Publisher
from whence.core.views.recovery import Recovery
from whence.core.views.removal import Removal
from whence.core.views.settings import AS_THE_GROUP, ViewSettings
from whence.core.views.stability import Stability
from whence.core.views.state import ViewState
from whence.core.views.status import Status
from whence.core.views.wishes import Wishes
from whence.epochs import line_of
from whence.errors import RemovedError
from whence.types import Bundle, Instant, Process


class Observed:
    """A member as others see it: the answers come from its parts."""

    me: Process
    settings: ViewSettings
    state: ViewState
    links: Links
    stability: Stability
    inbox: Inbox
    early: Early
    removal: Removal
    wishes: Wishes
    recovery: Recovery
    _status: Status
    _publisher: Publisher

    # --- the application ---

    @property
    def taken(self) -> list[int]:
        """Return the number of messages with events that the application has taken, by slot."""
        return self.state.taken_counts

    @property
    def counts_taken(self) -> bool:
        """Tell whether it must know what the application takes."""
        return self.state.counts_taken

    def place_of(self, pid: int, incarnation: int) -> int:
        """Return the slot in which a process's messages are counted."""
        stream = self.state.stream_of(pid, incarnation)
        assert stream is not None, "what is delivered belongs to a member"
        return stream.slot

    @property
    def is_member(self) -> bool:
        """Tell whether this process is a member, or was one."""
        return self.state.me is not None

    @property
    def line(self) -> int:
        """Return which group of its name it is in, and which generation of it; 0 outside any."""
        return line_of(self.state.adopted) if self.state.me is not None and self.state.adopted >= 0 else 0

    @property
    def has_published(self) -> bool:
        """Tell whether it published events as the member that it is, or last was, in any incarnation of it."""
        return self.removal.has_published

    @property
    def is_replaced(self) -> bool:
        """Tell whether the view without it has another process of its number as a member."""
        return self.removal.is_replaced

    def verdict(self) -> Note | None:
        """Return the note with which it will be out, if it knows of a view without it."""
        return None if self.removal.by is None else self.removal.verdict(self.removal.by)

    @property
    def former(self) -> RemovedError | None:
        """Return the verdict on the member that this process was before, if it was removed and no application can have
        been told since."""
        known = self.removal.former
        if known is None or self.removal.ended:
            return None
        return RemovedError(
            known.epoch, known.cut, is_known=known.is_known, published=known.published, is_replaced=known.is_replaced,
            generation=known.generation,
        )  # fmt: skip

    @property
    def lost(self) -> list[Bundle]:
        """Return what this process published and a view without it leaves out, as far as the application was not told;
        with a journal, also of the members that it was before."""
        return self.removal.lost

    def lost_told(self, now: Instant) -> Ready:
        """Note that the application was told of it."""
        ready = Ready()
        self.removal.lost_told(ready)
        return ready

    # --- the group ---

    def call_by(self, named: Callable[[int], object]) -> None:
        """Let sentences call processes so."""
        self.state.named = named

    def view(self) -> tuple[int, ...] | None:
        """Return None: views are recorded when they are entered."""
        return None

    def settled(self) -> int | None:
        """Return the last event of this incarnation that every other member's application has taken."""
        last = self.stability.settled_last
        return last.seq if last is not None and last.incarnation == self.me.incarnation else 0

    def majority(self) -> int | None:
        """Return the last event of this incarnation that a quorum of the voters has stored; None where publications do
        not ask for it."""
        if not self.settings.majority:
            return None
        known = (self.stability.majority_last, self.stability.settled_last)
        return max([last.seq for last in known if last is not None and last.incarnation == self.me.incarnation] or [0])

    def missing(self, last: int) -> tuple[int, ...]:
        """Return the other members whose applications are not known to have taken the events up to `last`: all of them
        if it is not published yet."""
        if last > self._publisher.published:
            return tuple(self.links.peers)
        upto = self._unstable_upto(last)
        return tuple(pid for pid, peer in self.links.peers.items() if self.links.acked(peer) < upto)

    def majority_lacks(self, last: int) -> tuple[int, ...]:
        """Return the voters that are not known to have stored the events of this incarnation up to `last`."""
        return self.stability.voters_without(self._unstable_upto(last))

    def _unstable_upto(self, last: int) -> int:
        """Return the number of the last own message, of those that are not stable, with an event up to this one."""
        numbers = [
            number
            for number, message in self.state.own.retained.items()
            if isinstance(message, ViewMessage) and message.bundle.first <= last
        ]
        return max(numbers, default=0)

    def unanswered(self) -> tuple[int, ...]:
        """Return the members that have not reported, in this incarnation, how much they have of what was published
        here; once it was removed, those whom it tells."""
        if self.removal.by is not None:
            return tuple(voter.pid for voter in self.removal.by.voters)  # the note of its end may wait for the disk
        return tuple(pid for pid, peer in self.links.peers.items() if not peer.answered)

    def overlay_status(self) -> OverlayStatus:
        """Return the other members, and those that are suspected."""
        suspected = list(self.links.suspects.now)
        return OverlayStatus(
            list(self.links.peers), [pid for pid in self.links.peers if pid not in suspected], suspected
        )

    def view_status(self) -> ViewStatus | None:
        """Return the view that was entered, and how far a change of it is."""
        return self._status.view()

    def opening_waits_for(self) -> str:
        """Say what this process waits for before it is live."""
        return self._status.opening()

    def was_member(self, pid: int) -> bool:
        """Tell whether a process was a member in a view that is remembered, and is none in the latest."""
        return self._status.was_member(pid)

    def removal_lacks(self, gone: Sequence[int]) -> tuple[int, ...]:
        """Return the voters without whom the others may not remove these members."""
        return self._status.removal_lacks(gone)

    def removes(self, pid: int) -> bool:
        """Tell whether an operator removes a member here, and that is neither done nor impossible by now."""
        return any(member.pid == pid for member in self.wishes.condemned)

    @property
    def silence_ns_max(self) -> int:
        """Return how long a member may be silent before the others have removed it, as a rule; 0: they never do."""
        after_ns = self.wishes.remove_after_ns
        return after_ns and after_ns + 2 * self.settings.suspect_ns

    @property
    def remove_after_ns(self) -> int:
        """Return how long another member may be suspected before this one has it removed; 0: it never does."""
        return self.wishes.remove_after_ns

    def agree(self, remove_after_ns: int) -> None:
        """Do as the group does about silent members, if nothing else was said here."""
        if self.settings.remove_after_ns == AS_THE_GROUP:
            self.wishes.remove_after_ns = remove_after_ns

    def gauges(self) -> list[Gauge]:
        """Return how much is retained for others and held back; all must drain in the end."""
        state, settings = self.state, self.settings
        retained = sum(len(stream.retained) for stream in state.streams.values())
        bound = (settings.records_max // 4 + 64) * max(1, len(state.streams))
        return [
            Gauge("retained", retained, bound, must_drain=True),
            Gauge("held", self.inbox.held_count, settings.held_max + self.inbox.kept_count, must_drain=True),
            Gauge("early", len(self.early), 2 * settings.held_max, must_drain=True),
            Gauge("frozen", len(state.frozen), 64, must_drain=True),
        ]
