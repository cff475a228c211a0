"""A merger's desk: what it released, and how far each follower has it.

Promises: a follower gets every entry after the key it asked for, in order, each once, as long as the log still has
them; where it has not, the follower is told before the stream starts.
A position numbers what this life of this merger released; it means nothing at another merger, and the key everything.
Followers at the same position with the same topics share one item, so a calm group costs one encoding per release.
"""

from bisect import bisect_right
from typing import Final

from whence.core.clocks.stamp import FIRST_KEY, MergeKey
from whence.core.levels.total.items import (
    STREAM_BUNDLES_MAX,
    STREAM_BYTES_MAX,
    Bye,
    Follow,
    Opened,
    Stream,
    key_from_bytes,
    key_to_bytes,
)
from whence.core.levels.total.merged import BUNDLE, SIZE, Entry, key_of
from whence.core.ready import Gauge, Ready, Send
from whence.limits import MergeLimits
from whence.types import Bundle, Instant, Process

TOPIC: Final = 4
"""Where an entry holds its topic."""


class Follower:
    """How far a subscriber has been sent the stream."""

    __slots__ = ("boot", "heard_at", "position", "session", "topics")

    def __init__(self, boot: int, session: int, topics: int, position: int, now: Instant) -> None:
        self.boot = boot
        self.session = session
        self.topics = topics
        self.position = position
        self.heard_at = now


class Log:
    """What was released, by position and by key."""

    def __init__(self, bundles_max: int, bytes_max: int, start: int) -> None:
        self.floor: MergeKey = FIRST_KEY
        """Nothing above this key that this merger took is missing."""
        self.start = start
        """The position of the first entry."""
        self._bundles_max = bundles_max
        self._bytes_max = bytes_max
        self._entries: list[Entry] = []
        self._ticks: list[int] = []
        self._bytes = 0

    @property
    def end(self) -> int:
        """Return the position after the last entry."""
        return self.start + len(self._entries)

    def append(self, released: list[Entry], rt: int) -> None:
        """Keep what was just released."""
        self._entries += released
        self._ticks += [rt] * len(released)
        self._bytes += sum([entry[SIZE] for entry in released])
        over = len(self._entries) - self._bundles_max
        if over > 0 or self._bytes > self._bytes_max:
            self._cut(self._surplus(max(over, 0)))

    def _surplus(self, over: int) -> int:
        held = self._bytes - sum([entry[SIZE] for entry in self._entries[:over]])
        while held > self._bytes_max:
            held -= self._entries[over][SIZE]
            over += 1
        return over

    def trim(self, before: int) -> None:
        """Drop what was released before a tick."""
        gone = bisect_right(self._ticks, before - 1)
        if gone:
            self._cut(gone)

    def _cut(self, count: int) -> None:
        gone = self._entries[:count]
        self.floor = max(self.floor, key_of(gone[-1]))
        self._bytes -= sum([entry[SIZE] for entry in gone])
        del self._entries[:count], self._ticks[:count]
        self.start += count

    def after(self, key: MergeKey) -> int:
        """Return the position of the first entry with a larger key."""
        return self.start + bisect_right(self._entries, key, key=key_of)

    def piece(self, position: int, end: int, topics: int) -> tuple[int, list[Bundle]]:
        """Return the next bundles of these topics between two positions, and the position after them."""
        bundles: list[Bundle] = []
        size = 0
        at = position - self.start
        for entry in self._entries[at : end - self.start]:
            if topics >> entry[TOPIC] & 1:
                bundle = entry[BUNDLE]
                size += len(bundle.body) + len(bundle.sizes) + len(bundle.stamp)
                if bundles and (len(bundles) == STREAM_BUNDLES_MAX or size > STREAM_BYTES_MAX):
                    break
                bundles.append(bundle)
            at += 1
        return self.start + at, bundles

    def gauges(self) -> list[Gauge]:
        """Return how much is kept."""
        return [
            Gauge("log_bundles", len(self._entries), self._bundles_max),
            Gauge("log_bytes", self._bytes, self._bytes_max),
        ]


