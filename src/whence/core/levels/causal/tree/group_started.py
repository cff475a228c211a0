"""The first record of a group with fixed members: its processes by place, and its founders.

Law: a process is a member of such a group if and only if its journal says so. Its present incarnation says nothing
about that: the founders are the incarnations that first met. A journal without this record belongs to a process that
has not started. A journal with other processes is refused: its numbers belong to places, and these would be others.
It is read before all others: a tree cannot read the records of a living group.
Source: LoCaMu, section 4.8.
"""

from collections.abc import Sequence

from msgspec import DecodeError, Struct, msgpack

from whence.errors import StorageError
from whence.types import Process


class GroupStarted(Struct, frozen=True, tag=32, array_like=True, gc=False):
    """The processes by place; the founders, if this process knew them; and the layout that numbers depend on."""

    processes: list[int]
    founders: list[tuple[int, int]]
    spread: str


def group_started(processes: Sequence[int], founders: Sequence[Process], spread: str) -> GroupStarted:
    """Return the record of a group that starts now."""
    return GroupStarted(list(processes), [(founder.pid, founder.incarnation) for founder in founders], spread)


_decoder: msgpack.Decoder[GroupStarted] = msgpack.Decoder(GroupStarted)


def founders_in(records: Sequence[bytes], processes: Sequence[int], spread: str) -> list[Process]:
    """Return the founders that a journal names.

    Raises StorageError if the journal belongs to other processes, or to a group with another layout.
    """
    if not records:
        return []
    try:
        known = _decoder.decode(records[0])
    except DecodeError:
        raise _refused("spread=mesh, or in another way", f"{spread} is asked for", "give the settings") from None
    if known.processes != list(processes):
        raise _refused(f"the processes {_listed(known.processes)}", f"{_listed(processes)} are named", "name those")
    if known.spread != spread:
        raise _refused(known.spread, f"{spread} is asked for", "give the settings")
    return [Process(*founder) for founder in known.founders]


def _refused(then: str, now: str, what: str) -> StorageError:
    return StorageError(
        f"the journal is of a group that began with {then}, and now {now}; {what} it began with, or open a group "
        "of another name"
    )


def _listed(processes: Sequence[int]) -> str:
    return ", ".join(map(str, processes))
