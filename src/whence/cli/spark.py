"""What the commands on tables share: the engine, Spark started when it is needed, and places that may be URIs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from whence.cli.output import directory, parse_settings

if TYPE_CHECKING:
    from whence.pipeline.storage import AnyPath, Session, Start

Result = TypeVar("Result")


class Starting:
    """Starts Spark when it is first called, and gives the same session from then on."""

    def __init__(self, master: str | None, settings: dict[str, Any], engine: str) -> None:
        self._master, self._settings, self._engine = master, settings, engine
        self.input_bytes: int | None = None
        """How much Spark will read, where that is known before it starts."""
        self._session: Session | None = None

    @property
    def asks_spark(self) -> bool:
        """Whether a master or a setting of Spark was named."""
        return bool(self._master or self._settings)

    def __call__(self) -> "Session":
        """Return the session. Raises UsageError; of the local engine, which needs Spark only for URIs, NotLocal."""
        from whence.pipeline.local.errors import NotLocal
        from whence.pipeline.session import BRIEF_BYTES, session

        if self._engine == "local":
            raise NotLocal("places behind a URI")
        if self._session is None:
            size = BRIEF_BYTES if self.input_bytes is None else self.input_bytes
            self._session = session(self._master, self._settings, input_bytes=size)
        return self._session


def starting(master: str | None, conf: list[str] | None, engine: str = "auto") -> Starting:
    """Return what starts Spark when it is first called. Raises UsageError."""
    return Starting(master, parse_settings(conf or [], "--conf"), engine)


def placed(place: str, start: "Start") -> "AnyPath":
    """Return where a place is, a path or a URI; Spark starts only for a URI."""
    from whence.pipeline.storage import located

    return located(place, start)


def placed_directory(place: str, start: "Start", option: str) -> "AnyPath":
    """Return a directory to write to, made if it is a path. Raises UsageError that names the option."""
    where = placed(place, start)
    return directory(where, option) if isinstance(where, Path) else where


def run_on(
    engine: str, input_bytes: int, start: Starting, places: "Sequence[AnyPath]", job: "Callable[[Session], Result]"
) -> Result:
    """Run a job on an engine that was named, or on the one that suits its input. Raises UsageError."""
    from whence.pipeline.engine import Engine, run_on

    start.input_bytes = input_bytes
    is_here = all(isinstance(place, Path) for place in places)
    return run_on(Engine(engine), input_bytes, job, start, asks_spark=start.asks_spark, is_here=is_here)
