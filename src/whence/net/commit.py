"""Group commit: records of many steps become durable with one sync, off the loop's thread.

Law: `done` is called in the order of the writes, and only once the records are durable; after a disk error every write,
pending or later, gets the error instead. Now and then the journal is rewritten instead of synced, with records that
stand for everything before them, pending ones included, so that load never keeps a journal from shrinking.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeAlias

from whence.errors import StorageError
from whence.store.log import Log, Marked

log = logging.getLogger("whence.net")

Done: TypeAlias = Callable[[StorageError | None], None]


class Commit:
    """The writer of one journal."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._loop = asyncio.get_running_loop()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="whence-journal")
        self._waiting: list[Done] = []
        self._running: asyncio.Future[None] | None = None
        self._failure: StorageError | None = None
        self.compaction: Callable[[], list[Marked] | None] = lambda: None
        """Called before each sync: returns records that may replace all so far, or None."""

    def write(self, records: Sequence[bytes], done: Done, mark: bytes = b"") -> None:
        """Append records, each prefixed with the mark, and call `done` once they are durable."""
        if self._failure is None:
            try:
                self.log.append(records, mark)
            except StorageError as error:
                self._failure = error
        if self._failure is not None:
            done(self._failure)
            return
        self._waiting.append(done)
        if self._running is None:
            self._begin()

    def _begin(self) -> None:
        batch, self._waiting = self._waiting, []
        fresh = self.compaction()
        work = self.log.sync if fresh is None else partial(self._rewrite, fresh, self.log.pending)
        self._running = self._loop.run_in_executor(self._worker, work)
        self._running.add_done_callback(lambda finished: self._finish(finished, batch))

    def _rewrite(self, records: list[Marked], pending: int) -> None:
        """Rewrite the journal; if that fails, the old one is still there and takes what is pending."""
        try:
            self.log.rewrite(records, pending)
        except StorageError as error:
            log.warning("%s", error)
            self.log.sync()

    def shrink(self) -> None:
        """Rewrite the journal if that is worthwhile and nothing else is being written."""
        if self.idle and self._failure is None and (fresh := self.compaction()) is not None:
            work = partial(self._rewrite, fresh, self.log.pending)
            self._running = self._loop.run_in_executor(self._worker, work)
            self._running.add_done_callback(lambda finished: self._finish(finished, []))

    def _finish(self, finished: "asyncio.Future[None]", batch: list[Done]) -> None:
        self._running = None
        failure = None if finished.cancelled() else finished.exception()
        if failure is not None:
            self._failure = failure if isinstance(failure, StorageError) else StorageError(str(failure))
            batch, self._waiting = batch + self._waiting, []
        for done in batch:
            done(self._failure)
        if self._waiting and self._running is None:
            self._begin()

    @property
    def idle(self) -> bool:
        """Tell whether nothing is being written."""
        return self._running is None and not self._waiting

    async def close(self) -> None:
        """Wait for what is being written, then close the journal."""
        while not self.idle:
            await asyncio.sleep(0.001)
        await self._loop.run_in_executor(self._worker, self.log.close)
        self._worker.shutdown(wait=False)
