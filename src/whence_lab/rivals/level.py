"""How members of the rivals are made. All have the places and groups of an overlay of `causal`; some also its tree."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from whence.core.level import BuildContext
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.topology import OverlaySettings, overlay_of
from whence.core.ready import Item, RandomSource
from whence.core.settings import parse, unknown
from whence.errors import SettingError
from whence.limits import FORMER_NAMES, Limits
from whence.types import Process
from whence_lab.rivals.barriers import Barriers
from whence_lab.rivals.cbcast import Cbcast
from whence_lab.rivals.gryphon import GRYPHON_ITEMS, Gryphon
from whence_lab.rivals.member import RivalBase, RivalMember, TreeCopy
from whence_lab.rivals.neighbourhood import NearAck, NearPing, Neighbourhood
from whence_lab.rivals.plumtree import PLUMTREE_ITEMS, Plumtree
from whence_lab.rivals.scribe import SCRIBE_ITEMS, Scribe
from whence_lab.rivals.settings import (
    GossipTreeSettings,
    GryphonSettings,
    HyParViewSettings,
    ScribeSettings,
    Settings,
)
from whence_lab.rivals.streams import NearCopy
from whence_lab.rivals.thicket import THICKET_ITEMS, Thicket
from whence_lab.rivals.vcube import CubeAck, CubeCopy, VCube

NEIGHBOURHOOD_ITEMS: tuple[type[Item], ...] = (NearCopy, NearAck, NearPing)

RIVAL_ITEMS: tuple[type[Item], ...] = tuple(
    dict.fromkeys(
        (TreeCopy, *NEIGHBOURHOOD_ITEMS, CubeCopy, CubeAck, *PLUMTREE_ITEMS, *THICKET_ITEMS, *SCRIBE_ITEMS,
         *GRYPHON_ITEMS)
    )
)  # fmt: skip
"""Numbered like all items, and read by the simulator alone."""


def names_of(*parts: type[Struct]) -> list[str]:
    """Return the names of the settings in these parts."""
    return [name for part in parts for name in part.__struct_fields__]


_SHARED = names_of(OverlaySettings, Limits)
_SCRIBE, _GRYPHON = (frozenset([*_SHARED, *names_of(part)]) for part in (ScribeSettings, GryphonSettings))
_PLUMTREE = frozenset([*_SHARED, *names_of(HyParViewSettings), "graft_ns"])
_THICKET = frozenset([*_SHARED, *names_of(HyParViewSettings, GossipTreeSettings)])


class RivalLevel(NamedTuple):
    """The recipe of a rival."""

    make: Callable[[Process, Place, Settings, RandomSource], RivalBase]
    items: tuple[type[Item], ...]
    reads: frozenset[str] = frozenset(_SHARED)
    """The settings that change something."""
    peers: int = 0
    """Other processes that a founder is given; none where everybody knows the tree, or all."""

    def settings_from(self, given: Mapping[str, Any]) -> Settings:
        """Make settings from values by name. Raises SettingError."""
        for name in given:
            if (
                name not in self.reads
                and f"{name[:-1]}ns" not in self.reads
                and FORMER_NAMES.get(name) not in self.reads
            ):
                raise SettingError(unknown(name, self.reads))
        settings = parse(given, Settings)
        overlay_of(settings.overlay)
        return settings

    def build(self, me: Process, settings: Settings, around: BuildContext) -> RivalBase:
        """Compose a member that has not started yet."""
        overlay = overlay_of(settings.overlay)
        return self.make(me, Place(overlay, overlay.place_of[me.pid]), settings, around.rng)

    def destinations(self, settings: Settings, group: int) -> tuple[int, ...]:
        """Return the members of a group."""
        return overlay_of(settings.overlay).members_of(group)

    def first_peers(self, settings: Settings) -> int:
        """Return how many other processes a founder is given."""
        return self.peers

    def reads_wall_clock(self, settings: object) -> bool:
        """Return False: they read no clock."""
        return False


FIRST_PEERS = 12
"""Passive peers with which members of HyParView begin."""

RIVALS = {
    "cbcast": RivalLevel(lambda me, place, it, _: RivalMember(me, place, Cbcast(place), it.limits), (TreeCopy,)),
    "barriers": RivalLevel(lambda me, place, it, _: RivalMember(me, place, Barriers(place), it.limits), (TreeCopy,)),
    "neighbourhood": RivalLevel(lambda me, place, it, _: Neighbourhood(me, place, it.limits), NEIGHBOURHOOD_ITEMS),
    "vcube": RivalLevel(lambda me, place, it, _: VCube(me, place, it.limits), (CubeCopy, CubeAck)),
    "scribe": RivalLevel(lambda me, place, it, _: Scribe(me, place, it), SCRIBE_ITEMS, _SCRIBE),
    "gryphon": RivalLevel(lambda me, place, it, _: Gryphon(me, place, it), GRYPHON_ITEMS, _GRYPHON),
    "plumtree": RivalLevel(Plumtree, PLUMTREE_ITEMS, _PLUMTREE, FIRST_PEERS),
    "thicket": RivalLevel(Thicket, THICKET_ITEMS, _THICKET, FIRST_PEERS),
}
"""The rivals by level."""
