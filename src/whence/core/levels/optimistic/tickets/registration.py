"""Registered changes: a coordinator acts on a change of its record only once a majority of its witnesses keeps it.

Otherwise whoever fences it would not find its successor, or the witnesses it counts on (Lemmas A and C).
The sentence that decides: a change is committed when a majority of the installed witnesses, and of the proposed ones if
there are any, has acknowledged its version. At most one change is pending at a time.
Costs per ticket round: 2k + 1 renewals and their answers. Source: docs/papers/optimistic.md 4.4, 4.5; traps B9, F9,
F10, F13, F18.
"""

from collections.abc import Callable
from enum import Enum

from msgspec import Struct, field, structs

from whence.core.levels.optimistic.tickets.authority import Authority
from whence.core.levels.optimistic.tickets.items import Renew
from whence.core.levels.optimistic.tickets.record_bytes import pack
from whence.core.levels.optimistic.tickets.records import Record, majority
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.types import Instant, Process


class ChangeKind(Enum):
    """What is changed."""

    GRANT = "grant"
    ABSORB = "absorb"
    TAKEOVER = "takeover"
    WITNESSES = "witnesses"


class PendingChange(Struct):
    """A change under way: the record as it will be, and who keeps it already."""

    kind: ChangeKind
    record: Record
    since: Instant
    acks: dict[Process, None] = field(default_factory=dict)

    def is_registered(self) -> bool:
        """Tell whether a majority of the installed witnesses, and of the proposed ones, keeps it."""
        record = self.record
        return self._is_stored_at(record.witnesses) and (not record.proposed or self._is_stored_at(record.proposed))

    def _is_stored_at(self, witnesses: tuple[Process, ...]) -> bool:
        return sum(witness in self.acks for witness in witnesses) >= majority(witnesses)


class Registration:
    """One coordinator's record at its witnesses: renewals, and the change that is pending."""

    change_type: type[PendingChange] = PendingChange

    def __init__(self, authority: Authority, on_commit: Callable[[ChangeKind, Turn], None]) -> None:
        self.pending: PendingChange | None = None
        self.asked_since: dict[Process, Instant] = {}
        """When each witness was first asked for a lease."""
        self._authority = authority
        self._on_commit = on_commit
        """Told of every change of the successor that was committed."""

    def renew(self, turn: Turn) -> None:
        """Ask all installed and proposed witnesses for another lease, and show them the record."""
        record = self.pending.record if self.pending is not None else self._authority.record
        renew = Renew(*self._authority.ticket_epoch, record.version, turn.now, pack(record), self._authority.lease_ns)
        witnesses = dict.fromkeys((*record.witnesses, *record.proposed))
        for witness in witnesses:
            self.asked_since.setdefault(witness, turn.now)
        for pid in dict.fromkeys(witness.pid for witness in witnesses):
            turn.post_pid(pid, renew)

    def propose(self, kind: ChangeKind, record: Record, turn: Turn) -> None:
        """Begin to register a change."""
        self.pending = self.change_type(kind, record, turn.now)
        self.renew(turn)
        self._commit_if_registered(turn)  # without witnesses there is nobody to wait for

    def on_ack(self, witness: Process, version: int, turn: Turn) -> None:
        """Count a witness that keeps a version of the record."""
        if self.pending is not None and version == self.pending.record.version:
            self.pending.acks[witness] = None
            self._commit_if_registered(turn)

    def withdraw(self) -> None:
        """Give up the pending change; what comes next has a higher version."""
        if self.pending is not None:
            authority = self._authority
            authority.record = structs.replace(authority.record, version=self.pending.record.version + 1)
            self.pending = None

    def _commit_if_registered(self, turn: Turn) -> None:
        change, authority = self.pending, self._authority
        if change is None or not change.is_registered() or not authority.may_act(turn.now):
            return
        self.pending = None
        authority.record = change.record
        if change.kind is ChangeKind.WITNESSES:
            self._install(change.record, turn)
        else:
            self._on_commit(change.kind, turn)

    def _install(self, record: Record, turn: Turn) -> None:
        """Count on the proposed witnesses from now on, and on them alone."""
        witnesses = record.proposed
        self._authority.record = record.next(witnesses=witnesses, proposed=())
        self._authority.leases.keep_only(witnesses)
        self.asked_since = {witness: at for witness, at in self.asked_since.items() if witness in witnesses}
        self.renew(turn)
