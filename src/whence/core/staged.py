"""A member composed of stages: publish / receive / tick in, one Ready out. It knows the order of the stages and the
member's lifecycle, nothing else.

publish: order.stamp (what it comes after) -> order.publish (deliver it here) -> spread.publish (whom to send it to).
receive: guard -> membership or spread (first arrival? pass it on) -> order.admit (deliver now or hold back).
"""

from collections.abc import Sequence
from enum import Enum

from whence.core.ready import Gauge, Item, Note, Ready, Returned
from whence.core.stages import Members, Order, Spread
from whence.errors import NotMemberError, UsageError
from whence.limits import Limits
from whence.types import Bundle, Instant, Process, pack_payloads


class Lifecycle(Enum):
    """The state of a process with respect to its group."""

    OUTSIDE = "outside"
    JOINING = "joining"
    MEMBER = "member"
    LEAVING = "leaving"
    LEFT = "left"


STEPS: dict[Lifecycle, tuple[Lifecycle, ...]] = {
    Lifecycle.OUTSIDE: (Lifecycle.JOINING, Lifecycle.MEMBER),
    Lifecycle.JOINING: (Lifecycle.MEMBER, Lifecycle.LEFT),
    Lifecycle.MEMBER: (Lifecycle.LEAVING,),
    Lifecycle.LEAVING: (Lifecycle.LEFT,),
    Lifecycle.LEFT: (),
}
"""From each state, the states that may follow. A process that left comes back only as a new process."""


