"""A region of a game world at level optimistic: planes land, passengers leave them, nobody leaves before the landing.

The pilot publishes a landing; a passenger who has seen it publishes that it leaves the plane. Only owners of a ticket
change the region; everybody sees the changes in causal order, or is told what was skipped.

    python examples/airport.py
"""

import asyncio

from msgspec import Struct

import whence

FLIGHTS = 5


class Change(Struct):
    """What happened in the region."""

    who: str
    what: str
    flight: int


async def fly(group: whence.Group) -> None:
    """Land one plane after the other."""
    region = group.typed(Change)
    for flight in range(FLIGHTS):
        await region.publish(Change("pilot", "lands", flight))
        await asyncio.sleep(0.05)


async def travel(group: whence.Group) -> None:
    """Leave every plane once it is seen to have landed."""
    region = group.typed(Change)
    async for change, _ in region:
        if change.what == "lands":
            await region.publish(Change("passenger", "leaves", change.flight))
        if change.what == "leaves" and change.flight == FLIGHTS - 1:
            return


async def watch(group: whence.Group) -> list[Change]:
    """Look at the region from the tower."""
    seen: list[Change] = []
    async for change, delivery in group.typed(Change):
        seen.append(change)
        print(f"tower sees: {change.who} {change.what} flight {change.flight}   (ticket {delivery.ticket})")
        if len(seen) == 2 * FLIGHTS:
            break
    return seen


async def main() -> None:
    """Run pilot, passenger and tower, and check what the tower saw."""
    async with (
        whence.join(0) as pilot,
        whence.join(1, contacts=[pilot.address]) as passenger,
        whence.join(2, contacts=[pilot.address]) as tower,
    ):
        groups = await asyncio.gather(
            *[
                node.open("region", "optimistic", founders=[0, 1, 2], write=node is not tower)
                for node in (pilot, passenger, tower)
            ]
        )
        seen, *_ = await asyncio.gather(watch(groups[2]), travel(groups[1]), fly(groups[0]))
    landed: list[int] = []
    for change in seen:
        if change.what == "lands":
            landed.append(change.flight)
        elif change.flight not in landed:
            raise SystemExit(f"broken: the passenger left flight {change.flight} in the air")
    print("nobody left a plane before it had landed")


if __name__ == "__main__":
    whence.run(main())
