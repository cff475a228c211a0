"""Named moments at which a live process is killed: around every effect that must not be half done.

Each point replaces one function of the process by one that ends it there, the next time it is reached. The process
itself knows nothing of it: what runs otherwise is the code people run.
"""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from whence.core.offsets import Offsets
from whence.core.ready import Ready
from whence.core.runner import Runner
from whence.store.consumer_offsets import ConsumerOffsets
from whence.store.directory import DataDirectory
from whence.store.log import DiskFile, Log

INSIDE = "inside a bundle"
"""The application has some events of a bundle, one of them in hand, and asks for the next."""

OF_MEMORY = ("publication not counted", "delivery not counted", "delivery counted", INSIDE, "between two numbers")
"""Only where a later life goes on from what the application has."""

INCARNATION = "boot counted"
"""Armed from the start: the incarnation number is on disk, and nothing else has happened."""

COMPACTION = ("new journal written", "new journal in place")

POINTS = (
    "before write", "half written", "before sync", "after sync", "durable, nothing sent", "sent, nothing delivered",
    *OF_MEMORY, "before acknowledged", *COMPACTION, INCARNATION,
)  # fmt: skip
"""Every named persist point."""


def die() -> None:
    """End this process as a crash would: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    """Die the next time the point is reached."""
    _ARMS[point]()


def _replace(where: Any, name: str, make: Callable[[Any], Any]) -> None:
    setattr(where, name, make(getattr(where, name)))


def _before(where: Any, name: str) -> Callable[[], None]:
    def armed() -> None:
        _replace(where, name, lambda original: lambda *given, **named: die())

    return armed


def _after(where: Any, name: str) -> Callable[[], None]:
    def armed() -> None:
        def make(original: Any) -> Any:
            def replaced(*given: Any, **named: Any) -> None:
                original(*given, **named)
                die()

            return replaced

        _replace(where, name, make)

    return armed


def _both(how: Callable[[Any, str], Callable[[], None]], one: str, other: str) -> Callable[[], None]:
    """Die at whichever of two writes of the numbers comes first: by node there are others than without."""

    def armed() -> None:
        how(ConsumerOffsets, one)()
        how(ConsumerOffsets, other)()

    return armed


def _half_written() -> None:
    def make(original: Any) -> Any:
        def replaced(file: DiskFile, pieces: Sequence[bytes]) -> None:
            data = b"".join(pieces)
            original(file, [data[: len(data) // 2]])
            die()

        return replaced

    _replace(DiskFile, "write", make)


def _sent() -> None:
    """Die when a delivery is about to be made whose Ready has sent something; what was sent has left the process."""

    def make(original: Any) -> Any:
        def replaced(runner: Runner, ready: Ready) -> None:
            if not ready.deliver:
                original(runner, ready)
                return
            original(runner, replace(ready, deliver=[], notes=[], wake_at=None))
            runner._transport._queue.func.__self__.flush()  # type: ignore[attr-defined]
            die()

        return replaced

    _replace(Runner, "perform", make)


def _in_place() -> None:
    def make(original: Any) -> Any:
        def replaced(fresh: Path, target: Path) -> None:
            original(fresh, target)
            if target.suffix == ".journal":
                die()

        return replaced

    _replace(Path, "replace", make)


def _written() -> None:
    def make(original: Any) -> Any:
        def replaced(fresh: Path, target: Path) -> None:
            if target.suffix == ".journal":
                die()
            original(fresh, target)

        return replaced

    _replace(Path, "replace", make)


def _booted() -> None:
    def make(original: Any) -> Any:
        def replaced(directory: DataDirectory, at_least: int) -> int:
            original(directory, at_least)
            die()
            return 0

        return replaced

    _replace(DataDirectory, "begin_incarnation", make)


_ARMS: dict[str, Callable[[], None]] = {
    "before write": _before(DiskFile, "write"),
    "half written": _half_written,
    "before sync": _before(DiskFile, "sync"),
    "after sync": _after(Log, "sync"),
    "durable, nothing sent": _before(Runner, "committed"),
    "sent, nothing delivered": _sent,
    "publication not counted": _before(ConsumerOffsets, "tell"),
    "delivery not counted": _both(_before, "take", "take_of"),
    "delivery counted": _both(_after, "take", "take_of"),
    INSIDE: _before(Offsets, "step"),
    "between two numbers": _both(_before, "_write_word", "hand"),
    "before acknowledged": _after(Runner, "perform"),
    "new journal written": _written,
    "new journal in place": _in_place,
    INCARNATION: _booted,
}

assert tuple(_ARMS) == POINTS
