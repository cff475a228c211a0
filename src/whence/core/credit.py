"""Credit-based flow control: the bytes a publisher may have under way beyond what every member it waits for has taken.

Law: publishers wait while more is under way than the credit. Waited for is every connected member, from when it was
first heard of; not one that has taken nothing for AWAY_S, until it takes something again (decision 0008).

Pure: times are handed in, in seconds.
"""

from collections import deque

CREDIT_BYTES, CREDIT_BYTES_MIN = 4 << 20, 1 << 18
ALL_CREDIT_BYTES = 32 << 20
"""Bytes of own events under way that some connected member has not taken: at most the first, at least the second, and
all publishers of a group together the third. Over it publishers wait; more would only fill buffers in between."""

PART_OF_HELD, ALL_OF_HELD = (1, 4), (11, 16)
"""Where members hold events on purpose, so much of what they may hold takes the place of the first and the third. Both
together leave room: one publisher may have its most under way when all others begin."""

PAUSE_S = 1.0
"""Who needed no more than the least for so long begins again with an equal part among all members."""

AWAY_S = 5.0
"""A member that has not taken an event by then is not waited for: the event was lost, or the member is stuck."""


class Credit:
    """The credit of one publisher in one group."""

    def __init__(self, me: int, held_bytes: int | None = None) -> None:
        self.away_bytes = 0
        self.given_up = 0
        self._most, self._all = CREDIT_BYTES, ALL_CREDIT_BYTES
        if held_bytes is not None:
            self._most, self._all = (held_bytes * part // of for part, of in (PART_OF_HELD, ALL_OF_HELD))
        self._limit = min(CREDIT_BYTES, self._most)
        self.quiet_bytes = min(CREDIT_BYTES_MIN, self._limit // 4)
        """While no more is under way, publishers need not wait, nor gather."""
        self._grows_after = 0
        """The own event that everybody must have taken before more may be under way."""
        self._shared_at = 0.0
        self.last = 0
        """The last own event."""
        self._away: deque[tuple[int, int, float]] = deque()
        """Own bundles that somebody has not taken: last event, bytes, when they were published."""
        self._reached: dict[int, int] = {}
        """The last own event that each member's application has taken, as it told."""
        self._owed_from: dict[int, int] = {me: 0}
        """Who is waited for, and the last own event when each was first heard of."""
        self._stuck: dict[int, None] = {}
        """Who took nothing for so long that it was given up; connecting again does not change that."""

    def published(self, last: int, size: int, now: float) -> None:
        """Take note of an own bundle: its last event, its bytes."""
        self.last = last
        self._away.append((last, size, now))
        self.away_bytes += size

    def reached(self, peer: int, last: int) -> bool:
        """Learn how far a member is; return whether that is news."""
        if last <= self._reached.get(peer, 0):
            return False
        self._reached[peer] = last
        self._stuck.pop(peer, None)
        self._owed_from.setdefault(peer, last)
        return True

    def told_by(self, peer: int) -> int:
        """Return the last own event that a member said it has taken."""
        return self._reached.get(peer, 0)

    def expect(self, peer: int) -> None:
        """Wait for a connected member from now on: it is owed what is published after this."""
        if peer not in self._stuck:
            self._owed_from.setdefault(peer, self.last)

    def forget(self, peer: int, *, stays: bool = False) -> None:
        """Wait no more for a member that is gone; what one has taken that stays a member while it is away is known."""
        if not stays:
            self._reached.pop(peer, None)
        self._owed_from.pop(peer, None)

    def limit_bytes(self) -> int:
        """Return how many bytes may be under way."""
        return self._limit

    def share(self, members: int, publishers: int, now: float) -> None:
        """Share the group's credit among those who publish, as far as that is known.

        It begins with an equal part for every member, and doubles once everything from before was taken: by then those
        who began at the same time have been heard of. It shrinks at once.
        """
        most = max(CREDIT_BYTES_MIN, min(self._most, self._all // max(1, publishers)))
        if now - self._shared_at > PAUSE_S:
            self._limit = max(CREDIT_BYTES_MIN, min(most, self._all // max(1, members)))
            self._grows_after = self.last
        elif self._lowest() >= self._grows_after:
            self._limit = min(most, 2 * self._limit)
            self._grows_after = self.last
        self._limit = min(self._limit, most)
        self.quiet_bytes = min(CREDIT_BYTES_MIN, self._limit // 4)
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
        """Return who is waited for and has not taken the oldest that is under way; this process may be among them."""
        oldest = self._away[0][0] if self._away else 0
        return [peer for peer in self._owed_from if self._has(peer) < oldest]

    def _lowest(self) -> int:
        """Return the last own event that everybody who is waited for has taken."""
        return min([self._has(peer) for peer in self._owed_from], default=self.last)

    def _has(self, peer: int) -> int:
        return max(self._owed_from[peer], self._reached.get(peer, 0))

    def _give_up_waiting(self, last: int) -> None:
        for peer in [peer for peer in self._owed_from if self._has(peer) < last]:
            del self._owed_from[peer]
            self._stuck[peer] = None
            self.given_up += 1
