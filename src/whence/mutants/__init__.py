"""Planted bugs: each level's parts, wrong in one way. The oracles must catch every one of them."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from whence.core.levels import GOSSIP, LEVELS, Recipe
from whence.errors import UsageError
from whence.mutants import direct, gossip, localized, merge, node, optimistic, orders, taking, tickets, views


class Mutant(Struct, frozen=True):
    """A bug, the promise it breaks, and how to plant it."""

    name: str
    law: str
    """The promise that must be found broken; `crash` where it makes a member fail."""
    bug: str
    """What the code does wrong, in a sentence."""
    plant: Callable[[Any], Recipe]
    """Takes the level's own recipe and returns it with the bug."""
    levels: tuple[str, ...] = ("eventual", "fifo")


CANARY = "canary"
"""A level that claims what `fifo` promises and is wrong on purpose: an exploration that lets it pass is blind."""

MUTANTS: tuple[Mutant, ...] = tuple(
    Mutant(*bug)
    for module in (orders, gossip, views, node, localized, direct, taking, merge, tickets, optimistic)
    for bug in module.BUGS
)


def mutants_of(level: str) -> list[Mutant]:
    """Return the bugs that can be planted in a level."""
    return [mutant for mutant in MUTANTS if level in mutant.levels]


def find(level: str, name: str) -> Mutant:
    """Return a level's bug by name. Raises UsageError that lists what there is."""
    known = {mutant.name: mutant for mutant in mutants_of(level)}
    if name not in known:
        raise UsageError(f"no mutant of {level} is called {name!r}; there are: {', '.join(known)}")
    return known[name]


def recipe_with(level: str, mutant: str | None) -> Recipe:
    """Return a level's recipe, with a bug planted if one is named. Raises UsageError for an unknown level or bug."""
    if level == CANARY:
        return GOSSIP["fifo"]._replace(order=orders.delivers_on_arrival)
    if level not in LEVELS:
        raise UsageError(f"level {level!r} is unknown; there are: {', '.join(LEVELS)}")
    return LEVELS[level] if mutant is None else find(level, mutant).plant(LEVELS[level])
