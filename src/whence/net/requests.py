"""Requests that count only while who asks is there.

Law: such a request is handed in once its connection has had a turn of the loop in which nothing came, and is still
open. Whoever gave up has said so behind its request, or has ended the connection. A process that stood still finds all
of that in its socket at once; it would else act for somebody who is gone, and a whole group would wait for that one.
Of the requests of one process in one group only the last counts.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from whence.net.link import Link


class Requests:
    """The requests of a node's peers that are not handed in yet."""

    def __init__(self, counts: "Counter[str]") -> None:
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[str, int], tuple[Link, Callable[[], None]]] = {}

    def take(self, group: str, pid: int, link: Link, hand_in: Callable[[], None]) -> None:
        """Take a request that has just come."""
        is_watched = (group, pid) in self._waiting
        self._waiting[group, pid] = link, hand_in
        if not is_watched:
            self._loop.call_soon(self._look, group, pid, -1)

    def withdraw(self, group: str, pid: int) -> None:
        """Forget what a process asked for: it says that it is not there any more."""
        if self._waiting.pop((group, pid), None) is not None:
            self._counts["requests_withdrawn"] += 1

    def _look(self, group: str, pid: int, reads: int) -> None:
        """Hand in what waits, if nothing was read since this was planned: the loop looked at all sockets between."""
        if (group, pid) not in self._waiting:
            return
        link, hand_in = self._waiting[group, pid]
        if link.is_ending:
            self.withdraw(group, pid)
        elif link.reads != reads:
            self._loop.call_soon(self._look, group, pid, link.reads)
        else:
            del self._waiting[group, pid]
            hand_in()
