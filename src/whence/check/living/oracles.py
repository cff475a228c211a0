"""The oracles of living runs by the promise they judge. Promises that other runs have too keep their names."""

from collections.abc import Callable
from typing import Final

from whence.check import determinism, duplicates
from whence.check.living import (
    agreement,
    bounds,
    causal,
    fifo,
    integrity,
    liveness,
    one_chain,
    open,
    receipts,
    strict_total,
    uniform,
    verdict,
)
from whence.check.living.members import Living
from whence.check.verdict import Verdict, vacuous

ORACLES: Final[dict[str, Callable[[Living], Verdict]]] = {
    oracle.PROMISE: oracle.judge
    for oracle in (
        integrity, duplicates, fifo, one_chain, causal, agreement, open, receipts, verdict, liveness, strict_total,
        uniform, bounds, determinism,
    )
}  # fmt: skip
"""Every promise of a living run by the name it has in JSON, and who judges it."""

ONLY_LIVING: Final = tuple(oracle.PROMISE for oracle in (one_chain, open, receipts, verdict, strict_total, uniform))
"""The promises that no other run has."""


def judge(living: Living, promise: str) -> Verdict:
    """Judge a living run by one promise; one that only other runs make is vacuous."""
    if promise not in ORACLES:
        return vacuous(promise, "groups on views do not promise it")
    return ORACLES[promise](living)
