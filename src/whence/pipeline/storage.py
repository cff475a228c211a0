"""Where input lies and results go: a path of this machine's disk, or a URI of any file system that Spark knows.

A path without a scheme, or with `file:`, is a pathlib Path. Any other URI is a UriPath: Hadoop's file systems read and
write it, with the settings of the session (`--conf spark.hadoop.…`), so that driver and executors share nothing but
that file system. What grows with the rows goes through Spark's readers and writers; the driver itself only touches
small files: descriptions of runs, manifests, marks. A file is put in place as Spark puts those of its checkpoints:
whole, and never over another one.

Through Spark Connect there is no driver in this process. Reading and listing need only Spark's readers and work there;
what else is asked for is refused by name.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from secrets import token_hex
from shutil import rmtree
from typing import Any, Final, TypeAlias, TypeVar

from whence.errors import StorageError, UsageError
from whence.pipeline.frames import DataFrame, F, SparkSession
from whence.pipeline.session import first_line, is_connected, session
from whence.places import is_uri, path_of

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)(//[^/]*)?(/.*)?$")
_OWNER: Final = ".owner"
_Answer = TypeVar("_Answer")


class UriPath:
    """A path of a Hadoop file system, named as pathlib names the parts of a path."""

    __slots__ = ("_path", "_root", "spark")

    def __init__(self, spark: SparkSession, uri: str) -> None:
        """Name a place; nothing is looked at. Raises UsageError for what is no URI."""
        found = _URI.match(uri)
        if found is None:
            raise UsageError(f"{uri} is no URI; give SCHEME://HOST/PATH")
        self.spark = spark
        self._root = f"{found[1]}:{found[2] or ''}"
        self._path = PurePosixPath(found[3] or "/")

    def __str__(self) -> str:
        return f"{self._root}{self._path}"

    def __repr__(self) -> str:
        return f"UriPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UriPath) and str(self) == str(other)

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __truediv__(self, below: str) -> "UriPath":
        return UriPath(self.spark, f"{self._root}{self._path / below}")

    @property
    def name(self) -> str:
        """The last part."""
        return self._path.name

    @property
    def suffix(self) -> str:
        """The end of the name from its last dot on."""
        return self._path.suffix

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts, without scheme and host."""
        return self._path.parts

    @property
    def parent(self) -> "UriPath":
        """What it lies in."""
        return UriPath(self.spark, f"{self._root}{self._path.parent}")

    def is_relative_to(self, other: object) -> bool:
        """Return whether it is another place, or lies below it."""
        return f"{self}/".startswith(f"{other}/")

    def exists(self) -> bool:
        """Return whether something is there. Through Spark Connect, a directory without any file is not."""
        if is_connected(self.spark):
            return any(True for _ in listed([self]).limit(1).collect())
        path, files = self._hadoop()
        return _asked(self, lambda: bool(files.exists(path)))

    def is_file(self) -> bool:
        """Return whether it is a file."""
        if is_connected(self.spark):
            found = listed([self]).limit(1).collect()
            return bool(found) and uri_of(found[0]["path"]) == str(self)
        path, files = self._hadoop()
        return _asked(self, lambda: bool(files.exists(path) and files.getFileStatus(path).isFile()))

    def is_dir(self) -> bool:
        """Return whether it is a directory."""
        return self.exists() and not self.is_file()

    def read_bytes(self) -> bytes:
        """Return what is in a small file. Raises FileNotFoundError."""
        if is_connected(self.spark):
            found = self.spark.read.format("binaryFile").load(str(self)).select("content").collect()
            return bytes(found[0]["content"])
        path, files = self._hadoop()
        if not self.exists():
            raise FileNotFoundError(2, "No such file", str(self))

        def read() -> bytes:
            stream = files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

        return _asked(self, read)

    def _hadoop(self) -> tuple[Any, Any]:
        """Return the path and its file system, as objects of Java. Raises UsageError."""
        if is_connected(self.spark):
            raise UsageError(
                f"{self}: Spark Connect only reads and writes tables there; "
                "give --master local[*] or spark://HOST:PORT, or a path"
            )
        spark: Any = self.spark
        path = spark._jvm.org.apache.hadoop.fs.Path(str(self))
        return path, _asked(self, lambda: path.getFileSystem(_settings(self.spark)))


AnyPath: TypeAlias = Path | UriPath
Session: TypeAlias = SparkSession
Start: TypeAlias = Callable[[], SparkSession]
"""Returns the session, made when it is first needed."""


def located(place: str | AnyPath, start: Start = session) -> AnyPath:
    """Return where a place is; a session is started only for a URI. Raises UsageError for no place at all."""
    if isinstance(place, UriPath):
        return place
    given: object = place
    if not isinstance(given, str | Path) or given == "":
        raise UsageError(f"a place must be a path or a URI, not {place!r}")
    return UriPath(start(), str(place)) if is_uri(place) else path_of(place)


def uri_of(path: str) -> str:
    """Return the path of a file as Spark's readers tell it, as a path of this machine's disk or a URI."""
    return re.sub(r"^file:/+", "/", path)


def at(spark: SparkSession, path: str) -> AnyPath:
    """Return the place of a file that a reader of Spark's has named."""
    return located(uri_of(path), lambda: spark)


# --- many files: Spark lists and reads them ---


