"""Which events are missing: the ids between what was delivered and what a bundle follows.

An id is (ticket, entry). Ids are listed within an epoch; of earlier epochs only those up to a known base are, and the
rest is skipped. Source: docs/papers/optimistic.md 6.3, 6.6; traps C2, C12.
"""

from collections import deque
from collections.abc import Callable, Iterator

from whence.core.clocks.cct import Stamp, entry_of, epoch_of, number_of

Id = tuple[int, int]
"""Ticket and entry."""

BaseOf = Callable[[int, int], int]
"""Returns where an epoch of a ticket began, or 0 if that is not known."""


def entries_in(stamp: Stamp) -> range:
    """Return the entries of all events of a bundle."""
    return range(stamp.before + 1, stamp.entry + 1)


def newest_missing(stamp: Stamp, clock: list[int], base_of: BaseOf, ids_max: int) -> list[Id]:
    """Return the newest ids a bundle follows that the clock has not reached: at most one more than `ids_max`.

    Bounded while they are listed: a gap of years must not be written out.
    """
    window: deque[Id] = deque(maxlen=ids_max + 1)
    for ticket, upto in enumerate(stamp.vector):
        own = ticket == stamp.ticket
        end = stamp.before if own else upto
        since = clock[ticket]
        near = max(since, end - ids_max - 1)
        if epoch_of(since) == epoch_of(end) or number_of(end) > 4 * ids_max:
            since = near
        window.extend(ids_between(ticket, since, end, stamp.base if own else base_of(ticket, epoch_of(end))))
    return list(window)


def ids_between(ticket: int, since: int, upto: int, base: int) -> Iterator[Id]:
    """Yield a ticket's ids above one entry up to another: in the later epoch, and before it up to a known base."""
    if upto <= since:
        return
    epoch = epoch_of(upto)
    if epoch_of(since) == epoch:
        yield from ((ticket, entry) for entry in range(since + 1, upto + 1))
        return
    if base > since:
        first = since + 1 if epoch_of(base) == epoch_of(since) else entry_of(epoch_of(base), 1)
        yield from ((ticket, entry) for entry in range(first, base + 1))
    yield from ((ticket, entry) for entry in range(entry_of(epoch, 1), upto + 1))
