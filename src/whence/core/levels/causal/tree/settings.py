"""The settings of the tree: how messages are identified, coded and replayed. Each says what it trades."""

from typing import Literal

from whence.core.levels.causal.reliability import ReliabilitySettings
from whence.errors import LimitError, SettingError


class TreeSettings(ReliabilitySettings, frozen=True, kw_only=True):
    """How messages are identified, coded, acknowledged and repeated, and how much a member keeps."""

    identity: Literal["uid", "paper"] = "uid"
    """uid: a message has a name of its own. paper: it is known by its numbers alone, as in the thesis; then a first
    copy must come on a safe path."""

    coding: Literal["predicted", "thesis", "whole"] = "predicted"
    """predicted: only what the other end cannot predict. thesis: its format, byte for byte. whole: every header stands
    alone."""

    ordered_links: bool = False
    """Links are connections that neither lose nor reorder: predicted headers need no session and no turn."""

    replay: bool = True
    """Headers contain everything near their forwarder, so that any holder may replay a copy for it. Off: only what is
    near the receiver, as in the thesis; then nobody may replay."""

    retain: bool = False
    """A message is kept until every forwarder before this node says that all its targets have it. It can then be looked
    up or replayed here while that forwarder is down. Costs memory, for some acknowledgements longer."""

    seen_max: int = 4096
    """f >= 2: numbers between other nodes that are remembered per pair. Full: a jump asks the nodes it passes over."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seen_max < 4:
            raise SettingError(f"seen_max must be at least 4, not {self.seen_max}")

    def check_room(self, records: int, retained_bytes: int) -> None:
        """Refuse to publish when a quarter of the room for records is used. Raises LimitError."""
        if records >= self.records_max // 4:
            raise LimitError("records_max // 4", self.records_max // 4, records + 1, transient=True)
        if retained_bytes > self.retained_bytes_max // 4:
            raise LimitError("retained_bytes_max // 4", self.retained_bytes_max // 4, retained_bytes, transient=True)
