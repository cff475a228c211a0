"""The verdict on a figure: which of the paper's sentences hold here, each with what decided."""

from typing import Literal

from msgspec import Struct

from whence_lab.figures.data import Data
from whence_lab.figures.figure import Check, Figure, Finding

Outcome = Literal["holds", "fails", "refuted", "not judged", "not decided"]
"""refuted: it does not hold, as we know and explain; not judged: it is about larger systems than were run, or nothing
happened that it speaks of, or runs that it is judged by are missing; not decided: a band contains the threshold; fails:
anything else that is not as documented."""


class Sentence(Struct, frozen=True):
    """The verdict on one sentence of the paper."""

    says: str
    where: str
    threshold: str
    seen: str
    outcome: Outcome
    because: str = ""
    """Why it does not hold, where we know."""
    has_data: bool = True
    """Whether all runs that it is judged by have a result."""


def judged(figure: Figure, data: Data) -> list[Sentence]:
    """Judge every sentence of a figure by its data."""
    return [_judged(figure, number, data) for number in range(len(figure.checks))]


def _judged(figure: Figure, number: int, data: Data) -> Sentence:
    check, read = figure.checks[number], data.unread()
    lacks = ""
    try:
        found = check.judge(read)
    except (LookupError, ZeroDivisionError, ValueError) as error:
        found = Finding(None, f"could not be judged: {error}")
        lacks = str(error)
    lacks = read.lacks() or lacks
    outcome, seen = _outcome(check, found, data, lacks)
    return Sentence(check.says, check.where, check.threshold, seen, outcome, check.known, not lacks)


def _outcome(check: Check, found: Finding, data: Data, lacks: str) -> tuple[Outcome, str]:
    """Return the outcome, and what was seen."""
    if lacks:
        return "not judged", f"not judged: {lacks}"
    small = [f"{least:,} {name}" for name, least in check.size.items() if max(data.values(name), default=0) < least]
    if small:
        return "not judged", f"{found.seen}; it is about {' and '.join(small)}, and runs were smaller"
    if found.holds is None:
        return "not judged", found.seen
    if not found.decided:
        return "not decided", f"{found.seen}; a band contains the threshold"
    if check.known:
        return ("fails", f"{found.seen}; it was not to hold") if found.holds else ("refuted", found.seen)
    return ("holds" if found.holds else "fails"), found.seen
