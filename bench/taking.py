"""What it costs to take an event from the inbox: by iterator, by batches, by on_batch, or counted
for a later incarnation.

The unit is on_batch with every payload looked at; each way is measured between two of it. Nothing is sent: bundles
of several sizes are put into an inbox, and taken from it. Time is CPU time of this process.

python bench/taking.py [--events 200000] [--repeat 9]
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from _common import arguments, finish, in_units, no_collections

from whence.api.delivery import Batch
from whence.api.inbox import Batches, Inbox, Overflow
from whence.core.offsets import Offsets
from whence.core.ready import Delivery
from whence.store.consumer_offsets import ConsumerOffsets
from whence.types import Bundle, Process, packed

BUNDLE_EVENTS = (1, 16, 1024)
RATIO_MAX = 8.0
"""The most that single events may cost, in units, in large bundles. It was 11 while an async generator made each."""


def bundles_of(events: int, each: int) -> list[Bundle]:
    """Return bundles with `each` events of 32 bytes."""
    return [packed(Process(1, 1), 1 + first, [b"x" * 32] * each) for first in range(0, events, each)]


def filled(bundles: list[Bundle], on_batch: Callable[[Batch], None] | None = None) -> Inbox:
    """Return an inbox that holds all of these, or has called the application with them."""
    inbox = Inbox("fifo", 1 << 30, Overflow.PAUSE, receive=True, on_batch=on_batch)
    for bundle in bundles:
        inbox.deliver(Delivery(bundle))
    return inbox


def called(bundles: list[Bundle]) -> float:
    """Take all by on_batch; return seconds."""
    seen = 0

    def took(batch: Batch) -> None:
        nonlocal seen
        for payload in batch.payloads():
            seen += len(payload)

    began = time.process_time()
    filled(bundles, took)
    return time.process_time() - began


def waited(bundles: list[Bundle], take: Callable[[Inbox], Awaitable[int]], counted: bool = False) -> float:
    """Put all into an inbox and take them in a loop; return seconds."""

    async def main() -> float:
        store = ConsumerOffsets(bytearray(ConsumerOffsets.BYTES))
        began = time.process_time()
        inbox = filled([])
        if counted:
            inbox.offsets = Offsets(store)
        for bundle in bundles:
            inbox.deliver(Delivery(bundle))
        inbox.end(None)
        await take(inbox)
        return time.process_time() - began

    return asyncio.run(main())


async def by_event(inbox: Inbox) -> int:
    """Take single events."""
    seen = 0
    async for delivery in inbox.deliveries:
        seen += len(delivery.payload)
    return seen


async def by_batch(inbox: Inbox) -> int:
    """Take batches, and every payload in them."""
    seen = 0
    async for batch in Batches(inbox):
        for payload in batch.payloads():
            seen += len(payload)
    return seen


def main() -> None:
    """Measure, print, judge."""
    parser = arguments(__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    given = parser.parse_args()
    events = 2_048 if given.quick else given.events
    numbers: dict[str, dict[str, float]] = {"us_per_event": {}, "ratio": {}}
    for each in BUNDLE_EVENTS:
        bundles = bundles_of(events, each)
        ways: dict[str, Callable[[], float]] = {
            "batches": lambda bundles=bundles: waited(bundles, by_batch),  # type: ignore[misc]
            "events": lambda bundles=bundles: waited(bundles, by_event),  # type: ignore[misc]
            "counted": lambda bundles=bundles: waited(bundles, by_event, counted=True),  # type: ignore[misc]
        }
        with no_collections():
            costs, ratios = in_units(given.repeat or 9, lambda bundles=bundles: called(bundles), ways)  # type: ignore[misc]
        for name, cost in costs.items():
            numbers["us_per_event"][f"{name}/{each}"] = round(cost / events * 1e6, 3)
        numbers["ratio"] |= {f"{name}/{each}": round(ratio, 2) for name, ratio in ratios.items()}
    many = f"events/{BUNDLE_EVENTS[-1]}"
    goals = {f"{many} at most {RATIO_MAX} units": numbers["ratio"][many] <= RATIO_MAX}
    finish("taking", numbers, goals, quick=given.quick)


if __name__ == "__main__":
    main()
