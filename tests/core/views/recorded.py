"""The trace of a group that is driven by hand, so that oracles judge what a told schedule does."""

from typing import Any

from tests.check.trace_builder import TraceBuilder
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.core.ready import Mark, Note
from whence.core.views.settings import ViewSettings
from whence.trace.memory import Phases
from whence.trace.schema import Kind
from whence.types import Bundle

KINDS = {"view": Kind.VIEW, "join": Kind.JOIN, "leave": Kind.LEAVE, "note": Kind.NOTE}


class Recorded:
    """Writes the rows that a process of the simulator would write."""

    def __init__(self, kind: str, settings: ViewSettings, founders: int, *, uniform: bool) -> None:
        strict = kind == "total-strict"
        parameters = {"membership": "living", "keep": settings.keep, "strict": strict, "uniform": uniform}
        if not settings.journal:
            parameters["agreement"] = "all"
        self._rows = TraceBuilder(
            range(founders), level="total" if strict else "causal", durable=settings.journal, parameters=parameters
        )

    def at(self, now: int) -> None:
        """Set the time."""
        self._rows.now = max(self._rows.now, now)

    def started(self, pid: int, incarnation: int) -> None:
        """Write that a process runs."""
        self._rows.lives[pid] = incarnation
        if incarnation > 1:
            self._rows.row(Kind.RESTART, pid, grp=None)
        else:
            self._rows.row(Kind.NOTE, pid, grp=None, reason="started")

    def crashed(self, pid: int) -> None:
        """Write that a process stops."""
        self._rows.crash(pid)

    def published(self, pid: int, bundle: Bundle, mark: Mark | None) -> None:
        """Write that a process has published."""
        self._events(Kind.PUBLISH, pid, bundle, mark)

    def taken(self, pid: int, bundle: Bundle, mark: Mark | None) -> None:
        """Write that an application was handed events, and took them."""
        self._events(Kind.DELIVER, pid, bundle, mark)

    def _events(self, kind: Kind, pid: int, bundle: Bundle, mark: Mark | None) -> None:
        for seq in range(bundle.first, bundle.last + 1):
            named = {"m_pid": bundle.pid, "m_inc": bundle.incarnation, "m_seq": seq}
            epoch = None if mark is None else mark.epoch
            self._rows.row(kind, pid, epoch=epoch, payload_bytes=1, payload_crc=17, **named)

    def noted(self, pid: int, note: Note) -> None:
        """Write what an observer should know."""
        if note.kind not in KINDS:
            return
        said: dict[str, Any] = {"reason": note.reason, "epoch": note.epoch, "value": note.value, "peer": note.peer}
        if note.view is not None:
            said |= {"dests": note.view, "ids": None if note.ids is None else tuple(map(tuple, note.ids))}
        if note.event is not None:
            said |= {"m_pid": note.event.pid, "m_inc": note.event.incarnation, "m_seq": note.event.seq}
        self._rows.row(KINDS[note.kind], pid, **said)

    def heals(self, deadline_ns: int) -> None:
        """Say that no fault comes any more, and that what is published from here on is owed."""
        now = self._rows.now
        self._rows.trace.run.phases = Phases(heal_at=now, live_from=now, live_until=10**15, deadline_ns=deadline_ns)

    def broken(self) -> dict[str, str]:
        """Return the promises that the run broke, each with a sentence."""
        verdicts = judge(self._rows.trace)
        return {verdict.promise: verdict.sentence for verdict in verdicts if verdict.outcome is Outcome.BROKEN}
