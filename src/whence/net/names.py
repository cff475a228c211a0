"""Who goes by which pid: two running processes never share one, and the one that came second is told why.

Laws: a connected process that answers is not replaced by another of its name, whatever incarnation that one has. One
that was lost is followed only by a later incarnation. Whoever asks is answered with a reason, not with silence.

Whether a connected process still runs is asked of itself: only an answer to a question that was asked after the second
one came counts. Until then the second is told to call again: it may be a restart of the first, whose connection is not
known to be broken yet.
"""

from whence.core.links.greeting import Refused, Why
from whence.types import Instant, Process

REMEMBERED_NS = 600_000_000_000
"""How long a process that was lost is remembered: one that comes back is later, and one that is not must hear it."""

ANSWERED_NS = 2_000_000_000
"""For so long the answer of a connected process counts for others that come in its name."""


class Known:
    """The last process of one pid that was connected."""

    __slots__ = ("answered_at", "asked_at", "boot", "instance", "lost_at")

    def __init__(self, boot: int, instance: bytes) -> None:
        self.boot = boot
        self.instance = instance
        self.lost_at: Instant | None = None
        self.asked_at: Instant | None = None
        """When it was first asked whether it runs, since it last said so."""
        self.answered_at: Instant | None = None


class Names:
    """The processes that have greeted here, by pid."""

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}

    def connected(self, process: Process, instance: bytes) -> None:
        """Learn that a process is connected, and goes by its pid from now on."""
        known = self._known.get(process.pid)
        if known is None or (known.boot, known.instance) != (process.boot, instance):
            self._known[process.pid] = Known(process.boot, instance)
        else:
            known.lost_at = None

    def lost(self, pid: int, now: Instant) -> None:
        """Learn that the process of a pid is not connected any more."""
        known = self._known.get(pid)
        if known is not None:
            known.lost_at, known.asked_at, known.answered_at = now, None, None
        for other in [each for each, old in self._known.items() if old.lost_at and now - old.lost_at > REMEMBERED_NS]:
            del self._known[other]

    def answered(self, pid: int, asked: Instant, now: Instant) -> None:
        """Learn that the process of a pid has answered what it was asked at some time."""
        known = self._known.get(pid)
        if known is not None and known.asked_at is not None and asked >= known.asked_at:
            known.answered_at, known.asked_at = now, None

    def refusal(self, process: Process, instance: bytes, now: Instant) -> Refused | None:
        """Return why a process cannot go by its pid; None if it can. CALL_AGAIN: ask the one that is connected."""
        known = self._known.get(process.pid)
        if known is None or self._is_same(known, process, instance):
            return None
        if known.lost_at is not None:
            if process.boot > known.boot or now - known.lost_at > REMEMBERED_NS:
                return None
            return Refused(Why.SUPERSEDED if process.boot < known.boot else Why.REUSED, known.boot)
        if process.boot < known.boot:
            return Refused(Why.SUPERSEDED, known.boot)
        if known.answered_at is not None and now - known.answered_at <= ANSWERED_NS:
            return Refused(Why.TAKEN, known.boot)
        if known.asked_at is None:
            known.asked_at = now
        return Refused(Why.CALL_AGAIN, known.boot)

    @staticmethod
    def _is_same(known: Known, process: Process, instance: bytes) -> bool:
        if known.boot != process.boot:
            return False
        return not (known.instance and instance) or known.instance == instance
