"""How large recovery must be: the paper's theorems as functions, and what they leave out.

Theorem 5.1: an event can be recovered if the buffer holds twice the events published while it must stay recoverable.
Theorem 5.2: asking twice as many members as are down on average finds a live one. J section 4.4: a free ticket is found
while fewer than half of those not in use fail. Source: docs/papers/optimistic.md 7; J sections 4.4, 5.3; traps F32,
C18, C19.
"""

from math import ceil, e, log10

from msgspec import Struct


class Sizes(Struct, frozen=True, kw_only=True):
    """What suits a load and a failure rate."""

    stay_rounds: int
    """Gossip rounds an event must stay recoverable."""
    recovery_bundles: int
    """Setting of the same name: the buffer (B)."""
    loss_log10: float
    """The chance that the buffer is too small for an event, as a power of ten; Theorem 5.1's bound."""
    recovery_fanout: int
    """Setting of the same name: members asked at once (k)."""
    success: float
    """The chance that one of them has the event and answers."""
    free_ticket: bool
    """Whether a ticket can always be had: p_f < (1 - α) / 2."""
    failures_log10: float
    """The chance that more than 2 p_f n coordinators are down at once, as a power of ten."""


def stay_rounds(spread_rounds: int, hold_rounds: int, recover_rounds: int) -> int:
    """Return for how long an event must stay recoverable: two spreads and both waits."""
    return 2 * spread_rounds + hold_rounds + recover_rounds


def buffer_size(events_per_round: float, rounds: int) -> int:
    """Return the buffer of Theorem 5.1: twice the events of those rounds."""
    return max(1, ceil(2 * events_per_round * rounds))


def overflow_log10(events_per_round: float, rounds: int) -> float:
    """Return Theorem 5.1's bound on the chance that twice the mean is exceeded: (e / 4) to the mean."""
    return events_per_round * rounds * log10(e / 4)


def fan_out(members: int, down: float) -> int:
    """Return how many members to ask by Theorem 5.2: twice as many as are down on average."""
    return max(1, ceil(2 * down * members))


def success(asked: int, holders: float, down: float, loss: float) -> float:
    """Return the chance that one of those asked has the event, is up, and neither message is lost."""
    return 1 - (1 - holders * (1 - down) * (1 - loss) ** 2) ** asked


def free_ticket(down: float, used: float) -> bool:
    """Tell whether joins are granted even when twice the mean is down: p_f < (1 - α) / 2."""
    return down < (1 - used) / 2


def sizes_for(
    *,
    members: int,
    events_per_round: float,
    down: float,
    loss: float,
    used: float,
    tickets: int,
    spread_rounds: int,
    hold_rounds: int,
    recover_rounds: int,
    holders: float = 0.5,
) -> Sizes:
    """Return everything for a cluster: its load, the part of processes down, of messages lost and of tickets in use."""
    rounds = stay_rounds(spread_rounds, hold_rounds, recover_rounds)
    asked = fan_out(members, down)
    return Sizes(
        stay_rounds=rounds,
        recovery_bundles=buffer_size(events_per_round, rounds),
        loss_log10=round(overflow_log10(events_per_round, rounds), 1),
        recovery_fanout=asked,
        success=round(success(asked, holders, down, loss), 4),
        free_ticket=free_ticket(down, used),
        failures_log10=round(down * tickets * used * log10(e / 4), 2),
    )
