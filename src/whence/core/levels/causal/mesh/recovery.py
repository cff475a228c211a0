"""What a member persists, and how its next incarnation resumes from there.

Laws: what the application has taken is durable before it is acknowledged to any member. Payloads of others are not
persisted: what had not been taken is fetched again. Own messages need not wait for that: the application published them
without having taken it.
"""

from collections.abc import Sequence

from whence.core.levels.causal.group_started import GroupStarted, founders_in, group_started
from whence.core.levels.causal.items import Back
from whence.core.levels.causal.mesh import journal
from whence.core.levels.causal.mesh.journal import Settled, Taken
from whence.core.levels.causal.mesh.outbox import Outbox
from whence.core.ready import Delivery, Ready, Returned, Send
from whence.types import Instant, Process

SETTLED_TOGETHER = 16
"""Own messages that every member has and that are recorded together. An incarnation that ends before that learns of
them again."""


class Recovery:
    """The journal of a member: written in one incarnation, replayed in the next."""

    def __init__(self, outbox: Outbox, layout: str) -> None:
        self.state = outbox.state
        self.outbox = outbox
        self._layout = layout
        self._settled_written = 0
        self.taken_written = list(outbox.state.taken)
        """What the application had taken, as the journal says."""
        self._returned = 0
        """Publications whose durability earlier incarnations reported to the application."""

    # --- writing ---

    def begin(self, founders: Sequence[Process], ready: Ready) -> None:
        """Record the processes with which the group begins."""
        self.persist(self._group_started(founders), ready)

    def _group_started(self, founders: Sequence[Process]) -> GroupStarted:
        return group_started(self.state.processes, founders, self._layout)

    def persist(self, entry: journal.Entry, ready: Ready) -> None:
        """Persist a transition, and with it what could wait until now."""
        if self.state.settled >= self._settled_written + SETTLED_TOGETHER:
            self._settled_written = self.state.settled
            ready.persist.append(journal.encode(Settled(self._settled_written)))
        ready.persist.append(journal.encode(entry))

    def record_taken(self, ready: Ready) -> bool:
        """Persist what the application has taken, before it is acknowledged; return whether it is news to others."""
        state = self.state
        taken, before = state.taken, self.taken_written.copy()
        if not state.remembers:
            return True
        if taken == before:
            return False
        self.taken_written = taken.copy()
        self.persist(Taken(self.taken_written), ready)
        self.outbox.settle()
        before[state.me] = taken[state.me]  # how far it is with its own messages is no news to others
        return taken != before

    def checkpoint(self, founders: Sequence[Process]) -> list[bytes]:
        """Return records that are equivalent to all persisted so far."""
        return [journal.encode(entry) for entry in (self._group_started(founders), *self.state.entries())]

    # --- a later incarnation ---

    def resume(self, taken: Sequence[int], reported: int, taken_in_part: Sequence[int]) -> None:
        """Set what the application has; see MeshMember.resume."""
        self._returned = reported
        self.state.took(taken)
        self.state.taken_in_part = list(taken_in_part)

    def restore(self, records: Sequence[bytes], founders: list[Process], now: Instant, ready: Ready) -> list[Process]:
        """Replay the transitions of earlier incarnations, hand over what was not reported to the application, and
        announce the return to the other members.

        Return the founders that the journal names; those given, if it is empty.
        Raises StorageError if it is the journal of another group of processes.
        """
        state, peers = self.state, self.outbox.peers
        named = founders_in(records, state.processes, self._layout)
        entries = [journal.decode(record) for record in records]
        if not entries:
            self.begin(founders, ready)  # it crashed before it had begun
        for entry in entries:
            state.replay(entry)
        if state.remembers:
            unheard = [message for number, message in state.retained.items() if number > self._returned]
            ready.deliver += [Returned(message.bundle) for message in unheard]
            ready.deliver += [Delivery(bundle) for bundle in state.resume()]
            self.outbox.watch(now)
        for peer in peers.values():
            peer.acked = state.settled
        self.outbox.settle()
        for node in peers:
            self.outbox.restart(node, now, ready)
        ready.send.append(Send(tuple(peers), Back(1)))
        return named if entries else founders
