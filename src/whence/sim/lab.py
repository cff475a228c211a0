"""Access to whence_lab, an optional distribution: rivals, planted bugs and reference versions, for simulations only.

Nothing else in whence imports it. Where it is missing, the error says what to install.
"""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from whence.core.level import LevelSpec
from whence.core.registry import LEVELS
from whence.errors import UsageError
from whence.sim.canary import CANARY
from whence.sim.canary import SPEC as CANARY_SPEC
from whence.sim.scenario import Scenario

RIVALS = ("cbcast", "barriers", "neighbourhood", "vcube", "scribe", "gryphon", "plumtree", "thicket")
"""The levels that only the lab has."""

REPAIRING = ("neighbourhood", "scribe", "gryphon", "plumtree", "thicket")
"""Those of them that go on when some of their members crash, and take these back."""

LOSSLESS = tuple(name for name in RIVALS if name != "gryphon")
"""Those of them that assume links that lose nothing (docs/rivals.md)."""

LIVING = {"causal-living": "causal", "total-strict": "total"}
"""Groups on views, by the name under which they are explored: the level that they are of."""

SIMULATED_ONLY: dict[str, LevelSpec] = {CANARY: CANARY_SPEC}
"""Levels of the simulator itself."""

CATALOGUE = "whence_lab.catalogue"
FIGURES = "whence_lab.figures.reproduce"


class Bug(Protocol):
    """A planted bug."""

    name: str
    bug: str
    """What the code does wrong, in a sentence."""
    law: str
    """The promise that must be found broken; `crash` where it makes a member fail."""
    directed: bool
    """Random schedules hardly show it; a test tells one that does."""


class Lab(Protocol):
    """What the lab offers a simulation."""

    LEVELS: Mapping[str, LevelSpec]
    """Rivals, and levels of ours with reference versions of some parts."""
    SWARMS: Mapping[str, Callable[[str, int], Scenario]]

    def mutants_of(self, level: str) -> list[Any]:
        """Return the bugs that can be planted in a level."""

    def spec_with(self, level: str, mutant: str) -> LevelSpec:
        """Return a level's recipe with a bug planted. Raises UsageError for an unknown one."""


class Figures(Protocol):
    """What the lab offers whoever reproduces the papers' figures."""

    FIGURES: dict[str, Any]

    def chosen(self, names: list[str]) -> list[Any]:
        """Return the figures with these names. Raises UsageError for an unknown one."""

    def reproduce(
        self, figure: Any, out: Path, *, quick: bool, seed: int = 0, master: str | None = None,
        conf: dict[str, str] | None = None, on_progress: Callable[[int, int], None] | None = None,
        on_message: Callable[[str], None] | None = None,
    ) -> Any:  # fmt: skip
        """Run, judge and draw a figure."""


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


def figures() -> Figures:
    """Return what reproduces figures. Raises UsageError that says what to install where it is missing."""
    required("reproducing figures")
    return cast(Figures, import_module(FIGURES))


def check_level(level: str, known: Collection[str]) -> None:
    """Raise UsageError that lists the levels if this is none of the known ones."""
    if level not in known:
        raise UsageError(
            f"level {level!r} is unknown; there are: {', '.join(LEVELS)}; of groups on views {', '.join(LIVING)}; "
            "with whence-lab also its rivals "
            f"{', '.join(RIVALS)}; and {CANARY}, which is wrong on purpose"
        )


def spec_of(level: str, mutant: str | None = None) -> LevelSpec:
    """Return the recipe of a level, with a bug planted if one is named. Raises UsageError if there is none."""
    if level in SIMULATED_ONLY:
        return SIMULATED_ONLY[level]
    if mutant is not None:
        return required(f"the planted bug {mutant!r}").spec_with(level, mutant)
    if level in RIVALS:
        return required(f"level {level!r}").LEVELS[level]
    check_level(level, (*LEVELS, *LIVING, *RIVALS))
    level, lab = LIVING.get(level, level), installed()
    return LEVELS[level] if lab is None else lab.LEVELS.get(level, LEVELS[level])


def kind_of(scenario: Scenario) -> str:
    """Return the name under which a scenario's kind of group is explored: its level, or one of LIVING."""
    if scenario.settings.get("membership") != "living":
        return scenario.level
    return next(kind for kind, level in LIVING.items() if level == scenario.level)


def mutants_of(level: str) -> list[Bug]:
    """Return the bugs that can be planted in a level. Raises UsageError where the lab is missing, or no level fits."""
    if level in SIMULATED_ONLY:
        raise UsageError(f"--mutant: the {level} is a planted bug itself; choose another --level")
    return required("a planted bug").mutants_of(level)
