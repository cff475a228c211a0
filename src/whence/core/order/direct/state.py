"""What a member of a direct group remembers, and the transitions that change it for good.

Laws: `reached[x]` is how many messages of x were processed here, without a gap, in x's order. A message may be
processed when everything its publisher had processed was processed here; so the clock of one that was processed lies
below `reached`, and nothing has to be merged. Own messages are kept until everybody has them. Messages of others are
kept while there is room, to be passed on for a publisher that is down; nobody relies on it.
"""

from collections import OrderedDict
from operator import gt

from whence.core.order.direct.items import Told
from whence.core.order.direct.journal import Checkpoint, Entry, Kept
from whence.types import Bundle

SPARE_MESSAGES, SPARE_BYTES = 1024, 4 << 20
"""Messages of others that are kept to be passed on. Full: the oldest go."""


class State:
    """The durable part of a member, and what is derived from it."""

    def __init__(self, me: int, nodes: int) -> None:
        self.me = me
        self.reached = [0] * nodes
        self.kept: dict[int, Told] = {}
        """Own messages that somebody may lack, by number."""
        self.settled = 0
        """Everybody has the own messages up to here."""
        self.retained_bytes = 0
        self._spare: OrderedDict[tuple[int, int], Told] = OrderedDict()
        """Messages of others, by publisher and number."""
        self._spare_bytes = 0

    # --- transitions ---

    def publish(self, bundle: Bundle) -> Told:
        """Give an own message its number and clock: it comes after everything processed here."""
        told = Told(self.reached.copy(), bundle)
        self.reached[self.me] += 1
        self.keep(told)
        return told

    def process(self, publisher: int) -> None:
        """Count the next message of another node."""
        self.reached[publisher] += 1

    def keep(self, told: Told) -> None:
        """Keep an own message until everybody has it."""
        self.kept[told.past[self.me] + 1] = told
        self.retained_bytes += len(told.bundle.body)

    def settle(self, upto: int) -> None:
        """Drop own messages that everybody has."""
        kept = self.kept
        for number in range(self.settled + 1, upto + 1):
            told = kept.pop(number, None)
            if told is not None:
                self.retained_bytes -= len(told.bundle.body)
        self.settled = max(self.settled, upto)

    def begin_from(self, checkpoint: Checkpoint) -> None:
        """Take up a state that was written down as a whole; what is still kept follows."""
        self.reached, self.settled = list(checkpoint.reached), checkpoint.settled

    def entries(self, steps: int) -> list[Entry]:
        """Write the state down."""
        kept = [Kept(told.past, told.bundle) for told in self.kept.values()]
        return [Checkpoint(self.reached, self.settled, steps), *kept]

    # --- what follows from them ---

    def is_ready(self, told: Told) -> bool:
        """Tell whether all that a message's publisher had processed was processed here; it is the next one then, or
        was processed before."""
        return not any(map(gt, told.past, self.reached))

    def missing(self, told: Told) -> list[tuple[int, int]]:
        """Return what must be processed before a message: nodes, and how many messages of each."""
        behind = zip(told.past, self.reached, strict=True)
        return [(node, needed) for node, (needed, have) in enumerate(behind) if needed > have]

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
