"""Everything that can be set for a group of level `optimistic`, each with what it trades."""

from msgspec import Struct

from whence.core.dissemination.direct import DirectSettings
from whence.core.dissemination.gossip import GossipSettings
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.membership.settings import ViewSettings
from whence.errors import SettingError
from whence.limits import ROUNDS_MAX, Limits

MODES = ("R1", "Rk", "R1+Rk", "none")


class DeliverySettings(Struct, frozen=True, kw_only=True):
    """How long a bundle waits for what it follows, and who is asked for it. Rounds are gossip rounds."""

    hold_rounds: int = 6
    """Rounds a bundle waits for what it follows before that is asked for: as long as an event takes to spread."""
    recover_rounds: int = 6
    """Rounds from asking to skipping: at least a round trip. The paper takes as long as an event takes to spread."""
    recovery: str = "R1+Rk"
    """R1: ask the publisher. Rk: ask `recovery_fanout` members. R1+Rk: first the publisher, then members. none: what is
    missing is skipped and reported, never asked for."""
    recovery_fanout: int = 4
    """Members asked at once; 2 × p_f × N by Theorem 5.2. `whence size` prints what suits."""
    recovery_bundles: int = 512
    """Bundles kept for others; twice the bundles published while an event must stay recoverable, by Theorem 5.1."""
    recovery_bytes: int = 8 << 20
    """Their bytes. Full: the oldest are forgotten, and whoever lost them too skips them."""
    recovery_ids: int = 64
    """Ids asked for on behalf of one bundle, the newest."""
    recovery_rate: float = 64.0
    """Ids a process asks for per round, and bundles it answers with; four times as many in a burst."""

    def __post_init__(self) -> None:
        for name in ("hold_rounds", "recover_rounds"):
            if not 1 <= getattr(self, name) <= ROUNDS_MAX:
                raise SettingError(f"{name} must be from 1 to {ROUNDS_MAX}, not {getattr(self, name)}")
        if self.recovery not in MODES:
            raise SettingError(f"recovery must be one of {', '.join(MODES)}, not {self.recovery!r}")
        for name in ("recovery_fanout", "recovery_bundles", "recovery_bytes", "recovery_ids", "recovery_rate"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, not {getattr(self, name)}")


class OptimisticSettings(Struct, frozen=True, kw_only=True):
    """The settings of all parts. Names are unique across the parts."""

    gossip: GossipSettings = GossipSettings()
    views: ViewSettings = ViewSettings()
    layer: DeliverySettings = DeliverySettings()
    tickets: TicketSettings = TicketSettings(seeds="0,1,2,3")
    direct: DirectSettings = DirectSettings()
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.views.view == "partial" and self.views.view_size <= self.gossip.fanout:
            raise SettingError(f"view_size ({self.views.view_size}) must exceed fanout ({self.gossip.fanout})")
