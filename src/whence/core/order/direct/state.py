"""What a member of a direct group remembers, and the transitions that change it for good.

Laws: `reached[x]` is how many messages of x were handed to the application here, without a gap, in x's order. A message
may be handed over when everything its publisher had been handed was handed over here; so the clock of one that was lies
below `reached`, and nothing has to be merged. `has[x]` is how many of them the application has taken; in a later life
it is all that is left of `reached`, and what was handed out beyond is fetched again. Own messages are kept until
every application has taken them. Messages of others are kept while there is room, to be passed on for a publisher that
is down; nobody relies on it.
"""

from collections import OrderedDict, deque
from operator import gt

from whence.core.order.direct.items import Told
from whence.core.order.direct.journal import (
    Checkpoint,
    Entry,
    Handed,
    Kept,
    Published,
    Resumed,
    Settled,
    Taken,
)
from whence.types import Bundle

SPARE_MESSAGES, SPARE_BYTES = 1024, 4 << 20
"""Messages of others that are kept to be passed on. Full: the oldest go."""


class State:
    """The durable part of a member, and what is derived from it."""

    def __init__(self, me: int, nodes: int, *, remembers: bool) -> None:
        self.me = me
        self.remembers = remembers
        """Whether a later life goes on from here: then what was handed out counts once it was taken."""
        self.reached = [0] * nodes
        self.has = [0] * nodes if remembers else self.reached
        self.published = 0
        self.kept: dict[int, Told] = {}
        """Own messages that somebody may lack, by number."""
        self.settled = 0
        """Everybody has the own messages up to here."""
        self.retained_bytes = 0
        self.taken = 0
        """Events that the application has taken in all lives."""
        self._events = 0
        """Events that were handed to it."""
        self._untaken: deque[tuple[int, int]] = deque()
        """What was handed out and may not be taken yet: publisher, and how many events were handed out with it."""
        self._spare: OrderedDict[tuple[int, int], Told] = OrderedDict()
        """Messages of others, by publisher and number."""
        self._spare_bytes = 0

    # --- transitions ---

    def publish(self, bundle: Bundle) -> Told:
        """Give an own message its number and clock: it comes after everything handed out here."""
        past = self.reached.copy()
        past[self.me] = self.published
        told = Told(past, self.has.copy() if self.remembers else [], bundle)
        self.published += 1
        self._keep(told)
        return told

    def hand(self, node: int, events: int) -> None:
        """Count the next message of a node as handed to the application."""
        self.reached[node] += 1
        if self.remembers:
            self._events += events
            self._untaken.append((node, self._events))

    def take(self) -> bool:
        """Count the messages that the application has taken by now; return whether there are some of others."""
        untaken, news = self._untaken, False
        while untaken and untaken[0][1] <= self.taken:
            node = untaken.popleft()[0]
            self.has[node] += 1
            news = news or node != self.me
        return news

    def settle(self, upto: int) -> None:
        """Drop own messages that everybody has."""
        kept = self.kept
        for number in range(self.settled + 1, upto + 1):
            told = kept.pop(number, None)
            if told is not None:
                self.retained_bytes -= len(told.bundle.body)
        self.settled = max(self.settled, upto)

    def resume(self) -> Resumed:
        """Begin a later life: forget what was handed out and not taken."""
        self.take()
        self._begin(self.has, self.taken)
        return Resumed(self.has, self.taken)

    def _begin(self, has: list[int], taken: int) -> None:
        self.has, self.reached = list(has), list(has)
        self._events = taken
        self.taken = max(self.taken, taken)
        self._untaken.clear()

    def _keep(self, told: Told) -> None:
        self.kept[told.past[self.me] + 1] = told
        self.retained_bytes += len(told.bundle.body)

    # --- the journal ---

    def replay(self, entry: Entry) -> None:
        """Make a transition of an earlier life again."""
        match entry:
            case Published():
                self.publish(entry.bundle)
                self.taken = max(self.taken, entry.taken)
                self.hand(self.me, entry.bundle.count)
            case Handed():
                self.hand(entry.node, entry.events)
            case Taken():
                self.taken = max(self.taken, entry.taken)
            case Settled():
                self.settle(entry.upto)
            case Resumed():
                self._begin(entry.reached, entry.taken)
            case Checkpoint():
                self.published, self.settled = entry.published, entry.settled
                self._begin(entry.has, entry.taken)
            case Kept():
                self._keep(Told(entry.past, [], entry.bundle))

    def entries(self) -> list[Entry]:
        """Write the state down."""
        self.take()
        before, handed = self.taken, []
        for node, after in self._untaken:
            handed.append(Handed(node, after - before))
            before = after
        kept = [Kept(told.past, told.bundle) for told in self.kept.values()]
        return [Checkpoint(self.has, self.published, self.settled, self.taken), *handed, *kept]

    # --- what follows from them ---

    def is_ready(self, told: Told) -> bool:
        """Tell whether all that a message's publisher had been handed was handed over here; it is the publisher's next
        one then, or was handed over before."""
        return not any(map(gt, told.past, self.reached))

    def missing(self, told: Told) -> list[tuple[int, int]]:
        """Return what must be handed over before a message: nodes, and how many messages of each."""
        behind = zip(told.past, self.reached, strict=True)
        return [(node, needed) for node, (needed, have) in enumerate(behind) if needed > have]

    @property
    def has_untaken(self) -> bool:
        """Tell whether something was handed out and is not known to be taken."""
        return bool(self._untaken)

    # --- messages of others ---

    def remember(self, told: Told, publisher: int, number: int) -> None:
        """Keep a message of another node while there is room."""
        spare = self._spare
        spare[publisher, number] = told
        self._spare_bytes += len(told.bundle.body)
        while self._spare_bytes > SPARE_BYTES or len(spare) > SPARE_MESSAGES:
            self._spare_bytes -= len(spare.popitem(last=False)[1].bundle.body)

    def recall(self, publisher: int, number: int) -> Told | None:
        """Return a message if it is kept here."""
        return self.kept.get(number) if publisher == self.me else self._spare.get((publisher, number))

    @property
    def spare_count(self) -> int:
        """Return how many messages of others are kept."""
        return len(self._spare)
