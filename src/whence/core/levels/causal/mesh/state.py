"""What a member of a mesh remembers, and the transitions that change it for good.

Laws: `delivered[x]` is the number of messages of x that were delivered to the application here, without a gap, in x's
order. A message may be delivered when everything that had been delivered to its publisher was delivered here; so the
clock of a delivered message lies below `delivered`, and nothing has to be merged. `taken[x]` is the number of them that
the application has taken, as core/offsets.py counts them; a later incarnation begins with that, and what was delivered
beyond it is fetched again. Own messages are retained until every application has taken them. Messages of others are
retained while there is room, to be passed on for a publisher that is down; nothing relies on that. x is a place in the
list of members, whatever number its process has.
"""

from collections import deque
from collections.abc import Sequence
from operator import gt

from whence.core.levels.causal.group_started import GroupStarted
from whence.core.levels.causal.mesh.items import CausalMessage
from whence.core.levels.causal.mesh.journal import Checkpoint, Entry, Published, RetainedMessage, Settled, Taken
from whence.core.levels.causal.reliability import ReliabilitySettings
from whence.errors import LimitError
from whence.types import Bundle

SPARE_MESSAGES, SPARE_BYTES = 1024, 4 << 20
"""Messages of others that are retained to be passed on. Full: the oldest are dropped."""


