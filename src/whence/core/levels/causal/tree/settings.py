"""Everything that can be set for a localized overlay. Each says what it trades."""

from typing import Literal

from msgspec import Struct

from whence.core.levels.causal.tree.overlay import OverlaySettings
from whence.errors import SettingError
from whence.limits import Limits

MS = 1_000_000


LIVE_TIMERS = {"retry_ns": 1000 * MS, "suspect_ns": 3000 * MS}
"""For connections, which lose nothing while they last, beside a detector that tells who is gone: repeating is for rare
cases."""


class LocalizedSettings(Struct, frozen=True, kw_only=True):
    """How copies are named, coded, acknowledged and repeated; and what a member keeps at most."""

    spread: Literal["tree", "direct"] = "tree"
    """tree: hop by hop, metadata of a neighbourhood, any size. direct: from the publisher to everybody at once, with a
    number per member; for small groups whose members can all connect. What shapes a tree has no effect then."""

    identity: Literal["uid", "paper"] = "uid"
    """uid: a message has a name of its own. paper: it is known by its numbers alone, and only safe paths may be
    used (the thesis)."""

    coding: Literal["predicted", "thesis", "whole"] = "predicted"
    """predicted: only what the other end cannot foresee. thesis: its format, byte for byte. whole: no memory."""

    ordered_links: bool = False
    """Links are connections that neither lose nor reorder: predicted heads need no session and number."""

    replay: bool = True
    """Copies name everything near their forwarder, so that any holder may replay them for it. Off: only what is near
    the receiver, as in the thesis; then nobody may replay."""

    retain: bool = False
    """Messages are kept until every forwarder before this node says that all its targets have them, so that they can be
    looked up or replayed here while that forwarder is down. Costs memory for some acknowledgements more."""

    ack_ns: int = 40 * MS
    """Acknowledgements wait so long for company. Longer: fewer packets, and records live longer."""
    retry_ns: int = 150 * MS
    """A copy without answer is sent again; then after twice the time, and so on. At least a few round trips."""
    retry_ns_max: int = 1600 * MS
    """Where doubling ends: how late a member that was down for long is served again."""
    ask_ns: int = 60 * MS
    """A copy that is held for so long asks for what it waits for."""
    suspect_ns: int = 400 * MS
    """A peer that owes an answer for so long is suspected. Shorter: faster detours, more mistakes."""

    window: int = 256
    """Copies under way to one target at a time."""
    held_copies_max: int = 512
    """Copies that wait for earlier ones. Full: the newest is dropped; it is not acknowledged, so it comes again."""
    records_max: int = 8192
    """Messages kept for others. A quarter of it: publishing is refused. Full: first copies are dropped, not
    acknowledged."""
    retained_bytes_max: int = 64 << 20
    """Payload bytes kept for others. A quarter of it: publishing is refused. Full: as records_max."""
    seen_max: int = 4096
    """f >= 2: numbers given to others that are remembered per pair. Full: a jump asks those it leaps over."""

    def __post_init__(self) -> None:
        for name in ("ack_ns", "retry_ns", "retry_ns_max", "ask_ns", "suspect_ns", "window", "held_copies_max"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("records_max", "retained_bytes_max", "seen_max"):
            if getattr(self, name) < 4:
                raise SettingError(f"{name} must be at least 4, not {getattr(self, name)}")


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of the level `causal`. Names are unique across the parts."""

    overlay: OverlaySettings = OverlaySettings()
    localized: LocalizedSettings = LocalizedSettings()
    limits: Limits = Limits()


def spread_of(settings: Settings) -> str:
    """Return what numbers in a journal rest on, beside the processes."""
    overlay, localized = settings.overlay, settings.localized
    if localized.spread == "direct":
        return "spread=direct"
    return f"spread=tree tree={overlay.tree} groups={overlay.groups} f={overlay.f} identity={localized.identity}"
