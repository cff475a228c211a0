"""A member's knowledge of who merges: asked for, told, and tended while it merges itself (roster.py has the law)."""

from collections.abc import Sequence

from whence.core.levels.total.items import VERSION_MAX, Mergers
from whence.core.levels.total.roster import UNKNOWN, Roster, from_record
from whence.core.levels.total.settings import TotalSettings
from whence.core.ready import Ready, Send
from whence.types import Instant, Process

VERSION_LEAP_MAX = 1 << 20
"""A roster that is newer by more is nonsense, and not taken: it would be the last."""

FORMER_MAX = 64
"""Mergers that were replaced and are still told. Full: the oldest is told no more."""


class Roles:
    """The newest roster heard of, and whose word of it is due."""

    def __init__(self, me: Process, settings: TotalSettings) -> None:
        self.roster = UNKNOWN
        self._me = me
        self._merge = settings.merge
        self._patience_ns = settings.merge.patience_beats * settings.merge.beat_ns
        self._heard: dict[int, Instant] = {}
        """When each other merger was last heard of."""
        self._former: dict[int, None] = {}
        """Who merged before, and may not know that it does no more: two that replaced each other must meet again."""
        self._contacts: tuple[int, ...] = ()
        """Whom a newcomer asks; nobody once it knows."""
        self.beat_at: Instant = 0

    @property
    def merges(self) -> bool:
        """Tell whether this member is a merger."""
        return self._me.pid in self.roster.mergers

    @property
    def targets(self) -> tuple[int, ...]:
        """Return whom publications go to, but for the member itself."""
        to = self.roster.sends_to(self._me.pid, self._merge.relay_fanout)
        return tuple([pid for pid in to if pid != self._me.pid])

    @property
    def home(self) -> int:
        """Return the merger that this member would follow."""
        return self.others[self._me.pid % len(self.others)]

    @property
    def others(self) -> tuple[int, ...]:
        """Return the mergers but for the member itself."""
        return tuple([pid for pid in self.roster.mergers if pid != self._me.pid])

    def restore(self, records: Sequence[bytes]) -> None:
        """Take up the newest roster that an earlier life wrote down."""
        kept = [roster for roster in map(from_record, records) if roster is not None]
        self.roster = max([self.roster, *kept])

    def take(self, roster: Roster, now: Instant) -> None:
        """Act by a roster from now on; its mergers count as heard of."""
        self._former |= dict.fromkeys(self.roster.mergers)
        self._former = {pid: None for pid in self._former if pid not in roster.mergers and pid != self._me.pid}
        while len(self._former) > FORMER_MAX:
            del self._former[next(iter(self._former))]
        self.roster = roster
        self._heard = dict.fromkeys(roster.mergers, now)
        self._contacts = ()

    def ask(self, contacts: Sequence[int], now: Instant, ready: Ready) -> None:
        """Tell some members what is known here, so that they tell better; again on every beat while it is nothing."""
        self._contacts = tuple(contacts) if not self.roster.version else ()
        self.beat_at = now + self._merge.beat_ns
        if contacts:
            ready.send.append(Send(tuple(contacts), self._item()))

    def hear(self, sender: Process, item: Mergers, now: Instant, ready: Ready) -> Roster | None:
        """Return what a member knows better; tell it what is known better here."""
        self._heard[sender.pid] = now
        told = Roster(item.version, tuple(item.mergers), tuple(item.relays))
        if told < self.roster:
            self.tell(sender, ready)
        leaps = 0 < self.roster.version < told.version - VERSION_LEAP_MAX
        return told if told > self.roster and not leaps else None

    def tell(self, member: Process, ready: Ready) -> None:
        """Tell a member who merges."""
        ready.send.append(Send((member.pid,), self._item(), member.boot))

    def tick(self, now: Instant, followers: Sequence[int] | None, ready: Ready) -> Roster | None:
        """Ask again, or as a merger tell everybody; return a better roster if this member is the one to make it.

        `followers` are those of a merger; None if the member is none.
        """
        if self.beat_at > now + self._merge.beat_ns:
            self.beat_at = now
        if now < self.beat_at or not (self._contacts or self.merges):
            return None
        self.beat_at = now + self._merge.beat_ns
        if self._contacts:
            ready.send.append(Send(self._contacts, self._item()))
            return None
        told = tuple(dict.fromkeys((*self.others, *(followers or ()), *self._former)))
        if told:
            ready.send.append(Send(told, self._item()))
        return None if followers is None else self._mended(now, followers)

    def wake_at(self) -> Instant | None:
        """Return when the next beat is."""
        return self.beat_at if self._contacts or self.merges else None

    def _mended(self, now: Instant, followers: Sequence[int]) -> Roster | None:
        silent = [pid for pid in self.others if self._is_silent(pid, now)]
        first = next(pid for pid in self.roster.mergers if pid not in silent)
        if first != self._me.pid or self._merge.named() or self.roster.version >= VERSION_MAX:
            return None
        mended = self.roster.mended(silent, sorted(followers), self._merge.mergers, self._merge.relays)
        return mended if mended > self.roster else None

    def _is_silent(self, pid: int, now: Instant) -> bool:
        heard = self._heard.setdefault(pid, now)
        if heard > now:
            self._heard[pid] = now  # the wall clock was set back
        return now - heard > self._patience_ns

    def _item(self) -> Mergers:
        version, mergers, relays = self.roster
        return Mergers(version, list(mergers), list(relays))
