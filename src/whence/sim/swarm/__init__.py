"""The swarm: draws a scenario from a seed. Each draw turns on a random subset of the faults, so that they also meet
in combinations nobody thought of.

A schedule has a safety phase, in which anything goes wrong; then everything heals; the members find each other again
and flush what they still wait for; then comes the liveness phase, on which the promises about arrival are measured.
"""

from collections.abc import Callable

from whence.errors import UsageError
from whence.sim.lab import RIVALS, required
from whence.sim.scenario import Scenario
from whence.sim.swarm import gossip, merge, tickets, tree

SWARMS: dict[str, Callable[[str, int], Scenario]] = {
    "eventual": gossip.draw,
    "fifo": gossip.draw,
    "canary": gossip.draw,
    "optimistic": tickets.draw,
    "causal": tree.draw,
    "total": merge.draw,
}
"""Who draws the scenarios of a level."""


def draw(level: str, seed: int) -> Scenario:
    """Draw the scenario of a seed. Raises UsageError for a level that nobody draws for."""
    if level in RIVALS:
        return required(f"level {level!r}").SWARMS[level](level, seed)
    if level not in SWARMS:
        raise UsageError(f"level {level!r} is unknown; there are: {', '.join((*SWARMS, *RIVALS))}")
    return SWARMS[level](level, seed)
