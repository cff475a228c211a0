"""A merger's side of the streams: the sessions of its followers, and how much of the log each of them was sent.

Law: a follower gets every entry after the key it asked for, in order, each once, as long as the log still has them. If
the log does not, the follower learns that before the stream starts.
Cost: followers at the same position with the same topics share one item, so a calm group pays for one encoding per
release, and for one item per beat for all followers at the same position.
Source: docs/papers/merge.md: merge 5 and merge 12.
"""

from whence.core.clocks.stamp import MergeKey
from whence.core.clocks.ticks import NEVER
from whence.core.levels.total.candidates import Candidate, Fitness
from whence.core.levels.total.items import Bye, Follow, Opened, Stream, key_from_bytes, key_to_bytes
from whence.core.levels.total.release_log import ReleaseLog
from whence.core.levels.total.settings import TotalSettings
from whence.core.ready import Gauge, Ready, Send
from whence.types import Instant, Process


class FollowerSession:
    """How much of the stream a follower was sent."""

    __slots__ = ("heard_at", "incarnation", "opened", "position", "session", "steady_ns", "topics")

    def __init__(self, incarnation: int, session: int, topics: int, position: int, now: Instant) -> None:
        self.incarnation = incarnation
        self.session = session
        self.topics = topics
        self.position = position
        self.heard_at = now
        self.steady_ns = 0
        """How long it has heard its stream without interruption, if its beats are timely."""
        self.opened = Opened(session, position, True, b"")
        """What it was told about where its stream starts."""

    def is_open_since(self, incarnation: int, session: int, start: int) -> bool:
        """Tell whether it is this session, and everything since its beginning is in a log that starts there."""
        return (self.incarnation, self.session) == (incarnation, session) and self.opened.position >= start


class StreamServer:
    """The log, and a session for each follower."""

    def __init__(self, settings: TotalSettings, start: int = 0) -> None:
        """Begin to serve at a position. A merger that begins again in the same incarnation continues its numbers, so
        that no late piece of its first stream is taken for one of the second."""
        limits, merge, timing = settings.limits, settings.merge, settings.timing
        self._fitness = Fitness(merge.tick_ns, timing.delta, timing.epsilon)
        self.log = ReleaseLog(limits.log_bundles_max, limits.log_bytes_max, start)
        self._followers_max = limits.followers_max
        self._followers: dict[int, FollowerSession] = {}
        self._beat_ns = merge.beat_ns
        self._patience_ns = settings.patience_ns
        self._beat_at = 0

    def follow(self, sender: Process, asked: Follow, last: MergeKey, now: Instant, ready: Ready) -> None:
        """Open a session, or learn its progress; everything released from now on is above the key `last`."""
        follower = self._followers.get(sender.pid)
        if asked.position == 0:
            self._open(sender, asked, last, now, ready)
        elif follower is None or (follower.incarnation, follower.session) != (sender.incarnation, asked.session):
            ready.send.append(
                Send((sender.pid,), Bye(), sender.incarnation)
            )  # unknown here: it must open another session
        else:
            follower.heard_at = now
            follower.steady_ns = self._fitness.steady_ns(asked.sent_at, asked.steady_ns, now)
            reached = asked.position - 1
            missing_until = min(asked.missing_until, follower.position)
            if reached < missing_until and reached < self.log.start:
                self.forget(sender.pid)
                ready.send.append(Send((sender.pid,), Bye(), sender.incarnation))  # the log no longer has it
            elif reached < missing_until:
                self._send_pieces((sender.pid,), reached, missing_until, follower.topics, ready)

    def _open(self, sender: Process, asked: Follow, last: MergeKey, now: Instant, ready: Ready) -> None:
        if sender.pid not in self._followers and len(self._followers) >= self._followers_max:
            return
        known = self._followers.get(sender.pid)
        if known is not None and known.is_open_since(sender.incarnation, asked.session, self.log.start):
            # It asks again because the answer is slow: the stream need not be sent again, and links that are slow
            # because they are loaded would only become slower.
            known.heard_at = now
            ready.send.append(Send((sender.pid,), known.opened, sender.incarnation))
            return
        after = key_from_bytes(asked.after)
        position = self.log.end if after is None else self.log.after(after)
        whole = after is None or after >= self.log.floor
        session = FollowerSession(sender.incarnation, asked.session, asked.topics, position, now)
        session.steady_ns = self._fitness.steady_ns(asked.sent_at, asked.steady_ns, now)
        session.opened = Opened(asked.session, position, whole, key_to_bytes(after or last))
        self._followers[sender.pid] = session
        ready.send.append(Send((sender.pid,), session.opened, sender.incarnation))
        self.pump(ready)

    def forget(self, pid: int) -> None:
        """End a follower's session."""
        self._followers.pop(pid, None)

    def followers(self) -> tuple[int, ...]:
        """Return who follows."""
        return tuple(self._followers)

    def candidates(self) -> list[Candidate]:
        """Return who follows, and how steadily."""
        return [Candidate(pid, follower.steady_ns) for pid, follower in self._followers.items()]

    def pump(self, ready: Ready) -> None:
        """Send every follower what it does not have yet."""
        end = self.log.end
        behind: dict[tuple[int, int], list[int]] = {}
        for pid, follower in self._followers.items():
            if follower.position > end or follower.position < self.log.start:
                follower.position = min(max(follower.position, self.log.start), end)  # it notices, and asks again
            if follower.position < end:
                behind.setdefault((follower.position, follower.topics), []).append(pid)
        for (position, topics), pids in behind.items():
            self._send_pieces(tuple(pids), position, end, topics, ready)
            for pid in pids:
                self._followers[pid].position = end

    def _send_pieces(self, to: tuple[int, ...], start: int, end: int, topics: int, ready: Ready) -> None:
        while start < end:
            following, bundles, closed = self.log.piece(start, end, topics)
            ready.send.append(Send(to, Stream(topics, start, following, bundles, closed)))
            start = following

    def tick(self, now: Instant, ready: Ready) -> None:
        """Report the stream's position to followers; forget those that have been silent for too long."""
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

    def wake_at(self) -> Instant:
        """Return when the next beat is due; NEVER without followers."""
        return self._beat_at if self._followers else NEVER

    def gauges(self) -> list[Gauge]:
        """Return how much is retained, and for how many followers."""
        return [*self.log.gauges(), Gauge("followers", len(self._followers), self._followers_max)]
