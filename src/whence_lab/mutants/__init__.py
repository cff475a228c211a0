"""Planted bugs: each level's parts, wrong in one way. The oracles must catch every one of them."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from whence.core.level import LevelSpec
from whence.errors import UsageError
from whence_lab.mutants import gossip, living, merge, node, optimistic, orders, rivals, taking, tickets, tree, views


class Mutant(Struct, frozen=True):
    """A bug, the promise it breaks, and how to plant it."""

    name: str
    law: str
    """The promise that must be found broken; `crash` where it makes a member fail."""
    bug: str
    """What the code does wrong, in a sentence."""
    plant: Callable[[Any], LevelSpec]
    """Takes the level's own recipe and returns it with the bug."""
    levels: tuple[str, ...] = ("eventual", "fifo")
    directed: bool = False
    """Random schedules hardly show it; a test tells one that does."""


MUTANTS: tuple[Mutant, ...] = tuple(
    Mutant(*bug)
    for module in (orders, gossip, views, node, tree, taking, merge, tickets, optimistic, living, rivals)
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
