"""An audit log across three services at level total: the same entries in the same order everywhere.

python examples/audit.py
"""

import asyncio

import whence

SERVICES = ["orders", "payments", "shipping"]
ENTRIES = 5


async def serve(group: whence.Group, name: str) -> list[str]:
    """Write entries, and read the whole log."""
    for number in range(ENTRIES):
        await group.publish(f"{name}: step {number}".encode())
    log: list[str] = []
    async for delivery in group:
        log.append(f"{delivery.payload.decode()}   key {delivery.key}")
        if len(log) == ENTRIES * len(SERVICES):
            break
    return log


async def main() -> None:
    """Run three services and compare their logs."""
    async with (
        whence.join(0) as orders,
        whence.join(1, contacts=[orders.address]) as payments,
        whence.join(2, contacts=[orders.address]) as shipping,
    ):
        groups = await asyncio.gather(
            *[node.open("audit", "total", founders=[0, 1, 2]) for node in (orders, payments, shipping)]
        )
        logs = await asyncio.gather(*[serve(*each) for each in zip(groups, SERVICES, strict=True)])
    for line in logs[0]:
        print(line)
    if not logs[0] == logs[1] == logs[2]:
        raise SystemExit("broken: the logs differ")
    print("three logs, one order")


if __name__ == "__main__":
    whence.run(main())
