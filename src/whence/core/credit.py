"""Credit-based flow control: the bytes a publisher may have under way beyond what every member it waits for has taken.

Law: publishers wait while more is under way than the credit allows. A publisher waits for every connected member, from
the moment it first knows of it. It does not wait for a member that has taken nothing for AWAY_S, until that member
takes something again (decision 0008).

Pure: times are passed in, in seconds.
"""

from collections import deque

CREDIT_BYTES, CREDIT_BYTES_MIN = 4 << 20, 1 << 18
ALL_CREDIT_BYTES = 32 << 20
"""Bytes of own events under way that some connected member has not taken. The credit of one publisher is at most the
first and at least the second; all publishers of a group together have the third. Over the credit, publishers wait: more
would only fill the buffers in between."""

PART_OF_HELD, ALL_OF_HELD = (1, 4), (11, 16)
"""Where members hold events back on purpose, these parts of what they may hold back replace the first and the third.
Together they leave room: one publisher may have its maximum under way when all others begin."""

PAUSE_S = 1.0
"""A publisher that needed no more than the minimum for this long begins again with an equal share among all members."""

AWAY_S = 5.0
"""Publishers no longer wait for a member that has not taken an event after this time: the event was lost, or the member
is stuck."""


class Credit:
    """The credit of one publisher in one group."""

    def __init__(self, me: int, held_bytes: int | None = None) -> None:
        self.away_bytes = 0
        self.given_up = 0
        self._most, self._all = CREDIT_BYTES, ALL_CREDIT_BYTES
        if held_bytes is not None:
            self._most, self._all = (held_bytes * part // of for part, of in (PART_OF_HELD, ALL_OF_HELD))
        self._limit = min(CREDIT_BYTES, self._most)
        self.light_bytes = min(CREDIT_BYTES_MIN, self._limit // 4)
        """While no more than this is under way, publishers need not wait or gather events into larger bundles."""
        self._grows_after = 0
        """The own event that every member must have taken before the credit grows."""
        self._shared_at = 0.0
        self.last = 0
        """The last own event."""
        self._away: deque[tuple[int, int, float]] = deque()
        """Own bundles that some member has not taken: last event, bytes, time of publication."""
        self._reached: dict[int, int] = {}
        """The last own event that each member's application has taken, as that member reported."""
        self._owed_from: dict[int, int] = {me: 0}
        """The members this publisher waits for, and the last own event when each was first known."""
        self._stuck: dict[int, None] = {}
        """Members that were given up because they took nothing for too long; connecting again does not change that."""

    def published(self, last: int, size: int, now: float) -> None:
        """Record an own bundle: its last event and its bytes."""
        self.last = last
        self._away.append((last, size, now))
        self.away_bytes += size

    def reached(self, peer: int, last: int) -> bool:
        """Record the last own event that a member has taken; return whether that is news."""
        if last <= self._reached.get(peer, 0):
            return False
        self._reached[peer] = last
        self._stuck.pop(peer, None)
        self._owed_from.setdefault(peer, last)
        return True

    def reported_by(self, peer: int) -> int:
        """Return the last own event that a member reported as taken."""
        return self._reached.get(peer, 0)

    def expect(self, peer: int) -> None:
        """Wait for a connected member from now on: it must take what is published after this."""
        if peer not in self._stuck:
            self._owed_from.setdefault(peer, self.last)

    def forget(self, peer: int, *, stays: bool = False) -> None:
        """Stop waiting for a member that is gone. If it stays a member while it is away, remember what it has taken."""
        if not stays:
            self._reached.pop(peer, None)
        self._owed_from.pop(peer, None)

    def limit_bytes(self) -> int:
        """Return the number of bytes that may be under way."""
        return self._limit

    def share(self, members: int, publishers: int, now: float) -> None:
        """Share the group's credit among the publishers that are known.

        The credit begins with an equal share for every member. It doubles once everything published before was taken:
        by then, publishers that began at the same time are known. It shrinks at once.
        """
        most = max(CREDIT_BYTES_MIN, min(self._most, self._all // max(1, publishers)))
        if now - self._shared_at > PAUSE_S:
            self._limit = max(CREDIT_BYTES_MIN, min(most, self._all // max(1, members)))
            self._grows_after = self.last
        elif self._lowest() >= self._grows_after:
            self._limit = min(most, 2 * self._limit)
            self._grows_after = self.last
        self._limit = min(self._limit, most)
        self.light_bytes = min(CREDIT_BYTES_MIN, self._limit // 4)
        self._shared_at = now

    def is_strained(self) -> bool:
        """Tell whether so much is under way that sending more at once would not make it arrive sooner."""
        return self.away_bytes > self._limit // 4

    def is_used_up(self, now: float) -> bool:
        """Tell whether publishers must wait."""
        away = self._away
        if away and away[0][2] < now - AWAY_S:
            self._give_up_waiting(away[0][0])
        lowest = self._lowest()
        while away and away[0][0] <= lowest:
            self.away_bytes -= away.popleft()[1]
        return self.away_bytes > self._limit

    def behind(self) -> list[int]:
        """Return the members that have not taken the oldest bundle under way; this process may be among them."""
        oldest = self._away[0][0] if self._away else 0
        return [peer for peer in self._owed_from if self._has(peer) < oldest]

    def _lowest(self) -> int:
        """Return the last own event that every member this publisher waits for has taken."""
        return min([self._has(peer) for peer in self._owed_from], default=self.last)

    def _has(self, peer: int) -> int:
        return max(self._owed_from[peer], self._reached.get(peer, 0))

    def _give_up_waiting(self, last: int) -> None:
        for peer in [peer for peer in self._owed_from if self._has(peer) < last]:
            del self._owed_from[peer]
            self._stuck[peer] = None
            self.given_up += 1
