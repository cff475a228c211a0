"""A process's data directory: whose it is, who uses it now, which incarnations it has seen, which groups it stores.

Laws: one running process at a time, and always the one with the same pid, and the same name if it has one. A process
with a name may take another pid while the directory stores no group. Every incarnation is greater than all that
this directory has seen, and at least the one that the time gives: a directory that was wiped has seen none, and its
process must not be taken for an earlier one. What the directory once stored and has lost is reported.

    lock       held while a process uses the directory; inside, the number that its system gave it
    identity   the pid and the name, the directory's own number, the last incarnation, the groups that are stored, and
               the pids of other names
    groups/    what each group stores; each file says whose it is (store/owner.py)
"""

import os
import secrets
import weakref
from pathlib import Path
from zlib import crc32

from msgspec import DecodeError, Struct, field, json
from msgspec.structs import replace

from whence.core.links.process_names import called
from whence.errors import StorageError, UsageError
from whence.limits import INCARNATION_MAX
from whence.store.lock import locked
from whence.store.log import WHAT_TO_DO, sync_directory
from whence.store.owner import DIRECTORY_BITS, Owner

FORMAT = 1

INCARNATIONS_MAX = 256
"""Incarnations that a directory knows. Full: the oldest are forgotten, and a group that began with one of them that had
written nothing does not let its process in again."""


class Identity(Struct, frozen=True, kw_only=True):
    """Whose a directory is, from the first line of the file `identity`; the second line is a checksum of it."""

    format: int
    pid: int
    incarnation: int
    groups: list[str] = []
    incarnations: list[int] = field(default_factory=list, name="lives")
    """The last incarnations, this one included."""
    name: str = ""
    """The process's name; empty where it has none."""
    names: dict[str, int] = {}
    """The pids of the processes with names that this one has met: groups know them by these."""
    directory: int = 0
    """A number of its own, by which its files are known; 0: it stored groups before there were such numbers."""
    opened: dict[str, int] = {}
    """How often each stored group was opened, where that is counted."""


class DataDirectory:
    """A data directory in use by this process."""

    def __init__(self, path: Path, pid: int, name: str = "") -> None:
        """Lock it for a process. Raises StorageError where that fails, UsageError where it belongs to another.

        A process that gives no name has the one that the directory says; a directory without a name gets this one.
        """
        self.path = path
        self._lock = locked(path / "lock", "the data directory", "each node has a directory of its own")
        try:
            found = _found(path)
            if found is not None and not _belongs(found, pid, name):
                owner = called(found.pid, found.name)
                raise UsageError(
                    f"the data directory {path} is that of {owner}, not of {name or pid}; each has its own"
                )
        except BaseException:
            self._lock.close()
            raise
        self.is_new = found is None
        """No process used this directory before, as far as can be seen."""
        before = found or Identity(format=FORMAT, pid=pid, incarnation=0)
        self._identity = Identity(
            format=FORMAT,
            pid=pid,
            incarnation=before.incarnation,
            groups=before.groups,
            incarnations=before.incarnations,
            name=name or before.name,
            names=before.names,
            opened=before.opened,
            directory=before.directory or (0 if before.groups else 1 + secrets.randbits(DIRECTORY_BITS - 1)),
        )
        self._is_written = self._identity == found
        _HELD.add(self)

    def begin_incarnation(self, at_least: int) -> int:
        """Return an incarnation greater than all before, once it is written to disk. Raises StorageError."""
        incarnation = max(self._identity.incarnation + 1, at_least)
        if incarnation > INCARNATION_MAX:
            raise StorageError(f"{self.path} has seen incarnation {incarnation}, and they end at {INCARNATION_MAX}")
        incarnations = [*self._identity.incarnations, incarnation][-INCARNATIONS_MAX:]
        self._write(replace(self._identity, incarnation=incarnation, incarnations=incarnations))
        return incarnation

    @property
    def incarnations(self) -> list[int]:
        """Return the last incarnations that began here, this one included."""
        return self._identity.incarnations

    @property
    def name(self) -> str:
        """Return the name of the process; empty where it has none."""
        return self._identity.name

    @property
    def names(self) -> dict[str, int]:
        """Return the pids of the names that this process has met."""
        return self._identity.names

    def owner(self) -> Owner:
        """Return whose the files of groups here are, once that is on disk. Raises StorageError."""
        if not self._is_written:
            self._write(self._identity)
        return Owner(self._identity.pid, self._identity.directory)

    @property
    def has_groups(self) -> bool:
        """Tell whether a group is stored: its members know this process by its pid."""
        return bool(self._identity.groups)

    def note_names(self, names: dict[str, int]) -> None:
        """Record the pids of all known names. Raises StorageError."""
        self._write(replace(self._identity, names=names))

    def stem(self, group: str) -> Path:
        """Return the common beginning of the paths of a group's files."""
        return self.path / "groups" / group.encode().hex()

    def check_stored(self, group: str, files: list[Path]) -> None:
        """Raise StorageError if any file is missing of a group that was stored before."""
        missing = [str(file) for file in files if not file.exists()]
        if missing and self.stem(group).name in self._identity.groups:
            were, are = ("was", "is") if len(missing) == 1 else ("were", "are")
            raise StorageError(
                f"{' and '.join(missing)} of group {group!r} {were} kept in the data directory and {are} gone: "
                f"{WHAT_TO_DO}"
            )

    def begin_opening(self, group: str, counter: tuple[Path, int], journal: tuple[Path, int]) -> int:
        """Return the number of an opening of a group that is stored, of which each file says how often it was opened.
        Raises StorageError where a file is older than the rest."""
        (steps, counted), (log, written) = counter, journal
        noted = self._identity.opened.get(self.stem(group).name, 0)
        for file, number, others in ((steps, counted, max(written, noted)), (log, written, noted)):
            if number < others:
                raise StorageError(
                    f"{file} of group {group!r} is older than the rest of its data directory: it is from opening "
                    f"{number} of the group, and the rest from opening {others}; nothing was changed: {WHAT_TO_DO}"
                )
        return max(counted, written) + 1

    def note_opened(self, group: str, number: int) -> None:
        """Record that the files of a group exist from now on, and say that this is its opening of a number. Raises
        StorageError."""
        name, known = self.stem(group).name, self._identity
        groups = known.groups if name in known.groups else [*known.groups, name]
        self._write(replace(known, groups=groups, opened={**known.opened, name: number}))

    def close(self) -> None:
        """Unlock it for other processes."""
        self._lock.close()

    def _write(self, identity: Identity) -> None:
        text = json.encode(identity)
        file, fresh = self.path / _IDENTITY, self.path / f".{_IDENTITY}.unfinished"
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as out:
                out.write(text + b"\n%08x\n" % crc32(text))
                out.flush()
                os.fsync(out.fileno())
            fresh.replace(file)
            (self.path / _FIRST_FORMAT).unlink(missing_ok=True)
            sync_directory(self.path)
        except OSError as error:
            raise StorageError(f"{file} cannot be written: {error.strerror or error}") from error
        self._identity, self._is_written = identity, True


