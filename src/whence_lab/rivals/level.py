"""How members of the rivals are made: CBCAST, Causal Barriers and Delta-Neighbourhood on the overlay of `causal`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.topology import overlay_of
from whence.core.ready import Item
from whence.core.settings import parse
from whence.types import Process
from whence_lab.rivals.barriers import Barriers
from whence_lab.rivals.cbcast import Cbcast
from whence_lab.rivals.member import RivalMember, Settings, TreeCopy
from whence_lab.rivals.neighbourhood import NearAck, NearCopy, Neighbourhood

RIVAL_ITEMS: tuple[type[Item], ...] = (TreeCopy, NearCopy, NearAck)
"""Numbered like all items, and read by the simulator alone."""


class RivalLevel(NamedTuple):
    """The recipe of a rival."""

    make: Callable[[Process, Place, Settings], RivalMember]
    items: tuple[type[Item], ...] = RIVAL_ITEMS

    def settings_from(self, given: Mapping[str, Any]) -> Settings:
        """Make settings from values by name. Raises SettingError."""
        settings = parse(given, Settings)
        overlay_of(settings.overlay)
        return settings

    def build(self, me: Process, settings: Settings, around: Any) -> RivalMember:
        """Compose a member that has not started yet."""
        overlay = overlay_of(settings.overlay)
        return self.make(me, Place(overlay, overlay.place_of[me.pid]), settings)

    def destinations(self, settings: Settings, group: int) -> tuple[int, ...]:
        """Return the members of a group."""
        return overlay_of(settings.overlay).members_of(group)

    def first_peers(self, settings: Settings) -> int:
        """Return none: everybody knows the tree."""
        return 0

    def reads_wall_clock(self, settings: object) -> bool:
        """Return False: they read no clock."""
        return False


RIVALS = {
    "cbcast": RivalLevel(lambda me, place, settings: RivalMember(me, place, Cbcast(place), settings.limits)),
    "barriers": RivalLevel(lambda me, place, settings: RivalMember(me, place, Barriers(place), settings.limits)),
    "neighbourhood": RivalLevel(lambda me, place, settings: Neighbourhood(me, place, settings.limits)),
}
"""The rivals by level."""
