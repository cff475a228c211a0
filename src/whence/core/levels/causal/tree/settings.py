"""What can be set for the tree: how copies are named, coded and replayed. Each says what it trades."""

from typing import Literal

from whence.core.levels.causal.reliability import ReliabilitySettings
from whence.errors import SettingError


class TreeSettings(ReliabilitySettings, frozen=True, kw_only=True):
    """How copies are named, coded, acknowledged and repeated; and what a member keeps at most."""

    identity: Literal["uid", "paper"] = "uid"
    """uid: a message has a name of its own. paper: it is known by its numbers alone, and only safe paths may be
    used (the thesis)."""

    coding: Literal["predicted", "thesis", "whole"] = "predicted"
    """predicted: only what the other end cannot foresee. thesis: its format, byte for byte. whole: no memory."""

    ordered_links: bool = False
    """Links are connections that neither lose nor reorder: predicted headers need no session and number."""

    replay: bool = True
    """Copies name everything near their forwarder, so that any holder may replay them for it. Off: only what is near
    the receiver, as in the thesis; then nobody may replay."""

    retain: bool = False
    """Messages are kept until every forwarder before this node says that all its targets have them, so that they can be
    looked up or replayed here while that forwarder is down. Costs memory for some acknowledgements more."""

    seen_max: int = 4096
    """f >= 2: numbers given to others that are remembered per pair. Full: a jump asks those it leaps over."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seen_max < 4:
            raise SettingError(f"seen_max must be at least 4, not {self.seen_max}")
