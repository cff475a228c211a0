"""The way to whence_lab, which is installed apart: rivals, planted bugs and reference versions, for simulations only.

Nothing in whence imports it; what needs it asks here, and where it is missing, says what to install.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol, cast

from whence.core.level import Recipe
from whence.core.registry import LEVELS
from whence.errors import UsageError
from whence.sim.canary import CANARY
from whence.sim.canary import RECIPE as CANARY_RECIPE
from whence.sim.scenario import Scenario

RIVALS = ("cbcast", "barriers", "neighbourhood")
"""The levels that only the lab has."""

CATALOGUE = "whence_lab.catalogue"


class Bug(Protocol):
    """A planted bug."""

    name: str
    bug: str
    """What the code does wrong, in a sentence."""
    law: str
    """The promise that must be found broken; `crash` where it makes a member fail."""


class Lab(Protocol):
    """What the lab has to offer a simulation."""

    LEVELS: Mapping[str, Recipe]
    """Rivals, and levels of ours with reference versions of some parts."""
    SWARMS: Mapping[str, Callable[[str, int], Scenario]]

    def mutants_of(self, level: str) -> list[Any]:
        """Return the bugs that can be planted in a level."""

    def recipe_with(self, level: str, mutant: str) -> Recipe:
        """Return a level's recipe with a bug planted. Raises UsageError for an unknown one."""


def installed() -> Lab | None:
    """Return the lab, if it is installed."""
    try:
        return cast(Lab, import_module(CATALOGUE))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != CATALOGUE.partition(".")[0]:
            raise
        return None


def required(what: str) -> Lab:
    """Return the lab. Raises UsageError that says what to install where it is missing."""
    lab = installed()
    if lab is None:
        raise UsageError(f"{what} is part of whence-lab, which is not installed: pip install whence-lab")
    return lab


def recipe_of(level: str, mutant: str | None = None) -> Recipe:
    """Return the recipe of a level, with a bug planted if one is named. Raises UsageError if there is none."""
    if level == CANARY:
        return CANARY_RECIPE
    if mutant is not None:
        return required(f"the planted bug {mutant!r}").recipe_with(level, mutant)
    if level in RIVALS:
        return required(f"level {level!r}").LEVELS[level]
    if level not in LEVELS:
        raise UsageError(f"level {level!r} is unknown; there are: {', '.join((*LEVELS, *RIVALS))}")
    lab = installed()
    return LEVELS[level] if lab is None else lab.LEVELS.get(level, LEVELS[level])


def mutants_of(level: str) -> list[Bug]:
    """Return the bugs that can be planted in a level. Raises UsageError where the lab is not installed."""
    return required("a planted bug").mutants_of(level)
