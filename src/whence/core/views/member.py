"""A member of a living group: everybody sends to everybody; members join, leave, are removed, and nobody stops for it.

Promises: causal order; every message once at every member it is for; one view per epoch; members that stay are handed
the same messages, from the later of their joins on; what is published after a newcomer's `open` returned reaches it.
Assumes: few members that can all connect; a quorum of the voters of each view, until the next one is decided.
The sentence that decides: see inbox.py for messages, leader.py for views.
Costs per message: a number for every member, an epoch; one copy to each of them, encoded once.
Source: docs/papers/views.md.
"""

from collections import deque
from collections.abc import Sequence
from typing import cast

from whence.core.ready import NEVER, Item, Note, RandomSource, Ready, Send
from whence.core.views.beats import Beats
from whence.core.views.changes import Changes, view_note
from whence.core.views.early import WAIT, Early
from whence.core.views.inbox import Inbox
from whence.core.views.items import (
    EPOCH_IN,
    Accept,
    Accepted,
    Beat,
    Decree,
    Fetch,
    Flushed,
    Freeze,
    Hint,
    JoinRequest,
    Knows,
    Nak,
    Prepare,
    Promise,
    Report,
    Taken,
    Target,
    ViewAck,
    ViewMark,
    ViewMessage,
    Wish,
)
from whence.core.views.journal import Entered, Journal
from whence.core.views.links import Links
from whence.core.views.newcomer import Newcomer
from whence.core.views.observed import Observed
from whence.core.views.operated import Operated
from whence.core.views.order import Order
from whence.core.views.publisher import Publisher
from whence.core.views.recovery import Recovery
from whence.core.views.settings import ViewSettings
from whence.core.views.stability import Stability
from whence.core.views.state import ViewState
from whence.core.views.status import Status
from whence.core.views.view import MemberId, first_view
from whence.epochs import is_foreign
from whence.errors import NotMemberError, UsageError
from whence.limits import Limits
from whence.types import Bundle, Instant, Process


