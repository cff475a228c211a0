"""What a broker of Gryphon knows of one pubend's stream: for each tick data, silence, or nothing yet."""

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from whence.core.levels.causal.tree.id_patterns import NOBODY
from whence.core.ready import NEVER
from whence.types import Instant
from whence_lab.rivals.gryphon_items import GryphonData

StreamName: TypeAlias = tuple[int, int]
"""The place of a pubend and its incarnation."""

KEPT_MAX = 1 << 12
"""Messages of a stream that a broker keeps. Full: the oldest is forgotten, and asked for upstream if it is wanted."""

LINGER = 256
"""Messages that are kept although all below have them: somebody may have been passed over."""

GAPS_MAX = 64
"""Gaps that are asked for at once."""


class Knowledge(Struct):
    """One stream."""

    name: StreamName
    data: dict[int, GryphonData] = {}
    silent: dict[int, None] = {}
    """Ticks at which there is nothing for this broker and all below."""
    silent_here: dict[int, None] = {}
    """Ticks at which there is nothing for this subend alone."""
    horizon: int | None = 0
    """Up to this tick all is known and delivered here; None: this subend has not begun with the stream."""
    top: int = 0
    """The highest tick that is known to exist."""
    upstream: int = NOBODY
    acked: dict[int, int] = {}
    spread: dict[int, None] = {}
    """Ticks that were passed on."""
    asked: dict[int, Instant] = {}
    final: int = 0
    """Up to here, everybody below and this subend have everything."""
    told: int = 0
    """What was acknowledged upstream."""
    curious_at: Instant = NEVER
    expect_at: Instant = NEVER

    def add(self, data: GryphonData) -> None:
        """Take data."""
        self.top = max(self.top, data.tick)
        if data.tick > self.final - LINGER:
            self.data.setdefault(data.tick, data)
        if len(self.data) > KEPT_MAX:
            del self.data[next(iter(self.data))]

    def silence(self, ticks: range, *, deep: bool) -> None:
        """Take silence, for this subend or for all below it too."""
        for tick in ticks:
            if tick > self.final:
                (self.silent if deep else self.silent_here)[tick] = None
                self.top = max(self.top, tick)

    def in_order(self) -> Iterator[GryphonData]:
        """Yield the data that follows the horizon without a gap, and move the horizon."""
        while self.horizon is not None and self._is_known(self.horizon + 1):
            self.horizon += 1
            data = self.data.get(self.horizon)
            if data is not None:
                yield data

    def has_gap(self) -> bool:
        """Tell whether something is missing here."""
        return self.horizon is not None and self.horizon < self.top

    def gaps(self) -> list[tuple[int, int]]:
        """Return the ticks of which nothing is known, as spans."""
        found: list[tuple[int, int]] = []
        if self.horizon is None:
            return found
        for tick in range(self.horizon + 1, self.top + 1):
            if self._is_known(tick):
                continue
            if found and found[-1][1] == tick - 1:
                found[-1] = (found[-1][0], tick)
            elif len(found) < GAPS_MAX:
                found.append((tick, tick))
            else:
                break
        return found

    def forget(self, upto: int) -> None:
        """Forget what everybody has, some of the latest apart."""
        if upto <= self.final:
            return
        for tick in range(max(1, self.final - LINGER), upto - LINGER + 1):
            self.data.pop(tick, None)
        for tick in range(self.final + 1, upto + 1):
            self.asked.pop(tick, None)
            self.spread.pop(tick - LINGER, None)
            self.silent.pop(tick - LINGER, None)
            self.silent_here.pop(tick, None)
        self.final = upto

    def _is_known(self, tick: int) -> bool:
        return tick in self.data or tick in self.silent or tick in self.silent_here
