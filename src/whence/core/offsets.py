"""How far the application is with what it was handed: the one owner of that fact, in the live system and the simulator.

Laws: an event is *handed out* when the application has it, and *taken* when it asks for the next one or acknowledges
it. Within one life nothing is handed out twice. A later life begins with the first event that was not taken: what was
handed out and not taken comes again, marked as such, and nothing beyond it is left out, be it the rest of a bundle. A
publisher hears of a bundle when its last event was taken.
Members deliver whole bundles. After a crash they either deliver again all that they have since their last checkpoint,
in the same order, and what was taken is skipped here by its number; or they fetch what was not taken, bundle by bundle,
in any order between publishers (Resuming), and then what was taken of each publisher's next bundle is known by node.
Costs: two numbers written per event taken, one per event handed out; nothing where no later life goes on.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from whence.core.member import Resuming
from whence.types import Bundle

EVENT_BITS = 16
"""How far a node's events were handed out is the number of a message and, in so many bits, events of it."""


class Delivered(NamedTuple):
    """What is known of a bundle that a member delivers."""

    have: int
    """How many of its events the application has from an earlier life."""
    again: int
    """How many of the others it may have been handed without taking them."""
    position: int
    """The place of the first that it has not."""


class Numbers(Protocol):
    """What is kept across lives, each number written in one piece. `store.steps` says what they mean."""

    taken: int
    told: int
    handed: list[int]
    messages: list[int]
    begun: list[int]
    places: list[tuple[int, int]]
    displaced: dict[tuple[int, int], tuple[int, int]]

    def take(self, events: int) -> None: ...
    def take_of(self, node: int, events: int, *, whole: bool) -> None: ...
    def hand(self, node: int, handed: int) -> None: ...
    def place(self, node: int, position: int, count: int) -> None: ...
    def displace(self, node: int, number: int, position: int, count: int) -> None: ...
    def tell(self) -> None: ...
    def reach(self, taken: int, told: int) -> None: ...
    def catch_up(self, messages: Sequence[int]) -> None: ...


class Owed(NamedTuple):
    """What must be written down when a journal is rewritten: the application is owed more than its member keeps."""

    taken: int
    """Events that were taken before the first of the bundles."""
    told: int
    bundles: list[Bundle]


class Entry:
    """A bundle that was delivered, its node and its number among those of it, the position of its first event, and how
    many of its events were handed out and taken."""

    __slots__ = ("bundle", "count", "handed", "node", "number", "position", "taken")

    def __init__(self, bundle: Bundle, node: int, number: int, position: int, taken: int) -> None:
        self.bundle, self.node, self.number, self.position = bundle, node, number, position
        self.count = bundle.count
        self.handed = self.taken = taken


