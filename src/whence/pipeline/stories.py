"""Stories: how the promises that Spark found broken broke, in a few steps each, as `whence check` tells them.

A story is told by the in-process oracles' teller from one run's whole trace, so only runs that are small enough for one
process get one; of others, the witnesses' sentences say what happened.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from whence.check.explain import story
from whence.check.history import History
from whence.check.verdict import Outcome, Verdict
from whence.errors import TraceError
from whence.pipeline.events import Input
from whence.pipeline.verify import Verified
from whence.trace.reader import read_trace

STORIES_MAX: Final = 8
"""Broken promises told of: what breaks in many runs tells itself in a few."""
SENTENCES_MAX: Final = 3
STEPS_MAX: Final = 16
RUN_BYTES_MAX: Final = 8 << 20
"""Traces up to this are read whole for their stories: some hundred thousand rows, in seconds."""


class Told(NamedTuple):
    """What is told of one broken promise of one run."""

    run_id: str
    promise: str
    sentences: list[str]
    steps: list[str]
    """The story of the first violation, unnumbered; none where the trace is too large or cannot be read."""
    more: str
    """How many violations are left out; empty where none are."""


def stories(found: Input, judged: Verified, most: int = STORIES_MAX) -> list[Told]:
    """Tell of the first broken promises: what happened, and how, where the run is small enough."""
    told: list[Told] = []
    for run, verdicts in judged.runs:
        broken = [verdict for verdict in verdicts if verdict.outcome is Outcome.BROKEN][: most - len(told)]
        history = _history(found, run.run_id) if broken else None
        told += [_told(run.run_id, verdict, history) for verdict in broken]
    return told


def more_stories(judged: Verified, told: Sequence[Told]) -> str:
    """Say how many broken promises are not told of; empty where none are left."""
    broken = sum(verdict.outcome is Outcome.BROKEN for _, verdicts in judged.runs for verdict in verdicts)
    left = broken - len(told)
    return f"and {left:,} more broken promises" if left > 0 else ""


def _told(run_id: str, verdict: Verdict, history: History | None) -> Told:
    shown = verdict.violations[:SENTENCES_MAX]
    steps: list[str] = []
    if history is not None and shown:
        steps = [line.split(". ", 1)[1] for line in story(history, shown[0]).lines()]
    if len(steps) > STEPS_MAX:
        half = STEPS_MAX // 2
        steps = [*steps[:half], f"({len(steps) - 2 * half:,} more steps)", *steps[-half:]]
    left = verdict.count - len(shown)
    return Told(
        run_id, verdict.promise, [each.sentence for each in shown], steps,
        f"and {left:,} more violations" if left > 0 else "",
    )  # fmt: skip


def _history(found: Input, run_id: str) -> History | None:
    """Read a run for its stories, if it is small enough and whole enough to be read."""
    files = [file for below in found.files.values() for file in below if file.parts[-3] == f"run_id={run_id}"]
    if not files or sum(file.stat().st_size for file in files) > RUN_BYTES_MAX:
        return None
    try:
        return History(read_trace(Path(*files[0].parts[:-2])))
    except TraceError:
        return None
