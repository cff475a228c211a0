"""A coordinator's place in the ring: it greets its successor every round, and is greeted by its predecessor.

A greeting (UPDATE) tells the successor who precedes it; its answer (ACKUPDATE) tells that it lives, and whom to ask
about it when it does not. Nothing here closes anybody: that is for exclusion.
The sentence that decides: a successor is taken for dead when greetings stay unanswered and no majority of its witnesses
saw it renew lately; or, after many more, in any case.
Source: docs/papers/optimistic.md 4.6; traps B2, B8, F16, F17, F28.
"""

from msgspec import structs

from whence.core.levels.optimistic.tickets.authority import Authority, SessionState
from whence.core.levels.optimistic.tickets.items import AckUpdate, Fresh, Probe, Update
from whence.core.levels.optimistic.tickets.memory import Answers
from whence.core.levels.optimistic.tickets.record_bytes import pack_processes, unpack_processes
from whence.core.levels.optimistic.tickets.records import Pointer, Processes, majority
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.types import Process

PROBE_MISSES, WALK_MISSES, SURE_MISSES = 2, 3, 7
"""Greetings unanswered before witnesses are probed, before the successor is closed if they miss it too, or anyway."""


class Ring:
    """One coordinator's predecessors and its successor."""

    def __init__(self, authority: Authority, settings: TicketSettings) -> None:
        self.predecessor: Process | None = None
        self.predecessors: Processes = ()
        """The coordinators before this one, nearest first, as its predecessor told it."""
        self.confirmed = authority.record.alone()
        """The successor has been active, so it has registered a record of its own."""
        self.misses = 0
        """Greetings in a row that the successor did not answer."""
        self._authority = authority
        self._settings = settings
        self._predecessor_stamp = 0
        self._stamp = authority.record.top
        self._answered = True
        self._fresh = Answers()
        """Witnesses that saw the successor renew lately."""

    # --- the predecessor ---

    def on_update(self, sender: Process, item: Update, turn: Turn) -> None:
        """Learn who precedes this coordinator, unless it is old news, and answer."""
        if item.stamp < self._predecessor_stamp:
            return
        self._predecessor_stamp = item.stamp
        self.predecessor = sender
        self.predecessors = unpack_processes(item.ring)
        active = self._authority.state is not SessionState.ACQUIRING
        record = self._authority.record
        turn.post(sender, AckUpdate(*record.ticket_epoch, record.version, pack_processes(record.witnesses), active))

    # --- the successor ---

    def on_new_successor(self) -> None:
        """Begin to count anew: a change of the successor was committed."""
        record = self._authority.record
        self._stamp = record.top
        self.misses, self._answered, self._fresh = 0, True, Answers()
        self.confirmed = record.alone()

    def greet(self, turn: Turn) -> None:
        """Tell the successor that this coordinator precedes it."""
        record = self._authority.record
        succ = record.succ
        if record.alone() or not self._authority.may_act(turn.now):
            return
        ring = [record.owner, *self.predecessors]
        if succ.owner in ring:
            ring = ring[: ring.index(succ.owner)]
        ring = ring[: self._settings.witnesses]
        turn.post(succ.owner, Update(*succ.ticket_epoch, *record.ticket_epoch, self._stamp, pack_processes(ring)))

    def on_ack_update(self, sender: Process, item: AckUpdate, *, pending: bool) -> None:
        """Know that the successor lives, and, while no change is pending, whom to ask about it when it does not."""
        succ = self._authority.record.succ
        if (item.ticket, item.epoch) != succ.ticket_epoch or sender != succ.owner:
            return
        self.misses, self._answered = 0, True
        self.confirmed = self.confirmed or item.active
        if item.version >= succ.version and not pending:
            self._refresh(Pointer(succ.ticket_epoch, succ.owner, item.version, unpack_processes(item.witnesses)))

    def on_fresh(self, sender: Process, item: Fresh) -> None:
        """Count a witness that saw the successor renew lately."""
        if (item.ticket, item.epoch) == self._authority.record.succ.ticket_epoch:
            self._fresh.add(sender, item.since)

    def on_stale(self, pointer: Pointer) -> None:
        """Learn from a former witness of the successor whom to ask about it instead."""
        succ = self._authority.record.succ
        if pointer.ticket_epoch == succ.ticket_epoch and pointer.version > succ.version:
            self._refresh(pointer)

    def count_greeting(self) -> None:
        """Count the last greeting if it stayed unanswered."""
        if not self._answered:
            self.misses += 1
        self._answered = False

    def is_successor_lost(self) -> bool:
        """Tell whether the successor is to be taken for dead."""
        witnesses = self._authority.record.succ.witnesses
        missed_too = sum(witness in self._fresh for witness in witnesses) < majority(witnesses)
        return self.misses >= SURE_MISSES or (self.misses >= WALK_MISSES and missed_too)

    def probe_if_missed(self, turn: Turn) -> None:
        """Ask the successor's witnesses whether it renewed lately, once some greetings stayed unanswered."""
        if self.misses >= PROBE_MISSES:
            self._fresh = Answers()
            succ = self._authority.record.succ
            turn.post_all(succ.witnesses, Probe(*succ.ticket_epoch))

    def forgive(self) -> None:
        """Do not count the last greeting as unanswered: the walk that followed it came to nothing."""
        self._answered = True

    def _refresh(self, successor: Pointer) -> None:
        """Replace what is known of the successor; that needs no commit."""
        self._authority.record = structs.replace(self._authority.record, succ=successor)
