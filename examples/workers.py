"""A pool of workers on tickets: each job is done under a ticket, and its epoch fences late writes out.

A worker that owns a ticket publishes results marked with the ticket and its epoch. The store that receives them keeps
the highest epoch of each ticket and refuses anything older, so a worker that was paused and replaced does no harm.

    python examples/workers.py
"""

import asyncio

import whence

JOBS = 12


class Store:
    """Takes results, unless a newer owner of the same ticket has written."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.results: dict[bytes, int] = {}
        self.refused = 0

    def take(self, delivery: whence.Delivery) -> None:
        """Keep a result under its fencing token."""
        if delivery.ticket is None or delivery.epoch is None:
            raise SystemExit("broken: a result without a ticket")
        self.write(delivery.payload, delivery.sender, delivery.ticket, delivery.epoch)

    def write(self, payload: bytes, sender: int, ticket: int, epoch: int) -> None:
        """Keep what is written with a token, unless a newer one has been seen."""
        if epoch < self.epochs.get(ticket, 0):
            self.refused += 1
            return
        self.epochs[ticket] = epoch
        self.results[payload] = sender


async def work(group: whence.Group, jobs: "asyncio.Queue[bytes]") -> None:
    """Own a ticket, then do jobs until none is left."""
    await group.acquire_ticket()
    while not jobs.empty():
        job = jobs.get_nowait()
        await (await group.publish(job)).accepted()
        await asyncio.sleep(0.02)


async def main() -> None:
    """Run two workers and a store."""
    jobs: asyncio.Queue[bytes] = asyncio.Queue()
    for number in range(JOBS):
        jobs.put_nowait(b"job %d" % number)
    async with (
        whence.join(0) as keeper,
        whence.join(1, contacts=[keeper.address]) as one,
        whence.join(2, contacts=[keeper.address]) as two,
    ):
        groups = await asyncio.gather(
            *[node.open("pool", "optimistic", founders=[0, 1, 2]) for node in (keeper, one, two)]
        )
        store = Store()
        working = asyncio.gather(work(groups[1], jobs), work(groups[2], jobs))
        async for delivery in groups[0]:
            store.take(delivery)
            print(f"{delivery.payload.decode()} by worker {delivery.sender}: ticket {delivery.ticket}, "
                  f"epoch {delivery.epoch}")  # fmt: skip
            if len(store.results) == JOBS:
                break
        await working
        last = next(iter(store.epochs))
        store.write(b"late write", 9, last, 0)
    print(f"{len(store.results)} jobs done; a late write with an old token was refused: {store.refused == 1}")
    if store.refused != 1:
        raise SystemExit("broken: the fencing token did not fence")


if __name__ == "__main__":
    whence.run(main())
