"""The promises of each level: the one table of levels that oracles read."""

from typing import Final

from whence.errors import UsageError
from whence.trace.memory import Run

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
    "vcube": _CAUSAL,
    "scribe": ("integrity", *_ARRIVAL),
    "gryphon": (*_BASE, "fifo", *_ARRIVAL),
    "plumtree": (*_BASE, *_ARRIVAL),
    "thicket": (*_BASE, *_ARRIVAL),
    "canary": _FIFO,
}
"""What each level promises. The canary promises what it is known to break."""

LIVING: Final = (
    *_BASE,
    "fifo",
    "one_chain",
    "causal",
    "agreement",
    "open",
    "receipts",
    "verdict",
    "liveness",
    "bounds",
)
"""What groups on views promise (docs/papers/views.md 1), whatever else their level does."""

STRICT: Final = ("strict_total", "uniform")
"""What a strict group on views promises besides; `uniform` only where it is set."""

KEYED: Final = tuple(level for level, promises in PROMISES_OF.items() if "keys" in promises)
"""The levels whose mergers give every event a key, and hold it until its place in the order is known."""

KNOWN: Final = tuple(
    dict.fromkeys((*(name for promises in PROMISES_OF.values() for name in promises), *LIVING, *STRICT, "determinism"))
)
"""Every promise that some run can make."""


def promises_of(run: Run) -> tuple[str, ...]:
    """Return what a run promises: its parameter `promises`, else what its level does. Raises UsageError.

    A run with the parameter membership = "living" promises what groups on views do, and with strict = True one sequence
    besides.
    """
    stated = run.parameters.get("promises")
    if isinstance(stated, list | tuple):
        if unknown := [name for name in stated if name not in KNOWN]:
            raise UsageError(f"no promise is called {unknown[0]!r}; known are {', '.join(KNOWN)}")
        return tuple(stated)
    if is_living(run):
        strict = STRICT[: 1 + bool(run.parameters.get("uniform"))] if run.parameters.get("strict") else ()
        return (*LIVING, *strict)
    if run.level not in PROMISES_OF:
        raise UsageError(f"no level is called {run.level!r}; known are {', '.join(PROMISES_OF)}")
    return PROMISES_OF[run.level]


def is_living(run: Run) -> bool:
    """Return whether a run's members come and go by views."""
    return run.parameters.get("membership") == "living"
