"""What the commands on Spark share: the session, started when it is needed, and places that may be URIs."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from whence.cli.output import directory, parse_settings

if TYPE_CHECKING:
    from whence.pipeline.storage import AnyPath, Session, Start


def starting(master: str | None, conf: list[str] | None) -> "Start":
    """Return what starts Spark when it is first called, and gives the same session from then on. Raises UsageError."""
    settings = parse_settings(conf or [], "--conf")

    @cache
    def start() -> "Session":
        from whence.pipeline.session import session

        return session(master, settings)

    return start


def placed(place: str, start: "Start") -> "AnyPath":
    """Return where a place is, a path or a URI; Spark starts only for a URI."""
    from whence.pipeline.storage import located

    return located(place, start)


def placed_directory(place: str, start: "Start", option: str) -> "AnyPath":
    """Return a directory to write to, made if it is a path. Raises UsageError that names the option."""
    where = placed(place, start)
    return directory(where, option) if isinstance(where, Path) else where
