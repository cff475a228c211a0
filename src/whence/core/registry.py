"""The levels by name: the only place in core that imports them. A new level is a folder in core/levels/, its name in
types.py and a line here."""

from whence.core.level import LevelSpec, Retained, remembers
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
    spec: object = LEVELS.get(level)
    return (isinstance(spec, Retained) and spec.may_be_retained) or remembers(spec, settings)
