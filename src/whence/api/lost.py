"""Published events that are lost after all: the loss is reported to their publisher, logged and counted."""

import asyncio
import logging
from collections.abc import Callable

from whence.api.receipts import PendingBundle
from whence.errors import EventsLostError, NotMemberError, OutcomeUnknownError, RemovedError, WhenceError
from whence.net.driver import Driver
from whence.types import Bundle

log = logging.getLogger("whence.net")


class LostEvents:
    """Counts and reports what one group has lost of what was published to it."""

    def __init__(self, driver: Driver, on_lost: Callable[[EventsLostError], None] | None) -> None:
        self.count = 0
        self.on_lost = on_lost
        self._driver = driver
        driver.ports.on_unheard, driver.on_lost, driver.on_unsent = self._unheard, self._left_out, self._unsent

    def lose(self, pending: PendingBundle, why: WhenceError) -> None:
        """Report a bundle that the member never took and never will."""
        if isinstance(why, RemovedError):
            self._left_out(why)  # it was published before
        self._driver.ports.count("reject", type(why).__name__)
        pending.refuse(why)
        self._tell(EventsLostError(pending.payloads, why))

    def lost_before(self) -> None:
        """Report, as the group is opened, what the member that this process was has lost, if nobody was told of it."""
        lost, loop = self._of_views(), asyncio.get_running_loop()
        if lost is not None:
            self._count(lost)
            loop.call_soon(self._call, lost)  # the application has no group yet

    def _left_out(self, why: RemovedError | None = None) -> None:
        """Report what was published here and a view leaves out: the others went on without this member."""
        if (lost := self._of_views(why)) is not None:
            self._tell(lost)

    def _of_views(self, why: WhenceError | None = None) -> EventsLostError | None:
        driver = self._driver
        payloads = [payload for bundle in driver.lost() for payload in bundle.payloads()]
        why = why or driver.verdict or driver.former or NotMemberError(
            "the others went on without the member that published them, and they never take effect"
        )  # fmt: skip
        return EventsLostError(payloads, why) if payloads else None

    def _unsent(self, bundles: list[Bundle], error: WhenceError) -> None:
        """Report events that waited for the disk when the member failed; of a disk that failed nobody knows what it
        has."""
        why = OutcomeUnknownError(
            "they were sent to nobody yet; started again with its data directory, this process sends those that it "
            f"finds there ({error})"
        )
        self._driver.ports.count("reject", "unsent")
        self._tell(EventsLostError([payload for bundle in bundles for payload in bundle.payloads()], why))

    def _unheard(self, bundle: Bundle) -> None:
        """Report events that were sent and, as far as can be known, reached no member."""
        numbers = f"{bundle.first}" if bundle.count == 1 else f"{bundle.first} to {bundle.last}"
        why = OutcomeUnknownError(
            f"no merger said within delta that it has event {numbers}; what comes later comes too late for its place"
        )
        self._driver.ports.count("reject", "unheard")
        self._tell(EventsLostError(bundle.payloads(), why))

    def _tell(self, lost: EventsLostError) -> None:
        self._count(lost)
        self._call(lost)

    def _count(self, lost: EventsLostError) -> None:
        driver = self._driver
        self.count += lost.count
        driver.counts["lost_events"] += lost.count
        log.warning("group %r: %s", driver.group, lost)
        driver.flow.lost(lost)

    def _call(self, lost: EventsLostError) -> None:
        if self.on_lost is not None:
            try:
                self.on_lost(lost)
            except Exception as error:  # noqa: BLE001 - the application's, of any kind
                failure = {"message": "on_lost failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(failure)
