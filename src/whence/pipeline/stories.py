"""Stories: how the promises broke that were found broken, in a few steps each, as in `whence check`.

A story is made in this process from one run's whole trace, so only small runs get one; for others the sentences of the
violations say what happened.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from whence.check.explain import story
from whence.check.history import History
from whence.check.judge import history_of
from whence.check.verdict import Outcome, Verdict
from whence.errors import TraceError
from whence.pipeline.events import Input
from whence.pipeline.storage import UriPath, bytes_below, listed
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
    places = [place for below in found.files.values() for place in below if f"run_id={run_id}" in place.parts]
    if not places or bytes_below(places) > RUN_BYTES_MAX:
        return None
    at = places[0].parts.index(f"run_id={run_id}")
    try:
        if isinstance(places[0], Path):
            return history_of(read_trace(Path(*places[0].parts[: at + 1])))
        with TemporaryDirectory(prefix="whence-") as scratch:
            run = next(each for each in (places[0], *_above(places[0])) if each.name == f"run_id={run_id}")
            return history_of(read_trace(_copied(run, Path(scratch))))
    except TraceError:
        return None


def _above(place: UriPath) -> Iterator[UriPath]:
    while len(place.parts) > 1:
        place = place.parent
        yield place


def _copied(run: UriPath, scratch: Path) -> Path:
    """Copy a small run to this machine's disk; return where it is."""
    for row in listed([run]).select("path", "content").collect():
        file = scratch / run.name / row["path"].split(f"/{run.name}/", 1)[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(row["content"])
    return scratch / run.name
