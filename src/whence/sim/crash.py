"""The promise `crash`: members and oracles raise no exception in a schedule.

An exception is reported with its place in the code, its process and its time, and shrunk like any broken promise.
"""

from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb
from types import FrameType

from msgspec import Struct

from whence.check.verdict import Outcome, Verdict, Violation, who
from whence.sim.process import SimProcess

PROMISE = "crash"

_PACKAGES = ("whence", "whence_lab")
"""The packages in which a crash is located; planted bugs are in the lab."""


class Crash(Struct, frozen=True, kw_only=True):
    """An exception that nobody expected."""

    error: str
    """Its type and message."""
    where: str
    """The last line of our code that it came through."""
    kind: str
    """Its type and the function it was raised in: the same for the same bug in a smaller schedule."""
    node: int
    inc: int
    at_ns: int | None = None
    """The true time at which it ended the run; None if the run was complete and an oracle failed."""


def crash_of(error: Exception, at_ns: int | None = None) -> Crash:
    """Return a description of an exception that ended a run or, without a time, the judgement of one."""
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__) if _package_of(frame) in _PACKAGES]
    frame, line = frames[-1]
    code, path = frame.f_code, _path_in_package(frame)
    process = next(_processes(error), None)
    return Crash(
        error=f"{type(error).__name__}: {error}", where=f"{path}, line {line}, in {code.co_qualname}",
        kind=f"{type(error).__name__} in {path} {code.co_qualname}",
        node=process.pid if process else 0, inc=process.incarnation if process else 1, at_ns=at_ns,
    )  # fmt: skip


def crash_verdict(crash: Crash) -> Verdict:
    """Return the verdict `broken` on the promise `crash`."""
    if crash.at_ns is None:
        sentence = f"an oracle failed on the trace with {crash.error} ({crash.where})"
    else:
        sentence = f"{who(crash.node, crash.inc)} failed with {crash.error} ({crash.where})"
    violation = Violation(promise=PROMISE, node=crash.node, inc=crash.inc, sentence=sentence)
    return Verdict(promise=PROMISE, outcome=Outcome.BROKEN, sentence=sentence, violations=[violation], count=1)


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _path_in_package(frame: FrameType) -> str:
    parts = Path(frame.f_code.co_filename).parts
    below = parts[::-1].index(_package_of(frame))
    return "/".join(parts[len(parts) - below :])


def _processes(error: Exception) -> Iterator[SimProcess]:
    """Yield the simulated processes that an exception came through, the outermost first."""
    for frame, _ in walk_tb(error.__traceback__):
        if isinstance(own := frame.f_locals.get("self"), SimProcess):
            yield own
