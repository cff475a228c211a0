"""Where commands read and write: a directory or file of this machine, or a URI."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from whence.errors import UsageError

_FILE: Final = re.compile(r"file:(?://(?:localhost)?)?(?=/)")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_uri(place: object) -> bool:
    """Return whether a place is a URI of a file system other than this machine's disk."""
    text = str(place)
    return _URI.match(text) is not None and not text.startswith("file:")


def path_of(place: object) -> Path:
    """Return a place of this machine's disk, which may be given as file:/…, as a path: there %20 is a blank."""
    text = str(place)
    return Path(unquote(text[found.end() :])) if (found := _FILE.match(text)) else Path(text)


def local(path: Path, option: str) -> Path:
    """Return the path, unless it is a URI: what lies behind one is not looked at before it is written to.

    Raises UsageError that names the option.
    """
    if _URI.match(str(path)):
        raise UsageError(
            f"{option}: {path} is a URI, and only paths are written to; "
            "give a directory of a mounted file system, and copy it from there"
        )
    return path