def identity_of(path: Path) -> Identity | None:
    """Return whose data directory this is, None if it has no owner. Raises StorageError."""
    found = _found(path)
    return None if found is None or found.pid == _ANYBODY else found


def owner_of(path: Path) -> int | None:
    """Return the pid of the process whose data directory this is, None if it has no owner. Raises StorageError."""
    found = identity_of(path)
    return found.pid if found is not None else None


def _belongs(found: Identity, pid: int, name: str) -> bool:
    """Tell whether a directory may be used by a process."""
    if found.name and name and found.name != name:
        return False
    moves = bool(name) and found.name == name and not found.groups
    return found.pid in (pid, _ANYBODY) or moves


_IDENTITY, _FIRST_FORMAT = "identity", "boot"
_ANYBODY = -1
"""Directories of the first format have only a count of incarnations, and do not say whose they are."""

_HELD: "weakref.WeakSet[DataDirectory]" = weakref.WeakSet()


def _found(path: Path) -> Identity | None:
    """Return a directory's identity; None where it has none and is empty. Raises StorageError."""
    file = path / _IDENTITY
    try:
        if file.exists():
            return _parsed(file, file.read_bytes())
        if (path / _FIRST_FORMAT).exists():
            return _first_format(path)
        if any((path / "groups").glob("*")):
            raise StorageError(f"{file} is gone, and groups are kept beside it: {WHAT_TO_DO}")
    except OSError as error:
        raise StorageError(f"{file} cannot be read: {error.strerror or error}") from error
    return None


def _parsed(file: Path, data: bytes) -> Identity:
    text, _, checksum = data.rstrip(b"\n").partition(b"\n")
    if checksum != b"%08x" % crc32(text):
        raise StorageError(f"{file} is damaged: {WHAT_TO_DO}")
    try:
        identity = json.decode(text, type=Identity)
    except DecodeError as error:
        raise StorageError(f"{file} is none of this version ({error}): {WHAT_TO_DO}") from None
    if identity.format != FORMAT:
        raise StorageError(f"{file} has format {identity.format}, and this version knows {FORMAT}: update it")
    return identity


def _first_format(path: Path) -> Identity:
    """Read a directory of the first format: its journals began empty; today's have a head."""
    file = path / _FIRST_FORMAT
    try:
        incarnation = int(file.read_text())
    except ValueError:
        raise StorageError(f"{file} is damaged: {WHAT_TO_DO}") from None
    for journal in (path / "groups").glob("*.journal"):
        if not journal.stat().st_size:
            journal.unlink()
    return Identity(format=0, pid=_ANYBODY, incarnation=incarnation)


def _let_go_in_child() -> None:
    """Release the locks of the parent in a child process: the parent may die first."""
    for held in list(_HELD):
        held.close()


os.register_at_fork(after_in_child=_let_go_in_child)