class ViewMember(Observed, Operated):
    """One member of a living group."""

    order_type: type[Order] = Order
    state_type: type[ViewState] = ViewState
    journal_type: type[Journal] = Journal
    links_type: type[Links] = Links
    stability_type: type[Stability] = Stability
    inbox_type: type[Inbox] = Inbox
    changes_type: type[Changes] = Changes
    newcomer_type: type[Newcomer] = Newcomer
    recovery_type: type[Recovery] = Recovery

    def __init__(
        self, me: Process, settings: ViewSettings, limits: Limits, rng: RandomSource, *, remembers: bool,
        pause_ns: int = 0,
    ) -> None:  # fmt: skip
        self.me = me
        self.settings = settings
        self.birth = 0
        """What tells a group that is begun here from others of its name; the same at all its founders."""
        self.state = self.state_type(me.pid, me.incarnation, remembers=remembers)
        self.state.counts_taken = remembers or settings.lag_max_ns > 0
        self.order = self.order_type(self.state)
        self.journal = self.journal_type(self.state)
        self.links = self.links_type(self.state, settings, self.order)
        self.beats = Beats(self.links, self.order, pause_ns)
        self.stability = self.stability_type(self.links, settings)
        self.inbox = self.inbox_type(self.links, self.journal, settings, self.order)
        self.early = Early(settings.held_max)
        self.changes = self.changes_type(self.links, self.stability, self.inbox, self.journal, settings, rng)
        self.wishes, self.removal = self.changes.wishes, self.changes.removal
        self.newcomer = self.newcomer_type(self.changes)
        self.recovery = self.recovery_type(self.changes, self.newcomer, self.stability)
        self.removal.bundles = lambda: self.recovery.bundles
        self._status = Status(self.changes, self.newcomer)
        self._publisher = Publisher(me, limits, self.changes, self.stability, self.recovery)

    # --- incarnations ---

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Begin as one of the founders."""
        ready = Ready()
        state = self.state
        view = first_view([self.me.pid, *[peer.pid for peer in peers]], self.birth)
        state.me = MemberId(self.me.pid, view.epoch)
        self.links.adopt(view, now)
        added = state.add_streams(view)
        state.remember(view)
        state.adopted = state.entered = state.mark_epoch = view.epoch
        state.opened = state.live = True
        state.look_at_entered()
        self.journal.adopted(view, added, ready)
        self.journal.write(Entered(view.epoch), ready)
        ready.notes += [view_note(view), Note("join", epoch=view.epoch, value=0)]
        self.links.owe(now)
        self.wishes.look(self.wishes.lags.next_at)
        return self._finish(now, ready)

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Ask to be added; the note `join` says when that happened."""
        ready = Ready()
        self.newcomer.ask(contacts, now, ready)
        return self._finish(now, ready)

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Resume an earlier incarnation, if there was one that was a member."""
        ready = Ready()
        if not records or not self.recovery.restore(records, now, ready):
            return ready
        state = self.state
        self.links.adopt(state.latest, now)
        for peer in self.links.peers.values():
            peer.first = 1 if peer.member.joined <= (state.me or peer.member).joined else None
        for mark in state.own.marks:
            self.links.marked(mark.number, mark.epoch)
        if self.removal.by is None:
            self.removal.go_on_telling(now)
            self.changes.try_enter(now, ready)
            self.changes.mark(now, ready)
            if state.opened:
                state.live = True
                ready.notes.append(Note("join", epoch=state.own.member.joined, value=state.own.nonce))
                ready.notes.append(view_note(state.view))
                self.order.progress(now, ready)  # alone, nobody's promise will come to cause it
        if self.links.all:
            ready.send.append(Send(self.links.all, self.links.ack(asks=True)))
        for peer in self.links.peers.values():
            self.links.push(peer, ready)
        self.links.owe(now)
        self.wishes.returned(now)
        self.wishes.look(now)
        return self._finish(now, ready)

    def resume(self, taken: Sequence[int], reported: int, taken_in_part: Sequence[int] = ()) -> None:
        """Set, before an earlier incarnation is resumed, what the application has; see Resuming."""
        self.recovery.resume(taken, reported, taken_in_part)

    def checkpoint(self) -> list[bytes]:
        """Return records that are equivalent to all persisted so far."""
        return self.recovery.checkpoint()

    # --- leaving ---

    def leave(self, now: Instant) -> Ready:
        """Begin to leave: nothing more is published, and what was is settled first. Without a journal nobody waits for
        the application here any more: it has taken what it was handed."""
        if self.state.me is None or self.removal.by is not None:
            raise NotMemberError("only a member can leave")
        ready = Ready()
        self.removal.leaving = True
        if not self.state.remembers:
            self.state.counts_taken = False
            self.links.watch(now)
        if not self.links.all:
            self.wishes.end_alone(now, ready)
        self.wishes.look(now)
        return self._finish(now, ready)

    # --- publishing ---

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events as one bundle. Raises NotMemberError outside the group, RemovedError once it was removed,
        LimitError over a limit."""
        ready = Ready()
        bundle = self._publisher.publish(payloads, now, ready)
        return bundle, self._finish_message(now, ready)

    def publish_to(self, group: int, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish to the only group, number 0. Raises as publish, and UsageError for another number."""
        if group:
            raise UsageError(f"a mesh is one group, number 0, not {group}")
        return self.publish(payloads, now)

    # --- receiving ---

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item from another process."""
        ready = Ready()
        state, kind = self.state, type(item)
        if (
            (kind is ViewMessage or kind is Beat)
            and item.epoch == state.adopted == state.entered  # type: ignore[attr-defined]
            and state.live
            and self.removal.by is None
            and not (state.targets or state.open_cuts)
        ):  # nothing changes: nearly all items come now, so this way is short
            if kind is ViewMessage:
                self._receive_message(sender, cast(ViewMessage, item), now, ready)
            elif self.links.heard(sender[0], sender[1], now, ready) is not None:
                self.links.take_beat(sender[0], sender[1], cast(Beat, item))
                self.order.progress(now, ready)
            return self._finish_message(now, ready)
        self._receive(sender, item, now, ready)
        return self._finish(now, ready)

    def _receive_message(self, sender: Process, message: ViewMessage, now: Instant, ready: Ready) -> None:
        """Take a message, and learn from it how far its publisher is."""
        pid, incarnation = sender
        peer = self.links.heard(pid, incarnation, now, ready)
        self.inbox.receive(pid, message, now, ready)
        if peer is not None:
            self.links.take_message(peer, incarnation, message)

    def _receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> None:
        pid, incarnation = sender
        state, links = self.state, self.links
        if state.me is None:
            self._receive_outside(sender, item, now, ready)
            return
        epoch_in = EPOCH_IN.get(type(item))
        epoch = 0 if epoch_in is None else epoch_in(item)
        if epoch_in is not None and is_foreign(epoch, state.adopted):
            ready.notes.append(Note("drop", "other_group", peer=pid))
            return
        if self.removal.by is not None:
            self._receive_removed(pid, item, now, ready)
            return
        if epoch > state.adopted and isinstance(item, WAIT):
            links.heard(pid, incarnation, now, ready)
            links.owe(now)  # whoever hears how far this member is tells it the views it lacks
            if isinstance(item, ViewAck):
                ready.send.append(Send((pid,), links.ack()))  # it may be a newcomer, which only those views name
            self.early.put(sender, item)
            return
        if isinstance(item, ViewMessage):
            self._receive_message(sender, item, now, ready)
            self._progress(now, ready)
            return
        if pid != self.me.pid and not isinstance(item, JoinRequest):  # who asks is not yet the member of its name
            links.heard(pid, incarnation, now, ready)
        match item:
            case Beat():
                links.take_beat(pid, incarnation, item)
                if not state.opened:  # it takes nothing, so messages may not reach it any more: its windows are full
                    self.order.arrived(item.clock, now)
            case ViewMark():
                self.inbox.receive(pid, item, now, ready)
            case ViewAck():
                self._take_ack(pid, incarnation, item, now, ready)
            case Fetch():
                self.inbox.answer(pid, item, ready)
            case Taken():
                self.inbox.told_taken(pid, item, ready)
            case JoinRequest():
                self.wishes.join_asked(pid, incarnation, item, now, ready)
            case Wish():
                self.wishes.wish(pid, item, now, ready)
            case Decree():
                self.changes.decree(pid, item, now, ready)
            case Hint() | Knows():
                pass
            case Prepare() | Promise() | Freeze() | Report() | Target() | Flushed() | Accept() | Accepted() | Nak():
                self.changes.receive(pid, item, now, ready)
            case _:
                ready.notes.append(Note("drop", "other_level", peer=pid))
                return
        self._progress(now, ready)

    def _take_ack(self, pid: int, incarnation: int, ack: ViewAck, now: Instant, ready: Ready) -> None:
        state, links = self.state, self.links
        useful = links.take_ack(pid, incarnation, ack, now, ready)
        if ack.adopted < state.adopted:
            links.tell_views(pid, ack.adopted, ready)
        if useful:
            self.newcomer.try_open(now, ready)
            self.stability.settle(ready)

    def _receive_outside(self, sender: Process, item: Item, now: Instant, ready: Ready) -> None:
        if isinstance(item, WAIT):
            self.early.put(sender, item)
            return
        match item:
            case Hint():
                self.newcomer.hint(sender.pid, item, ready)
            case Decree(view):
                self.newcomer.added(view, now, ready)
                if self.state.me is not None:
                    self._take_early(now, ready)
            case _:
                ready.notes.append(Note("drop", "not_member", peer=sender.pid))

    def _receive_removed(self, pid: int, item: Item, now: Instant, ready: Ready) -> None:
        match item:
            case Knows(epoch):
                self.removal.knows(pid, epoch, ready)
            case Decree(view) if self.removal.by is not None and view.epoch > self.removal.by.epoch:
                self.removal.knows(pid, view.epoch, ready)
            case ViewAck(adopted=adopted) if self.removal.by is not None and adopted >= self.removal.by.epoch:
                self.removal.knows(pid, adopted, ready)
            case ViewAck(adopted=adopted):
                self.removal.answer(pid, adopted, ready)
            case Prepare() | Freeze() | Target() | Accept():
                self.changes.receive(pid, item, now, ready)

    def _progress(self, now: Instant, ready: Ready) -> None:
        """Do what became possible: reach targets, close cuts, enter views, be opened."""
        state = self.state
        if self.removal.by is not None:
            self.early.clear()
            return
        if self.early:
            self._take_early(now, ready)
        if state.targets:
            self.changes.participant.flush(now, ready)
        if state.open_cuts or state.entered < state.adopted:
            self.changes.try_enter(now, ready)
            self.inbox.release(now, ready)
        self.order.progress(now, ready)
        if not state.live:
            self.newcomer.try_open(now, ready)

    def _take_early(self, now: Instant, ready: Ready) -> None:
        """Take what others said in views that were adopted since."""
        for sender, item in self.early.upto(self.state.adopted):
            self._receive(sender, item, now, ready)

    # --- others ---

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Suspect a member that did not take what it was sent."""
        ready = Ready()
        self.removal.unreachable(peer)
        if self.links.suspect(peer, now):
            self.wishes.missed(now)
        return self._finish(now, ready)

    def meet(self, peer: Process, now: Instant) -> Ready:
        """Ask a member that has connected how far it is: its answer ends a suspicion. One that is in no view known here
        may be of a later one: all that were known here may be gone, and this member removed (T51)."""
        ready = Ready()
        if self.removal.by is not None:
            self.removal.introduce(peer.pid, ready)
        elif self.state.me is not None:
            ready.send.append(Send((peer.pid,), self.links.ack(asks=True)))
        return self._finish(now, ready)

    def parted(self, peer: Process, now: Instant) -> Ready:
        """Suspect a member that says it goes away: it is one until a view is without it. Who is out itself need not
        tell it anything any more, unless it comes back as the same member."""
        ready = Ready()
        if self.removal.by is not None and not self.state.remembers:
            self.removal.knows(peer.pid, self.removal.by.epoch, ready)
            return self._finish(now, ready)
        return self.unreachable(peer.pid, now)

    def tick(self, now: Instant) -> Ready:
        """Do what is due."""
        ready = Ready()
        if self.removal.ended:
            return ready
        if now >= self.newcomer.ask_at:
            self.newcomer.repeat(now, ready)
        if self.state.me is not None and self.removal.by is None:
            if now >= self.beats.at:
                self.beats.tell(now, ready)
            if now >= self.links.ack_at:
                self.journal.taken(ready)
                self.links.tell(now, ready)
                self.stability.settle(ready)
            if now >= self.links.retry_at and self.links.repeat(now, ready):
                self.wishes.missed(now)
            if now >= self.inbox.ask_at:
                self.inbox.release(now, ready)
                self._progress(now, ready)
                self.inbox.ask(now, ready)
        if self.removal.by is None and now >= self.changes.force.next_at:
            self.changes.go_on_forcing(now, ready)
        if now >= self.wishes.next_at:
            self.wishes.tick(now, ready)
        return self._finish(now, ready)

    def _finish(self, now: Instant, ready: Ready) -> Ready:
        """Take what this member sent to itself, tell the clock if that need not wait, and ask to be woken."""
        if self.beats.at <= now and self.beats.is_alone(now) and self.removal.by is None:
            self.beats.tell(now, ready)
        if ready.send:
            own = deque(self._to_itself(ready))
            while own:
                item = own.popleft()
                self._receive(self.me, item, now, ready)
                own.extend(self._to_itself(ready))
        if self.state.remembers:
            self.order.reserve(ready)
        if self._publisher.owed:
            ready.notes += self._publisher.owed
            self._publisher.owed = []
        soonest = self.wishes.next_at
        if self.removal.by is None:
            links = self.links
            soonest = min(
                soonest, links.ack_at, links.retry_at, self.inbox.ask_at, self.newcomer.ask_at, self.beats.at,
                self.changes.force.next_at,
            )  # fmt: skip
        if soonest < NEVER and not self.removal.ended:
            ready.wake_at = soonest
        return ready

    def _finish_message(self, now: Instant, ready: Ready) -> Ready:
        """Finish as after any input, as far as a message that changes nothing else may have made it due."""
        beats, links = self.beats, self.links
        if self._publisher.owed:
            ready.notes += self._publisher.owed
            self._publisher.owed = []
        if beats.at <= now and beats.is_alone(now):
            beats.tell(now, ready)
        if self.state.remembers:
            self.order.reserve(ready)
        soonest, ask_at = links.ack_at, self.inbox.ask_at
        if links.retry_at < soonest:
            soonest = links.retry_at
        if ask_at < soonest:
            soonest = ask_at
        if beats.at < soonest:
            soonest = beats.at
        ready.wake_at = soonest
        return ready

    def _to_itself(self, ready: Ready) -> list[Item]:
        pid = self.me.pid
        mine = [send.item for send in ready.send if pid in send.to]
        if mine:
            ready.send = [
                send if pid not in send.to else Send(tuple(to for to in send.to if to != pid), send.item)
                for send in ready.send
                if send.to != (pid,)
            ]
        return mine
