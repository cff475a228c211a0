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

from whence.core.stages import Resuming
from whence.types import Bundle

SEVERAL = (1 << 16) - 1
"""In the place of a node: what is in the application's hands is of more than one."""


class Numbers(Protocol):
    """What is kept across lives, each number written in one piece. `store.steps` says what they mean."""

    taken: int
    told: int
    handed: int
    handed_of: int
    messages: list[int]
    begun: list[int]

    def take(self, events: int) -> None: ...
    def take_of(self, node: int, events: int, *, whole: bool) -> None: ...
    def hand(self, handed: int, node: int) -> None: ...
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
    """A bundle that was delivered, and how many of its events were taken."""

    __slots__ = ("bundle", "taken")

    def __init__(self, bundle: Bundle, taken: int) -> None:
        self.bundle, self.taken = bundle, taken


class Offsets:
    """How far one application is in one group."""

    def __init__(self, numbers: Numbers | None, resuming: Resuming | None = None) -> None:
        """Begin a life. Without numbers no later life goes on; with a member that resumes, they are kept by node."""
        self._numbers = numbers
        self._resuming = resuming
        self._entries: deque[Entry] = deque()
        """Bundles that were delivered and not wholly taken, in order."""
        self._in_hand, self._in_hand_of = 0, 0
        """Events that were handed out and not taken, and their node, or SEVERAL."""
        self._skip = self._skip_told = 0
        """What a restored member will say again and the application has."""
        self._begun: dict[int, int] = {}
        self._again: dict[int, int] = {}
        """By node (SEVERAL: whichever comes): events that an earlier life handed out, and nobody took."""

    @property
    def position(self) -> int:
        """Return the place of the first event that was not taken, in all lives."""
        return self._numbers.taken if self._numbers is not None else 0

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
        if (in_hand := numbers.handed - numbers.taken) > 0:
            self._again[SEVERAL if self._resuming is None else numbers.handed_of] = in_hand

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

    def deliver(self, bundle: Bundle) -> tuple[int, int]:
        """Take a bundle that the member delivers. Return how many of its events the application has from an earlier
        life, and how many of the others it may have been handed without taking them."""
        have = min(self._skip, bundle.count)
        self._skip -= have
        node = self._node(bundle)
        if self._begun:
            have = min(self._taken_of(node), bundle.count - 1)
        if have < bundle.count:
            self._entries.append(Entry(bundle, have))
        return have, self._handed_before(node, bundle.count - have) if self._again else 0

    def hand(self, bundle: Bundle, events: int) -> None:
        """Count events of a bundle that the application is handed now, in the order they were delivered."""
        numbers = self._numbers
        if numbers is not None:
            node = self._node(bundle)
            if not self._in_hand:
                self._in_hand_of = node
            elif node != self._in_hand_of:
                self._in_hand_of = SEVERAL
            numbers.hand(numbers.taken + self._in_hand + events, self._in_hand_of)
        self._in_hand += events

    def take(self, events: int) -> list[Bundle]:
        """Count events that the application has taken, in order; return the bundles of which it has all now."""
        whole: list[Bundle] = []
        self._in_hand = max(0, self._in_hand - events)
        while events > 0:
            entry = self._entries[0]
            some = min(events, entry.bundle.count - entry.taken)
            events -= some
            entry.taken += some
            if entry.taken == entry.bundle.count:
                whole.append(entry.bundle)
                self._entries.popleft()
            self._count(entry.bundle, some, whole=entry.taken == entry.bundle.count)
        return whole

    def step(self) -> None:
        """Count that the application has taken the event in hand, and is handed the next one of the same bundle."""
        entry, numbers = self._entries[0], self._numbers
        entry.taken += 1
        if numbers is None:
            return
        if self._resuming is None:
            numbers.take(1)
        else:
            numbers.take_of(self._in_hand_of, 1, whole=False)
        numbers.hand(numbers.taken + 1, self._in_hand_of)

    def owed(self) -> Owed:
        """Return what must outlive the member's journal, where it is rewritten; nothing where it is fetched again."""
        numbers = self._numbers
        if numbers is None or self._resuming is not None:
            return Owed(0, 0, [])
        begun = self._entries[0].taken if self._entries else self._skip
        return Owed(numbers.taken - begun, numbers.told - self._skip_told, [entry.bundle for entry in self._entries])

    # --- small things ---

    def _taken_of(self, node: int) -> int:
        """Return how many events of a node's next message were taken, unless its journal says that all were."""
        numbers, resuming = self._numbers, self._resuming
        assert numbers is not None
        assert resuming is not None
        return 0 if resuming.taken()[node] > numbers.messages[node] else self._begun.pop(node, 0)

    def _count(self, bundle: Bundle, events: int, *, whole: bool) -> None:
        if self._numbers is None:
            return
        if self._resuming is None:
            self._numbers.take(events)
            return
        node = self._node(bundle)
        self._numbers.take_of(node, events, whole=whole)
        if whole:
            self._resuming.take(bundle.pid)

    def _node(self, bundle: Bundle) -> int:
        return self._resuming.place_of(bundle.pid) if self._resuming is not None else 0

    def _handed_before(self, node: int, events: int) -> int:
        """Return how many of a bundle's next events an earlier life may have handed out."""
        if SEVERAL in self._again:
            if self._resuming is None:
                return self._count_down(SEVERAL, events)
            self._again.setdefault(node, self._again[SEVERAL])
        return self._count_down(node, events)

    def _count_down(self, node: int, events: int) -> int:
        again = min(self._again.get(node, 0), events)
        if again:
            self._again[node] -= again
        return again
