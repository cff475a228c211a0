"""Publishing: an own message is stamped, counted as got here, written down, sent and handed to the order.

Law: what a message follows is what the application was handed before it, and everything published here. A full window
refuses before anything is counted.
"""

from collections.abc import Sequence

from whence.core.ready import Note, Ready, Returned
from whence.core.views.changes import Changes
from whence.core.views.items import ViewMessage
from whence.core.views.recovery import Recovery
from whence.core.views.stability import Stability
from whence.core.views.streams import Stream
from whence.epochs import forced_since, number_of
from whence.errors import LimitError, NotMemberError, RemovedError
from whence.limits import Limits
from whence.types import Bundle, Instant, Process, packed


class Publisher:
    """Publishes the events of one incarnation."""

    def __init__(self, me: Process, limits: Limits, changes: Changes, stability: Stability, recovery: Recovery) -> None:
        self.me = me
        self.changes, self.removal = changes, changes.removal
        self.state, self.links, self.journal, self.settings = (
            changes.state, changes.links, changes.journal, changes.settings,
        )  # fmt: skip
        self.order = changes.inbox.stage
        self.stability, self.recovery = stability, recovery
        self._limits = limits
        self.owed: list[Note] = []
        """Notes of a call that was refused: they go out with the next Ready."""
        self.published = 0
        """Events published in this incarnation."""

    def publish(self, payloads: Sequence[bytes], now: Instant, ready: Ready) -> Bundle:
        """Publish events as one bundle. Raises as ViewMember.publish."""
        state = self.state
        if (view := self.removal.by) is not None:
            verdict = self.removal.verdict(view)
            raise RemovedError(
                number_of(view.epoch), verdict.event, is_known=verdict.reason != "removed_unknown",
                generation=forced_since(view.epoch, state.adopted),
            )  # fmt: skip
        if not state.live or self.removal.leaving:
            raise NotMemberError("only a member may publish, and this process is none, or is leaving")
        bundle, count, own = packed(self.me, self.published + 1, payloads), len(payloads), state.own
        self._limits.check(count, len(bundle.body), self.published)
        self._check_room(own, len(bundle.body))
        self.published += count
        self.recovery.bundles += 1
        taken = []
        if state.entered == state.adopted and not state.awaits_begun():
            state.count_taken()
            if state.remembers:
                self.journal.taken(ready)
            taken = [stream.taken for stream in state.here]
        message = ViewMessage(
            state.place, state.entered, self.changes.past(own), self.order.next_clock(now), self.settings.majority,
            taken, bundle,
        )  # fmt: skip
        ready.published = Returned(bundle)
        ready.mark = self.order.mark_of(message)
        self.changes.count_own(own, message)
        self.stability.retained_bytes += len(bundle.body)
        if state.remembers:
            self.journal.own(message, ready)
        if self.settings.majority:
            self.journal.barrier(ready)
        self.links.send(message, own.got, now, ready)
        self.order.got(own, message, 0, now, ready)
        self.links.watch(now)
        return bundle

    def _check_room(self, own: Stream, size: int) -> None:
        settings = self.settings
        records_max, bytes_max = settings.records_max // 4, settings.retained_bytes_max // 4
        if len(own.retained) < records_max and self.stability.retained_bytes + size <= bytes_max:
            return
        aside = Ready()
        self.stability.settle(aside)
        self.owed += aside.notes
        if len(own.retained) >= records_max:
            raise LimitError("records_max // 4", records_max, len(own.retained) + 1, transient=True)
        if self.stability.retained_bytes and self.stability.retained_bytes + size > bytes_max:
            raise LimitError("retained_bytes_max // 4", bytes_max, self.stability.retained_bytes + size, transient=True)
