"""What a publisher can know of its events: accepted, stored, settled; and the bundle they travel in until then."""

import asyncio
from collections.abc import Callable
from enum import StrEnum

from whence.errors import OutcomeUnknownError, UsageError, WhenceError
from whence.net.driver import Driver
from whence.types import Bundle, EventId, Process


class Durability(StrEnum):
    """What an acknowledgement promises, weakest first."""

    ACCEPTED = "accepted"
    STORED = "stored"
    SETTLED = "settled"


class Receipt:
    """What is known of events that were published together, and what can still be waited for."""

    __slots__ = ("_at", "_count", "_flight")

    def __init__(self, flight: "Flight", at: int, count: int) -> None:
        self._flight, self._at, self._count = flight, at, count

    @property
    def event(self) -> EventId:
        """Return the first event's identity. Raises OutcomeUnknownError before it has one; await `accepted` first."""
        flight = self._flight
        if flight.process is None:
            raise OutcomeUnknownError("the event has no number yet; await receipt.accepted() first")
        return EventId(*flight.process, flight.first + self._at)

    @property
    def place(self) -> int:
        """Return how many events are before it in its bundle."""
        return self._at

    @property
    def full(self) -> bool:
        """Tell whether its bundle has gone out already."""
        return self._flight.process is not None

    async def accepted(self) -> EventId:
        """Wait until the member has taken the events; return the first one's identity. Raises what it refused."""
        await self._flight.accepted()
        return self.event

    async def stored(self) -> EventId:
        """Wait until the events survive a crash of this process. Raises StorageError, UsageError."""
        await self.accepted()
        if not self._flight.driver.stores:
            raise UsageError("this group stores nothing; open it with durable=True and a data directory")
        assert self._flight.stored is not None
        await asyncio.shield(self._flight.stored)
        return self.event

    async def settled(self) -> EventId:
        """Wait until every known member has the events. Raises UsageError where the level cannot tell."""
        first = await self.accepted()
        driver = self._flight.driver
        if driver.settled() is None:
            raise UsageError(f"level {driver.role.level} with these settings cannot tell what is settled")
        last = first.seq + self._count - 1
        await driver.until(lambda: (driver.settled() or 0) >= last or driver.left)
        if (driver.settled() or 0) < last:
            raise OutcomeUnknownError("the group was closed before all members were known to have the events")
        return first


class Flight:
    """The events that will travel as one bundle. Who does not ask for their fate pays nothing for being told it."""

    __slots__ = ("_known", "driver", "first", "on_wanted", "payloads", "process", "refusal", "since", "size", "stored",
                 "wanted")  # fmt: skip

    def __init__(self, driver: Driver, loop: asyncio.AbstractEventLoop) -> None:
        self.driver = driver
        self.payloads: list[bytes] = []
        self.size = 0
        self.process: Process | None = None
        self.first = 0
        self.refusal: WhenceError | None = None
        self.since = loop.time()
        self.stored: asyncio.Future[None] | None = loop.create_future() if driver.keeps_journal else None
        self.wanted = False
        """Somebody waits for it: it is not held back for company."""
        self.on_wanted: Callable[[], None] | None = None
        self._known: asyncio.Future[None] | None = None

    def accept(self, bundle: Bundle) -> None:
        """Learn that the member has taken the events as this bundle."""
        self.process, self.first = bundle.process, bundle.first
        self.payloads = []
        self._tell()

    def refuse(self, refusal: WhenceError) -> None:
        """Learn that the member will not take the events."""
        self.refusal = refusal
        self._tell()

    async def accepted(self) -> None:
        """Wait until the member has taken the events. Raises what it refused."""
        if self.process is None and self.refusal is None:
            self.wanted = True
            if self._known is None:
                self._known = asyncio.get_running_loop().create_future()
            if self.on_wanted is not None:
                self.on_wanted()
            await asyncio.shield(self._known)
        if self.refusal is not None:
            raise self.refusal

    def _tell(self) -> None:
        if self._known is not None and not self._known.done():
            self._known.set_result(None)
