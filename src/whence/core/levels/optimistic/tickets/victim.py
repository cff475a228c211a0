"""The coordinator that a walk has come to, and what its witnesses say of it.

A hard close needs a blocking set of every witness set the victim may still count (Lemma A). An operator's word that a
witness is dead counts as that witness's fence.
Source: docs/papers/optimistic.md 4.7, 4.9, 4.10; traps F12 to F14.
"""

from collections.abc import Mapping

from whence.core.levels.optimistic.tickets.memory import Answers
from whence.core.levels.optimistic.tickets.records import Pointer, Processes, Record, TicketEpoch, blocking, majority
from whence.types import Instant, Process


class Victim:
    """One coordinator: the pointer that led to it, the latest record seen of it, and its witnesses' answers."""

    def __init__(self, pointer: Pointer, beyond: Pointer | None, dead: Mapping[Process, Instant]) -> None:
        self.pointer = pointer
        self.beyond = beyond
        """Its successor, for the case that it never registered anything itself."""
        self.record: Record | None = None
        """The latest record of it that an answer has shown."""
        self.asked = 0
        """Times it was asked whether it lives."""
        self.leaving = False
        """It lives and closes itself before long; until then its witnesses say that it lives."""
        self.acks = Answers()
        """Witnesses that fenced it."""
        self._fresh = Answers()
        self._stale = Answers()
        self._dead = dead

    @property
    def ticket_epoch(self) -> TicketEpoch:
        """Return who it is."""
        return self.pointer.ticket_epoch

    def witness_sets(self) -> list[Processes]:
        """Return every witness set it may still count: those of its latest record known, else the pointer's.

        A record that names a set as installed proves that all earlier ones are no longer counted.
        """
        record = self.record
        if record is None or record.version < self.pointer.version:
            return [self.pointer.witnesses]
        return [record.witnesses, record.proposed] if record.proposed else [record.witnesses]

    def witnesses(self) -> list[Process]:
        """Return the witnesses of all these sets, each once."""
        return list(dict.fromkeys(witness for each in self.witness_sets() for witness in each))

    # --- does it live? ---

    def on_fresh(self, sender: Process, since: int) -> None:
        """Note a witness with which it renewed lately."""
        self._fresh.add(sender, since)
        self._stale.discard(sender, since)

    def on_stale(self, sender: Process, since: int) -> None:
        """Note a witness with which it did not renew lately."""
        self._stale.add(sender, since)
        self._fresh.discard(sender, since)

    def is_alive(self) -> bool:
        """Tell whether so many witnesses saw it renew that they would be a majority.

        Of any of its sets: those that heard of it lately need not be together in one we know of, and it lives all the
        same.
        """
        return len(self._fresh) >= majority(self.witness_sets()[0])

    def is_lost(self) -> bool:
        """Tell whether of every set so many witnesses have not been renewed with that no majority is left."""
        return all(
            sum(each in self._stale or each in self._dead for each in witnesses) >= blocking(witnesses)
            for witnesses in self.witness_sets()
        )

    def unheard(self) -> Processes:
        """Return the witnesses that have not said whether it renewed lately."""
        heard = (self._fresh, self._stale, self._dead)
        return tuple([witness for witness in self.witnesses() if not any(witness in each for each in heard)])

    # --- is it closed? ---

    def begin_fencing(self) -> None:
        """Count only what witnesses say from now on."""
        self.record = None
        self.acks = Answers()

    def is_fenced_by(self, witness: Process) -> bool:
        """Tell whether a witness will never renew it again."""
        return witness in self.acks or witness in self._dead

    def is_closed(self) -> bool:
        """Tell whether of every set so many witnesses fenced it that no majority is left."""
        return all(map(self._is_blocked, self.witness_sets()))

    def needed_operator(self) -> bool:
        """Tell whether it would not be closed but for witnesses that were declared dead."""
        return not all(sum(witness in self.acks for witness in each) >= blocking(each) for each in self.witness_sets())

    def declared_at(self) -> list[Instant]:
        """Return when those of its witnesses were declared dead that were; until then it may have renewed with them."""
        return [self._dead[witness] for witness in self.witnesses() if witness in self._dead]

    def unfenced(self) -> Processes:
        """Return the witnesses that would help to close it: of all sets in which a majority may be left."""
        open_sets = [witnesses for witnesses in self.witness_sets() if not self._is_blocked(witnesses)]
        silent = [witness for each in open_sets for witness in each if not self.is_fenced_by(witness)]
        return tuple(dict.fromkeys(silent))

    def _is_blocked(self, witnesses: Processes) -> bool:
        return sum(map(self.is_fenced_by, witnesses)) >= blocking(witnesses)