def listed(places: Sequence[AnyPath]) -> DataFrame:
    """Return path and length of all files below URIs, and their content on demand; names with . or _ are passed over.

    What does not exist has none.
    """
    spark = next(place.spark for place in places if isinstance(place, UriPath))
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = reader.load([str(place) for place in places])
        _ = found.schema  # through Spark Connect nothing is looked at before
    except Exception as error:
        if type(error).__name__ != "AnalysisException" or "PATH_NOT_FOUND" not in str(error):
            raise
    else:
        return found
    there = [place for place in places if len(places) > 1 and place.exists()]
    if there:
        return listed(there)
    return spark.createDataFrame([], "path string, modificationTime timestamp, length bigint, content binary")


def files_below(place: AnyPath) -> list[AnyPath]:
    """Return the files below a place, or the file itself, in order; directories with . or _ are passed over."""
    if isinstance(place, UriPath):
        return sorted(at(place.spark, row["path"]) for row in listed([place]).select("path").collect())
    if place.is_file():
        return [place]
    return sorted(
        file for file in place.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(place).parts[:-1])
    )


def _is_hidden(directories: Iterable[str]) -> bool:
    """Return whether Spark passes over one of some directories."""
    return any(name[0] == "." or (name[0] == "_" and "=" not in name) for name in directories)


def bytes_below(places: Iterable[AnyPath]) -> int:
    """Return the bytes of all files at or below places."""
    given = list(places)
    here = [file for place in given if isinstance(place, Path) for file in files_below(place)]
    uris = [place for place in given if isinstance(place, UriPath)]
    there = int(listed(uris).agg(F.sum("length")).collect()[0][0] or 0) if uris else 0
    return there + sum(Path(str(file)).stat().st_size for file in here)


# --- one file, or a directory of a few ---


def entries(place: AnyPath) -> list[str]:
    """Return the names of what is in a directory, in order; none where there is no directory."""
    if isinstance(place, UriPath):
        path, files = place._hadoop()
        if not place.is_dir():
            return []
        return _asked(place, lambda: sorted(str(each.getPath().getName()) for each in files.listStatus(path)))
    return sorted(each.name for each in place.iterdir()) if place.is_dir() else []


def make_directory(place: AnyPath) -> None:
    """Make a directory, and those it lies in, where the file system has such."""
    if isinstance(place, UriPath):
        path, files = place._hadoop()
        _asked(place, lambda: files.exists(path) or files.mkdirs(path))  # a mount point is there, and cannot be made
    else:
        place.mkdir(parents=True, exist_ok=True)


def remove(place: AnyPath) -> None:
    """Remove a file or a directory with all that is in it; nothing where there is none."""
    if isinstance(place, UriPath):
        path, files = place._hadoop()
        _asked(place, lambda: files.delete(path, True))
    elif place.is_dir():
        rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def move(source: AnyPath, target: AnyPath) -> None:
    """Move a file or directory to where nothing is, within one file system. Raises StorageError."""
    if isinstance(source, UriPath) and isinstance(target, UriPath):
        path, files = source._hadoop()
        if not _asked(source, lambda: files.rename(path, target._hadoop()[0])):
            raise StorageError(f"{source} cannot be moved to {target}: something is there, or it is elsewhere")
    elif isinstance(source, Path) and isinstance(target, Path):
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    else:
        raise StorageError(f"{source} cannot be moved to {target}, which is in another file system")


def put_new(place: UriPath, content: bytes) -> None:
    """Write a file whole or not at all, and never over another one. Raises StorageError where one is there.

    It is what Spark commits its own checkpoints with: a rename where the file system has an atomic one, and what
    `spark.sql.streaming.checkpointFileManagerClass` names where it has not.
    """
    _put(place, content, over=False)


def put(place: UriPath, content: bytes) -> None:
    """Write a file whole or not at all, over what was there. Raises StorageError."""
    _put(place, content, over=True)


def _put(place: UriPath, content: bytes, *, over: bool) -> None:
    path, _ = place._hadoop()
    java: Any = place.spark
    managers = java._jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

    def write() -> None:
        manager = managers.create(path.getParent(), _settings(place.spark))
        if not manager.exists(path.getParent()):  # a mount point is there, and cannot be made
            manager.mkdirs(path.getParent())
        stream = manager.createAtomic(path, over)
        try:
            stream.write(bytearray(content))
        except BaseException:
            with suppress(Exception):
                stream.cancel()
            raise
        stream.close()

    _asked(place, write)


def _settings(spark: Any) -> Any:
    """Return Hadoop's settings as the session has them."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def _asked(place: object, ask: Callable[[], _Answer]) -> _Answer:
    """Return an answer of Hadoop's. Raises StorageError with the cause in one line."""
    try:
        return ask()
    except Exception as error:
        if not type(error).__module__.startswith("py4j."):
            raise
        raise StorageError(f"{place}: {first_line(error)}") from error


# --- one writer at a time ---


class Ownership:
    """Who writes to a directory of a file system that has no locks: whoever began last.

    Each writer leaves its mark there when it begins. One that finds another's mark must stop: it may have been cut off
    and taken for dead. What it was writing does not count, because only whoever finds its own mark commits.
    """

    def __init__(self, directory: UriPath) -> None:
        self._mark, self._token = directory / _OWNER, token_hex(16).encode()
        put(self._mark, self._token)

    def check(self) -> None:
        """Make sure that nobody else has begun to write there. Raises StorageError."""
        if not self._mark.exists() or self._mark.read_bytes() != self._token:
            raise StorageError(f"{self._mark.parent}: another writer began after this one, which stops here")
