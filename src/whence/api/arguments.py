"""Checks of what callers pass in: wrong input raises an error that explains it before anything has happened."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from whence.core.links.process_names import is_name
from whence.core.settings import SECONDS_MAX
from whence.errors import UsageError
from whence.limits import MERGED_PEER_ID_MAX


def check_seconds(name: str, value: object, most: float = SECONDS_MAX) -> None:
    """Raise UsageError for a value that is not a length of time, or is longer than `most`."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
        too_many = isinstance(value, int) and value > SECONDS_MAX  # it may have more digits than Python prints
        upto = "on" if most == SECONDS_MAX else f"to {most:g}"
        raise UsageError(
            f"{name} is a number of seconds from 0 {upto}, not {'more than 10**9' if too_many else repr(value)}"
        )


def check_timeout(value: object, name: str = "timeout_s") -> None:
    """Raise UsageError for a value that is not a timeout; None waits without limit."""
    if value is not None:
        check_seconds(name, value)


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise UsageError for a value that is not a count of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} is a whole number from {least} on, not {value!r}")


def check_callable(name: str, value: object) -> None:
    """Raise UsageError for a value that cannot be called; None is allowed."""
    if value is not None and not callable(value):
        raise UsageError(f"{name} is a function, not {value!r}")


def check_path(name: str, value: object, what: str = "the path of a file") -> None:
    """Raise UsageError for a value that is not a path; None is allowed."""
    if value is not None and not (isinstance(value, str | Path) and str(value).strip() and "\0" not in str(value)):
        raise UsageError(f"{name} is {what}, as text or pathlib.Path, not {value!r}")


def check_directory(name: str, value: str | Path | None) -> None:
    """Raise UsageError for a value that is not the path of a directory, or of one that can be made; None is allowed."""
    check_path(name, value, "a directory")
    if value is not None and Path(value).exists() and not Path(value).is_dir():
        raise UsageError(f"{name} is a directory, and {value} is none")


def check_socket(name: str, value: object) -> None:
    """Raise UsageError for a value that is neither a flag nor a path at which a socket can be made."""
    if isinstance(value, bool):
        return
    if not (isinstance(value, str | Path) and str(value).strip() and "\0" not in str(value)):
        raise UsageError(f"{name} is the path of a socket, True or False, not {value!r}")
    directory = Path(value).parent
    if not directory.is_dir():
        raise UsageError(f"{name} is the path of a socket in a directory that exists, and {directory} does not")


def check_flag(name: str, value: object) -> None:
    """Raise UsageError for a value that is neither True nor False."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} is True or False, not {value!r}")


def check_settings(value: object) -> None:
    """Raise UsageError for a value that is not a mapping of settings by name; None is allowed."""
    if value is not None and not (isinstance(value, Mapping) and all(isinstance(name, str) for name in value)):
        raise UsageError(f"settings are given by name, such as {{'view_size': 8}}, not {value!r}")


def processes_of(name: str, value: object) -> list[int | str]:
    """Return distinct processes, given by their names or pids, as a list. Raises UsageError."""
    given: list[Any] = _listed(value)
    known = all(
        (type(each) is int and 0 <= each <= MERGED_PEER_ID_MAX) or (isinstance(each, str) and is_name(each))
        for each in given
    )
    if not known or len(set(given)) < len(given) or given == [value]:
        raise UsageError(
            f'{name} are different names, or pids from 0 to {MERGED_PEER_ID_MAX}, such as ["billing-1", "billing-2"] '
            f"or [1, 2, 3], not {value!r}"
        )
    return given


def texts_of(name: str, value: object, such_as: str) -> list[str]:
    """Return texts as a list; a single text is not a list of its letters. Raises UsageError."""
    texts: list[Any] = _listed(value)
    if not all(isinstance(text, str) for text in texts) or texts == [value]:
        raise UsageError(f'{name} are a list of texts such as ["{such_as}"], not {value!r}')
    return texts


def _listed(value: object) -> list[Any]:
    """Return an iterable as a list, and a single value as a list of itself, which the caller's check then refuses."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]
