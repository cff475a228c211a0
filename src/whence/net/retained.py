"""Bundles that stay on disk until every member has them, and the journal, rewritten when most of it is of no use.

Law: an own bundle is let go once every other member has it, one of an earlier life once it was offered for OFFER_TICKS.
When a journal is worth rewriting is decided in net/compaction.py.
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
"""Ticks as a member after which bundles of earlier lives count as asked for by whoever lacked them."""


class RetainedBundles:
    """What one member promised to keep, and its journal."""

    def __init__(
        self, me: Process, runner: Runner, settling: Settling, commit: Commit | None, counts: Counter[str],
        guarded: Callable[[Callable[[], None]], Callable[[], None]],
    ) -> None:  # fmt: skip
        """`guarded` wraps what the loop will call, so that a bug there is heard of."""
        self.bundles: deque[Bundle] = deque()
        """Oldest first; those of earlier lives before those of this one."""
        self._me, self._runner, self._settling = me, runner, settling
        self._commit, self._counts, self._guarded = commit, counts, guarded
        self._compaction = Compaction()
        self._loop = asyncio.get_running_loop()
        self._ticks_joined = 0
        if commit is not None:
            commit.compaction = self.compacted

    def restore(self, records: Sequence[bytes]) -> None:
        """Take up what earlier lives persisted: the member's own, and bundles to be kept. Raises StorageError."""
        self.bundles.extend(self._runner.restore(records))

    def offer_again(self) -> None:
        """Offer the bundles of earlier lives to the group: whoever lacks them will ask for them."""
        runner = self._runner
        for bundle in [bundle for bundle in self.bundles if bundle.process != self._me]:
            runner.feed(runner.member.receive, bundle.process, Push([bundle]))

    def tick(self, *, joined: bool) -> None:
        """Let go of bundles that everybody has; rewrite the journal when most of it is of no use."""
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
        """Return records that stand for the whole journal and all that waits for the disk; None if not worth it."""
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
        self._loop.call_later(self._compaction.pause_s, self._guarded(commit.shrink))  # nobody else may
        return None
