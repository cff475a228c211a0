"""The name of a process, and the numbers that it may go by.

On the wire, in journals and in traces a process is a number (pid). People give a name, and the number follows from it:
the first candidate is a stable hash of the name, and where that number is another name's, the next candidate is tried
(api/numbering.py). Candidates are above the numbers that people choose, and within those that every level can use.
"""

import re
from hashlib import blake2b

from whence.limits import MERGED_PEER_ID_MAX

NAME_CHARS_MAX = 63
"""As long as a label of a host name: the name of a pod or a machine can be used as it is."""

DERIVED_MIN = 4_096
"""Numbers below are for people to choose."""

_NAME = re.compile(rf"(?![0-9]+$)[A-Za-z0-9]([A-Za-z0-9._-]{{0,{NAME_CHARS_MAX - 2}}}[A-Za-z0-9])?", re.ASCII)

NAME_FORM = (
    f"1 to {NAME_CHARS_MAX} letters, digits, dots, dashes and underscores, not only digits, with a letter or digit at "
    "both ends"
)


def is_name(text: str) -> bool:
    """Tell whether a text has the form of a process's name: one of digits alone would be taken for a number."""
    return _NAME.fullmatch(text) is not None


def candidate(name: str, attempt: int) -> int:
    """Return the number that a name tries in an attempt, from 0 on: the same on every machine and in every version."""
    digest = blake2b(f"{attempt}:{name}".encode(), digest_size=8).digest()
    return DERIVED_MIN + int.from_bytes(digest, "big") % (MERGED_PEER_ID_MAX + 1 - DERIVED_MIN)


def called(pid: int, name: str) -> str:
    """Return how messages call a process: by its name, with its number; by its number where it has no name."""
    return f"{name} ({pid})" if name else f"process {pid}"


class NamedPid(int):
    """A pid that messages show with its name: `billing-1 (17)`. In everything else it is the number."""

    name: str = ""

    def __repr__(self) -> str:
        return f"{self.name} ({int(self)})" if self.name else int.__repr__(self)

    __str__ = __repr__


class NameBook:
    """Which number is whose. A number that has a name stays that name's, also while its process is away.

    Law: a name has one number, the last that it was met with; a number has at most one name. The book is bounded: over
    it, the name that was learned first is forgotten.
    """

    NAMES_MAX = 4096

    def __init__(self, known: dict[str, int] | None = None) -> None:
        self._numbers = dict(known or {})
        self._names = {number: name for name, number in self._numbers.items()}

    def learn(self, name: str, number: int) -> bool:
        """Note that a process of this name goes by a number; return whether that is news. The caller has checked that
        the number is no other name's."""
        if not name or self._numbers.get(name) == number:
            return False
        former = self._numbers.pop(name, None)
        if former is not None:
            self._names.pop(former, None)
        if (other := self._names.get(number)) is not None:
            del self._numbers[other]
        elif len(self._numbers) >= self.NAMES_MAX:
            oldest = next(iter(self._numbers))
            del self._names[self._numbers.pop(oldest)]
        self._numbers[name], self._names[number] = number, name
        return True

    def name(self, number: int) -> str:
        """Return whose a number is; empty if nobody's."""
        return self._names.get(number, "")

    def number(self, name: str) -> int | None:
        """Return the number of a name, if it is known."""
        return self._numbers.get(name)

    def named(self, number: int) -> NamedPid:
        """Return a number that knows its name."""
        pid = NamedPid(number)
        pid.name = self.name(number)
        return pid

    def all(self) -> dict[str, int]:
        """Return every name with its number."""
        return dict(self._numbers)
