"""Whose a file of a group is, and how often the group was opened: every journal and every counter says it, because
people copy such files.

Law: a file that says it is another process's, or of another data directory, is not opened. What a member reads there
would be another member's promises and another application's progress, and nothing that it said could be believed.
The files of a group are of one age. Each opening has a number, which is on disk in the counter, then in the journal,
then in the directory's identity, before anything else happens: so wherever a process is killed, the counter has at
least the journal's number, and both have at least the identity's. A file with less was put back from an older copy.
Files of earlier versions say neither. They are opened, and say it from then on.
"""

from struct import Struct as Layout
from struct import error as LayoutError
from typing import NamedTuple

DIRECTORY_BITS = 56
"""What a directory's number may have, so that a counter can hold it."""

_RECORD = Layout("<IQ")
_MARK, _OPENED = b"\xc1whence owner\x00", b"\xc1whence opened\x00"
"""No record of a member or a driver begins like these."""
_OPENING = Layout("<Q")


class Owner(NamedTuple):
    """A process and its data directory."""

    pid: int
    directory: int = 0
    """The number that the directory drew; 0: it is older than such numbers."""

    def refuses(self, found: "Owner") -> str:
        """Return why a file that says it is of `found` is not to be opened here; empty if it may be."""
        if found.pid != self.pid:
            return f"is that of process {found.pid}, and this is process {self.pid}"
        if self.directory and found.directory and found.directory != self.directory:
            return f"is of another data directory that process {self.pid} had"
        return ""


def owner_record(owner: Owner) -> bytes:
    """Return the record by which a journal says whose it is."""
    return _MARK + _RECORD.pack(*owner)


def owner_in(record: bytes) -> Owner | None:
    """Return whose a journal is, None if the record says something else."""
    if not record.startswith(_MARK):
        return None
    try:
        return Owner(*_RECORD.unpack(record[len(_MARK) :]))
    except LayoutError:
        return None


def opening_record(number: int) -> bytes:
    """Return the record by which a journal says how often its group was opened."""
    return _OPENED + _OPENING.pack(number)


def opening_in(record: bytes) -> int | None:
    """Return how often a group was opened, None if the record says something else."""
    if not record.startswith(_OPENED):
        return None
    try:
        return int(_OPENING.unpack(record[len(_OPENED) :])[0])
    except LayoutError:
        return None
