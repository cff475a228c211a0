"""The epoch of a view, one integer: which group the view belongs to, in which generation, and its number there.

Laws: what compares, sends or stores an epoch compares, sends and stores all of it. A later generation compares before
everything else. The birth tells groups of one name apart that were begun separately; the fork, generations that two
operators forced separately. The number goes on through generations: a view has one more than the view before it.
"""

from typing import Final

NUMBER_BITS: Final = 26
FORK_BITS: Final = 12
BIRTH_BITS: Final = 18
GENERATION_BITS: Final = 6

NUMBER_MAX: Final = (1 << NUMBER_BITS) - 1
"""The number of a group's last view: a change a second for two years. Then an operator begins another group."""

BIRTHS: Final = 1 << BIRTH_BITS
FORKS: Final = 1 << FORK_BITS

GENERATION_MAX: Final = (1 << GENERATION_BITS) - 1
"""How often an operator may force a group."""

_BIRTH_AT: Final = NUMBER_BITS + FORK_BITS
_GENERATION_AT: Final = _BIRTH_AT + BIRTH_BITS

EPOCH_MAX: Final = (1 << (_GENERATION_AT + GENERATION_BITS)) - 1


def first_epoch(birth: int) -> int:
    """Return the epoch of a group's first view."""
    return birth % BIRTHS << _BIRTH_AT


def forced_epoch(epoch: int, fork: int) -> int:
    """Return the epoch with which an operator's generation begins, after a view of the one before."""
    generation, birth, number = generation_of(epoch) + 1, birth_of(epoch), number_of(epoch) + 1
    return (generation << _GENERATION_AT) | (birth << _BIRTH_AT) | (fork % FORKS << NUMBER_BITS) | number


def number_of(epoch: int) -> int:
    """Return how many views came before, in all generations."""
    return epoch & NUMBER_MAX


def generation_of(epoch: int) -> int:
    """Return how often the group was forced before this view."""
    return epoch >> _GENERATION_AT


def forced_since(epoch: int, known: int) -> int:
    """Return the generation of a view if an operator forced it after one that is known; 0 if not."""
    return generation_of(epoch) if generation_of(epoch) > generation_of(known) else 0


def birth_of(epoch: int) -> int:
    """Return what tells this group from others of its name."""
    return epoch >> _BIRTH_AT & (BIRTHS - 1)


def line_of(epoch: int) -> int:
    """Return what all views of one generation of one group share, and no others."""
    return epoch >> NUMBER_BITS


def is_founding(epoch: int) -> bool:
    """Tell whether this is the epoch of a group's first view."""
    return epoch & NUMBER_MAX == 0


def is_foreign(epoch: int, other: int) -> bool:
    """Tell whether two views belong to different groups: begun separately, or forced separately."""
    if epoch >> NUMBER_BITS == other >> NUMBER_BITS:
        return False
    return birth_of(epoch) != birth_of(other) or generation_of(epoch) == generation_of(other)


def view_name(epoch: int) -> str:
    """Return the view's number for sentences, with its generation if the group was forced."""
    generation = generation_of(epoch)
    return f"{number_of(epoch)} of generation {generation}" if generation else str(number_of(epoch))
