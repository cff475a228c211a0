"""The publishing half of a group: events wait for their bundle, and bundles for room.

Law: what a publish that returned has accepted is never discarded while the group lives. Where the member does not take
it yet, it waits, and whatever is published later waits behind it or is refused before it is accepted. Should it fail
after all (a lease ended, the group was closed or failed), nothing overtakes it in silence: the next call raises
EventsLostError with the events, `on_lost` is called with the same, a warning is logged and a row written.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from whence.api.inbox import Inbox
from whence.api.patience import saying
from whence.api.receipts import Flight, Receipt
from whence.core.settings import by_name
from whence.errors import (
    BackPressureError,
    ClosedError,
    EventsLostError,
    LimitError,
    OutcomeUnknownError,
    PayloadError,
    StalledError,
    WhenceError,
)
from whence.limits import BUNDLE_BYTES_MAX, BUNDLE_EVENTS_MAX
from whence.net.driver import Driver
from whence.net.outboxes import LIGHT_BYTES
from whence.net.pace import QUICK_S
from whence.types import Bundle

if TYPE_CHECKING:
    from whence.api.node import Node

log = logging.getLogger("whence.net")

FLUSH_BYTES = 256 << 10
"""A bundle is sent when it has as many events as one may have, or so many bytes; else at the end of the turn or
`flush_s` later, and some milliseconds after that while peers are busy or delivery takes long (net/pace.py). Whoever
publishes much in one turn fills bundles: fewer, larger ones cost every member less."""

ALONE_BYTES, ALONE_S = 16 << 10, 0.001
"""What is published together, and not more than so much, goes out at once, so often. What is larger, or follows sooner,
is gathered like single events: fewer, larger bundles cost every member less."""

BUSY_BYTES = 256 << 10
BUSY_S = 0.005
"""While so many bytes wait for a peer, or a quarter of the credit is used, sending sooner would not make anything
arrive sooner: bundles then grow beyond the turn, for so long."""

AGAIN_S = 0.002
"""What a member refuses because too much is under way is offered to it again after so long."""

LOST_BYTES_MAX = 4 << 20
"""Payload bytes of lost events that wait to be told. Full: further ones are told without their payloads."""


class Publisher:
    """Gathers what a group's application publishes into bundles, and hands them to the member."""

    def __init__(
        self,
        node: "Node",
        driver: Driver,
        inbox: Inbox,
        *,
        flush_s: float,
        wait_s: float,
        on_lost: Callable[[EventsLostError], None] | None = None,
    ) -> None:
        self.alone_at = 0.0
        """When something last went out at once."""
        self.loop = asyncio.get_running_loop()
        self.lost_events = 0
        self._driver = driver
        self._inbox = inbox
        self._flush_s, self._wait_s = flush_s, wait_s
        self._on_lost = on_lost
        self._flight: Flight | None = None
        self._timer: asyncio.Handle | None = None
        self._refusal: WhenceError | None = None
        """Why the member does not take the bundle that waits; it will."""
        self._lost: EventsLostError | None = None
        """What was lost and the publisher has not been told of."""
        self._closing = False
        self.may_write = node.live.permits.may(node.pid, driver.group, "write")
        self._live = node.live
        self._outboxes = node.live.outboxes
        settings = by_name(driver.context.settings)
        self.events_limit = _least("publish_events_max", settings["publish_events_max"], BUNDLE_EVENTS_MAX)
        self._bytes_limit = _least("publish_bytes_max", settings["publish_bytes_max"], BUNDLE_BYTES_MAX)
        kept_bytes = settings.get("retained_bytes_max", BUNDLE_BYTES_MAX * 4) // 4
        if kept_bytes < self._bytes_limit[1]:
            self._bytes_limit = ("retained_bytes_max // 4", kept_bytes)
        self._events_max, self._bytes_max = self.events_limit[1], self._bytes_limit[1]
        driver.ports.on_unheard = self._unheard
        self._flush_later = driver.guarded(self.flush)
        self._turn_ends = driver.guarded(self._end_of_turn)

    # --- accepting ---

    def load(self, payloads: Sequence[bytes], size: int, *, alone: bool = False) -> Receipt | None:
        """Put events aboard the next bundle; return None where there is no room.

        What is published together may go `alone`, at once, unless others are aboard or company makes it arrive sooner.
        """
        driver = self._driver
        if self._lost is not None or driver.left or driver.failure is not None or self._closing:
            self._refuse_to_load()
        if not self.may_write:
            self._live.check_act(driver.group, "publish")
        if driver.may_refuse and (refusal := driver.refusal()) is not None:
            raise refusal
        if size > self._bytes_max:
            raise LimitError(*self._bytes_limit, size)
        quiet = self._is_quiet()
        if not quiet and self._obstacle() is not None:
            return None
        flight = self._flight
        if flight is not None and (
            flight.size + size > self._bytes_max or len(flight.payloads) + len(payloads) > self._events_max
        ):
            self.flush()
            flight = self._flight  # the member may not have taken it
            if flight is not None or self._lost is not None:
                return None
        fresh = flight is None
        if flight is None:
            self._flight = flight = Flight(driver, self.loop, self.obstacle)
        at = len(flight.payloads)
        flight.payloads += payloads
        flight.size += size
        receipt = Receipt(flight, at, len(payloads))
        if flight.size >= FLUSH_BYTES or len(flight.payloads) >= self._events_max:
            self.flush()
        elif fresh and alone and size <= ALONE_BYTES and self._may_go(quiet=quiet):
            self._outboxes.at_once(self.flush)
        elif fresh:
            self._timer = (
                self.loop.call_later(self._flush_s, self._turn_ends)
                if self._flush_s
                else self.loop.call_soon(self._turn_ends)
            )
        return receipt

    def _refuse_to_load(self) -> None:
        """Say why nothing more is accepted; first of all, what of the accepted was lost."""
        driver = self._driver
        if (driver.left or driver.failure is not None) and self._flight is not None:
            self.flush()
        self.tell_lost()
        raise driver.failure or ClosedError(f"group {driver.group!r} is closed")

    async def load_with_room(self, payloads: Sequence[bytes], size: int) -> Receipt:
        """Wait until there is room. Raises BackPressureError when it takes too long."""
        if self._refusal is None:
            self.flush()
        obstacle = self._obstacle()
        try:
            async with asyncio.timeout(self._wait_s):
                with saying(lambda: f"group {self._driver.group!r} waits for room: {self.obstacle(obstacle)}"):
                    while True:
                        await asyncio.sleep(0)
                        now = self._obstacle()
                        obstacle = now or obstacle
                        if now == "inbox":
                            await self._inbox.room()
                        elif now == "outbox":
                            await self._outboxes.relief()
                        elif now == "member":
                            await asyncio.sleep(AGAIN_S)
                        elif now == "credit":
                            await self._driver.relief.wait()
                        receipt = self.load(payloads, size)
                        if receipt is not None:
                            return receipt
        except TimeoutError:
            raise self.pressure(obstacle) from None

    # --- handing on ---

    def flush(self) -> None:
        """Hand what was published so far to the member now."""
        flight, self._flight, self._refusal = self._flight, None, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if flight is None:
            return
        try:
            bundle = self._driver.publish(flight.payloads, flight.stored)
        except WhenceError as refusal:
            if _passes(refusal):
                self._flight, self._refusal = flight, refusal
                self._timer = self.loop.call_later(AGAIN_S, self._flush_later)
            else:
                self._lose(flight, refusal)
        except Exception as error:  # noqa: BLE001 - a bug of ours, of any kind
            self._lose(flight, self._driver.fail(error))
        else:
            flight.accept(bundle)

    def _end_of_turn(self) -> None:
        """Send what this turn has gathered, or gather more while peers are busy with what they have."""
        flight = self._flight
        if self._is_busy():
            self._timer = self.loop.call_later(BUSY_S, self._flush_later)
        elif flight is None or flight.wanted or (wait_s := self._driver.credit.wait_s()) <= 0:
            self.flush()
        else:
            self._timer = self.loop.call_later(wait_s, self._flush_later)
            flight.on_wanted = self._hurry

    def _hurry(self) -> None:
        """Send what was held back for company at the end of this turn: somebody waits for it."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_soon(self._flush_later)

    async def drain(self, *, patiently: bool = True) -> None:
        """Accept nothing more, and wait until the member has taken what waits; after `publish_wait_s` it is lost."""
        self._closing = True
        self.flush()
        deadline = self.loop.time() + (self._wait_s if patiently else 0.0)
        while self._refusal is not None and self.loop.time() < deadline:
            await asyncio.sleep(AGAIN_S)
        flight, why, self._flight, self._refusal = self._flight, self._refusal, None, None
        if self._timer is not None:
            self._timer.cancel()
        if flight is not None:
            self._lose(flight, self.pressure("member", why))

    # --- what was lost ---

    def tell_lost(self) -> None:
        """Raise EventsLostError, once, if accepted events were lost since the last call."""
        lost, self._lost = self._lost, None
        if lost is not None:
            raise lost

    def _lose(self, flight: Flight, why: WhenceError) -> None:
        self._driver.ports.count("reject", type(why).__name__)
        flight.refuse(why)
        self._note_lost(EventsLostError(flight.payloads, why))

    def _unheard(self, bundle: Bundle) -> None:
        """Tell of events that were sent in vain, as far as can be known."""
        numbers = f"{bundle.first}" if bundle.count == 1 else f"{bundle.first} to {bundle.last}"
        why = OutcomeUnknownError(
            f"no merger said within delta that it has event {numbers}; what comes later comes too late for its place"
        )
        self._driver.ports.count("reject", "unheard")
        self._note_lost(EventsLostError(bundle.payloads(), why))

    def _note_lost(self, lost: EventsLostError) -> None:
        driver = self._driver
        self.lost_events += lost.count
        driver.counts["lost_events"] += lost.count
        log.warning("group %r: %s", driver.group, lost)
        self._lost = lost if self._lost is None else self._lost.and_then(lost, LOST_BYTES_MAX)
        if self._on_lost is not None:
            try:
                self._on_lost(lost)
            except Exception as error:  # noqa: BLE001 - the application's, of any kind
                self.loop.call_exception_handler({"message": "on_lost failed", "exception": error})

    # --- room ---

    def _is_quiet(self) -> bool:
        """Tell at little cost that nobody is behind and delivery is quick: then nothing else has to be looked at."""
        outboxes, inbox, driver = self._outboxes, self._inbox, self._driver
        credit = driver.credit
        return (
            not outboxes.most_waiting
            and outboxes.unlooked_bytes <= LIGHT_BYTES
            and inbox.events < inbox.events_max
            and credit.away_bytes <= credit.quiet_bytes
            and credit.pace is not None
            and credit.pace.delivery_s <= QUICK_S
            and not driver.may_hold_back
            and self._refusal is None
        )

    def _may_go(self, *, quiet: bool) -> bool:
        """Tell whether something may go out at once, without company."""
        now = self.loop.time()
        if self._flush_s or now - self.alone_at < ALONE_S:
            return False
        if not quiet and (self._is_busy() or self._driver.credit.wait_s() > 0):
            return False
        self.alone_at = now
        return True

    def _is_busy(self) -> bool:
        return self._outboxes.waiting_bytes() > BUSY_BYTES or self._driver.credit.is_strained()

    def _obstacle(self) -> str | None:
        """Return what stands in the way of publishing now."""
        if self._refusal is not None:
            return "member"
        if self._inbox.full():
            return "inbox"
        if self._outboxes.congested():
            return "outbox"
        return "credit" if self._driver.congested() else None

    def pressure(self, obstacle: str | None = None, refusal: WhenceError | None = None) -> WhenceError:
        """Return the error that names the limit which is reached, and who is behind."""
        obstacle, refusal = obstacle or self._obstacle(), refusal or self._refusal
        if isinstance(refusal, StalledError):
            return refusal
        if obstacle == "inbox":
            asked = self._inbox.events + 1
            return BackPressureError("inbox_events_max", self._inbox.events_max, asked, "the application here")
        if obstacle == "member" and isinstance(refusal, LimitError):
            return BackPressureError(refusal.name, refusal.value, refusal.asked, _named(self._driver.settling.behind()))
        if obstacle == "outbox":
            high = self._outboxes.settings.outbox_high_bytes
            waiting = {peer.pid: peer.waiting_bytes() for peer in self._live.peers.connected()}
            behind = [pid for pid, size in waiting.items() if size > high] or list(waiting)
            return BackPressureError("outbox_high_bytes", high, max(waiting.values(), default=0), _named(behind))
        return self._driver.settling.pressure()

    def obstacle(self, obstacle: str | None = None) -> str:
        """Say which limit is reached, and who is behind."""
        why = self.pressure(obstacle)
        if not isinstance(why, BackPressureError):
            return str(why)
        return f"{why.name} is {why.value}" + (f", and {why.behind} must take more" if why.behind else "")


def checked(payload: bytes | bytearray | memoryview) -> bytes:
    """Return a payload as bytes that nobody can change any more. Raises PayloadError for anything else."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    raise PayloadError(
        f"a payload is bytes, bytearray or memoryview, not {type(payload).__name__}; encode it first, or use typed()"
    )