class Desk:
    """The log and its followers."""

    def __init__(self, limits: MergeLimits, beat_ns: int, patience_ns: int, start: int = 0) -> None:
        """Begin to serve at a position: who merges again in the same life goes on counting, so that no piece of before
        that comes late is taken for one of now."""
        self.log = Log(limits.log_bundles_max, limits.log_bytes_max, start)
        self._followers_max = limits.followers_max
        self._followers: dict[int, Follower] = {}
        self._beat_ns = beat_ns
        self._patience_ns = patience_ns
        self._beat_at = 0

    def follow(self, sender: Process, asked: Follow, last: MergeKey, now: Instant, ready: Ready) -> None:
        """Open a session, or learn how far one is; `last` is a key that everything released from now on is above."""
        follower = self._followers.get(sender.pid)
        if asked.position == 0:
            self._open(sender, asked, last, now, ready)
        elif follower is None or (follower.boot, follower.session) != (sender.boot, asked.session):
            ready.send.append(Send((sender.pid,), Bye(), sender.boot))  # unknown here: it must open another session
        else:
            follower.heard_at = now
            reached = asked.position - 1
            missing_until = min(asked.missing_until, follower.position)
            if reached < missing_until and reached < self.log.start:
                self.forget(sender.pid)
                ready.send.append(Send((sender.pid,), Bye(), sender.boot))  # the log no longer has it
            elif reached < missing_until:
                self._send_pieces((sender.pid,), reached, missing_until, follower.topics, ready)

    def _open(self, sender: Process, asked: Follow, last: MergeKey, now: Instant, ready: Ready) -> None:
        if sender.pid not in self._followers and len(self._followers) >= self._followers_max:
            return
        after = key_from_bytes(asked.after)
        position = self.log.end if after is None else self.log.after(after)
        whole = after is None or after >= self.log.floor
        self._followers[sender.pid] = Follower(sender.boot, asked.session, asked.topics, position, now)
        opened = Opened(asked.session, position, whole, key_to_bytes(after or last))
        ready.send.append(Send((sender.pid,), opened, sender.boot))
        self.pump(ready)

    def forget(self, pid: int) -> None:
        """Serve a follower no more."""
        self._followers.pop(pid, None)

    def followers(self) -> tuple[int, ...]:
        """Return who follows."""
        return tuple(self._followers)

    def pump(self, ready: Ready) -> None:
        """Send every follower what it does not have yet."""
        end = self.log.end
        behind: dict[tuple[int, int], list[int]] = {}
        for pid, follower in self._followers.items():
            if follower.position > end or follower.position < self.log.start:
                follower.position = min(max(follower.position, self.log.start), end)  # it finds out, and asks again
            if follower.position < end:
                behind.setdefault((follower.position, follower.topics), []).append(pid)
        for (position, topics), pids in behind.items():
            self._send_pieces(tuple(pids), position, end, topics, ready)
            for pid in pids:
                self._followers[pid].position = end

    def _send_pieces(self, to: tuple[int, ...], start: int, end: int, topics: int, ready: Ready) -> None:
        while start < end:
            following, bundles = self.log.piece(start, end, topics)
            ready.send.append(Send(to, Stream(topics, start, following, bundles)))
            start = following

    def tick(self, now: Instant, ready: Ready) -> None:
        """Tell followers how far the stream is; forget those that are silent."""
        if self._beat_at > now + self._beat_ns:
            self._beat_at = now
        if now < self._beat_at:
            return
        self._beat_at = now + self._beat_ns
        for pid, follower in list(self._followers.items()):
            if not 0 <= now - follower.heard_at <= self._patience_ns:
                if now < follower.heard_at:
                    follower.heard_at = now  # the wall clock was set back
                else:
                    del self._followers[pid]
        by_place: dict[tuple[int, int], list[int]] = {}
        for pid, follower in self._followers.items():
            by_place.setdefault((follower.position, follower.topics), []).append(pid)
        for (position, topics), pids in by_place.items():
            ready.send.append(Send(tuple(pids), Stream(topics, position, position, [])))

    def wake_at(self) -> Instant | None:
        """Return when the next beat is."""
        return self._beat_at if self._followers else None

    def gauges(self) -> list[Gauge]:
        """Return how much is kept and for how many."""
        return [*self.log.gauges(), Gauge("followers", len(self._followers), self._followers_max)]
