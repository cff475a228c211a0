"""A follower's side of a stream: one merger's at a time, in order, and another merger's when that one is silent.

Law: within a session nothing is missing and nothing comes twice: a piece is taken only at the position where the last
one ended, and requested again otherwise. A switch resumes after the last key, which means the same at every merger.
Where the new merger no longer has all that came after it, the others are asked first; if none has, the gap is noted.
Cost: one item per beat.
Source: docs/papers/merge.md: merge 5.
"""

from enum import Enum

from whence.core.clocks.stamp import MergeKey
from whence.core.levels.total.items import Bye, Closed, Follow, Opened, Stream, key_from_bytes, key_to_bytes
from whence.core.ready import Note, Ready, Send
from whence.types import Bundle, Instant, Process

EARLY_PIECES_MAX = 32
"""Pieces of a stream that overtook others. Full: further ones are dropped, and requested again."""

DOUBLINGS_MAX = 4
"""The time allowed for an answer doubles after each silence, at most this many times: where links are slow because
they are loaded, asking one merger after another only makes them slower."""


class Stage(Enum):
    """Where a follower is in its session with a merger."""

    OPENING = "opening"
    OPEN = "open"


class Subscription:
    """A session with one of the mergers, and what it takes to continue with another."""

    def __init__(self, mergers: tuple[int, ...], home: int, topics: int, beat_ns: int, patience_ns: int) -> None:
        self.topics = topics
        self.stage = Stage.OPENING
        self.last: MergeKey | None = None
        """The last key delivered; None: start wherever the stream is."""
        self.switches = 0
        self._mergers = mergers
        self._at = mergers.index(home)
        self._session = 0
        self._position = 0
        self._incarnation = 0
        self._heard_at = self._began_at = 0
        self.answered_at: Instant | None = None
        """When a merger last answered, or when one was first asked."""
        self._beat_at = 0
        self._missing_since: Instant | None = None
        self._early: dict[int, Stream] = {}
        """Pieces that overtook others, by the position they start at."""
        self._refusals = 0
        """Mergers in a row that could not continue without a gap."""
        self._silences = 0
        """Mergers in a row that did not answer in time."""
        self._steady_since: Instant | None = None
        """Since when nothing was missing and no merger was silent; None before the first session."""
        self._beat_ns = beat_ns
        self._overdue_ns = beat_ns
        self._patience_ns = patience_ns

    @property
    def merger(self) -> int:
        """Return the merger that is followed."""
        return self._mergers[self._at]

    def among(self, mergers: tuple[int, ...], home: int, now: Instant, ready: Ready) -> None:
        """Learn who merges now; switch if the current merger no longer does."""
        stays = self.merger in mergers
        at = mergers.index(self.merger if stays else home)
        self._mergers, self._at, self._refusals = mergers, at, 0
        if not stays:
            self.switches += 1
            self.begin(now, ready)

    def unanswered(self, now: Instant) -> bool:
        """Tell whether every merger was asked and none has answered for a long time."""
        return self.answered_at is not None and now - self.answered_at > (len(self._mergers) + 2) * self._patience_ns

    def begin(self, now: Instant, ready: Ready) -> None:
        """Open a session with the current merger."""
        if self.answered_at is None or self.answered_at > now:
            self.answered_at = now
        if self._steady_since is None or self._steady_since > now:
            self._steady_since = now
        self.stage = Stage.OPENING
        self._session += 1
        self._heard_at = self._began_at = now
        self._ask(now, ready)

    def switch(self, now: Instant, ready: Ready, to: int | None = None) -> None:
        """Switch to another merger: the next, or a given one."""
        if len(self._mergers) > 1 and self.stage is Stage.OPEN:
            ready.send.append(Send((self.merger,), Bye()))
        self._at = (self._at + 1) % len(self._mergers) if to is None else self._mergers.index(to)
        self.switches += 1
        self.begin(now, ready)

    def unreachable(self, peer: int, now: Instant, ready: Ready) -> None:
        """Leave a merger that cannot be reached. At most once a beat: failures within one add nothing new."""
        if peer == self.merger and len(self._mergers) > 1 and not 0 <= now - self._began_at < self._beat_ns:
            self.switch(now, ready)

    def opened(self, sender: Process, item: Opened, now: Instant, ready: Ready) -> bool:
        """Begin to read where the merger says; return whether reading began. Prefer a merger that leaves no gap."""
        if sender.pid != self.merger or item.session != self._session or self.stage is Stage.OPEN:
            return False
        if not item.whole:
            self._refusals += 1
            if self._refusals < len(self._mergers):
                self.switch(now, ready)
                return False
            ready.notes.append(Note("reset", "gap", peer=sender.pid))
        self._refusals = self._silences = 0
        self.stage = Stage.OPEN
        if self.last is None:
            self.last = key_from_bytes(item.last)
        self._position, self._incarnation = item.position, sender.incarnation
        self._heard_at = self.answered_at = now
        self._missing_since = None
        self._early.clear()
        return True

    def take(self, sender: Process, item: Stream, now: Instant, ready: Ready) -> list[Bundle | Closed]:
        """Return what is in the next piece and in those that waited for it; hold back a piece that is early."""
        if sender.pid != self.merger or self.stage is not Stage.OPEN:
            return []
        if sender.incarnation != self._incarnation:
            self.begin(now, ready)
            return []
        if item.topics != self.topics:
            return []
        self._heard_at = self.answered_at = now
        if item.start != self._position:
            self._hold_early(item, now, ready)
            return []
        taken: list[Bundle | Closed] = [*item.bundles, *item.closed]
        self._position = item.end
        while (following := self._early.pop(self._position, None)) is not None:
            self._position = following.end
            taken += [*following.bundles, *following.closed]
        self._missing_since = now if self._early else None
        self._overdue_ns = self._beat_ns
        return taken

    def _hold_early(self, item: Stream, now: Instant, ready: Ready) -> None:
        """Hold back a piece that overtook others; request those once they are overdue."""
        if item.start < self._position:
            return
        if len(self._early) < EARLY_PIECES_MAX:
            self._early[item.start] = item
        if self._missing_since is None or self._missing_since > now:
            self._missing_since = now
        self._request_missing(now, ready)

    def _request_missing(self, now: Instant, ready: Ready) -> None:
        """Request what is missing once it is overdue; ever more rarely, because the link may only be slow."""
        if self._missing_since is not None and now - self._missing_since >= self._overdue_ns:
            self._missing_since = self._steady_since = now
            self._overdue_ns = min(2 * self._overdue_ns, self._patience_ns)
            self._early = {start: item for start, item in self._early.items() if start > self._position}
            if self._early:
                self._report(now, ready, missing_until=min(self._early))

    def tick(self, now: Instant, ready: Ready) -> None:
        """Report progress; ask again, or switch to another merger, when there is no answer."""
        if self._heard_at > now:
            self._heard_at = now
        if self._beat_at > now + self._beat_ns:
            self._beat_at = now
        self._request_missing(now, ready)
        if now - self._heard_at > self._patience_ns << self._silences:
            self._silences = min(self._silences + 1, DOUBLINGS_MAX)
            self._steady_since = now
            self.switch(now, ready)
        elif now >= self._beat_at:
            if self.stage is Stage.OPENING:
                self._ask(now, ready)
            else:
                self._report(now, ready)

    def wake_at(self) -> Instant:
        """Return when the next beat or request is due."""
        missing = self._missing_since
        return self._beat_at if missing is None else min(self._beat_at, missing + self._overdue_ns)

    def _ask(self, now: Instant, ready: Ready) -> None:
        self._beat_at = now + self._beat_ns
        item = Follow(self._session, key_to_bytes(self.last), self.topics, 0, 0, max(0, now), self._steady_ns(now))
        ready.send.append(Send((self.merger,), item))

    def _report(self, now: Instant, ready: Ready, missing_until: int = 0) -> None:
        self._beat_at = now + self._beat_ns
        reached, steady_ns = self._position + 1, self._steady_ns(now)
        item = Follow(self._session, b"", self.topics, reached, missing_until, max(0, now), steady_ns)
        ready.send.append(Send((self.merger,), item, self._incarnation))

    def _steady_ns(self, now: Instant) -> int:
        return 0 if self._steady_since is None else max(0, now - self._steady_since)