class StagedMember:
    """One member of one group, composed of an order, a spread and a membership."""

    __slots__ = ("_limits", "_members", "_order", "_published", "_spread", "lifecycle", "me")

    def __init__(self, me: Process, order: Order, spread: Spread, members: Members, limits: Limits) -> None:
        self.me = me
        self.lifecycle = Lifecycle.OUTSIDE
        self._order = order
        self._spread = spread
        self._members = members
        self._limits = limits
        self._published = 0

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start as one of the first members."""
        if self.lifecycle is not Lifecycle.OUTSIDE:
            raise NotMemberError(f"only a process outside can be a founder, and this one is {self.lifecycle.value}")
        self._step(Lifecycle.MEMBER)
        self._members.found(peers, now)
        return self._wake(Ready(notes=[Note("join")]))

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        """Ask the contacts to be let in; the note `join` says when that happened."""
        self._step(Lifecycle.JOINING)
        ready = Ready()
        self._members.join(contacts, now, ready)
        return self._wake(ready)

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Resume nothing from an earlier incarnation: these parts promise nothing across a crash."""
        return Ready()

    def leave(self, now: Instant) -> Ready:
        """Begin to leave: nothing more is published; the farewell spreads for some rounds."""
        if self.lifecycle is Lifecycle.JOINING:
            self._step(Lifecycle.LEFT)
            return Ready(notes=[Note("leave")])
        self._step(Lifecycle.LEAVING)
        self._members.leave(now)
        return self._wake(Ready())

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events as one bundle. Raises NotMemberError outside the group, LimitError over a limit."""
        if self.lifecycle is not Lifecycle.MEMBER:
            raise NotMemberError(f"only a member may publish, and this process is {self.lifecycle.value}; join first")
        sizes, body = pack_payloads(payloads)
        self._limits.check(len(payloads), len(body), self._published)
        bundle = Bundle(*self.me, self._published + 1, sizes, body, self._order.stamp(now))
        self._published += len(payloads)
        ready = Ready(published=Returned(bundle))
        self._order.publish(bundle, now, ready)
        self._spread.publish(bundle, now, ready)
        return bundle, self._wake(ready)

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item from a peer."""
        ready = Ready()
        lifecycle = self.lifecycle
        if isinstance(item, self._members.items):
            self._receive_membership(sender, item, now, ready)
        elif lifecycle is Lifecycle.MEMBER or lifecycle is Lifecycle.LEAVING:
            fresh = self._spread.receive(sender, item, now, ready)
            if not fresh:
                return ready  # most gossip is old news, and then nothing is due earlier than it was
            for bundle in fresh:
                self._order.admit(bundle, now, ready)
        else:
            ready.notes.append(Note("drop", "not_member", peer=sender.pid))
        return self._wake(ready)

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Learn that something sent to a peer did not arrive."""
        self._members.unreachable(peer)
        return self._wake(Ready())

    def meet(self, peer: Process, now: Instant) -> Ready:
        """Learn from a peer itself that it is a member: parts of a group that began apart merge where they meet."""
        if self.lifecycle not in (Lifecycle.OUTSIDE, Lifecycle.LEFT):
            self._members.meet(peer)
        return self._wake(Ready())

    def parted(self, peer: Process, now: Instant) -> Ready:
        """Learn from a peer itself that it is no longer a member."""
        self._members.parted(peer)
        return self._wake(Ready())

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Refuse: these levels know nothing else. Raises UsageError."""
        raise UsageError(f"members of this level know no act {name!r}")

    def tick(self, now: Instant) -> Ready:
        """Do what is due: rounds, overdue answers, waits that have lasted long enough."""
        ready = Ready()
        if self.lifecycle in (Lifecycle.OUTSIDE, Lifecycle.LEFT):
            return ready
        self._members.tick(now, ready)
        if self.lifecycle is Lifecycle.JOINING and self._members.alone():
            self._enter(ready, Note("join", "alone"))
        if self.lifecycle is not Lifecycle.JOINING:
            self._spread.tick(now, ready)
            self._order.tick(now, ready)
        if self.lifecycle is Lifecycle.LEAVING and self._gone():
            self._step(Lifecycle.LEFT)
            ready.notes.append(Note("leave"))
        return self._wake(ready)

    def view(self) -> tuple[int, ...] | None:
        """Return the peers this member knows, or None if it has no view of its own."""
        return self._members.view()

    def settled(self) -> int | None:
        """Return the last of this member's own events that every peer it knows has; None if the spread cannot tell."""
        return self._spread.settled()

    def missing(self, last: int) -> tuple[int, ...] | None:
        """Return the peers not known to have this member's own events up to `last`; None if the spread cannot tell."""
        return self._spread.missing(last)

    def gauges(self) -> list[Gauge]:
        """Return how full every buffer of every stage is."""
        return [*self._order.gauges(), *self._spread.gauges(), *self._members.gauges()]

    def _receive_membership(self, sender: Process, item: Item, now: Instant, ready: Ready) -> None:
        if self.lifecycle in (Lifecycle.OUTSIDE, Lifecycle.LEFT):
            return
        snapshot = self._members.receive(sender, item, now, ready)
        if snapshot is None or self.lifecycle is not Lifecycle.JOINING:
            return
        try:
            self._order.adopt(snapshot)
        except ValueError:
            ready.notes.append(Note("reject", "snapshot", peer=sender.pid))
            return
        self._enter(ready, Note("join", peer=sender.pid))

    def _gone(self) -> bool:
        """Tell whether a leaver may stop."""
        return self._members.gone()

    def _enter(self, ready: Ready, note: Note) -> None:
        self._step(Lifecycle.MEMBER)
        self._members.settle()
        ready.notes.append(note)

    def _step(self, to: Lifecycle) -> None:
        if to not in STEPS[self.lifecycle]:
            raise NotMemberError(f"a process that is {self.lifecycle.value} cannot become {to.value}")
        self.lifecycle = to

    def _wake(self, ready: Ready) -> Ready:
        """Ask to be woken when the first stage has something to do."""
        if self.lifecycle in (Lifecycle.OUTSIDE, Lifecycle.LEFT):
            return ready
        soonest = self._members.wake_at()
        if self.lifecycle is not Lifecycle.JOINING:
            for at in (self._spread.wake_at(), self._order.wake_at()):
                if at is not None and (soonest is None or at < soonest):
                    soonest = at
        ready.wake_at = soonest
        return ready
