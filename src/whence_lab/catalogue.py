"""What the lab offers a simulation: rivals, reference versions, planted bugs. whence.sim.lab asks for it by name."""

from whence.core.level import LevelSpec
from whence.core.levels.causal.level import CODINGS, CausalLevel
from whence.core.levels.causal.tree.coding import HeaderCoding
from whence.core.registry import LEVELS as BUILT
from whence.errors import UsageError
from whence.sim.lab import LIVING
from whence_lab.mutants import find, mutants_of
from whence_lab.reference.thesis import ThesisCoding
from whence_lab.rivals.level import RIVALS
from whence_lab.rivals.swarm import SWARMS

__all__ = ("LEVELS", "SWARMS", "mutants_of", "spec_with")

CAUSAL_CODINGS: dict[str, type[HeaderCoding]] = {**CODINGS, "thesis": ThesisCoding}

LEVELS: dict[str, LevelSpec] = {**RIVALS, "causal": CausalLevel(codings=CAUSAL_CODINGS)}
"""The rivals, and `causal` with the thesis's own format as a choice."""


def spec_with(level: str, mutant: str) -> LevelSpec:
    """Return a level's recipe with a bug planted. Raises UsageError for an unknown level or bug."""
    of = LIVING.get(level, level)
    spec = LEVELS.get(of) or BUILT.get(of)
    if spec is None:
        known = ", ".join((*BUILT, *LIVING, *RIVALS))
        raise UsageError(f"level {level!r} has no planted bugs; there are: {known}")
    return find(level, mutant).plant(spec)
