"""The dial: which parts make which level, and how settings by name become parts' settings.

A new level is a new entry here, and usually one new file in core/order/.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct, structs

from whence.core.members.full import Directory, FullView
from whence.core.members.views import PartialView, ViewSettings
from whence.core.node import Node
from whence.core.order.arrival import Arrival
from whence.core.order.fifo import Fifo, FifoSettings
from whence.core.ready import Dice
from whence.core.spread.gossip import GossipSettings, PrCast
from whence.core.stages import Member, Order
from whence.errors import SettingError
from whence.limits import Limits
from whence.types import Instant, Process


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that can be set for a group at a gossip level. Names are unique across the parts."""

    gossip: GossipSettings = GossipSettings()
    views: ViewSettings = ViewSettings()
    fifo: FifoSettings = FifoSettings()
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.views.view == "partial" and self.views.view_size <= self.gossip.fanout:
            raise SettingError(f"view_size ({self.views.view_size}) must exceed fanout ({self.gossip.fanout})")


class Surroundings(Struct, frozen=True):
    """What the driver lends a member."""

    dice: Dice
    now: Instant
    directory: Directory


class Parts(NamedTuple):
    """One part for each stage. A planted bug is a level with one part replaced by a wrong one."""

    order: Callable[[Process, Settings], Order]
    node: Callable[..., Node] = Node
    spread: Callable[..., PrCast] = PrCast
    partial: Callable[..., PartialView] = PartialView
    full: Callable[..., FullView] = FullView


def _arrival(me: Process, settings: Settings) -> Order:
    return Arrival(me, settings.limits)


def _fifo(me: Process, settings: Settings) -> Order:
    return Fifo(me, settings.limits, settings.fifo.hold_rounds * settings.gossip.round_ns)


LEVELS: dict[str, Parts] = {
    "eventual": Parts(_arrival),
    "fifo": Parts(_fifo),
}

Build: TypeAlias = Callable[[Process, Settings, Surroundings], Member]


def build(parts: Parts, me: Process, settings: Settings, around: Surroundings) -> Node:
    """Compose a member that has not joined yet."""
    order = parts.order(me, settings)
    basics = (me, settings.views, settings.gossip.round_ns, around.dice, order.snapshot)
    members = parts.partial(*basics) if settings.views.view == "partial" else parts.full(*basics, around.directory)
    spread = parts.spread(members, settings.gossip, around.dice, around.now)
    return parts.node(me, order, spread, members, settings.limits)


def setting_names() -> dict[str, str]:
    """Return every setting's name with the part it belongs to."""
    return {inner.name: outer.name for outer in structs.fields(Settings) for inner in structs.fields(outer.type)}


def settings_from(given: Mapping[str, Any]) -> Settings:
    """Make settings from values by name, as text or typed. Raises SettingError that names the setting."""
    names = setting_names()
    by_part: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        if name not in names:
            raise SettingError(f"no setting is called {name!r}; there are: {', '.join(sorted(names))}")
        by_part.setdefault(names[name], {})[name] = value
    try:
        return msgspec.convert(by_part, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingError(_plain(error)) from None


def settings_by_name(settings: Settings) -> dict[str, Any]:
    """Return all values by name."""
    return {name: value for part in structs.asdict(settings).values() for name, value in structs.asdict(part).items()}


def _plain(error: msgspec.ValidationError) -> str:
    """Say which setting was wrong instead of where in the structure it was."""
    what, _, where = str(error).partition(" - at `$.")
    name = where.rstrip("`").rpartition(".")[2]
    return f"{name}: {what}" if name else what
