"""Strict total order on views: one sequence without omissions at every member that stays.

The paper's merge (merger.py) bounds how long it waits, and leaves out what comes later; here nothing is left out, and
hand-out waits until every member has promised to publish only later (core/views/total_order.py).
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from whence.core.ready import RandomSource
from whence.core.views.member import ViewMember
from whence.core.views.settings import ViewSettings
from whence.core.views.streams import Stream
from whence.core.views.total_order import TotalOrder
from whence.errors import SettingError
from whence.limits import Limits
from whence.types import Instant, Process


class StrictSettings(Struct, frozen=True, kw_only=True):
    """What is chosen for a strict group."""

    order: Literal["strict"] = "strict"
    """strict: nothing is left out. timed: the paper's merge, which bounds the wait."""
    membership: Literal["living"] = "living"
    """Members join, leave and are removed."""
    strict: bool = True
    """The sequence has no omissions."""
    uniform: bool = False
    """Whether nothing is handed out before a quorum of the voters has it: then even those that die or are removed were
    handed a prefix of the sequence. It implies `majority`: else no journal would have what is waited for."""
    promise_pause_ns: int = 200_000
    """In the long run a member that has told its clock, by a message or a beat, pauses this long before the next beat,
    times the number of others beyond two. Longer: fewer packets under load, and events wait longer for their place."""

    def __post_init__(self) -> None:
        if self.promise_pause_ns < 0:
            raise SettingError(f"promise_pause_ns must not be negative, and is {self.promise_pause_ns}")


class StrictTotalSettings(Struct, frozen=True, kw_only=True):
    """All settings of a strict group. Names are unique across the parts."""

    strict: StrictSettings = StrictSettings()
    views: ViewSettings = ViewSettings()
    limits: Limits = Limits()


class StrictMember(ViewMember):
    """A member of a strict group."""

    order_type = TotalOrder
    order: TotalOrder

    def __init__(self, me: Process, settings: StrictTotalSettings, rng: RandomSource, *, remembers: bool) -> None:
        views = replace(settings.views, majority=True) if settings.strict.uniform else settings.views
        super().__init__(
            me, views, settings.limits, rng, remembers=remembers, pause_ns=settings.strict.promise_pause_ns
        )
        self.order.owe = self.beats.owe
        self.links.told_all = self.beats.told
        if settings.strict.uniform:
            self.order.owe = self._acknowledge
            self.order.is_safe = self._is_stored

    def _acknowledge(self, now: Instant) -> None:
        """Plan an acknowledgement: it says what is stored here as well, for which others wait too."""
        self.links.owe(now, at_once=True)

    def _is_stored(self, stream: Stream, number: int) -> bool:
        """Tell whether a quorum of the voters has a message."""
        return self.stability.has_quorum(stream.member, number)
