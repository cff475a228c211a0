"""All oracles by the promise they judge, and the functions that judge a trace by its promises."""

from collections.abc import Callable, Iterable
from typing import Final

from whence.check import (
    agreement,
    bounds,
    causal,
    determinism,
    duplicates,
    fifo,
    integrity,
    keys,
    liveness,
    optimistic,
    ticket_coverage,
    ticket_exclusivity,
    total,
    views,
)
from whence.check.history import History
from whence.check.levels import promises_of
from whence.check.verdict import Verdict
from whence.errors import UsageError
from whence.trace.memory import Trace

ORACLES: Final[dict[str, Callable[[History], Verdict]]] = {
    oracle.PROMISE: oracle.judge
    for oracle in (
        integrity, duplicates, fifo, causal, optimistic, total, keys, agreement, liveness, ticket_exclusivity,
        ticket_coverage, bounds, views, determinism,
    )
}  # fmt: skip
"""Every promise by the name it has in JSON, and who judges it."""


def judge(trace: Trace, promises: Iterable[str] | None = None) -> list[Verdict]:
    """Judge a trace by these promises, or by those of its run. Raises UsageError for an unknown promise."""
    return judge_history(History(trace), promises)


def judge_history(history: History, promises: Iterable[str] | None = None) -> list[Verdict]:
    """Judge a history that is already built. Raises UsageError for an unknown promise."""
    asked = promises_of(history.run) if promises is None else tuple(promises)
    for promise in asked:
        if promise not in ORACLES:
            raise UsageError(f"no promise is called {promise!r}; known are {', '.join(ORACLES)}")
    return [ORACLES[promise](history) for promise in asked]
