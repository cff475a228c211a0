"""What the commands on tables share: the engine, Spark started when it is needed, and places that may be URIs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from whence.cli.output import Interrupted, directory, parse_settings
from whence.errors import UsageError
from whence.places import is_uri, path_of

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from whence.pipeline.storage import AnyPath, Session, Start

Result = TypeVar("Result")


class Starting:
    """Starts Spark when it is first called, and gives the same session from then on; or runs jobs without it."""

    def __init__(self, master: str | None, settings: dict[str, Any], engine: str) -> None:
        self._master, self._settings, self._engine = master, settings, engine
        self.input_bytes: int | None = None
        """How much Spark will read, where that is known before it starts."""
        self._session: Session | None = None

    def __call__(self) -> "Session":
        """Return the session. Raises UsageError; of the local engine, which needs Spark only for URIs, NotLocal."""
        from whence.pipeline.local.errors import NotLocal
        from whence.pipeline.session import BRIEF_BYTES, end_on_interrupt, session

        if self._engine == "local":
            raise NotLocal("places behind a URI")
        if self._session is None:
            end_on_interrupt()
            size = BRIEF_BYTES if self.input_bytes is None else self.input_bytes
            self._session = session(self._master, self._settings, input_bytes=size)
        return self._session

    def run(
        self, job: "Callable[[Session], Result]", input_bytes: int, places: "Sequence[AnyPath]",
        bar: "Progress", task: "TaskID",
    ) -> Result:  # fmt: skip
        """Run a job on the engine that was named, or on the one that suits its input. Raises UsageError.

        `places` are all that it reads or writes. `task` of `bar` shows how far Spark is.
        """
        from whence.cli.stages import stages_shown
        from whence.pipeline.engine import Engine, run_on

        def watched(session: "Session") -> Result:
            with stages_shown(session, bar, task):
                return job(session)

        self.input_bytes = input_bytes
        return run_on(
            Engine(self._engine), input_bytes, watched, self, asks_spark=bool(self._master or self._settings),
            is_here=all(isinstance(place, Path) for place in places),
        )  # fmt: skip


def need_spark(what: str = "this command") -> None:
    """Check that Spark is installed, for what DuckDB cannot do. Raises UsageError."""
    if find_spec("pyspark") is None:
        raise UsageError(f"{what} needs Spark; install it with: pip install 'whence[spark]'")


def need_engine(engine: str, master: str | None, conf: list[str] | None) -> None:
    """Check that the engine that was named is installed. Raises UsageError; where none was named, `pipeline` does."""
    if engine == "spark":
        need_spark("--engine spark")
    elif engine == "local":
        if find_spec("duckdb") is None:
            raise UsageError("--engine local needs DuckDB; install it with: pip install 'whence[local]'")
    elif master is not None or conf:
        need_spark("--master" if master is not None else "--conf")


@contextmanager
def going_on(how: str) -> Iterator[None]:
    """Turn an interrupt within the block into `Interrupted`, which says how to go on."""
    from whence.pipeline.session import was_interrupted

    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(how) from None
    except Exception:
        if was_interrupted():
            raise Interrupted(how) from None
        raise


def starting(master: str | None, conf: list[str] | None, engine: str = "auto") -> Starting:
    """Return what starts Spark when it is first called. Raises UsageError."""
    return Starting(master, parse_settings(conf or [], "--conf"), engine)


def placed(place: str, start: "Start") -> "AnyPath":
    """Return where a place is, a path or a URI; Spark starts only for a URI. Raises UsageError."""
    if not is_uri(place):
        return path_of(place)
    need_spark(f"{place}, a URI,")
    from whence.pipeline.storage import UriPath

    return UriPath(start(), place)


def placed_directory(place: str, start: "Start", option: str) -> "AnyPath":
    """Return a directory to write to, made if it is a path. Raises UsageError that names the option."""
    where = placed(place, start)
    return directory(where, option) if isinstance(where, Path) else where
