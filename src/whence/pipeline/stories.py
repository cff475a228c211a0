"""Stories: how the promises broke that Spark found broken, in a few steps each, as in `whence check`.

A story is made in this process from one run's whole trace, so only small runs get one; for others the sentences of the
violations say what happened.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from whence.check.explain import story
from whence.check.history import History
from whence.check.judge import history_of
from whence.check.verdict import Outcome, Verdict
from whence.errors import TraceError
from whence.pipeline.events import Input
from whence.pipeline.verify import Verified
from whence.trace.reader import read_trace

STORIES_MAX: Final = 8
"""Broken promises shown: a few suffice where many runs break in the same way."""
SENTENCES_MAX: Final = 3
STEPS_MAX: Final = 16
RUN_BYTES_MAX: Final = 8 << 20
"""Traces up to this are read whole for their stories: some hundred thousand rows, in seconds."""


class BrokenPromise(NamedTuple):
    """How one promise of one run broke."""

    run_id: str
    promise: str
    sentences: list[str]
    steps: list[str]
    """The story of the first violation, unnumbered; none where the trace is too large or cannot be read."""
    more: str
    """How many violations are left out; empty where none are."""


def broken_promises(found: Input, judged: Verified, most: int = STORIES_MAX) -> list[BrokenPromise]:
    """Return the first broken promises; with the steps of the first violation where the run is small enough."""
    promises: list[BrokenPromise] = []
    for run, verdicts in judged.runs:
        broken = [verdict for verdict in verdicts if verdict.outcome is Outcome.BROKEN][: most - len(promises)]
        history = _history(found, run.run_id) if broken else None
        promises += [_broken_promise(run.run_id, verdict, history) for verdict in broken]
    return promises


def promises_left_out(judged: Verified, promises: Sequence[BrokenPromise]) -> str:
    """Return a phrase that counts the broken promises beyond those shown; empty where there are none."""
    broken = sum(verdict.outcome is Outcome.BROKEN for _, verdicts in judged.runs for verdict in verdicts)
    left = broken - len(promises)
    return f"and {left:,} more broken promises" if left > 0 else ""


def _broken_promise(run_id: str, verdict: Verdict, history: History | None) -> BrokenPromise:
    shown = verdict.violations[:SENTENCES_MAX]
    steps: list[str] = []
    if history is not None and shown:
        steps = [line.split(". ", 1)[1] for line in story(history, shown[0]).lines()]
    if len(steps) > STEPS_MAX:
        half = STEPS_MAX // 2
        steps = [*steps[:half], f"({len(steps) - 2 * half:,} more steps)", *steps[-half:]]
    left = verdict.count - len(shown)
    return BrokenPromise(
        run_id, verdict.promise, [each.sentence for each in shown], steps,
        f"and {left:,} more violations" if left > 0 else "",
    )  # fmt: skip


def _history(found: Input, run_id: str) -> History | None:
    """Read a run for its stories, if it is small enough and whole enough to be read."""
    files = [file for below in found.files.values() for file in below if file.parts[-3] == f"run_id={run_id}"]
    if not files or sum(file.stat().st_size for file in files) > RUN_BYTES_MAX:
        return None
    try:
        return history_of(read_trace(Path(*files[0].parts[:-2])))
    except TraceError:
        return None
