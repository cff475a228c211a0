"""Which number a process goes by: the one given, the one of its data directory, or one that follows from its name.

Law: the number of a name is the first of its candidates (core/links/process_names.py) that is no other name's, as far
as the processes that it meets know. It is chosen before any group is opened: from then on groups know the process by
its number, and a data directory with a group keeps it for every later incarnation.
"""

from pathlib import Path

from whence.core.links.process_names import NAME_FORM, candidate, is_name
from whence.errors import UsageError
from whence.limits import MERGED_PEER_ID_MAX
from whence.store.directory import identity_of

ATTEMPTS_MAX = 64
"""Candidates that a name tries: with half of all numbers in use, one name in 2**64 finds none."""


class Numbering:
    """The number of one process, and the next one if that is another name's."""

    def __init__(self, who: object, pid: int | None = None, data: Path | None = None) -> None:
        """`who` is a name or a pid, None where only `pid` is given. Raises UsageError."""
        name, number = (who, pid) if isinstance(who, str) else ("", pid if who is None else who)
        if isinstance(who, str) and not is_name(who):
            raise UsageError(f"the name of a process has {NAME_FORM}; {who!r} has not")
        if who is not None and not isinstance(who, str) and pid is not None:
            raise UsageError(f"a process has one pid, not {who!r} and {pid!r}; give a name and a pid, or one of them")
        if who is None and pid is None:
            raise UsageError('a process needs a name: join("billing-1")')
        if number is not None and (type(number) is not int or not 0 <= number <= MERGED_PEER_ID_MAX):
            raise UsageError(
                f"a process has a name such as 'billing-1', or a pid, a whole number from 0 to {MERGED_PEER_ID_MAX}, "
                f"not {number!r}"
            )
        self.name = name
        self.may_move = number is None
        """Whether another number may be taken while no group knows this one."""
        self._given, self._data = number, data
        self._first: int | None = None
        self._attempt = 0

    def current(self) -> int:
        """Return the number to try now. Raises StorageError."""
        if self._given is not None:
            return self._given
        if self._attempt == 0 and self._first is None and self._data is not None:
            self._look_up(self._data)
        if self._first is not None:
            return self._first
        return candidate(self.name, self._attempt)

    def advance(self) -> bool:
        """Go on to the next candidate; return False if there is none."""
        if not self.may_move or self._attempt + 1 >= ATTEMPTS_MAX:
            return False
        if self._first is None:
            self._attempt += 1
        self._first = None
        return True

    def _look_up(self, data: Path) -> None:
        """Go by the number of an earlier incarnation, if the data directory knows one."""
        found = identity_of(data)
        if found is not None:
            self._first = found.pid
            self.may_move = found.name == self.name and not found.groups
