"""Verdicts: a promise holds, is broken (with witnesses), is unknown from this trace, or is vacuous.

A promise is vacuous where nothing was promised, or nothing happened that could have broken it: then nothing was
checked, and nobody should read that it was.

A verdict that rests on absence (something did not happen) is worth nothing when rows may be missing. So every finding
says whether it rests on absence, and in an incomplete trace only findings that rest on rows that are there count.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from whence.epochs import view_name
from whence.types import EventId

VIOLATIONS_MAX = 1000
"""Witnesses kept per verdict: more than anyone reads, few enough for one JSON line. All are counted."""


class Outcome(StrEnum):
    """The outcome of judging a promise."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    VACUOUS = "vacuous"


class Violation(Struct, frozen=True, kw_only=True):
    """One witness: where a promise broke, which events show it, and the sentence that says so."""

    promise: str
    node: int
    inc: int
    grp: str | None = None
    ids: tuple[EventId, ...] = ()
    """First the event that was treated wrongly, then the ones that show it."""
    sentence: str
    evs: tuple[int, ...] = ()
    """The rows of this process that show it, by number; the last one is where it broke."""

    @property
    def kind(self) -> str:
        """What is wrong, whoever did it: the sentence without its numbers."""
        return re.sub(r"\d[\d,.]*", "#", self.sentence)


class Verdict(Struct, frozen=True, kw_only=True):
    """The verdict on one promise."""

    promise: str
    outcome: Outcome
    sentence: str
    violations: list[Violation] = []
    count: int = 0
    """How many violations there are; at most VIOLATIONS_MAX of them are kept."""

    @property
    def holds(self) -> bool:
        """Return whether the promise was at stake, and kept for certain."""
        return self.outcome is Outcome.HOLDS

    @property
    def is_fine(self) -> bool:
        """Return whether nothing is left to worry about: the promise was kept, or was not at stake."""
        return self.outcome in (Outcome.HOLDS, Outcome.VACUOUS)


class Findings:
    """What an oracle has found against a promise so far."""

    def __init__(self, promise: str, incomplete: str | None = None) -> None:
        """Begin with nothing; `incomplete` says why rows may be missing, or is None when none are."""
        self.promise = promise
        self.violations: list[Violation] = []
        self.count = 0
        self._incomplete = incomplete

    def add(
        self,
        process: tuple[int, int],
        sentence: str,
        *,
        grp: str | None = None,
        ids: Sequence[EventId] = (),
        evs: Sequence[int] = (),
        rests_on_absence: bool = False,
    ) -> None:
        """Add one violation, unless it rests on absence and rows may be missing."""
        if rests_on_absence and self._incomplete:
            return
        self.count += 1
        if len(self.violations) < VIOLATIONS_MAX:
            node, inc = process
            self.violations.append(
                Violation(
                    promise=self.promise,
                    node=node,
                    inc=inc,
                    grp=grp,
                    ids=tuple(ids),
                    sentence=sentence,
                    evs=tuple(evs),
                )
            )

    def verdict(
        self, holds: str, broken: str | None = None, *, at_stake: int, nothing: str, doubts: str | None = None
    ) -> Verdict:
        """Return the verdict: broken if anything was found, unknown if rows may be missing or in doubt, else holds.

        `at_stake` is how many things could have broken it; where there are none it is vacuous, and `nothing` says why.
        """
        if self.count:
            more = f" (and {self.count - 1} more)" if self.count > 1 else ""
            sentence = broken or self.violations[0].sentence + more
            return Verdict(
                promise=self.promise, outcome=Outcome.BROKEN, sentence=sentence,
                violations=self.violations, count=self.count,
            )  # fmt: skip
        if self._incomplete:
            return unknown(self.promise, self._incomplete)
        if doubts:
            return unknown(self.promise, doubts)
        if not at_stake:
            return vacuous(self.promise, nothing)
        return Verdict(promise=self.promise, outcome=Outcome.HOLDS, sentence=holds)


def unknown(promise: str, why: str) -> Verdict:
    """Return the verdict that a promise cannot be judged, and why."""
    return Verdict(promise=promise, outcome=Outcome.UNKNOWN, sentence=why)


def vacuous(promise: str, why: str) -> Verdict:
    """Return the verdict that a promise was not at stake, and why."""
    return Verdict(promise=promise, outcome=Outcome.VACUOUS, sentence=why)


def who(node: int | None, inc: int | None) -> str:
    """Return the name of a process for sentences; damaged rows may lack either number."""
    return f"process {node}" if inc is None or inc <= 1 else f"process {node} in its incarnation {inc}"


def what(event: EventId) -> str:
    """Return the name of an event for sentences."""
    return f"event {event.seq} of {who(event.pid, event.incarnation)}"


def which(epoch: int | None) -> str:
    """Return the name of a view for sentences."""
    return "an unknown view" if epoch is None else f"view {view_name(epoch)}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
