"""The summary of a run: what was published, delivered and skipped, latency, and bytes of metadata.

It reads only the trace's rows, and in slices, so that a trace can be written out while it grows.
"""

from bisect import bisect_right
from itertools import accumulate
from typing import Any

from msgspec import Struct

from whence.trace.memory import Row, Run, Trace
from whence.trace.schema import COLUMNS_OF, DESTS, IDS, M_INC, M_PID, M_SEQ, REASON, STAMP_BYTES, T_TRUE, Kind

_T = COLUMNS_OF[Kind.PUBLISH].index(T_TRUE)
_DESTS = COLUMNS_OF[Kind.PUBLISH].index(DESTS)
_EVENT = COLUMNS_OF[Kind.PUBLISH].index(M_PID)
assert COLUMNS_OF[Kind.PUBLISH][_EVENT : _EVENT + 3] == COLUMNS_OF[Kind.DELIVER][_EVENT : _EVENT + 3]
assert COLUMNS_OF[Kind.DELIVER][_EVENT : _EVENT + 3] == (M_PID, M_INC, M_SEQ)
_STAMP = COLUMNS_OF[Kind.SEND].index(STAMP_BYTES)
_IDS = COLUMNS_OF[Kind.GAP].index(IDS)
_REASON = COLUMNS_OF[Kind.DROP].index(REASON)


_BEFORE_ALL, _AFTER_ALL = -1, 2**63 - 1


class Latency(Struct, frozen=True):
    """Milliseconds from publication to delivery at other members; None where no other member got anything."""

    p50: float | None
    p99: float | None
    max: float | None


class Summary:
    """Sums up rows as they come."""

    def __init__(self, run: Run) -> None:
        self._published_at: dict[tuple[int, int, int], int] = {}
        self._addressed: dict[tuple[int, int, int], int] = {}
        """The number of members that an event names, if it names any."""
        self._delivered: list[tuple[tuple[int, int, int], int, bool]] = []
        self._receivers: list[int] = []
        """The process of each delivery."""
        self._named: dict[tuple[int, int, int], frozenset[int]] = {}
        self._stays: dict[int, list[list[int]]] = {
            node: [[_BEFORE_ALL, _AFTER_ALL]] for group in run.groups.values() for node in group
        }
        """The times from when to when each process was a member."""
        self._changes: list[tuple[int, int]] = [(0, sum(map(len, run.groups.values())))]
        self._members: dict[tuple[int, int], None] = {
            (node, 1): None for group in run.groups.values() for node in group
        }
        self._healed_from = run.phases.live_from if run.phases is not None else _BEFORE_ALL
        """From when on events count that are published after the faults: `agreement` judges most levels by these."""
        self._rows = self._late = self._skipped = self._duplicates = self._packets = self._stamp_bytes = 0
        self._stamp_bytes_max = 0

    def add(self, trace: Trace) -> None:
        """Add the rows that a trace holds now. Rows of one kind must come in order, each once."""
        rows = trace.rows
        self._rows += trace.count()
        for row in rows[Kind.PUBLISH]:
            self._published_at[row[_EVENT : _EVENT + 3]] = row[_T]
            if row[_DESTS] is not None:
                self._addressed[row[_EVENT : _EVENT + 3]] = len(row[_DESTS])
                self._named[row[_EVENT : _EVENT + 3]] = frozenset(row[_DESTS])
        for row in rows[Kind.DELIVER]:
            self._delivered.append((row[_EVENT : _EVENT + 3], row[_T], row[0] == row[_EVENT]))
            self._receivers.append(row[0])
        self._add_traffic(rows[Kind.SEND])
        self._late += len(rows[Kind.LATE])
        self._skipped += sum(len(row[_IDS]) for row in rows[Kind.GAP])
        self._duplicates += sum(row[_REASON] == "duplicate" for row in rows[Kind.DROP])
        self._add_membership(rows)

    def result(self) -> dict[str, Any]:
        """Return the numbers by the names they have in JSON."""
        came = dict.fromkeys(zip(self._receivers, (event for event, _, _ in self._delivered), strict=True))
        healed = {event: at for event, at in self._published_at.items() if at >= self._healed_from}
        return {
            "published": len(self._published_at),
            "delivered": len(self._delivered),
            "deliveries_expected": self._expected(self._published_at),
            "owed_delivered": sum(self._is_expected(node, event) for node, event in came),
            "healed_expected": self._expected(healed),
            "healed_delivered": sum(event in healed and self._is_expected(node, event) for node, event in came),
            "late": self._late,
            "skipped": self._skipped,
            "duplicates_dropped": self._duplicates,
            "metadata_bytes_mean": round(self._stamp_bytes / self._packets, 1) if self._packets else 0.0,
            "metadata_bytes_max": self._stamp_bytes_max,
            "packets": self._packets,
            "latency_ms": self._latency(),
            "rows": self._rows,
        }

    def _add_traffic(self, sends: list[Row]) -> None:
        sizes = [row[_STAMP] for row in sends]
        self._packets += len(sizes)
        self._stamp_bytes += sum(sizes)
        self._stamp_bytes_max = max(self._stamp_bytes_max, max(sizes, default=0))

    def _add_membership(self, rows: dict[Kind, list[Row]]) -> None:
        """Follow who is a member: joins, leaves and crashes of one slice, in order of time."""
        changes = [
            (row[_T], row[0], row[1], kind is Kind.JOIN)
            for kind in (Kind.JOIN, Kind.LEAVE, Kind.CRASH)
            for row in rows[kind]
        ]
        for time, node, inc, joins in sorted(changes):
            if joins and (node, inc) not in self._members:
                self._members[node, inc] = None
                self._changes.append((time, 1))
                self._stays.setdefault(node, []).append([time, _AFTER_ALL])
            elif not joins and (node, inc) in self._members:
                del self._members[node, inc]
                self._changes.append((time, -1))
                self._stays[node][-1][1] = time

    def _expected(self, published_at: dict[tuple[int, int, int], int]) -> int:
        """Return the number of deliveries if every member got all of these that were published while it was one."""
        times = [time for time, _ in self._changes]
        members = list(accumulate(change for _, change in self._changes))
        named = self._addressed
        to_all = (at for event, at in published_at.items() if event not in named)
        return sum(named[event] for event in published_at if event in named) + sum(
            members[bisect_right(times, at) - 1] for at in to_all
        )

    def _is_expected(self, node: int, event: tuple[int, int, int]) -> bool:
        if event in self._named:
            return node in self._named[event]
        at = self._published_at.get(event)
        return at is not None and any(since <= at < until for since, until in self._stays.get(node, ()))

    def _latency(self) -> Latency:
        published_at = self._published_at
        delays = sorted(
            at - published_at[event] for event, at, own in self._delivered if not own and event in published_at
        )
        if not delays:
            return Latency(None, None, None)
        p50, p99 = delays[len(delays) // 2], delays[len(delays) * 99 // 100]
        return Latency(*(round(delay / 1e6, 3) for delay in (p50, p99, delays[-1])))


def summarize(trace: Trace) -> dict[str, Any]:
    """Sum up a whole trace that is in memory."""
    summary = Summary(trace.run)
    summary.add(trace)
    return summary.result()
