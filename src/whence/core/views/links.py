"""What a member owes others, and what it knows of them: own messages, acknowledgements, and when both are repeated.

Laws: everybody hears from everybody how far it is, so nobody has to be told what is stable. Within one incarnation what
a member says only grows; a later one may have less, and counts from its first word on. What is not acknowledged is sent
again. A message says how far its publisher is, so an acknowledgement of its own is sent only if nothing was published
for a while. A member that hears that another has more of its messages than its own journal stops: it would use their
numbers again.
"""

from collections.abc import Callable

from whence.core.membership.suspects import Suspects
from whence.core.ready import NEVER, Note, Ready, Send
from whence.core.stale_journal import OWN_LOST
from whence.core.views.items import Beat, Decree, Message, ViewAck, ViewMark, ViewMessage
from whence.core.views.order import Order
from whence.core.views.peers import Peer, arranged
from whence.core.views.settings import ViewSettings
from whence.core.views.state import ViewState
from whence.core.views.streams import Stream
from whence.core.views.view import MemberId, View
from whence.epochs import is_founding
from whence.types import Instant

AGAIN_MAX = 16
"""Messages repeated at a time."""

DECREES_MAX = 16
"""Views told at a time."""

ACKS_PER_WINDOW = 4


class Links:
    """The exchange with the other members of the latest view."""

    def __init__(self, state: ViewState, settings: ViewSettings, order: Order) -> None:
        self.state = state
        self.settings = settings
        self.suspects = Suspects()
        self.peers: dict[int, Peer] = {}
        """The other members of the latest view, by number."""
        self.all: tuple[int, ...] = ()
        self.place = -1
        """This member's place in the latest view."""
        self.ack_at: Instant = NEVER
        self.retry_at: Instant = NEVER
        self._owes = False
        self._got_since_ack = 0
        self._said_at: Instant = -NEVER
        """When an own message last said to all how far this member is."""
        self._last_ack: ViewAck | None = None
        self._promise, self._promised = order.promise, order.promised
        self._ack_after = max(1, settings.window // ACKS_PER_WINDOW)
        self.all_armed = False
        """An answer of every member is expected, or repeated for."""
        self.stranger: int | None = None
        """Who told of a later view and is in none that is known here: the next acknowledgement asks it for the views
        between, which nobody else may know any more (T51)."""
        self.told_all: Callable[[Instant], None] | None = None
        """Called when all members are sent something that says how far this one is, and its clock."""

    # --- views ---

    def adopt(self, view: View, now: Instant) -> None:
        """Take over the members of a view that is now the latest."""
        state, former = self.state, self.peers
        self.peers = {}
        for place, member in enumerate(view.members):
            if member.pid == state.pid:
                continue
            peer = former.get(member.pid)
            if peer is None or peer.member != member:
                peer = Peer(member, len(view.members), self.settings.retry_ns)
                peer.since = now
                if state.me is not None and member.joined <= state.me.joined:
                    peer.first = 1
            else:
                peer.renumber(state.latest, view)
            peer.place = place
            self.peers[member.pid] = peer
        for pid in former:
            if pid not in self.peers or self.peers[pid] is not former[pid]:
                self.suspects.release(pid)
        self.all = tuple(self.peers)
        self.place = view.place_of(state.pid)
        self._last_ack = None
        self.all_armed = False
        self.arm(now)

    def marked(self, number: int, epoch: int) -> None:
        """Begin to send to the members for whom the stream here begins with a mark."""
        for peer in self.peers.values():
            if peer.first is None and peer.member.joined <= epoch:
                peer.first = number
                peer.sent = number - 1

    # --- messages ---

    def acked(self, peer: Peer) -> int:
        """Return the number of own messages that a member's application has, or need not have."""
        return max(peer.taken[self.place], (peer.first or 1) - 1)

    def came(self, peer: Peer) -> int:
        """Return the number of own messages that reached a member, or are not for it."""
        return max(peer.got[self.place], peer.taken[self.place], (peer.first or 1) - 1)

    def had_taken(self, pid: int, stream: Stream, number: int) -> int:
        """Return up to which message of a stream a member's application is known to have been: at least `number`, a
        message that is not retained here, if that was dropped because everybody had taken it for whom it was."""
        peer = self.peers.get(pid)
        if peer is None:
            return 0
        place = self.state.latest.place_of(stream.member.pid)
        if place < 0 or self.state.latest.members[place] != stream.member:
            return peer.removed.get(stream.member, 0)
        if stream is self.state.own and peer.first is not None and peer.first <= number <= stream.got:
            return max(number, peer.taken[place])
        return peer.taken[place]

    def send(self, message: Message, number: int, now: Instant, ready: Ready) -> None:
        """Send a new message to all that were sent everything before it; the others get it in its turn."""
        suspected, lowest, place = self.suspects.now, number - self.settings.window, self.place
        to: list[int] = []
        for pid, peer in self.peers.items():
            if peer.sent != number - 1 or peer.first is None or pid in suspected:
                continue
            if peer.has_taken(place, lowest) or self.acked(peer) >= lowest:
                peer.sent = number
                to.append(pid)
        if to:
            ready.send.append(Send(tuple(to), message))
        if isinstance(message, ViewMark):
            self._push_behind(number, ready)
        if len(to) == len(self.all) and isinstance(message, ViewMessage) and message.taken:
            self._owes, self._got_since_ack, self._said_at = False, 0, now  # it says what is here, and all get it
            if self.told_all is not None:
                self.told_all(now)
        self.arm(now)

    def is_in_reach(self, pid: int) -> bool:
        """Tell whether a member can be asked for its own messages."""
        return pid in self.peers and pid not in self.suspects.now

    def _push_behind(self, mark: int, ready: Ready) -> None:
        """Send an own mark, and what is before it, also to members with full windows."""
        for pid, peer in self.peers.items():
            if peer.sent < mark and pid not in self.suspects.now:
                self.push(peer, ready)

    def push(self, peer: Peer, ready: Ready) -> None:
        """Send what waits for a member, as far as its window goes, or the targets of a change: where a group hands out
        nothing before the change, no window opens before it. Up to the last mark the window counts what the member has
        received, whatever its application has taken: newcomers wait until every member has all marks."""
        if peer.first is None or self.state.me is None:
            return
        own, window = self.state.own, self.settings.window
        mark = own.marks[-1].number if own.marks else 0
        upto = max(self.acked(peer) + window, min(mark, self.came(peer) + window))
        upto = min(own.got, max(upto, self.state.targets.get(self.state.pid, 0)))
        for number in range(max(peer.sent, self.came(peer)) + 1, upto + 1):
            if number in own.retained:
                ready.send.append(Send((peer.member.pid,), own.retained[number]))
            peer.sent = number

    # --- what others say ---

    def heard(self, pid: int, incarnation: int, now: Instant, ready: Ready) -> Peer | None:
        """Record a sign of life of a member, and return it. What an earlier incarnation had and its application had
        not taken may be lost."""
        peer = self.peers.get(pid)
        if peer is None:
            return None
        peer.heard_at = now
        if incarnation <= peer.incarnation and not self.suspects.now:
            return peer
        if incarnation > peer.incarnation:
            if peer.incarnation:
                peer.forget_untaken()
                peer.sent = self.came(peer)
                peer.retry_at = min(peer.retry_at, now + self.settings.retry_ns)
                self.retry_at = min(self.retry_at, peer.retry_at)
            peer.incarnation = incarnation
        if self.suspects.heard(pid):
            peer.suspected_at = NEVER
            peer.sent = min(peer.sent, self.came(peer))
            peer.backoff = self.settings.retry_ns
            peer.since = now
            self.push(peer, ready)
        return peer

    def take_message(self, peer: Peer, incarnation: int, message: ViewMessage) -> None:
        """Learn from a publisher's own message how far it was; one that somebody passes on says nothing of it."""
        epoch = message.epoch
        if (
            epoch == self.state.adopted
            and message.origin == peer.place
            and incarnation == peer.incarnation
            and message.taken
            and len(message.past) == len(self.peers) + 1
        ):
            peer.says(message)
            if peer.entered < epoch:
                peer.entered = peer.adopted = max(peer.adopted, epoch)

    def take_beat(self, pid: int, incarnation: int, beat: Beat) -> None:
        """Take the promise of a member."""
        peer, view = self.peers.get(pid), self.state.views.get(beat.epoch)
        if peer is None or view is None or incarnation != peer.incarnation:
            return
        if beat.epoch == self.state.adopted or view.member_of(pid) == peer.member:
            self._promised(peer.member, beat.number, beat.clock)

    def take_ack(self, pid: int, incarnation: int, ack: ViewAck, now: Instant, ready: Ready) -> bool:
        """Learn how far a member is; return whether it is of use here."""
        peer, view = self.peers.get(pid), self.state.views.get(ack.adopted)
        if peer is None or incarnation != peer.incarnation:
            return False
        if view is None or len(ack.got) != len(view.members) or view.member_of(pid) != peer.member:
            return False
        latest = self.state.latest
        got, taken, stored = ack.got, ack.taken, ack.stored
        if ack.adopted != latest.epoch:
            got, taken, stored = (arranged(numbers, view, latest) for numbers in (got, taken, stored))
        if max(got[self.place], taken[self.place]) > self.state.own.got:
            ready.notes.append(Note("reject", OWN_LOST, peer=pid))
            return False
        came, peer.answered = self.came(peer), True
        peer.raise_to(got, taken, stored)
        if ack.promise:
            self._promised(peer.member, got[latest.place_of(pid)], ack.promise)
        if ack.adopted >= peer.adopted:
            peer.speaks_of(ack.removed, ack.entered)
            if ack.adopted < latest.epoch:
                self._carry_removed(peer, view, ack)
        peer.adopted = max(peer.adopted, ack.adopted)
        peer.entered = max(peer.entered, ack.entered)
        if self.came(peer) > came:
            peer.backoff = self.settings.retry_ns
            peer.since = now
            self.push(peer, ready)
        if ack.asks:
            ready.send.append(Send((pid,), self.ack()))
        return True

    def _carry_removed(self, peer: Peer, view: View, ack: ViewAck) -> None:
        """Remember what it has of members that it does not know to be removed."""
        for place, member in enumerate(view.members):
            if member in self.state.streams and self.state.latest.member_of(member.pid) != member:
                peer.removed[member] = max(peer.removed.get(member, 0), ack.taken[place])

    def tell_views(self, pid: int, after: int, ready: Ready) -> None:
        """Tell a process the views after an epoch, as far as they are known."""
        views = self.state.views
        known = [epoch for epoch in sorted(views) if epoch > after]
        forgotten = bool(known) and known[0] > after + 1 and views[known[0]].forced_from != after
        if forgotten and self.is_told_by_older(pid, known[0]):
            return
        for epoch in known[-1:] if forgotten else known[:DECREES_MAX]:
            ready.send.append(Send((pid,), Decree(views[epoch], forgotten)))

    def is_told_by_older(self, pid: int, first: int) -> bool:
        """Tell whether the views before the first one known here are unknown only because this member came with it:
        older ones tell another member of its views, which must not take them for forgotten (T48), and a removed one how
        far its messages count (T66)."""
        me = self.state.me
        if me is None or first != me.joined:
            return False
        return pid in self.peers or any(member.joined < first for member in self.state.latest.members)

    # --- acknowledgements ---

    def ack(self, *, asks: bool = False) -> ViewAck:
        """Return the acknowledgement of what is here."""
        state = self.state
        latest = state.latest
        state.count_taken()
        removed = [
            (member.pid, member.joined, stream.taken if state.opened else 0)
            for member, stream in state.streams.items()
            if latest.member_of(member.pid) != member
        ]
        if not state.opened:
            mine = state.own.got if state.me in state.streams else 0
            got = [mine if member == state.me else 0 for member in latest.members]
            return ViewAck(state.entered, state.adopted, got, got, got, 0, removed, asks)
        streams = [state.streams[member] for member in latest.members]
        stored = self.stored_numbers()
        return ViewAck(
            state.entered, state.adopted, [stream.got for stream in streams], [stream.taken for stream in streams],
            [stored.get(stream.member, 0) for stream in streams], self._promise(), removed, asks,
        )  # fmt: skip

    def stored_numbers(self) -> dict[MemberId, int]:
        """Return what counts for `majority`, by member: between a report and the next view it stands still."""
        state = self.state
        if state.stored_at_report is not None:
            return state.stored_at_report
        volatile = not state.remembers or self.settings.keep == "all"
        return {
            member: stream.got if volatile or member == state.me else stream.stored
            for member, stream in state.streams.items()
        }

    def owe(self, now: Instant, *, at_once: bool = False) -> None:
        """Plan to acknowledge to all what is here, even if it is no news."""
        self._owes = True
        self.watch(now, at_once=at_once)

    def watch(self, now: Instant, *, at_once: bool = False) -> None:
        """Plan to look at what the application has taken."""
        at = now if at_once else now + self.settings.ack_ns
        self.ack_at = min(self.ack_at, at)

    def got_one(self, now: Instant) -> None:
        """Plan to acknowledge a message that was got."""
        self._got_since_ack += 1
        if self.ack_at == NEVER:
            self.ack_at = now + self.settings.ack_ns
        if self._got_since_ack >= self._ack_after:
            self.ack_at = now

    def tell(self, now: Instant, ready: Ready) -> None:
        """Acknowledge to all what is here, if it is news or somebody waits for it. A member that published just now has
        said nearly all of it, and its next message says the rest."""
        said_until = self._said_at + self.settings.ack_ns
        if now < said_until and not self._owes and self._got_since_ack < self._ack_after:
            self.ack_at = said_until
            return
        self.ack_at = NEVER
        self._got_since_ack = 0
        ack = self.ack()
        if self._owes or ack != self._last_ack:
            self._owes, self._last_ack = False, ack
            if self.all:
                ready.send.append(Send(self.all, ack))
                if self.told_all is not None:
                    self.told_all(now)
            if self.stranger is not None:
                ready.send.append(Send((self.stranger,), ack))
                self.stranger = None
        if any(stream.taken < stream.got for stream in self.state.streams.values()):
            self.ack_at = now + self.settings.ack_ns

    # --- repeating ---

    def arm(self, now: Instant) -> None:
        """Expect an answer of everybody, from now on."""
        if self.all_armed:
            return
        self.all_armed = True
        for peer in self.peers.values():
            if peer.retry_at == NEVER:
                peer.since, peer.backoff = now, self.settings.retry_ns
                peer.retry_at = now + peer.backoff
                self.retry_at = min(self.retry_at, peer.retry_at)

    def repeat(self, now: Instant, ready: Ready) -> bool:
        """Send again what was not acknowledged, ask who owes an answer, suspect who owes it for long; return whether
        that suspects anybody anew."""
        suspected = False
        for pid, peer in self.peers.items():
            if now < peer.retry_at:
                continue
            if not self.waits_for(peer):
                peer.retry_at = NEVER
                self.all_armed = False
                continue
            peer.backoff = min(2 * peer.backoff, self.settings.retry_ns_max)
            peer.retry_at = now + peer.backoff
            self._repeat_to(pid, peer, ready)
            if now - max(peer.heard_at, peer.since) >= self.settings.suspect_ns:
                suspected |= self.suspect(pid, now)
        self.retry_at = min([peer.retry_at for peer in self.peers.values()], default=NEVER)
        return suspected

    def _repeat_to(self, pid: int, peer: Peer, ready: Ready) -> None:
        own, came = self.state.own, self.came(peer)
        if peer.adopted < self.state.adopted:
            self.tell_views(pid, max(peer.adopted, peer.member.joined - 1), ready)
        if pid not in self.suspects.now and peer.first is not None:
            for number in range(came + 1, min(peer.sent, came + AGAIN_MAX) + 1):
                if number in own.retained:
                    ready.send.append(Send((pid,), own.retained[number]))
            self.push(peer, ready)
        ready.send.append(Send((pid,), self.ack(asks=True)))

    def waits_for(self, peer: Peer) -> bool:
        """Tell whether something here waits for a word of a member; if it is suspected, that does."""
        state = self.state
        if peer.entered < state.adopted or not state.live or peer.member.pid in self.suspects.now:
            return True
        for stream in state.streams.values():
            if not stream.retained:
                continue
            number = max(stream.retained)  # it may have all but the last one
            if stream.retained[number].epoch < peer.member.joined:
                continue
            place = state.latest.place_of(stream.member.pid)
            if place >= 0 and state.latest.members[place] == stream.member:
                if peer.taken[place] < number:
                    return True
            elif peer.taken_of_removed(stream.member, state.removal_of(stream.member)) < number:
                return True
        return False

    def is_live(self, peer: Peer) -> bool:
        """Tell whether a member has shown that it is opened: before, a newcomer has nothing of older members."""
        place = self.state.latest.place_of(peer.member.pid)
        return is_founding(peer.member.joined) or any(got for at, got in enumerate(peer.got) if at != place)

    def suspect(self, pid: int, now: Instant) -> bool:
        """Begin to suspect a member; return whether that is new."""
        peer = self.peers.get(pid)
        if peer is None or not self.suspects.suspect(pid):
            return False
        peer.suspected_at = now
        if peer.retry_at == NEVER:  # it is asked: nothing else may make it speak
            peer.backoff = self.settings.retry_ns
            peer.retry_at = now + peer.backoff
            self.retry_at = min(self.retry_at, peer.retry_at)
        return True
