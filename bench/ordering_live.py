"""What order costs live: latency, time held, losses, bytes, messages and processor time of our levels.

The workload of `whence reproduce ordering-cost` on real sockets: 15 members, of which 8 publish 100 events of 32 bytes
a second in all. The numbers come from the members' own traces, gathered, by the function that measures the simulated
runs (whence_lab/experiments/ordering_cost.py). All members run in one process on loopback: its processor time is that
of the whole group, trace and heartbeats included, and the network takes no time. Levels take turns, and medians are
compared. Processor time is also given in units of `eventual`, because a busy machine makes all of it dearer.
Goal: nothing is lost, but by the timed order, which tells what came too late; and no promise is broken.
"""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, process_time

from _common import arguments, finish
from _live_kinds import LEVELS, LevelKind

from whence import __version__
from whence.api.group import Group
from whence.api.node import Node, join
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.net.run import run
from whence.trace.gathering import gather
from whence.trace.memory import Trace
from whence_lab.experiments.ordering_cost import PAYLOAD, PUBLISHERS, RATE, costs

MEMBERS = 15
GROUP = "cost"
BEFORE = RATE // 2
"""Events before those that count."""
AFTERWARDS_S = 3.0
"""The time after the last publication in which what is late may still come."""
UNIT, MAY_BE_LATE = "eventual", "total-timed"


async def opened(node: Node, kind: LevelKind, number: int) -> Group:
    """Open the group at one member; taking costs it as little as possible."""
    return await node.open(
        GROUP, kind.level, founders=list(range(MEMBERS)) if kind.founded else [], write=number < PUBLISHERS,
        timeout_s=90, on_batch=lambda _: None, **kind.options,
    )  # fmt: skip


async def processor_time(kind: LevelKind, events: int, where: Path) -> float:
    """Run a group to its end; return the processor time from the first publication that counts on."""
    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for number in range(MEMBERS):
            data = where / f"data-{number}" if kind.needs_data else None
            contacts = [nodes[0].address] if nodes else []
            node = join(number, contacts=contacts, data=data, trace=where / "traces", status=False)
            nodes.append(await stack.enter_async_context(node))
        groups = await asyncio.gather(*(opened(node, kind, number) for number, node in enumerate(nodes)))
        await asyncio.gather(*(group.gathered(MEMBERS, 90) for group in groups))
        await asyncio.sleep(1)
        rng, began, spent = Random(1), monotonic(), 0.0
        for number in range(BEFORE + events):
            if number == BEFORE:
                spent = process_time()
            await asyncio.sleep(max(0.0, began + number / RATE - monotonic()))
            await groups[rng.randrange(PUBLISHERS)].publish(bytes(PAYLOAD))
        await asyncio.sleep(AFTERWARDS_S)
        return process_time() - spent


def measured(name: str, events: int) -> dict[str, float]:
    """Run a level once; return what its order cost, and how many promises were broken."""
    with TemporaryDirectory(prefix="whence-bench-") as scratch:
        where = Path(scratch)
        spent = run(processor_time(LEVELS[name], events, where))
        trace: Trace = gather([where / "traces"], GROUP, "live", __version__, one_clock=True)
    broken = sum(verdict.outcome is Outcome.BROKEN for verdict in judge(trace))
    return {**costs(trace, MEMBERS, events), "cpu_us": spent / (events * MEMBERS) * 1e6, "broken": broken}


def main() -> None:
    """Measure all levels in turns and print medians."""
    parser = arguments(__doc__)
    parser.add_argument("--levels", nargs="+", default=list(LEVELS), help="levels to measure")
    given = parser.parse_args()
    events, repeat = (RATE, 1) if given.quick else (3 * RATE, given.repeat or 3)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in given.levels}
    for number in range(repeat):
        for name, told in runs.items():
            told.append(measured(name, events))
            print(f"round {number + 1}, {name}: {told[-1]}", file=sys.stderr)
    table = {
        name: {what: round(median(one[what] for one in told), 3) for what in told[0]} for name, told in runs.items()
    }
    if UNIT in table:
        for each in table.values():
            each["cpu_of_eventual"] = round(each["cpu_us"] / table[UNIT]["cpu_us"], 2)
    lost = [one["lost_percent"] for name, told in runs.items() if name != MAY_BE_LATE for one in told]
    broken = [one["broken"] for told in runs.values() for one in told]
    goals = {"nothing is lost": not any(lost), "no promise is broken": not any(broken)}
    finish("ordering_live", {"levels": table}, goals, quick=given.quick)


if __name__ == "__main__":
    main()
