"""Levels `eventual` and `fifo`: the parts their members are made of."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from whence.core.dissemination.direct import EVERYBODY_KNOWN, DirectSettings, DirectSpread
from whence.core.dissemination.gossip import GossipSettings, PrCast
from whence.core.level import BuildContext
from whence.core.levels.gossip.arrival import Arrival
from whence.core.levels.gossip.fifo import Fifo, FifoSettings
from whence.core.membership.full_view import FullView
from whence.core.membership.partial_view import PartialView
from whence.core.membership.settings import ViewSettings
from whence.core.settings import parse
from whence.core.staged import StagedMember
from whence.core.stages import Order, Spread
from whence.errors import SettingError
from whence.limits import ROUNDS_MAX, Limits
from whence.types import Process


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that can be set for a group at a gossip level. Names are unique across the parts."""

    gossip: GossipSettings = GossipSettings()
    views: ViewSettings = ViewSettings()
    fifo: FifoSettings = FifoSettings()
    direct: DirectSettings = DirectSettings()
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.views.view == "partial" and self.views.view_size <= self.gossip.fanout:
            raise SettingError(f"view_size ({self.views.view_size}) must exceed fanout ({self.gossip.fanout})")


class GossipLevel(NamedTuple):
    """A gossip level: one part for each stage. A planted bug is one part replaced by a wrong one."""

    order: Callable[[Process, Settings], Order]
    member: Callable[..., StagedMember] = StagedMember
    spread: Callable[..., PrCast] = PrCast
    direct: Callable[..., DirectSpread] = DirectSpread
    partial: Callable[..., PartialView] = PartialView
    full: Callable[..., FullView] = FullView

    def settings_from(self, given: Mapping[str, Any]) -> Settings:
        """Make settings from values by name. Raises SettingError."""
        return settings_from(given)

    def build(self, me: Process, settings: Settings, around: BuildContext) -> StagedMember:
        """Compose a member that has not joined yet."""
        order = self.order(me, settings)
        basics = (me, settings.views, settings.gossip.round_ns, around.rng, order.snapshot)
        members = self.partial(*basics) if settings.views.view == "partial" else self.full(*basics, around.directory)
        spread: Spread
        if settings.direct.spread == "direct":
            spread = self.direct(members, settings.gossip, settings.direct, settings.limits, around.rng, around.now)
        else:
            spread = self.spread(members, settings.gossip, around.rng, around.now)
        return self.member(me, order, spread, members, settings.limits)

    @property
    def may_be_retained(self) -> bool:
        """Return True: what is published again is recognised, and nobody waits for it."""
        return True

    @property
    def is_unordered(self) -> bool:
        """Tell whether a publisher's events may come in any order."""
        return self.order is _arrival

    def first_peers(self, settings: Settings) -> int:
        """Return the largest number of other processes that a founder is given."""
        return settings.views.view_size

    def live_settings(self, founders: Sequence[int], given: Mapping[str, object], *, data: bool) -> dict[str, object]:
        """Return the settings of a live group: a member that sends to everybody must know everybody (decision 0005)."""
        return dict(EVERYBODY_KNOWN)

    def shared(self, settings: Settings) -> dict[str, object]:
        """Return what all members must agree on: how bundles travel, and, for gossip, what its delivery ratio depends
        on."""
        ways: dict[str, object] = {"spread": settings.direct.spread, "view": settings.views.view}
        if settings.direct.spread == "direct":
            return ways
        gossip = settings.gossip
        return ways | {"fanout": gossip.fanout, "rounds": gossip.rounds, "round_ns": gossip.round_ns}

    def reads_wall_clock(self, settings: object) -> bool:
        """Return False: rounds must not jump."""
        return False


def _arrival(me: Process, settings: Settings) -> Order:
    return Arrival(me, settings.limits)


def _fifo(me: Process, settings: Settings) -> Order:
    return Fifo(me, settings.limits, settings.fifo.hold_rounds * settings.gossip.round_ns)


GOSSIP: dict[str, GossipLevel] = {
    "eventual": GossipLevel(_arrival),
    "fifo": GossipLevel(_fifo),
}
"""The levels on top of PrCast."""


def settings_from(given: Mapping[str, Any]) -> Settings:
    """Make the settings of a gossip level from values by name, as text or typed. Raises SettingError.

    Settings that depend on `rounds` are derived from it unless they are given.
    """
    settings = parse(given, Settings)
    rounds = settings.gossip.rounds
    derived = {"hold_rounds": rounds + 4, "farewell_rounds": 2 * rounds, "sub_rounds": max(2 * rounds, 12)}
    return parse({name: min(value, ROUNDS_MAX) for name, value in derived.items()} | dict(given), Settings)
