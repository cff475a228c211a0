"""What Gryphon's brokers tell each other: knowledge downwards, curiosity upwards, subscriptions everywhere."""

from typing import Annotated

from msgspec import Meta

from whence.core.levels.causal.tree.overlay import GROUPS_MAX
from whence.core.ready import BundleItem, Item
from whence.types import Bundle, Incarnation, PeerId

TICK_END = 1 << 40
ENTRIES_MAX = 1 << 12

Tick = Annotated[int, Meta(ge=0, le=TICK_END - 1)]
Group = Annotated[int, Meta(ge=0, le=GROUPS_MAX - 1)]
Versions = Annotated[tuple[tuple[PeerId, Tick], ...], Meta(max_length=ENTRIES_MAX)]
"""By subend, the version of its subscription; those that were there from the start are left out."""


class GryphonData(BundleItem, frozen=True, tag=240):
    """Knowledge: data at a tick of a pubend's stream, and silence at `silent` ticks before it."""

    pubend: PeerId
    incarnation: Incarnation
    tick: Tick
    silent: Tick
    deep: bool
    """It is for all below the receiver, and not for the receiver alone."""
    group: Group
    versions: Versions
    """The subscriptions that the pubend knew."""
    bundle: Bundle


class GryphonSilence(Item, frozen=True, tag=241):
    """Knowledge: nothing for the receiver at these ticks."""

    pubend: PeerId
    incarnation: Incarnation
    first: Tick
    last: Tick
    deep: bool


class GryphonNack(Item, frozen=True, tag=242):
    """Curiosity: what is at these ticks?"""

    pubend: PeerId
    incarnation: Incarnation
    first: Tick
    last: Tick


class GryphonAck(Item, frozen=True, tag=243):
    """The end of curiosity: everything up to this tick has arrived here and everywhere below."""

    pubend: PeerId
    incarnation: Incarnation
    upto: Tick


class GryphonExpect(Item, frozen=True, tag=244):
    """The pubend is at this tick, and waits for acknowledgements."""

    pubend: PeerId
    incarnation: Incarnation
    upto: Tick
    deep: bool


class GryphonTable(Item, frozen=True, tag=245):
    """Subscriptions that are not those from the start: subend, version, topics. It may ask for the receiver's."""

    asks: bool
    rows: Annotated[
        tuple[tuple[PeerId, Tick, Annotated[tuple[Group, ...], Meta(max_length=ENTRIES_MAX)]], ...],
        Meta(max_length=ENTRIES_MAX),
    ]


GRYPHON_ITEMS: tuple[type[Item], ...] = (
    GryphonData, GryphonSilence, GryphonNack, GryphonAck, GryphonExpect, GryphonTable,
)  # fmt: skip
