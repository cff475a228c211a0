"""How far the application here has taken each publisher's events, and telling the publishers so: their credit.

Law: whoever published what was taken hears of it within LAZY_NS, where it was much within REPORT_NS, and again when it
is connected anew.
"""

import asyncio
from collections.abc import Callable

from whence.core.link.reached import LAZY_NS, REPORT_BYTES, REPORT_NS, WAITED_US_MAX, Reached
from whence.types import Bundle, Process

PUBLISHES_S = 1.0
"""Who has published nothing for so long has no part in the group's credit."""

TAKEN_MAX = 65_536
"""Publishers whose progress is remembered. Full: the oldest is forgotten; it waits AWAY_S instead."""

NOTHING = (0, 0.0)


class Reports:
    """What one member tells the publishers of its group."""

    def __init__(self, send: Callable[[Process, Reached], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._taken: dict[tuple[int, int], tuple[int, float]] = {}
        """The last event of each publisher that the application has taken, and when."""
        self._due: dict[tuple[int, int], int] = {}
        """Bytes of each publisher that were taken and not reported."""
        self._timer: asyncio.TimerHandle | None = None
        self._soon = False
        self._heard: dict[int, float] = {}
        """When each of those who publish was last reported to."""

    def taken(self, bundle: Bundle) -> None:
        """Note that the application has taken a bundle of somebody else."""
        publisher, last = (bundle.pid, bundle.boot), bundle.last
        if last <= self._taken.get(publisher, NOTHING)[0]:
            return
        self._taken[publisher] = last, self._loop.time()
        self._plan(publisher, len(bundle.body))
        if len(self._taken) > TAKEN_MAX:
            del self._taken[next(iter(self._taken))]

    def peer_up(self, peer: Process) -> None:
        """Tell a publisher that is here again how far the application is."""
        for pid, boot in list(self._taken):
            if pid == peer.pid and boot >= peer.boot:  # of a group opened again, a later life
                self._plan((pid, boot), REPORT_BYTES)

    def _plan(self, publisher: tuple[int, int], size: int) -> None:
        size += self._due.get(publisher, 0)
        self._due[publisher] = size
        if size >= REPORT_BYTES and not self._soon:
            self._soon = True
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(REPORT_NS / 1e9, self._report)
        elif self._timer is None:
            self._timer = self._loop.call_later(LAZY_NS / 1e9, self._report)

    def _report(self) -> None:
        self._timer, self._soon = None, False
        due, self._due = self._due, {}
        now = self._loop.time()
        for publisher in due:
            if publisher in self._taken:
                process = Process(*publisher)
                self._heard[process.pid] = now
                last, at = self._taken[publisher]
                self._send(process, Reached(last, min(int((now - at) * 1e6), WAITED_US_MAX)))

    def publishers(self) -> int:
        """Return how many others publish at present."""
        since = self._loop.time() - PUBLISHES_S
        self._heard = {pid: at for pid, at in self._heard.items() if at > since}
        return len(self._heard)
