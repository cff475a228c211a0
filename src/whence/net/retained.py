"""Bundles that stay on disk until the members have them, and the journal, rewritten when most of it is obsolete.

Law: an own bundle is released once every other member has it, one of an earlier incarnation once it was offered for
OFFER_TICKS. net/compaction.py decides when a journal is worth rewriting.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence

from whence.core.dissemination.direct import Push
from whence.core.member import Sized
from whence.core.runner import Marked, Runner
from whence.net.commit import Commit
from whence.net.compaction import Compaction
from whence.net.settling import Settling
from whence.types import Bundle, Process

OFFER_TICKS = 100
"""Ticks as a member after which every member that lacked a bundle of an earlier incarnation has had time to ask for
it."""


class RetainedBundles:
    """The bundles that one member promised to retain, and its journal."""

    def __init__(
        self, me: Process, runner: Runner, settling: Settling, commit: Commit | None, counts: Counter[str],
        guarded: Callable[[Callable[[], None]], Callable[[], None]],
    ) -> None:  # fmt: skip
        """`guarded` wraps what the loop will call, so that a bug there is reported."""
        self.bundles: deque[Bundle] = deque()
        """Oldest first; those of earlier incarnations before those of this one."""
        self._me, self._runner, self._settling = me, runner, settling
        self._commit, self._counts, self._guarded = commit, counts, guarded
        self._compaction = Compaction()
        self._loop = asyncio.get_running_loop()
        self._ticks_joined = 0
        if commit is not None:
            commit.compaction = self.compacted

    def restore(self, records: Sequence[bytes]) -> None:
        """Resume what earlier incarnations persisted: the member's own records, and bundles to retain. Raises
        StorageError."""
        self.bundles.extend(self._runner.restore(records))

    def offer_again(self) -> None:
        """Offer the bundles of earlier incarnations to the group: members that lack them will ask for them."""
        runner = self._runner
        for bundle in [bundle for bundle in self.bundles if bundle.process != self._me]:
            runner.receive(bundle.process, [Push([bundle])])

    def tick(self, *, joined: bool) -> None:
        """Release bundles that every member has; rewrite the journal when most of it is obsolete."""
        self._ticks_joined += joined
        if self.bundles:
            self._let_go(self._settling.settled())
        if self._commit is not None:
            self._commit.shrink()

    def _let_go(self, settled: int) -> None:
        bundles = self.bundles
        while bundles:
            is_own = bundles[0].process == self._me
            if bundles[0].last > settled if is_own else self._ticks_joined < OFFER_TICKS:
                break
            bundles.popleft()

    def compacted(self) -> list[Marked] | None:
        """Return records that stand for the whole journal and all pending records; None if it is not worthwhile."""
        commit, runner = self._commit, self._runner
        assert commit is not None
        size, now = commit.log.size, self._loop.time()
        if runner.stopped or not self._compaction.due(size, now):
            return None
        records: list[Marked] = []
        bundles = [*self.bundles, *(bundle for _, bundle in runner.unfinished())]
        at_least = runner.member.checkpoint_bytes() if isinstance(runner.member, Sized) else 0
        counts = at_least + sum([len(bundle.body) for bundle in bundles])
        if counts <= size // 2:
            made = runner.checkpoint(self.bundles)
            if made is None:
                return None  # only the member knows which of its records still count
            records = made
            counts = sum([len(record) for _, record in records])
        if self._compaction.worth(size, counts, now):
            self._counts["compactions"] += 1
            return records
        self._loop.call_later(self._compaction.pause_s, self._guarded(commit.shrink))  # nothing else may do it
        return None
