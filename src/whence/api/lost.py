"""Accepted events that are lost after all: the loss is reported to their publisher, logged and counted."""

import asyncio
import logging
from collections.abc import Callable

from whence.api.receipts import PendingBundle
from whence.errors import EventsLostError, OutcomeUnknownError, WhenceError
from whence.net.driver import Driver
from whence.types import Bundle

log = logging.getLogger("whence.net")


class LostEvents:
    """Counts and reports what one group has lost of what it accepted."""

    def __init__(self, driver: Driver, on_lost: Callable[[EventsLostError], None] | None) -> None:
        self.count = 0
        self.on_lost = on_lost
        self._driver = driver
        driver.ports.on_unheard = self._unheard

    def lose(self, pending: PendingBundle, why: WhenceError) -> None:
        """Report a bundle that the member never took and never will."""
        self._driver.ports.count("reject", type(why).__name__)
        pending.refuse(why)
        self._tell(EventsLostError(pending.payloads, why))

    def _unheard(self, bundle: Bundle) -> None:
        """Report events that were sent and, as far as can be known, reached no member."""
        numbers = f"{bundle.first}" if bundle.count == 1 else f"{bundle.first} to {bundle.last}"
        why = OutcomeUnknownError(
            f"no merger said within delta that it has event {numbers}; what comes later comes too late for its place"
        )
        self._driver.ports.count("reject", "unheard")
        self._tell(EventsLostError(bundle.payloads(), why))

    def _tell(self, lost: EventsLostError) -> None:
        driver = self._driver
        self.count += lost.count
        driver.counts["lost_events"] += lost.count
        log.warning("group %r: %s", driver.group, lost)
        driver.flow.lost(lost)
        if self.on_lost is not None:
            try:
                self.on_lost(lost)
            except Exception as error:  # noqa: BLE001 - the application's, of any kind
                failure = {"message": "on_lost failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(failure)
