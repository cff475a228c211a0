"""The publishing half of a group: what is admitted (core/flow.py) waits for its bundle, and the bundle for its member.

Law: what a publish that returned has accepted is never discarded while the group is open. Where the member does not
take it yet, it waits, and whatever is published later waits behind it or is refused before it is accepted. Should it
fail after all (a lease ended, the group was closed or failed), nothing overtakes it silently: the next call raises
EventsLostError with the events, `on_lost` is called with the same, a warning is logged and a row written.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from whence.api.inbox import Inbox
from whence.api.lost import LostEvents
from whence.api.receipts import PendingBundle, Receipt
from whence.api.room import AGAIN_S, Room
from whence.core.flow import Reason, passes
from whence.errors import ClosedError, EventsLostError, NotMemberError, WhenceError
from whence.net.driver import Driver
from whence.net.outboxes import Outboxes

FLUSH_BYTES = 256 << 10
"""A bundle is sent when it has the most events one may have, or this many bytes; else at the end of the turn or
`flush_s` later, and some milliseconds after that while peers are busy or delivery takes long (core/pacing.py). An
application that publishes much in one turn fills bundles: fewer, larger ones cost every member less."""

FLUSH_S_MAX = 60.0
"""The longest that events may be gathered for a bundle. More is refused: whoever gave it thought of another unit, and
nobody would get what is published."""

ALONE_BYTES = 16 << 10
"""Events published together go out at once if they have no more bytes than this. Larger ones are batched like single
events: fewer, larger bundles cost every member less."""

BUSY_S = 0.005
"""While peers are busy with what they have, bundles grow beyond the turn, for this long."""


class Publisher:
    """Collects what a group's application publishes into bundles, and hands them to the member."""

    def __init__(
        self,
        driver: Driver,
        inbox: Inbox,
        outbox: Outboxes,
        *,
        flush_s: float,
        wait_s: float,
        on_lost: Callable[[EventsLostError], None] | None = None,
    ) -> None:
        self.lost = LostEvents(driver, on_lost)
        self.room = Room(driver, inbox, outbox, wait_s)
        self.tell_lost = driver.flow.tell_lost
        self._driver, self._flow, self._outbox = driver, driver.flow, outbox
        self._admit = driver.flow.admit
        self._events_max, self._bytes_max = driver.flow.limits.events.value, driver.flow.limits.bytes.value
        self._loop = asyncio.get_running_loop()
        self._flush_s = flush_s
        self.pending: PendingBundle | None = None
        """Events that were accepted and not handed to the member yet."""
        self._timer: asyncio.Handle | None = None
        self._leaving: asyncio.Future[None] | None = None
        """Set while an operator wants the member to leave, and it does not take what is pending yet."""
        driver.on_stop, driver.on_leave = self.flush, self.leave

    def load(self, payloads: Sequence[bytes], size: int, *, alone: bool = False) -> Receipt | None:
        """Add events to the next bundle; return None where they must wait. Raises the error that refuses them.

        Events published together may go `alone`, at once, unless the bundle has others or batching makes them arrive
        sooner.
        """
        count = len(payloads)
        if self._admit(count, size) is not None:
            return None
        pending = self.pending
        if pending is None:
            place = 0
            self.pending = pending = PendingBundle(self._driver)
            if self._driver.keeps_journal:
                pending.await_disk(self._loop)
        else:
            place = len(pending.payloads)
            if pending.size + size > self._bytes_max or place + count > self._events_max:
                self.flush()
                # The member may not have taken it, or not for good.
                return self.load(payloads, size, alone=alone) if self.pending is None else None
        pending.payloads += payloads
        pending.size += size
        receipt = Receipt(pending, place, count)
        if pending.size >= FLUSH_BYTES or place + count >= self._events_max:
            self.flush()
        elif place:
            pass  # it goes out with the first of its bundle
        elif self._flush_s:
            self._timer = self._loop.call_later(self._flush_s, self._end_of_turn)
        elif alone and size <= ALONE_BYTES and self._flow.may_go_alone(self._loop.time()):
            self._outbox.at_once(self.flush)
        else:
            self._timer = self._loop.call_soon(self._end_of_turn)
        return receipt

    async def load_with_room(self, payloads: Sequence[bytes], size: int) -> Receipt:
        """Wait until there is room. Raises BackPressureError when it takes too long."""
        if self._flow.refused is None:
            self.flush()
        return await self.room.wait(partial(self.load, payloads, size))

    # --- handing on ---

    def flush(self) -> None:
        """Hand what was published so far to the member now."""
        pending, self.pending, self._flow.refused = self.pending, None, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if pending is None:
            return
        driver = self._driver
        try:
            if driver.left:
                driver.check()
            bundle = driver.runner.publish(pending.payloads, pending.settle, keep=driver.durable)
        except WhenceError as refusal:
            if passes(refusal):
                self.pending, self._flow.refused = pending, refusal
                self._timer = self._loop.call_later(AGAIN_S, self.flush)
            else:
                self.lost.lose(pending, refusal)
        except Exception as error:  # noqa: BLE001 - a bug of ours, of any kind
            self.lost.lose(pending, driver.fail(error))
        else:
            pending.process, pending.first, pending.payloads = driver.context.me, bundle.first, []
            if pending.known is not None:
                pending.tell()

    def _end_of_turn(self) -> None:
        """Send what this turn has collected, or collect more while peers are busy with what they have."""
        pending, flow = self.pending, self._flow
        try:
            if flow.is_busy():
                self._timer = self._loop.call_later(BUSY_S, self.flush)
            elif pending is None or pending.wanted or (gap_s := flow.gap_s()) <= 0:
                self.flush()
            else:
                self._timer = self._loop.call_later(gap_s, self.flush)
                pending.on_wanted = self._hurry
        except Exception as error:  # noqa: BLE001 - a bug of ours, of any kind
            self._driver.fail(error)

    def _hurry(self) -> None:
        """Send what was held back for batching at the end of this turn: a caller waits for it."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_soon(self.flush)

    def refuse(self, why: WhenceError) -> None:
        """Accept nothing more: from now on calls that publish raise `why`, or what stopped the member."""
        self._flow.close(self._driver.failure or why)

    def leave(self) -> None:
        """Accept nothing more, and let the member leave the group once it has taken what is pending."""
        self.refuse(is_leaving(self._driver.group))
        self.flush()
        if self.pending is None:
            self._driver.leave()
        elif self._leaving is None:
            self._leaving = asyncio.ensure_future(self._leave())

    async def _leave(self) -> None:
        await self.drain(why=is_leaving(self._driver.group))
        if not self._driver.left:
            self._driver.leave()

    async def drain(self, *, patiently: bool = True, why: WhenceError | None = None) -> None:
        """Accept nothing more, and wait until the member takes what is pending; after `publish_wait_s` it is lost.
        `why` is raised by calls that publish from now on."""
        driver, flow = self._driver, self._flow
        self.refuse(why or ClosedError(f"group {driver.group!r} is closed"))
        self.flush()
        if patiently:
            await self.room.drained()
        pending, self.pending = self.pending, None
        if self._timer is not None:
            self._timer.cancel()
        if pending is not None:
            waited = f" after {self.room.wait_s:g} s" if patiently else ""
            told = f"the group was closed{waited}, before the member could take them: {flow.describe(Reason.MEMBER)}"
            self.lost.lose(pending, ClosedError(told))
        flow.refused = None


def is_leaving(group: str) -> NotMemberError:
    """Return why a member that leaves publishes nothing more."""
    return NotMemberError(f"this member is leaving group {group!r}")