def all_checked(payloads: Iterable[bytes | bytearray | memoryview], limit: tuple[str, int]) -> Sequence[bytes]:
    """Return payloads to publish together as bytes. Raises PayloadError, and LimitError for none or too many."""
    if isinstance(payloads, str | bytes | bytearray | memoryview):
        raise PayloadError(
            f"publish_many takes several payloads, not one {type(payloads).__name__}; use publish for it"
        )
    if not isinstance(payloads, list | tuple):
        try:
            payloads = list(islice(payloads, limit[1] + 1))
        except TypeError:
            raise PayloadError(f"publish_many takes several payloads, not {type(payloads).__name__}") from None
    if not payloads:
        raise LimitError("the least number of events to publish", 1, 0)
    if len(payloads) > limit[1]:
        raise LimitError(*limit, len(payloads))
    if list(map(type, payloads)).count(bytes) != len(payloads):
        return list(map(checked, payloads))
    return payloads  # type: ignore[return-value]


def _least(name: str, chosen: int, wire: int) -> tuple[str, int]:
    """Return a limit by the name of whoever sets it: the level's settings, or the wire."""
    return (name, chosen) if chosen < wire else (name.replace("publish", "bundle").upper(), wire)


def _passes(refusal: WhenceError) -> bool:
    """Tell whether a member that refuses now will take the same a little later."""
    return isinstance(refusal, StalledError) or (isinstance(refusal, LimitError) and refusal.transient)


def _named(pids: Iterable[int]) -> str:
    """Return processes as a sentence names them."""
    listed = [str(pid) for pid in islice(pids, 9)]
    if not listed:
        return ""
    more = " and others" if len(listed) > 8 else ""
    return f"{'process' if len(listed) == 1 else 'processes'} {', '.join(listed[:8])}{more}"
