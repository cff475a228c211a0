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
from whence.check.levels import is_living, promises_of
from whence.check.living import oracles as living
from whence.check.living.members import Living
from whence.check.verdict import Verdict, vacuous
from whence.errors import UsageError
from whence.trace.memory import Trace


def _only_on_views(promise: str) -> Callable[[History], Verdict]:
    return lambda _: vacuous(promise, "only groups on views promise it")


ORACLES: Final[dict[str, Callable[[History], Verdict]]] = {
    oracle.PROMISE: oracle.judge
    for oracle in (
        integrity, duplicates, fifo, causal, optimistic, total, keys, agreement, liveness, ticket_exclusivity,
        ticket_coverage, bounds, views, determinism,
    )
} | {promise: _only_on_views(promise) for promise in living.ONLY_LIVING}  # fmt: skip
"""Every promise by the name it has in JSON, and who judges it in runs that are not living."""


def judge(trace: Trace, promises: Iterable[str] | None = None) -> list[Verdict]:
    """Judge a trace by these promises, or by those of its run. Raises UsageError for an unknown promise."""
    return judge_history(history_of(trace), promises)


def history_of(trace: Trace) -> History:
    """Return a trace as its oracles see it."""
    return Living(trace) if is_living(trace.run) else History(trace)


def judge_history(history: History, promises: Iterable[str] | None = None) -> list[Verdict]:
    """Judge a history that is already built. Raises UsageError for an unknown promise."""
    asked = promises_of(history.run) if promises is None else tuple(promises)
    for promise in asked:
        if promise not in ORACLES:
            raise UsageError(f"no promise is called {promise!r}; known are {', '.join(ORACLES)}")
    if not is_living(history.run):
        return [ORACLES[promise](history) for promise in asked]
    run = history if isinstance(history, Living) else Living(history.source)
    return [living.judge(run, promise) for promise in asked]
