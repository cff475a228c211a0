"""Writes traces by hand, one short call per row, for tests of the oracles."""

from collections.abc import Sequence
from typing import Any

from whence.trace.memory import Phases, Run, Trace
from whence.trace.schema import COLUMNS_OF, Kind
from whence.types import EventId

GRP = "g"


class TraceBuilder:
    """A trace in the making: rows get their numbers and times by themselves, one microsecond apart."""

    def __init__(self, nodes: Sequence[int] = (0, 1, 2), founders: Sequence[int] | None = None, **run: Any) -> None:
        described: dict[str, Any] = {"run_id": "by-hand", "version": "0", "level": "fifo", "seed": 0} | run
        described.setdefault("groups", {GRP: list(nodes if founders is None else founders)})
        self.trace = Trace(Run(nodes=list(nodes), **described))
        self.lives = dict.fromkeys(nodes, 1)
        self.now = 0
        self._numbers: dict[tuple[int, int], int] = {}
        self._published: dict[tuple[str, int, int], int] = {}

    def row(self, kind: Kind, node: int, **columns: Any) -> int:
        """Write a row; return its number in its process."""
        self.now += 1000
        inc = self.lives.setdefault(node, 1)
        ev = self._numbers.get((node, inc), 0)
        self._numbers[node, inc] = ev + 1
        filled = {"node": node, "inc": inc, "ev": ev, "t_clk": self.now, "t_true": self.now, "grp": GRP} | columns
        unknown = set(filled) - set(COLUMNS_OF[kind])
        assert not unknown, unknown
        self.trace.rows[kind].append(tuple(filled.get(name) for name in COLUMNS_OF[kind]))
        return ev

    def publish(self, node: int, dests: Sequence[int] | None = None, grp: str = GRP, **columns: Any) -> EventId:
        """Write that a node publishes its next event."""
        inc = self.lives.setdefault(node, 1)
        seq = self._published.get((grp, node, inc), 0) + 1
        self._published[grp, node, inc] = seq
        named = {"grp": grp, "m_pid": node, "m_inc": inc, "m_seq": seq, "payload_bytes": 5, "payload_crc": 17}
        self.row(Kind.PUBLISH, node, dests=None if dests is None else tuple(dests), **named | columns)
        return EventId(node, inc, seq)

    def deliver(self, node: int, *events: EventId, **columns: Any) -> None:
        """Write that a node delivers events, in this order."""
        for event in events:
            named = {"m_pid": event.pid, "m_inc": event.incarnation, "m_seq": event.seq}
            self.row(Kind.DELIVER, node, **{"payload_bytes": 5, "payload_crc": 17} | named | columns)

    def broadcast(self, node: int, **columns: Any) -> EventId:
        """Write that a node publishes an event and that it and everyone else delivers it at once."""
        event = self.publish(node, **columns)
        for receiver in self.trace.run.nodes:
            self.deliver(receiver, event)
        return event

    def gap(self, node: int, *events: EventId) -> None:
        """Write that a node gives events up."""
        self.row(Kind.GAP, node, ids=tuple(tuple(event) for event in events))

    def crash(self, node: int) -> None:
        """Write that a node crashes."""
        self.row(Kind.CRASH, node, grp=None)

    def restart(self, node: int) -> None:
        """Write that a crashed node comes back, in its next life."""
        self.lives[node] += 1
        self.row(Kind.RESTART, node, grp=None)

    def phases(self, deadline_ns: int = 10**9) -> None:
        """Say that the faults stop here, and that what is published from here on is owed."""
        self.trace.run.phases = Phases(heal_at=self.now, live_from=self.now, live_until=10**15, deadline_ns=deadline_ns)
