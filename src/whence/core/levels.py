"""The dial: which parts make which level.

A new level is a new entry here, and usually one new file in core/order/.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from whence.core.capabilities import remembers
from whence.core.coordinated import ClusterParts
from whence.core.members.full import Directory, FullView
from whence.core.members.views import PartialView, ViewSettings
from whence.core.merge.recipe import Merging
from whence.core.node import Node
from whence.core.order.arrival import Arrival
from whence.core.order.fifo import Fifo, FifoSettings
from whence.core.order.localized.recipe import Causal
from whence.core.order.rivals import RIVALS
from whence.core.ready import Dice
from whence.core.settings import parse
from whence.core.spread.direct import EVERYBODY_KNOWN, Direct, DirectSettings
from whence.core.spread.gossip import GossipSettings, PrCast
from whence.core.stages import Member, Order, Spread
from whence.errors import SettingError
from whence.limits import ROUNDS_MAX, Limits
from whence.types import Instant, Process


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


class Surroundings(Struct, frozen=True):
    """What the driver lends a member."""

    dice: Dice
    now: Instant
    directory: Directory
    remembers: bool = True
    """Whether what a Ready persists is kept for a later life; where it is not, members need not write it out."""
    epoch_floor: int = 0
    """Where nothing is kept: epochs up to here may have been given before. Time stands in for memory."""
    is_first_life: bool = False
    """The driver knows that no life came before this one, whatever its incarnation: nothing of one is under way."""


class Recipe(Protocol):
    """How a driver makes the members of a level, whatever they consist of."""

    def settings_from(self, given: Mapping[str, Any]) -> Any:
        """Make the level's settings from values by name. Raises SettingError."""

    def build(self, me: Process, settings: Any, around: Surroundings) -> Member:
        """Compose a member that has not joined yet."""

    def first_peers(self, settings: Any) -> int:
        """Return how many others a founder is told of at most."""

    def reads_wall_clock(self) -> bool:
        """Tell whether `now` is the clock on the wall, which may jump; else the steady one, for rounds and leases."""


class Parts(NamedTuple):
    """The recipe of the gossip levels: one part for each stage. A planted bug is one part replaced by a wrong one."""

    order: Callable[[Process, Settings], Order]
    node: Callable[..., Node] = Node
    spread: Callable[..., PrCast] = PrCast
    direct: Callable[..., Direct] = Direct
    partial: Callable[..., PartialView] = PartialView
    full: Callable[..., FullView] = FullView

    def settings_from(self, given: Mapping[str, Any]) -> Settings:
        """Make settings from values by name. Raises SettingError."""
        return settings_from(given)

    def build(self, me: Process, settings: Settings, around: Surroundings) -> Node:
        """Compose a member that has not joined yet."""
        order = self.order(me, settings)
        basics = (me, settings.views, settings.gossip.round_ns, around.dice, order.snapshot)
        members = self.partial(*basics) if settings.views.view == "partial" else self.full(*basics, around.directory)
        spread: Spread
        if settings.direct.spread == "direct":
            spread = self.direct(members, settings.gossip, settings.direct, settings.limits, around.dice, around.now)
        else:
            spread = self.spread(members, settings.gossip, around.dice, around.now)
        return self.node(me, order, spread, members, settings.limits)

    def first_peers(self, settings: Settings) -> int:
        """Return how many others a founder is told of at most."""
        return settings.views.view_size

    def live_settings(self, founders: Sequence[int], given: Mapping[str, object]) -> dict[str, object]:
        """Return what a live group is opened with: who sends to everybody must know everybody (decision 0005)."""
        return dict(EVERYBODY_KNOWN)

    def shared(self, settings: Settings) -> dict[str, object]:
        """Return what all members must agree on: how bundles travel, and, of gossip, what its reach rests on."""
        ways: dict[str, object] = {"spread": settings.direct.spread, "view": settings.views.view}
        if settings.direct.spread == "direct":
            return ways
        gossip = settings.gossip
        return ways | {"fanout": gossip.fanout, "rounds": gossip.rounds, "round_ns": gossip.round_ns}

    def reads_wall_clock(self) -> bool:
        """Return False: rounds must not jump."""
        return False


def _arrival(me: Process, settings: Settings) -> Order:
    return Arrival(me, settings.limits)


def _fifo(me: Process, settings: Settings) -> Order:
    return Fifo(me, settings.limits, settings.fifo.hold_rounds * settings.gossip.round_ns)


GOSSIP: dict[str, Parts] = {
    "eventual": Parts(_arrival),
    "fifo": Parts(_fifo),
}
"""The levels on top of PrCast."""

LEVELS: dict[str, Recipe] = {**GOSSIP, "optimistic": ClusterParts(), "total": Merging(), "causal": Causal(), **RIVALS}
"""Every level that is built, by name."""


def stores_events(level: str) -> bool:
    """Tell whether members can promise that a publication survives a crash of its process, and keep to it.

    The others deliver in time or tell what is missing: what a later life says again would come out of its place.
    """
    return level in GOSSIP or remembers(LEVELS.get(level))


def settings_from(given: Mapping[str, Any]) -> Settings:
    """Make the settings of a gossip level from values by name, as text or typed. Raises SettingError.

    What depends on the rounds a bundle lives is derived from them unless it is given.
    """
    settings = parse(given, Settings)
    rounds = settings.gossip.rounds
    derived = {"hold_rounds": rounds + 4, "farewell_rounds": 2 * rounds, "sub_rounds": max(2 * rounds, 12)}
    return parse({name: min(value, ROUNDS_MAX) for name, value in derived.items()} | dict(given), Settings)
