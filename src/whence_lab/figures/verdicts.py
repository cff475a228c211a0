"""The verdict on a figure: which of the paper's sentences hold here, each with what decided."""

from typing import Literal

from msgspec import Struct

from whence_lab.figures.data import Data
from whence_lab.figures.figure import Figure, Finding

Outcome = Literal["holds", "fails", "refuted", "not judged"]
"""refuted: it does not hold, as we know and explain; not judged: it is about larger systems than were run; fails:
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


def judged(figure: Figure, data: Data) -> list[Sentence]:
    """Judge every sentence of a figure by its data."""
    return [_judged(figure, number, data) for number in range(len(figure.checks))]


def _judged(figure: Figure, number: int, data: Data) -> Sentence:
    check = figure.checks[number]
    try:
        found = check.judge(data)
    except (LookupError, ZeroDivisionError, ValueError) as error:
        found = Finding(False, f"could not be judged: {error}")
    outcome: Outcome = "holds" if found.holds else "fails"
    seen = found.seen
    small = [f"{least:,} {name}" for name, least in check.size.items() if max(data.values(name), default=0) < least]
    if small:
        outcome, seen = "not judged", f"{seen}; it is about {' and '.join(small)}, and runs were smaller"
    elif check.known:
        outcome = "fails" if found.holds else "refuted"
        seen = f"{seen}; it was not to hold" if found.holds else seen
    return Sentence(check.says, check.where, check.threshold, seen, outcome, check.known)
