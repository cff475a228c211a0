"""The rows that both recorders write alike, simulated and live: those of rare kinds, and of full buffers."""

from collections.abc import Iterable
from typing import Protocol, TypedDict

from whence.trace.memory import Row
from whence.types import EventId


class Rare(TypedDict, total=False):
    """The columns that a row of a rare kind may have."""

    event: EventId | None
    peer: int | None
    view: tuple[int, ...] | None
    late_ns: int | None
    ticket: int | None
    epoch: int | None
    ids: tuple[EventId, ...] | None
    reason: str | None
    value: int | None
    bound: int | None


_NOTHING = dict.fromkeys(("peer", "view", "late_ns", "ticket", "epoch", "ids", "reason", "value", "bound"))


def rare_row(where: Row, fields: Rare) -> Row:
    """Return a row: where it belongs (process, number, clocks and group), and what it says."""
    event = fields.pop("event", None)
    return (*where, *(event or (None, None, None)), *(_NOTHING | fields).values())


class Measured(Protocol):
    """How full something is, and how full it may get."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    @property
    def bound(self) -> int: ...


class HighWater:
    """How full every buffer of an incarnation was at its fullest."""

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def measure(self, gauges: Iterable[Measured]) -> None:
        """Measure the buffers."""
        highest = self._highest
        for gauge in gauges:
            if gauge.value > highest.get(gauge.name, -1):
                highest[gauge.name] = gauge.value

    def rows(self, gauges: Iterable[Measured]) -> list[Rare]:
        """Return the rows to write about these buffers, and begin again."""
        highest, self._highest = self._highest, {}
        return [
            Rare(reason=gauge.name, value=highest[gauge.name], bound=gauge.bound)
            for gauge in gauges
            if gauge.name in highest
        ]
