"""The swarm draws a scenario from a seed. Each draw turns on a random subset of the faults, so that they also meet
in combinations nobody thought of.

A schedule has a safety phase, in which anything goes wrong; then everything heals; the members find each other again
and flush what is still pending; then comes the liveness phase, on which the promises about arrival are measured.
"""

from collections.abc import Callable

from whence.sim.canary import CANARY
from whence.sim.lab import LIVING, RIVALS, check_level, required
from whence.sim.scenario import Scenario
from whence.sim.swarm import gossip, living, merge, tickets, tree

SWARMS: dict[str, Callable[[str, int], Scenario]] = {
    "eventual": gossip.draw,
    "fifo": gossip.draw,
    CANARY: gossip.draw_gossiped,
    "optimistic": tickets.draw,
    "causal": tree.draw,
    "total": merge.draw,
}
"""The function that draws the scenarios of each level; the lab draws those of rivals."""

LIVING_SWARMS: dict[str, Callable[[str, int], Scenario]] = {
    "causal-living": living.draw,
    "total-strict": living.draw_strict,
}
"""The function that draws the scenarios of each kind of group on views."""


def draw(level: str, seed: int) -> Scenario:
    """Return the scenario of a seed. Raises UsageError for an unknown level, or kind of group on views."""
    check_level(level, (*SWARMS, *LIVING, *RIVALS))
    if level in LIVING:
        return LIVING_SWARMS[level](LIVING[level], seed)
    swarms = required(f"level {level!r}").SWARMS if level in RIVALS else SWARMS
    return swarms[level](level, seed)
