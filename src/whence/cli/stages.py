"""Progress of a job on Spark: the stages that run, how many of their tasks are done, and where Spark's own page is."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from whence.pipeline.storage import Session

EVERY_S = 0.5


class Stages(NamedTuple):
    """What runs at a moment."""

    numbers: tuple[int, ...]
    tasks_done: int
    tasks: int

    def described(self, page: str | None) -> str:
        """Return a line for people; `page` is the address of Spark's own page."""
        named = ", ".join(map(str, self.numbers))
        return f"{'stage' if len(self.numbers) == 1 else 'stages'} {named}{f', see {page}' if page else ''}"


def active_stages(tracker: Any) -> Stages | None:
    """Return the stages that Spark works on; None while it thinks, or starts."""
    told = [tracker.getStageInfo(number) for number in sorted(tracker.getActiveStageIds())]
    running = [each for each in told if each is not None]  # one may have ended in between
    if not running:
        return None
    numbers = tuple(each.stageId for each in running)
    return Stages(numbers, sum(each.numCompletedTasks for each in running), sum(each.numTasks for each in running))


@contextmanager
def stages_shown(session: "Session", bar: "Progress", task: "TaskID") -> Iterator[None]:
    """Show the stages of what runs within the block; nothing where nobody watches, or only a Connect server knows."""
    from whence.pipeline.local.session import is_local_engine
    from whence.pipeline.session import is_connected

    if bar.disable or is_local_engine(session) or is_connected(session):
        yield
        return
    context, ends, words = session.sparkContext, Event(), bar.tasks[task].description

    def watch() -> None:
        tracker, page = context.statusTracker(), context.uiWebUrl
        while not ends.wait(EVERY_S):
            if (stages := active_stages(tracker)) is not None:
                line = f"{words}: {stages.described(page)}"
                bar.update(task, description=line, completed=stages.tasks_done, total=stages.tasks)

    watcher = Thread(target=watch, name="stages", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ends.set()
        watcher.join()
        bar.update(task, description=words)
