"""How messages are acknowledged, repeated and requested, and how much a member retains."""

from msgspec import Struct

from whence.errors import SettingError

MS = 1_000_000

LIVE_TIMERS = {"retry_ns": 1000 * MS, "suspect_ns": 3000 * MS}
"""For connections, which lose nothing while they last and have a failure detector of their own: repeating is rare."""


class ReliabilitySettings(Struct, frozen=True, kw_only=True):
    """Timers and bounds. Each says what it trades."""

    ack_ns: int = 40 * MS
    """Acknowledgements wait this long for others to the same peer. Longer: fewer packets, and records are retained
    longer."""
    retry_ns: int = 150 * MS
    """A copy that is not acknowledged is sent again after this, then after twice the time, and so on. At least a few
    round trips."""
    retry_ns_max: int = 1600 * MS
    """Where doubling ends: how late a member that was down for long gets copies again."""
    ask_ns: int = 60 * MS
    """When a copy was held back this long, the member asks for what it waits for."""
    suspect_ns: int = 400 * MS
    """A peer that owes an answer for this long is suspected. Shorter: faster detours, more false suspicions."""

    window: int = 256
    """Copies under way to one target at a time."""
    held_copies_max: int = 512
    """Copies that wait for earlier ones. Full: the newest is dropped; it is not acknowledged, so it comes again."""
    records_max: int = 8192
    """Messages retained for others. At a quarter of it, publishing is refused. Full: first copies are dropped and not
    acknowledged."""
    retained_bytes_max: int = 64 << 20
    """Payload bytes retained for others. At a quarter of it, publishing is refused. Full: as records_max."""

    def __post_init__(self) -> None:
        for name in ("ack_ns", "retry_ns", "retry_ns_max", "ask_ns", "suspect_ns", "window", "held_copies_max"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("records_max", "retained_bytes_max"):
            if getattr(self, name) < 4:
                raise SettingError(f"{name} must be at least 4, not {getattr(self, name)}")
