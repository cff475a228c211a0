"""What Python needs on Spark's executors, as one archive that Spark unpacks there: Whence, and what it imports.

The archive holds files of this environment as they are, so it fits machines with the same platform and the same minor
version of Python, wherever that Python is. pyspark is not in it: executors have it from their Spark.
"""

import re
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from whence.errors import UsageError

NAME: Final = "whence-executors"
"""What Spark unpacks the archive as, in the directory that an executor works in."""
OWN: Final = ("whence", "whence_lab")
ROOTS: Final = ("whence", "pandas", "pyarrow")
"""Distributions that executors need, with all that these need."""
_NOT_THERE: Final = ("pyspark", "py4j")
_REQUIRED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LEFT_OUT: Final = re.compile(r"(^|/)(__pycache__|tests?|include|bin)/|\.(pyc|pyi|a|pxd|h|hpp)$|^\.\.")
"""What no import needs."""


def pack(out: Path) -> int:
    """Write the archive; return its size in bytes. Raises UsageError."""
    if not out.name.endswith((".tar.gz", ".tgz")):
        raise UsageError(f"--out: {out} must end in .tar.gz: Spark unpacks archives by their names")
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(unfinished, "w:gz", compresslevel=6) as archive:
            for file, name in sorted(_files(), key=lambda each: each[1]):
                archive.add(file, name, recursive=False)
        unfinished.replace(out)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise UsageError(f"--out: {out} cannot be written: {error.strerror or error}") from error
    return out.stat().st_size


def settings_for(archive: object) -> dict[str, str]:
    """Return the settings of Spark that give executors the archive."""
    return {"spark.archives": f"{archive}#{NAME}", "spark.executorEnv.PYTHONPATH": NAME}


def _files() -> Iterator[tuple[Path, str]]:
    """Yield every file, and its name in the archive."""
    for package in OWN:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec is not None else []:
            for file in Path(place).rglob("*"):
                name = f"{package}/{file.relative_to(place)}"
                if file.is_file() and not _LEFT_OUT.search(name):
                    yield file, name
    for known in needed(ROOTS):
        for each in known.files or ():
            file = Path(str(each.locate()))
            if file.is_file() and not _LEFT_OUT.search(str(each)):
                yield file, str(each)


def needed(roots: Iterable[str]) -> list[Distribution]:
    """Return the installed distributions that some need, and they themselves; Whence's own files come from elsewhere.

    Requirements of extras do not count, and those of other platforms are not installed. Raises UsageError.
    """
    found: dict[str, Distribution] = {}
    left = list(roots)
    while left:
        name = _normal(left.pop())
        if name in found or name in _NOT_THERE:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if name in ROOTS:
                raise UsageError(
                    f"{name} is not installed here; install it with: pip install 'whence[spark]'"
                ) from None
            continue
        wanted = [each for each in found[name].requires or () if "extra ==" not in each]
        left += [match[0] for match in map(_REQUIRED.match, wanted) if match is not None]
    return [known for name, known in sorted(found.items()) if name not in map(_normal, OWN)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
