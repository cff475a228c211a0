"""What a node stores on disk for its groups: journals, consumer offsets, and traces."""

import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from weakref import WeakSet, WeakValueDictionary

from whence.core.level import remembers
from whence.core.settings import by_name
from whence.errors import TraceError
from whence.net.commit import Commit
from whence.net.context import GroupContext, GroupStorage
from whence.net.recorder import TraceRecorder
from whence.net.settings import NetSettings
from whence.store.consumer_offsets import ConsumerOffsets
from whence.store.directory import DataDirectory
from whence.store.log import Log
from whence.trace.segments import TraceSegmentWriter

log = logging.getLogger("whence.net")


class GroupFiles:
    """The files of all groups of a node."""

    def __init__(
        self, data: DataDirectory | None, trace: Path | None, settings: NetSettings, counts: "Counter[str]",
        name: str = "",
    ) -> None:  # fmt: skip
        """`name`: the process's name, which goes into the head of every segment of a trace."""
        self.storage: dict[str, GroupStorage] = {}
        """What each open group stores for its next incarnation."""
        self._data, self._trace, self._name = data, trace, name
        self._settings, self._counts = settings, counts
        self._segments: dict[str, TraceSegmentWriter] = {}
        self._rested: WeakSet[TraceSegmentWriter] = WeakSet()
        self._untaken: WeakValueDictionary[str, ConsumerOffsets] = WeakValueDictionary()
        """Of closed groups: what their applications still take is counted there, until the group is opened again."""

    def open_storage(self, group: str) -> tuple[GroupStorage | None, list[bytes]]:
        """Return the storage of a group and the records that earlier incarnations left. Raises StorageError."""
        if self._data is None:
            return None, []
        if group not in self.storage:
            if (former := self._untaken.pop(group, None)) is not None:
                former.close()  # what was handed out and not taken comes again
            stem = self._data.stem(group)
            journal, counters = stem.with_suffix(".journal"), stem.with_suffix(".steps")
            self._data.check_stored(group, [journal, counters])
            owner = self._data.owner()
            with ExitStack() as opened:
                offsets = ConsumerOffsets.at(counters, owner)
                opened.callback(offsets.close)
                kept = Log(journal, owner=owner)
                opened.callback(kept.close)
                number = self._data.begin_opening(group, (counters, offsets.opened), (journal, kept.opened))
                offsets.note_opened(number)  # before the journal: see store/owner.py
                kept.note_opened(number)
                self._data.note_opened(group, number)
                opened.pop_all()
            self.storage[group] = GroupStorage(Commit(kept), offsets)
        storage = self.storage[group]
        records, storage.commit.log.records = storage.commit.log.records, []
        return storage, records

    def open_trace(self, context: GroupContext, founders: Sequence[int]) -> TraceRecorder | None:
        """Return a recorder of what a member does; None where nothing is traced."""
        if self._trace is None:
            return None
        earlier = [incarnation for incarnation in context.incarnations if incarnation < context.me.incarnation]
        about = {
            "durable": remembers(context.spec, context.settings), "previous": max(earlier, default=None),
            "founders": list(founders), "name": self._name, "settings": by_name(context.settings),
        }  # fmt: skip
        self._segments[context.group] = segments = TraceSegmentWriter(
            self._trace, context.group, context.level, *context.me, self._settings.trace_segment_bytes,
            self._settings.trace_segments_max, on_lost=self._rows_lost, about=about,
        )  # fmt: skip
        return TraceRecorder(segments, context.me, context.group, payloads=self._settings.trace_payloads)

    def flush_traces(self) -> None:
        """Write out the pending rows."""
        for segments in self._segments.values():
            segments.flush()

    async def release(self, group: str) -> None:
        """Release the files and threads of a group that is no longer open."""
        storage, segments = self.storage.pop(group, None), self._segments.pop(group, None)
        if segments is not None:
            segments.rest()
            self._rested.add(segments)
        if storage is not None:
            self._untaken[group] = storage.offsets
            await storage.commit.close()

    async def close(self) -> None:
        """Close every file."""
        for group in list(self.storage):
            await self.release(group)
        for segments in [*self._segments.values(), *self._rested]:
            segments.close()
        for offsets in list(self._untaken.values()):
            offsets.close()
        if self._data is not None:
            self._data.close()

    def _rows_lost(self, count: int, error: TraceError) -> None:
        """Go on without rows that the disk does not accept: their numbers are missing, so no reader trusts the rest."""
        if not self._counts["trace_rows_lost"]:
            log.error("the trace is incomplete from now on: %s", error)
        self._counts["trace_rows_lost"] += count
