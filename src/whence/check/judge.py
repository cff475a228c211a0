"""Which promises each level makes, and the one function that judges a trace by them."""

from collections.abc import Callable, Iterable
from typing import Final

from whence.check import (
    agreement,
    bounds,
    causal,
    coverage,
    determinism,
    duplicates,
    fifo,
    integrity,
    keys,
    liveness,
    optimistic,
    tickets,
    total,
    views,
)
from whence.check.history import History
from whence.check.verdict import Verdict
from whence.errors import UsageError
from whence.trace.memory import Run, Trace

ORACLES: Final[dict[str, Callable[[History], Verdict]]] = {
    oracle.PROMISE: oracle.judge
    for oracle in (
        integrity, duplicates, fifo, causal, optimistic, total, keys, agreement, liveness, tickets, coverage, bounds,
        views, determinism,
    )
}  # fmt: skip
"""Every promise by the name it has in JSON, and who judges it."""

_BASE = ("integrity", "no_duplicates")
_ARRIVAL = ("agreement", "liveness", "bounds")
_CAUSAL = (*_BASE, "fifo", "causal", *_ARRIVAL)
_FIFO = (*_BASE, "fifo", *_ARRIVAL, "views")

PROMISES_OF: Final[dict[str, tuple[str, ...]]] = {
    "eventual": (*_BASE, *_ARRIVAL, "views"),
    "fifo": _FIFO,
    "optimistic": (*_BASE, "optimistic_causal", "ticket_exclusivity", "ticket_coverage", *_ARRIVAL, "views"),
    "causal": _CAUSAL,
    "total": (*_BASE, "fifo", "total_order", "keys", "optimistic_causal", *_ARRIVAL),
    "cbcast": _CAUSAL,
    "barriers": _CAUSAL,
    "neighbourhood": (*_BASE, "fifo", *_ARRIVAL),
    "canary": _FIFO,
}
"""What each level promises. The canary promises what it is known to break."""


def judge(trace: Trace, promises: Iterable[str] | None = None) -> list[Verdict]:
    """Judge a trace by these promises, or by those of its run. Raises UsageError for a promise nobody knows."""
    return judge_history(History(trace), promises)


def judge_history(history: History, promises: Iterable[str] | None = None) -> list[Verdict]:
    """Judge a history that is already built. Raises UsageError for a promise nobody knows."""
    asked = promises_of(history.run) if promises is None else tuple(promises)
    for promise in asked:
        if promise not in ORACLES:
            raise UsageError(f"no promise is called {promise!r}; known are {', '.join(ORACLES)}")
    return [ORACLES[promise](history) for promise in asked]


def promises_of(run: Run) -> tuple[str, ...]:
    """Return what a run promises: its parameter `promises`, else what its level does. Raises UsageError."""
    stated = run.parameters.get("promises")
    if isinstance(stated, list | tuple):
        return tuple(map(str, stated))
    if run.level not in PROMISES_OF:
        raise UsageError(f"no level is called {run.level!r}; known are {', '.join(PROMISES_OF)}")
    return PROMISES_OF[run.level]
