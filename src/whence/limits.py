"""Every bound, with its unit last in the name, its default and the reason for it. Validated once, in `Limits`.

Wire bounds are constants: two members must agree on them. Member bounds are settings of one process.
"""

from msgspec import Struct

from whence.errors import LimitError, SettingError

# --- on the wire: what a peer may send. Checked from the announced lengths, before anything is read. ---

PEER_ID_MAX = 2**16 - 1
"""16 bits: every layout that names a process has that many, and the largest simulated tree has 65,536 nodes."""

MERGED_PEER_ID_MAX = 2**15 - 1
"""15 bits: the packed merge key gives the publisher that many. A live node stays within, so that it may open any level;
level `total` refuses others."""

INCARNATION_MAX = 2**31 - 1
"""A process that restarts every second would need 68 years."""

EPOCH_MAX = 2**31 - 1
"""Epochs of one ticket: four a second for 17 years."""

SEQ_MAX = 2**40 - 1
"""40 bits in the packed merge key: a million events a second for 12 days, per incarnation of a process."""

GROUP_NAME_CHARS_MAX = 64
"""It travels in every packet: each one pays for a long name."""

GROUP_NAME_BYTES_MAX = 100
"""It names the files of a group, as digits: longer names fit no file system. Over it: the group is not opened."""

BUNDLE_EVENTS_MAX = 4096
"""Keeps the time to unpack one bundle below a millisecond."""

BUNDLE_BYTES_MAX = 1 << 20
"""One bundle must not block a link for long: 1 MiB is 84 ms at 100 Mb/s."""

STAMP_BYTES_MAX = 1 << 16
"""The largest stamp we know of is a rival's (Causal Barriers); ours stay below 1 KiB."""

PACKET_ITEMS_MAX = 64
"""Items that share one packet and its header."""

PACKET_BUNDLES_MAX = 64
"""Bundles in all items of a packet: each costs a reader some 200 bytes beyond twice its size, so 13 KiB in all."""

PACKET_BYTES_MAX = 1 << 22
"""What a receiver may have to buffer for one frame."""

GOSSIP_BUNDLES_MAX = PACKET_BUNDLES_MAX
"""Upper end of the setting `gossip_bundles`; the paper uses 20."""

GOSSIP_BYTES_MAX = 1 << 21
"""Bundles' bytes in one gossip message: the largest bundle fits it, and it fits a packet with its news."""

MESH_MEMBERS_MAX = 16
"""Members of a living group: in a mesh, copies per publisher and acknowledgements per member grow with the group."""

VIEW_MAX = 256
"""Upper end of the settings for views; lpbcast's analysis asks for some multiples of log N."""

SNAPSHOT_BYTES_MAX = 1 << 20
"""What a newcomer is sent about every sender: 16 bytes each, so some 65,000 senders."""

ROUNDS_MAX = 255
"""Ages and remaining rounds fit one byte."""


MERGERS_MAX = 64
"""Mergers, and relays, of one group: every publication goes to each of them."""

MERGE_WAIT_NS_MAX = 3_600_000_000_000
"""How long an event may wait for its turn at a merger, δ + ε: an hour. What is later than that is lost, not late, and a
longer wait only fills the mergers."""

CLOCK_NODES_MAX = 64
"""Nodes of a group whose messages carry one number per node, and are counted per node."""

# --- in a member: how much it retains. Each names what happens when it is full. ---


FORMER_NAMES = {"boots_per_sender_max": "incarnations_per_sender_max"}
"""Settings that had another name in the version before, which is understood still."""


class PublishLimits(Struct, frozen=True, kw_only=True):
    """What one publish call carries at most, at every level. Raises SettingError where a value cannot work."""

    publish_events_max: int = BUNDLE_EVENTS_MAX
    """Events in one publish call. Full: the caller gets LimitError and splits the call."""

    publish_bytes_max: int = BUNDLE_BYTES_MAX
    """Bytes in one publish call. Full: the caller gets LimitError and splits the call."""

    def __post_init__(self) -> None:
        for name, value in ((name, getattr(self, name)) for name in self.__struct_fields__):
            if value < 1:
                raise SettingError(f"{name} must be at least 1, not {value}")
        for name, ceiling in (("publish_events_max", BUNDLE_EVENTS_MAX), ("publish_bytes_max", BUNDLE_BYTES_MAX)):
            if getattr(self, name) > ceiling:
                raise SettingError(f"{name} must be at most {ceiling}, the bound of a bundle on the wire")

    def check(self, events: int, size: int, published: int) -> None:
        """Refuse a publication that no member of the level can make. Raises LimitError."""
        if not events:
            raise LimitError("the least number of events to publish", 1, 0)
        if events > self.publish_events_max:
            raise LimitError("publish_events_max", self.publish_events_max, events)
        if size > self.publish_bytes_max:
            raise LimitError("publish_bytes_max", self.publish_bytes_max, size)
        if published + events > SEQ_MAX:
            raise LimitError("events in one incarnation of a process", SEQ_MAX, published + events)


class Limits(PublishLimits, frozen=True, kw_only=True):
    """What one member of one group retains at most. Raises SettingError where a value cannot work."""

    senders_max: int = 4096
    """Processes whose progress is remembered. Full: bundles of further processes are dropped and counted."""

    incarnations_per_sender_max: int = 4
    """Incarnations of one peer remembered side by side. Full: the oldest one is closed; its stragglers are dropped."""

    spans_per_sender_max: int = 64
    """Separate runs of numbers seen from one process. Full: the lowest hole is given up; its events are dropped."""

    held_bundles_max: int = 1024
    """Bundles held back for an earlier one. Full: the sender held back longest is released with a gap."""

    held_bytes_max: int = 16 << 20
    """Payload bytes held back for an earlier bundle. Full: the sender held back longest is released with a gap."""


class MergeLimits(PublishLimits, frozen=True, kw_only=True):
    """What one member of a merged group retains at most. Raises SettingError where a value cannot work."""

    buffer_bundles_max: int = 65_536
    """Bundles a merger holds back. Full: the first in order is released early; what it overtook becomes late."""

    buffer_bytes_max: int = 64 << 20
    """Payload bytes a merger holds back. Full: as above."""

    remembered_max: int = 262_144
    """Bundles a merger remembers after release. Full: the oldest are forgotten, and no bundle as old as they are is
    accepted any more."""

    log_bundles_max: int = 65_536
    """Released bundles a merger retains for followers. Full: the oldest are dropped; a follower that still needs them
    gets a gap."""

    log_bytes_max: int = 64 << 20
    """Payload bytes of released bundles. Full: as above."""

    followers_max: int = 4096
    """Subscribers of one merger. Full: further ones get no answer and turn to another merger."""

    outbox_bundles_max: int = 4096
    """Bundles on their way to the mergers, until acknowledged or too late. Full: the oldest is no longer sent again."""
