"""How far the application is with what it was handed: the one owner of that fact, in the live system and the simulator.

The inbox asks here what was handed out and not taken, the runner where a later incarnation begins. A member that
fetches again what its application lacks reads how far the application is. One callback notifies the code that
acknowledges. No other module counts.

Laws: an event is *handed out* when the application has it, and *taken* when it asks for the next one or acknowledges
it. Within one incarnation nothing is handed out twice. A later incarnation begins with the first event that was not
taken: what was handed out and not taken comes again, marked as such, and nothing after it is left out, not even the
rest of a bundle. A bundle is reported as taken, to be acknowledged to its publisher, when its last event was taken; if
events are not counted one by one, when its last event is handed out.
Members deliver whole bundles. After a crash they either deliver again all that they have since their last checkpoint,
in the same order, and what was taken is skipped here by its number; or they fetch what was not taken, bundle by bundle,
in any order between publishers (Resuming), and then what was taken of each publisher's next bundle is known by node.
Costs: two numbers written per event taken, one per event handed out; nothing if no later incarnation resumes.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from whence.core.member import Joining, Resuming
from whence.types import Bundle

EVENT_BITS = 16
"""How far a node's events were handed out is one integer: the number of a message and, in this many low bits, the count
of its events."""


class Delivered(Struct, frozen=True, gc=False):
    """What is known of a bundle that a member delivers."""

    have: int
    """The number of its events that the application has from an earlier incarnation."""
    again: int
    """The number of the others that it may have been handed without taking them."""
    position: int
    """The position of the first event that it does not have."""
    left: int
    """The number of events that it does not have."""


class Store(Protocol):
    """What is retained across incarnations, each number written atomically. `store.consumer_offsets` says what they
    mean."""

    closed: bool
    taken: int
    reported: int
    handed: list[int]
    messages: list[int]
    partly_taken: list[int]
    places: list[tuple[int, int]]
    displaced: dict[tuple[int, int], tuple[int, int]]

    def take(self, events: int) -> None: ...
    def take_of(self, node: int, events: int, *, whole: bool) -> None: ...
    def hand(self, node: int, handed: int) -> None: ...
    def place(self, node: int, position: int, count: int) -> None: ...
    def displace(self, node: int, number: int, position: int, count: int) -> None: ...
    def tell(self) -> None: ...
    def reach(self, taken: int, reported: int) -> None: ...
    def catch_up(self, messages: Sequence[int]) -> None: ...


class Owed(NamedTuple):
    """What must be written when a journal is rewritten: the application is owed more than its member retains."""

    taken: int
    """Events that were taken before the first of the bundles."""
    reported: int
    bundles: list[Bundle]


class Entry:
    """A bundle that was delivered: its node, its number among that node's bundles, the position of its first event, and
    the number of its events that were handed out and taken."""

    __slots__ = ("bundle", "count", "handed", "node", "number", "position", "taken")

    def __init__(self, bundle: Bundle, count: int, node: int, number: int, position: int, taken: int) -> None:
        self.bundle, self.count, self.node, self.number, self.position = bundle, count, node, number, position
        self.handed = self.taken = taken


class Offsets:
    """How far one application is in one group."""

    def __init__(self, store: Store | None, resuming: Resuming | None = None, *, manual: bool = False) -> None:
        """Begin an incarnation. Without a store no later incarnation resumes; for a Resuming member, count by node.
        `manual`: the application itself acknowledges what it has taken."""
        self._store = store
        self._resuming = resuming
        self._messages = resuming.taken if resuming is not None else []
        """Messages of each node that the application has taken. The member reads them; they are counted only here."""
        self.survives = store is not None
        """Whether a later incarnation resumes from here."""
        self.counts = store is not None or manual or resuming is not None
        """Whether what is handed out and taken is counted event by event. Else a bundle is taken as a whole, when its
        last event is handed out, and the code that hands it out calls `on_taken`."""
        self.on_taken: Callable[[Bundle, int], None] = lambda bundle, count: None
        """Called with every bundle that the application has taken completely, and the number of its events."""
        self.delivered = self.handed = self.taken = 0
        """Events of this incarnation that were delivered, handed out and taken, in one sequence: what was left out
        because the application was too slow counts with what came after it."""
        self._entries: deque[Entry] = deque()
        """Bundles that were delivered and not completely taken, in order."""
        self._to_hand: deque[Entry] = deque()
        """The entries that were not completely handed out."""
        self._skip = self._skip_reported = 0
        """Events and reports of publications that a restored member will repeat and the application already has."""
        self._partly_taken: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        """By node, the number of the last message that was delivered in this incarnation."""
        self._again = 0
        """Events that an earlier incarnation handed out and the application did not take, if they come first again."""
        self.position = self._first_position()
        """The next position that no event ever had."""

    @property
    def closed(self) -> bool:
        """Tell whether taken events can no longer be counted: a later incarnation hands them out again."""
        return self._store is not None and self._store.closed

    # --- a later incarnation ---

    def resume(self, taken: int = 0, reported: int = 0) -> None:
        """Resume an earlier incarnation; `taken` and `reported` are the counts when the member's first record was
        written."""
        store = self._store
        if store is None:
            return
        if self._resuming is not None:
            at_least = [taken + (events > 0) for taken, events in zip(store.messages, store.partly_taken, strict=True)]
            self._resuming.resume(store.messages, store.reported, at_least)
            self._partly_taken = {node: events for node, events in enumerate(store.partly_taken) if events}
        else:
            store.reach(taken, reported)
            self._skip, self._skip_reported = store.taken - taken, store.reported - reported
            self._again = max(0, store.handed[0] - store.taken)
        self.position = self._first_position()

    def resumed(self) -> None:
        """Catch up with the member's journal, now that it was read: it may be ahead of the stored numbers."""
        if self._store is not None and self._resuming is not None:
            if isinstance(self._resuming, Joining) and not self._resuming.is_member:
                self._give_up(self._store)
            before = self._store.messages.copy()
            self._store.catch_up(self._messages)
            for node in [node for node in self._partly_taken if self._store.messages[node] > before[node]]:
                del self._partly_taken[node]

    def _give_up(self, store: Store) -> None:
        """Count what an earlier membership handed out as taken, since it has ended: a new one counts other messages in
        the same places, from their first event on."""
        for node, taken in enumerate(store.messages):
            begun = max(taken + (store.partly_taken[node] > 0), store.handed[node] >> EVENT_BITS)
            self._messages[node] = max(self._messages[node], begun)

    def was_reported(self) -> bool:
        """Tell whether an earlier incarnation already reported the publication that the member reports now."""
        if self._skip_reported <= 0:
            return False
        self._skip_reported -= 1
        return True

    def tell(self) -> None:
        """Count a publication that is reported to the application now."""
        if self._store is not None:
            self._store.tell()

    # --- delivered, handed out, taken ---

    def deliver(self, bundle: Bundle) -> Delivered:
        """Record a bundle that the member delivers; return what the application has of it."""
        count, position = len(bundle.sizes) >> 2, self.position
        if not self.counts:
            self.delivered = self.position = position + count
            return Delivered(0, 0, position, count)
        have, node, number, resuming = 0, 0, 0, self._resuming
        if self._skip:
            have = min(self._skip, count)
            self._skip -= have
        if resuming is not None:
            node = resuming.place_of(bundle.pid, bundle.incarnation)
            number = self._delivered[node] = self._delivered.get(node, self._messages[node]) + 1
            if self._partly_taken:
                have = min(self._taken_of(node), count - 1)
        again, stored, left = 0, None, count - have
        if self._store is not None:
            if resuming is None:
                again = min(self._again, left)
                self._again -= again
            elif number <= self._store.handed[node] >> EVENT_BITS:
                again, stored = self._handed_before(self._store, count, node, number, have)
        if left:
            if stored is not None:
                position = stored + have
            else:
                self.position += left
            self.delivered += left
            entry = Entry(bundle, count, node, number, position - have, have)
            self._entries.append(entry)
            self._to_hand.append(entry)
        return Delivered(have, again, position, left)

    def hand(self, bundle: Bundle, events: int) -> None:
        """Count events of a bundle that the application is handed now, in the order they were delivered."""
        waiting = self._to_hand
        while (entry := waiting[0]).bundle is not bundle and not _ends_like(entry.bundle, bundle):
            self.handed += entry.count - entry.handed  # left out: the application was too slow
            waiting.popleft()
        self.handed += events
        if self._resuming is not None and self._store is not None:
            self._note_place(self._store, entry)
        self._note_handed(entry, events)

    def take(self, events: int) -> None:
        """Count events that the application has taken, in order; call `on_taken` for each bundle it now has in full."""
        whole: list[Entry] = []
        self.taken += events
        while events > 0:
            entry = self._entries[0]
            some = min(events, entry.count - entry.taken)
            events -= some
            entry.taken += some
            is_whole = entry.taken == entry.count
            if is_whole:
                whole.append(entry)
                self._entries.popleft()
            if self._store is not None:
                self._count(self._store, entry, some, whole=is_whole)
            elif is_whole and self._resuming is not None:
                self._messages[entry.node] += 1
        for entry in whole:
            self.on_taken(entry.bundle, entry.count)

    def step(self) -> None:
        """Count that the application has taken the event it has, and is handed the next one of the same bundle."""
        entry = self._entries[0]
        entry.taken += 1
        self.taken += 1
        if self._store is not None:
            self._count(self._store, entry, 1, whole=False)
        self.handed += 1
        self._note_handed(entry, 1)

    def leave_untaken(self) -> None:
        """Do not count what was handed out and not taken: a later incarnation hands it out again."""
        self.taken = self.handed

    def owed(self) -> Owed | None:
        """Return what must survive when the member's journal is rewritten; None if nothing must."""
        store = self._store
        if store is None or self._resuming is not None:
            return None
        begun = self._entries[0].taken if self._entries else self._skip
        return Owed(
            store.taken - begun, store.reported - self._skip_reported, [entry.bundle for entry in self._entries]
        )

    # --- small things ---

    def _first_position(self) -> int:
        """Return the first position that no earlier incarnation assigned. A whole bundle gets its positions when its
        first event is handed out, so that it keeps them whatever comes before it in a later incarnation."""
        store = self._store
        if store is None:
            return 0
        if self._resuming is None:
            return store.taken
        places = (*store.places, *store.displaced.values())
        return max(store.taken, *[position + count for position, count in places])

    def _note_place(self, store: Store, entry: Entry) -> None:
        """Store the positions of a bundle that is handed out, and of its node's previous one if that is not taken."""
        node, number, last = entry.node, entry.number, store.handed[entry.node] >> EVENT_BITS
        if number < last:
            if (node, number) not in store.displaced:
                store.displace(node, number, entry.position, entry.count)
            return
        if number > last and last > store.messages[node]:
            store.displace(node, last, *store.places[node])
        if store.places[node] != (entry.position, entry.count):
            store.place(node, entry.position, entry.count)

    def _taken_of(self, node: int) -> int:
        """Return the number of events of a node's next message that were taken; 0 if its journal says that all were."""
        assert self._store is not None
        return 0 if self._messages[node] > self._store.messages[node] else self._partly_taken.pop(node, 0)

    def _count(self, store: Store, entry: Entry, events: int, *, whole: bool) -> None:
        if self._resuming is None:
            store.take(events)
            return
        store.take_of(entry.node, events, whole=whole)
        if whole:
            self._messages[entry.node] += 1

    def _note_handed(self, entry: Entry, events: int) -> None:
        entry.handed += events
        if entry.handed == entry.count:
            self._to_hand.popleft()
        if self._store is None:
            return
        if self._resuming is None:
            self._store.hand(0, self._store.taken + self.handed - self.taken)
        else:
            self._store.hand(entry.node, entry.number << EVENT_BITS | entry.handed)

    def _handed_before(self, store: Store, count: int, node: int, number: int, have: int) -> tuple[int, int | None]:
        """Return, for a node's message that an earlier incarnation handed out in part or in full, how many of its next
        events were, and the position of its first event, if that is still known."""
        last, events = divmod(store.handed[node], 1 << EVENT_BITS)
        position, placed = store.places[node] if number == last else store.displaced.get((node, number), (0, 0))
        return max(0, (events if number == last else count) - have), position if placed else None


def _ends_like(one: Bundle, other: Bundle) -> bool:
    """Tell whether two bundles are the same, whatever was cut from the front of either."""
    return one.last == other.last and one.process == other.process