class Offsets:
    """How far one application is in one group."""

    def __init__(self, numbers: Numbers | None, resuming: Resuming | None = None) -> None:
        """Begin a life. Without numbers no later life goes on; with a member that resumes, they are kept by node."""
        self._numbers = numbers
        self._resuming = resuming
        self._entries: deque[Entry] = deque()
        """Bundles that were delivered and not wholly taken, in order."""
        self._to_hand: deque[Entry] = deque()
        """Those of them that were not wholly handed out."""
        self._in_hand = 0
        """Events that were handed out and not taken."""
        self._skip = self._skip_told = 0
        """What a restored member will say again and the application has."""
        self._begun: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        """By node, the number of the last message that was delivered in this life."""
        self._again = 0
        """Events that an earlier life handed out, and nobody took, where the same ones come first again."""
        self.position = self._first_position()
        """The next place that no event ever had."""

    # --- a later life ---

    def resume(self, taken: int = 0, told: int = 0) -> None:
        """Go on from an earlier life; `taken` and `told` are what was when the member's first record was written."""
        numbers = self._numbers
        if numbers is None:
            return
        if self._resuming is not None:
            at_least = [taken + (begun > 0) for taken, begun in zip(numbers.messages, numbers.begun, strict=True)]
            self._resuming.resume(numbers.messages, numbers.told, at_least)
            self._begun = {node: events for node, events in enumerate(numbers.begun) if events}
        else:
            numbers.reach(taken, told)
            self._skip, self._skip_told = numbers.taken - taken, numbers.told - told
            self._again = max(0, numbers.handed[0] - numbers.taken)
        self.position = self._first_position()

    def resumed(self) -> None:
        """Learn that the member has read its journal, which may know more than the numbers do."""
        if self._numbers is not None and self._resuming is not None:
            before = self._numbers.messages.copy()
            self._numbers.catch_up(self._resuming.taken())
            for node in [node for node in self._begun if self._numbers.messages[node] > before[node]]:
                del self._begun[node]

    def was_told(self) -> bool:
        """Tell whether an earlier life was told of the publication that the member tells of now."""
        if self._skip_told <= 0:
            return False
        self._skip_told -= 1
        return True

    def tell(self) -> None:
        """Count a publication that the application is told of now."""
        if self._numbers is not None:
            self._numbers.tell()

    # --- delivered, handed out, taken ---

    def deliver(self, bundle: Bundle) -> Delivered:
        """Take a bundle that the member delivers."""
        count, have, node, number, resuming = bundle.count, 0, 0, 0, self._resuming
        if self._skip:
            have = min(self._skip, count)
            self._skip -= have
        if resuming is not None:
            node = resuming.place_of(bundle.pid)
            number = self._delivered[node] = self._delivered.get(node, resuming.taken()[node]) + 1
            if self._begun:
                have = min(self._taken_of(node), count - 1)
        again, position = self._handed_before(count, node, number, have), self.position
        if have < count:
            if resuming is not None and (kept := self._kept_position(node, number)) is not None:
                position = kept + have
            else:
                self.position += count - have
            entry = Entry(bundle, node, number, position - have, have)
            self._entries.append(entry)
            self._to_hand.append(entry)
        return Delivered(have, again, position)

    def hand(self, bundle: Bundle, events: int) -> None:
        """Count events of a bundle that the application is handed now, in the order they were delivered."""
        waiting = self._to_hand
        while (entry := waiting[0]).bundle is not bundle and not _ends_like(entry.bundle, bundle):
            waiting.popleft()  # left out: the application was too slow
        self._in_hand += events
        if self._resuming is not None and self._numbers is not None:
            self._note_place(self._numbers, entry)
        self._note_handed(entry, events)

    def take(self, events: int) -> list[Bundle]:
        """Count events that the application has taken, in order; return the bundles of which it has all now."""
        whole: list[Bundle] = []
        self._in_hand = max(0, self._in_hand - events)
        while events > 0:
            entry = self._entries[0]
            some = min(events, entry.count - entry.taken)
            events -= some
            entry.taken += some
            is_whole = entry.taken == entry.count
            if is_whole:
                whole.append(entry.bundle)
                self._entries.popleft()
            self._count(entry, some, whole=is_whole)
        return whole

    def step(self) -> None:
        """Count that the application has taken the event in hand, and is handed the next one of the same bundle."""
        entry = self._entries[0]
        entry.taken += 1
        self._count(entry, 1, whole=False)
        self._note_handed(entry, 1)

    def owed(self) -> Owed:
        """Return what must outlive the member's journal, where it is rewritten; nothing where it is fetched again."""
        numbers = self._numbers
        if numbers is None or self._resuming is not None:
            return Owed(0, 0, [])
        begun = self._entries[0].taken if self._entries else self._skip
        return Owed(numbers.taken - begun, numbers.told - self._skip_told, [entry.bundle for entry in self._entries])

    # --- small things ---

    def _first_position(self) -> int:
        """Return the first place that no earlier life gave away: all of a bundle has its places when its first event is
        handed out, so that it keeps them whatever comes before it in a later life."""
        numbers = self._numbers
        if numbers is None:
            return 0
        if self._resuming is None:
            return numbers.taken
        places = (*numbers.places, *numbers.displaced.values())
        return max(numbers.taken, *[position + count for position, count in places])

    def _kept_position(self, node: int, number: int) -> int | None:
        """Return the place of the first event of a node's message that an earlier life was handed some of."""
        numbers = self._numbers
        assert numbers is not None
        last = numbers.handed[node] >> EVENT_BITS
        if number > last:
            return None
        position, count = numbers.places[node] if number == last else numbers.displaced.get((node, number), (0, 0))
        return position if count else None

    def _note_place(self, numbers: Numbers, entry: Entry) -> None:
        """Keep the places of a bundle that is handed out, and of the one before it of its node if that is in hand."""
        node, number, last = entry.node, entry.number, numbers.handed[entry.node] >> EVENT_BITS
        if number < last:
            if (node, number) not in numbers.displaced:
                numbers.displace(node, number, entry.position, entry.count)
            return
        if number > last and last > numbers.messages[node]:
            numbers.displace(node, last, *numbers.places[node])
        if numbers.places[node] != (entry.position, entry.count):
            numbers.place(node, entry.position, entry.count)

    def _taken_of(self, node: int) -> int:
        """Return how many events of a node's next message were taken, unless its journal says that all were."""
        numbers, resuming = self._numbers, self._resuming
        assert numbers is not None
        assert resuming is not None
        return 0 if resuming.taken()[node] > numbers.messages[node] else self._begun.pop(node, 0)

    def _count(self, entry: Entry, events: int, *, whole: bool) -> None:
        if self._numbers is None:
            return
        if self._resuming is None:
            self._numbers.take(events)
            return
        self._numbers.take_of(entry.node, events, whole=whole)
        if whole:
            self._resuming.take(entry.bundle.pid)

    def _note_handed(self, entry: Entry, events: int) -> None:
        entry.handed += events
        if entry.handed == entry.count:
            self._to_hand.popleft()
        if self._numbers is None:
            return
        if self._resuming is None:
            self._numbers.hand(0, self._numbers.taken + self._in_hand)
        else:
            self._numbers.hand(entry.node, entry.number << EVENT_BITS | entry.handed)

    def _handed_before(self, count: int, node: int, number: int, have: int) -> int:
        """Return how many of a bundle's next events an earlier life was handed."""
        if self._numbers is None:
            return 0
        if self._resuming is None:
            again = min(self._again, count - have)
            self._again -= again
            return again
        last, events = divmod(self._numbers.handed[node], 1 << EVENT_BITS)
        handed = count if number < last else events if number == last else 0
        return max(0, handed - have)


def _ends_like(one: Bundle, other: Bundle) -> bool:
    """Tell whether the one is the other, whatever was cut from its front."""
    return one.last == other.last and one.process == other.process
