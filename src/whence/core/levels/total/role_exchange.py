"""How a member learns who merges and relays, and passes it on; a merger also keeps the table up to date.

Law and cost: role_table.py. A newcomer asks its contacts on every beat until one of them knows. A merger sends its
table to the other mergers, to its followers, and to former mergers that may not know that they were replaced.
"""

from collections.abc import Sequence

from whence.core.clocks.ticks import NEVER
from whence.core.levels.total.items import VERSION_MAX, Mergers
from whence.core.levels.total.role_table import UNKNOWN, RoleTable, from_record
from whence.core.levels.total.settings import TotalSettings
from whence.core.ready import Ready, Send
from whence.types import Instant, Process

VERSION_LEAP_MAX = 1 << 20
"""A table that is newer by more is corrupt and is not adopted: no later one could replace it."""

FORMER_MAX = 64
"""Replaced mergers that are still sent the table. Full: the oldest is dropped."""


class RoleExchange:
    """The newest known table, what follows from it for this member, and when to send it to others."""

    def __init__(self, me: Process, settings: TotalSettings) -> None:
        self._me = me
        self._merge = settings.merge
        self._patience_ns = settings.patience_ns
        self._heard: dict[int, Instant] = {}
        """When each other merger was last heard from."""
        self._former: dict[int, None] = {}
        """Former mergers that may not know that they were replaced: two that replaced each other must meet again."""
        self._contacts: tuple[int, ...] = ()
        """The peers a newcomer asks; none once it knows who merges."""
        self._beat_at: Instant = 0
        self._set(UNKNOWN)

    def _set(self, table: RoleTable) -> None:
        pid, mergers = self._me.pid, table.mergers
        self.table = table
        self.merges = pid in mergers
        """Whether this member is a merger."""
        self.relays = pid in table.relays
        """Whether it is a relay."""
        self.others = tuple([other for other in mergers if other != pid])
        """The mergers except the member itself."""
        self.targets = tuple([to for to in table.sends_to(pid, self._merge.relay_fanout) if to != pid])
        """Where its publications go, except to itself."""

    @property
    def home(self) -> int:
        """Return the merger that this member prefers to follow."""
        return self.others[self._me.pid % len(self.others)]

    def restore(self, records: Sequence[bytes]) -> None:
        """Restore the newest table that an earlier incarnation persisted."""
        stored = [table for table in map(from_record, records) if table is not None]
        self._set(max([self.table, *stored]))

    def adopt(self, table: RoleTable, now: Instant) -> None:
        """Act by a table from now on; its mergers count as just heard from."""
        self._former |= dict.fromkeys(self.table.mergers)
        self._former = {pid: None for pid in self._former if pid not in table.mergers and pid != self._me.pid}
        while len(self._former) > FORMER_MAX:
            del self._former[next(iter(self._former))]
        self._set(table)
        self._heard = dict.fromkeys(table.mergers, now)
        self._contacts = ()

    def ask(self, contacts: Sequence[int], now: Instant, ready: Ready) -> None:
        """Send the table known here to some members, who answer if theirs is newer; repeat while none is known here."""
        self._contacts = tuple(contacts) if not self.table.version else ()
        self._beat_at = now + self._merge.beat_ns
        if contacts:
            ready.send.append(Send(tuple(contacts), self._item()))

    def hear(self, sender: Process, item: Mergers, now: Instant, ready: Ready) -> RoleTable | None:
        """Return the table that a member sent if it is newer; if the one here is newer, send it back."""
        self._heard[sender.pid] = now
        received = RoleTable(item.version, tuple(item.mergers), tuple(item.relays))
        if received < self.table:
            self.tell(sender, ready)
        leaps = 0 < self.table.version < received.version - VERSION_LEAP_MAX
        return received if received > self.table and not leaps else None

    def tell(self, member: Process, ready: Ready) -> None:
        """Send a member the table."""
        ready.send.append(Send((member.pid,), self._item(), member.incarnation))

    def tick(self, now: Instant, followers: Sequence[int] | None, ready: Ready) -> RoleTable | None:
        """Ask again, or as a merger send the table; return a newer table if this member is the one to make it.

        `followers` are those of a merger; None if the member is not one.
        """
        if self._beat_at > now + self._merge.beat_ns:
            self._beat_at = now
        if now < self._beat_at or not (self._contacts or self.merges):
            return None
        self._beat_at = now + self._merge.beat_ns
        if self._contacts:
            ready.send.append(Send(self._contacts, self._item()))
            return None
        to = tuple(dict.fromkeys((*self.others, *(followers or ()), *self._former)))
        if to:
            ready.send.append(Send(to, self._item()))
        return None if followers is None else self._mended(now, followers)

    def wake_at(self) -> Instant:
        """Return when the next beat is due; NEVER if there is nothing to send."""
        return self._beat_at if self._contacts or self.merges else NEVER

    def _mended(self, now: Instant, followers: Sequence[int]) -> RoleTable | None:
        silent = [pid for pid in self.others if self._is_silent(pid, now)]
        first = next(pid for pid in self.table.mergers if pid not in silent)
        if first != self._me.pid or self._merge.named() or self.table.version >= VERSION_MAX:
            return None
        mended = self.table.mended(silent, sorted(followers), self._merge.mergers, self._merge.relays)
        return mended if mended > self.table else None

    def _is_silent(self, pid: int, now: Instant) -> bool:
        heard = self._heard.setdefault(pid, now)
        if heard > now:
            self._heard[pid] = now  # the wall clock was set back
        return now - heard > self._patience_ns

    def _item(self) -> Mergers:
        version, mergers, relays = self.table
        return Mergers(version, list(mergers), list(relays))
