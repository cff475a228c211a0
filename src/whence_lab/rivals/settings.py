"""What can be set for the rivals; each reads its own part, and all share the overlay's places and groups."""

from typing import Annotated

from msgspec import Meta, Struct

from whence.core.levels.causal.tree.topology import OverlaySettings
from whence.limits import Limits

MS = 1_000_000


class ScribeSettings(Struct, frozen=True, kw_only=True):
    """Pastry's tables and Scribe's heartbeats."""

    leaf_set: Annotated[int, Meta(ge=2, le=64)] = 16
    """Nodes with the nearest ids, half on either side; the paper's value."""
    heartbeat_ns: Annotated[int, Meta(ge=1)] = 250 * MS
    """A parent that was silent for three of them is believed to be down."""
    root_replicas: Annotated[int, Meta(ge=0, le=16)] = 2
    """Nodes next to the rendez-vous node that have a copy of its children."""


class GryphonSettings(Struct, frozen=True, kw_only=True):
    """Gryphon's cells and timers."""

    siblings: Annotated[int, Meta(ge=1, le=16)] = 2
    """Brokers of one logical node; each of them can stand in for the others."""
    curiosity_ns: Annotated[int, Meta(ge=1)] = 40 * MS
    """How long a gap in the knowledge is left before it is asked for, and between two such questions."""
    ack_ns: Annotated[int, Meta(ge=1)] = 100 * MS
    """The time in which acknowledgements are gathered into one."""
    expect_ns: Annotated[int, Meta(ge=1)] = 400 * MS
    """How long a pubend waits for acknowledgements before it says how far they should be."""


class HyParViewSettings(Struct, frozen=True, kw_only=True):
    """The sizes of HyParView's two views, and its timers; the paper's values."""

    active_view: Annotated[int, Meta(ge=2, le=64)] = 5
    passive_view: Annotated[int, Meta(ge=2, le=256)] = 30
    active_walk: Annotated[int, Meta(ge=1, le=16)] = 6
    passive_walk: Annotated[int, Meta(ge=1, le=16)] = 3
    shuffle_ns: Annotated[int, Meta(ge=1)] = 1_000 * MS


class GossipTreeSettings(Struct, frozen=True, kw_only=True):
    """Plumtree's and Thicket's timers, and the number of Thicket's trees."""

    graft_ns: Annotated[int, Meta(ge=1)] = 250 * MS
    """How long a message that was announced may stay out before it is asked for; then half of it."""
    trees: Annotated[int, Meta(ge=1, le=16)] = 4
    tree_fanout: Annotated[int, Meta(ge=1, le=16)] = 3
    """Peers that an interior node of Thicket chooses when it first hears of a tree."""
    summary_ns: Annotated[int, Meta(ge=1)] = 40 * MS
    """The time in which Thicket gathers the names of messages for its backup peers."""


class Settings(Struct, frozen=True, kw_only=True):
    """What can be set for the rivals."""

    overlay: OverlaySettings = OverlaySettings()
    limits: Limits = Limits()
    scribe: ScribeSettings = ScribeSettings()
    gryphon: GryphonSettings = GryphonSettings()
    hyparview: HyParViewSettings = HyParViewSettings()
    gossip_trees: GossipTreeSettings = GossipTreeSettings()
