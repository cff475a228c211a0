"""The levels by name: the only place that lists them. A new level is a folder in core/levels/ and a line here."""

from whence.core.level import LevelSpec, remembers
from whence.core.levels.causal.level import CausalLevel
from whence.core.levels.gossip.level import GOSSIP
from whence.core.levels.optimistic.level import OptimisticLevel
from whence.core.levels.total.level import TotalLevel

LEVELS: dict[str, LevelSpec] = {
    **GOSSIP,
    "optimistic": OptimisticLevel(),
    "total": TotalLevel(),
    "causal": CausalLevel(),
}
"""Every level that a live group can have, by name."""


def stores_events(level: str, settings: object = None) -> bool:
    """Tell whether members can promise that a publication survives a crash of its process.

    Members of the other levels deliver in time or report what is missing: what a later incarnation repeats would be out
    of order. `settings`: those of one group; without, it is about a live group that is given none.
    """
    return level in GOSSIP or remembers(LEVELS.get(level), settings)
