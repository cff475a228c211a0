"""The first record of a group with fixed members: that this process began it, with whom, and who stands at which place.

Law: a process is a member of such a group if its journal says so, and only then. What it is called in its present life
says nothing about it: a group begins with the lives that its founders have when they first meet. A journal without
this record is that of a process which has not begun; one of other processes is refused, because places, and with them
all numbers in it, would mean others.
"""

from collections.abc import Sequence

from msgspec import Struct

from whence.errors import StorageError
from whence.types import Process

OWN_LOST = "own_lost"
"""Why a member must stop: another has more of its messages than it knows of. It would give their numbers to others."""


BEFORE = {"spread=direct": "spread=mesh"}
"""What journals of before say, in today's words."""


class GroupStarted(Struct, frozen=True, tag=32, array_like=True, gc=False):
    """The processes by place, the founders as they were called, if this one was told, and how messages spread."""

    processes: list[int]
    founders: list[tuple[int, int]]
    spread: str


def group_started(processes: Sequence[int], founders: Sequence[Process], spread: str) -> GroupStarted:
    """Return the record of a group that begins now."""
    return GroupStarted(list(processes), [(founder.pid, founder.boot) for founder in founders], spread)


def founders_in(entries: Sequence[object], processes: Sequence[int], spread: str) -> list[Process]:
    """Return the founders that a journal tells of.

    Raises StorageError if it is that of other processes, or of a group that spread otherwise.
    """
    told = [entry for entry in entries if isinstance(entry, GroupStarted)]
    known = told[-1] if told else GroupStarted(list(range(len(processes))), [], spread)  # before journals said so
    if entries and known.processes != list(processes):
        raise _refused(f"the processes {_listed(known.processes)}", f"{_listed(processes)} are named", "those")
    then = BEFORE.get(known.spread, known.spread)
    if then != spread:
        raise _refused(then, f"{spread} is asked for", "what")
    return [Process(*founder) for founder in known.founders]


def _refused(then: str, now: str, what: str) -> StorageError:
    return StorageError(
        f"the journal is of a group that began with {then}, and now {now}; name {what} it began with, or open a group "
        "of another name"
    )


def _listed(processes: Sequence[int]) -> str:
    return ", ".join(map(str, processes))


def own_lost(group: str, peer: int | None) -> StorageError:
    """Return what to stop with when another has messages of this member that its journal does not know of."""
    return StorageError(
        f"process {peer} has events that this one published to group {group!r}, and its journal does not know of them: "
        "an older data directory, or one whose end is lost. Give it the newest (data=…, --data), or begin a group of "
        "another name"
    )
