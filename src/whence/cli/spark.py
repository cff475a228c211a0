"""What the commands on Spark share: the session, started when it is needed, and places that may be URIs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.cli.output import directory, parse_settings

if TYPE_CHECKING:
    from whence.pipeline.storage import AnyPath, Session, Start


class Starting:
    """Starts Spark when it is first called, and gives the same session from then on."""

    def __init__(self, master: str | None, settings: dict[str, Any]) -> None:
        self._master, self._settings = master, settings
        self.input_bytes: int | None = None
        """How much Spark will read, where that is known before it starts."""
        self._session: Session | None = None

    def __call__(self) -> "Session":
        """Return the session. Raises UsageError."""
        from whence.pipeline.session import BRIEF_BYTES, session

        if self._session is None:
            size = BRIEF_BYTES if self.input_bytes is None else self.input_bytes
            self._session = session(self._master, self._settings, input_bytes=size)
        return self._session


def starting(master: str | None, conf: list[str] | None) -> Starting:
    """Return what starts Spark when it is first called. Raises UsageError."""
    return Starting(master, parse_settings(conf or [], "--conf"))


def placed(place: str, start: "Start") -> "AnyPath":
    """Return where a place is, a path or a URI; Spark starts only for a URI."""
    from whence.pipeline.storage import located

    return located(place, start)


def placed_directory(place: str, start: "Start", option: str) -> "AnyPath":
    """Return a directory to write to, made if it is a path. Raises UsageError that names the option."""
    where = placed(place, start)
    return directory(where, option) if isinstance(where, Path) else where
