"""Determinism: the same run gives the same rows, whatever the hash seed, start order or machine.

Two fingerprints decide. A trace alone can only show that its rows are the ones its run recorded.
"""

from whence.check.history import History
from whence.check.verdict import Outcome, Verdict, unknown
from whence.trace.memory import digest_of

PROMISE = "determinism"


def judge(history: History) -> Verdict:
    """Judge whether the rows have the fingerprint that the run recorded."""
    recorded = history.run.digest
    if recorded is None:
        return unknown(PROMISE, "the run recorded no fingerprint of its rows; run the same seed again and compare")
    return compare(recorded, digest_of(history.trace))


def compare(first: str, second: str) -> Verdict:
    """Judge whether two runs of one seed left the same fingerprint."""
    if first == second:
        return Verdict(promise=PROMISE, outcome=Outcome.HOLDS, sentence=f"both fingerprints are {first}")
    return Verdict(
        promise=PROMISE, outcome=Outcome.BROKEN, sentence=f"one fingerprint is {first}, the other {second}", count=1
    )