class State:
    """The durable part of a member, and what is derived from it."""

    def __init__(self, me: int, processes: Sequence[int], *, remembers: bool) -> None:
        """Begin as one of some processes; `me` is a place among them, as are all indices here."""
        nodes = len(processes)
        self.me = me
        self.processes = processes
        self.place_of = {process: place for place, process in enumerate(processes)}
        self.remembers = remembers
        """Whether a later incarnation resumes from here; else what was handed out counts as taken."""
        self.delivered = [0] * nodes
        self.taken = [0] * nodes if remembers else self.delivered
        self.taken_in_part: list[int] = []
        """The number of messages of each node that were taken in an earlier incarnation, counting one that was taken in
        part: what is published now follows that part, though the message is still to come again."""
        self.published = 0
        self.retained: dict[int, CausalMessage] = {}
        """Own messages that some member may lack, by number."""
        self.settled = 0
        """Every member has the own messages up to here."""
        self.settled_last: Bundle | None = None
        """The last of them that was retained here."""
        self.retained_bytes = 0
        self._spare: deque[CausalMessage] = deque()
        """Messages of others, in the order they were handed out."""
        self._spare_bytes = 0

    # --- transitions ---

    def publish(self, bundle: Bundle) -> CausalMessage:
        """Give an own message its number and clock, after everything delivered here, and count it as delivered."""
        delivered, me = self.delivered, self.me
        message = CausalMessage(
            self._past() if self.taken_in_part else delivered.copy(),
            self.taken.copy() if self.remembers else [],
            bundle,
        )
        delivered[me] = self.published = self.published + 1
        self._keep(message)
        return message

    def _past(self) -> list[int]:
        """Return what an own message follows, while messages that were taken in part are still to come again."""
        past = list(map(max, self.delivered, self.taken_in_part))
        past[self.me] = self.delivered[self.me]
        if past == self.delivered:
            self.taken_in_part = []
        return past

    def settle(self, upto: int) -> None:
        """Drop own messages that every member has."""
        retained = self.retained
        for number in range(self.settled + 1, upto + 1):
            message = retained.pop(number, None)
            if message is not None:
                self.settled_last = message.bundle
                self.retained_bytes -= len(message.bundle.body)
        self.settled = max(self.settled, upto)

    def resume(self) -> list[Bundle]:
        """Begin a later incarnation: forget what was handed out and not taken. Return the own messages among it."""
        taken, me = self.taken, self.me
        taken[me] = max(taken[me], self.settled)
        self.delivered = taken.copy()
        self.delivered[me] = self.published
        return [message.bundle for number, message in self.retained.items() if number > taken[me]]

    def took(self, taken: Sequence[int]) -> None:
        """Raise `taken` to what the application had taken at some time."""
        self.taken[:] = map(max, self.taken, taken)

    def _keep(self, message: CausalMessage) -> None:
        self.retained[message.past[self.me] + 1] = message
        self.retained_bytes += len(message.bundle.body)

    # --- the journal ---

    def replay(self, entry: Entry) -> None:
        """Repeat a transition of an earlier incarnation."""
        match entry:
            case Published():
                self.published += 1
                self._keep(CausalMessage(entry.past, entry.taken, entry.bundle))
                self.took(entry.taken)
            case Taken():
                self.took(entry.taken)
            case Settled():
                self.settle(entry.upto)
            case Checkpoint():
                self.published, self.settled = entry.published, entry.settled
                self.took(entry.taken)
            case GroupStarted():
                pass
            case RetainedMessage():
                self._keep(
                    CausalMessage(entry.past, [0] * len(entry.past), entry.bundle)
                )  # it says nothing about what was taken here

    def entries(self) -> list[Entry]:
        """Return records of the whole state."""
        retained = [RetainedMessage(message.past, message.bundle) for message in self.retained.values()]
        return [Checkpoint(self.taken, self.published, self.settled), *retained]

    # --- what follows from the state ---

    def is_ready(self, message: CausalMessage) -> bool:
        """Tell whether everything that had been delivered to a message's publisher was delivered here. If so, it is the
        publisher's next message, or was delivered before."""
        return not any(map(gt, message.past, self.delivered))

    def missing(self, message: CausalMessage) -> list[tuple[int, int]]:
        """Return what must be delivered before a message: nodes, and the number of messages of each."""
        behind = zip(message.past, self.delivered, strict=True)
        return [(node, needed) for node, (needed, have) in enumerate(behind) if needed > have]

    def last_event(self, number: int, incarnation: int) -> int:
        """Return the last event that this incarnation published in the own messages up to a number."""
        message = self.retained.get(number)
        bundle = message.bundle if message is not None else self.settled_last
        return bundle.last if bundle is not None and bundle.incarnation == incarnation else 0

    def check_room(self, size: int, settings: ReliabilitySettings) -> None:
        """Raise LimitError for an own message of `size` bytes if too much is retained for others."""
        records_max, bytes_max = settings.records_max // 4, settings.retained_bytes_max // 4
        if len(self.retained) >= records_max:
            raise LimitError("records_max // 4", records_max, len(self.retained) + 1, transient=True)
        if self.retained_bytes + size > bytes_max:
            raise LimitError("retained_bytes_max // 4", bytes_max, self.retained_bytes + size, transient=True)

    @property
    def all_taken(self) -> bool:
        """Tell whether the application has taken everything it was handed."""
        return self.taken == self.delivered

    # --- messages of others ---

    def deliver(self, message: CausalMessage, publisher: int, number: int) -> None:
        """Count the next message of another node as delivered, and retain it while there is room."""
        self.delivered[publisher] = number
        spare = self._spare
        spare.append(message)
        self._spare_bytes += len(message.bundle.body)
        while self._spare_bytes > SPARE_BYTES or len(spare) > SPARE_MESSAGES:
            self._spare_bytes -= len(spare.popleft().bundle.body)

    def recall(self, publisher: int, above: int, upto: int) -> list[CausalMessage]:
        """Return those of a node's messages above `above` and up to `upto` that are retained here, in their order."""
        if publisher == self.me:
            return [self.retained[number] for number in range(above + 1, upto + 1) if number in self.retained]
        pid = self.processes[publisher]
        return [
            message for message in self._spare if message.bundle.pid == pid and above <= message.past[publisher] < upto
        ]

    @property
    def spare_count(self) -> int:
        """Return the number of messages of others that are retained."""
        return len(self._spare)
