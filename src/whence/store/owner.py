"""Whose a file of a group is: every journal and every counter says it, because people copy such files.

Law: a file that says it is another process's, or of another data directory, is not opened. What a member reads there
would be another member's promises and another application's progress, and nothing that it said could be believed.
Files of earlier versions do not say whose they are. They are opened, and say it from then on.
"""

from struct import Struct as Layout
from struct import error as LayoutError
from typing import NamedTuple

DIRECTORY_BITS = 56
"""What a directory's number may have, so that a counter can hold it."""

_RECORD = Layout("<IQ")
_MARK = b"\xc1whence owner\x00"
"""No record of a member or a driver begins like this."""


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
