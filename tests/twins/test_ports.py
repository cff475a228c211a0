"""One runner, two worlds: the same Readies, through simulated and through live ports, have the same effects.

The Readies are those of real schedules, of every level, with faults. An effect is a row of the trace: what was
published, sent, delivered, skipped, late and noted, in the order it happened. Only the times may differ.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.sim.stage import GROUP, Scripted
from tests.sim.world import ONE_MS, Socket
from whence.api.inbox import Inbox, Overflow
from whence.core.ready import Ready
from whence.core.registry import LEVELS
from whence.net.commit import Commit
from whence.net.context import GroupContext, GroupStorage, NodeServices
from whence.net.driver import Driver
from whence.net.recorder import TraceRecorder
from whence.net.settings import settings_of
from whence.sim.clock import Clock
from whence.sim.loop import Loop
from whence.sim.network import Network, NetworkModel
from whence.sim.ports import SimRunner
from whence.sim.process import SimProcess
from whence.sim.random_streams import RandomStreams
from whence.sim.run import run
from whence.sim.swarm import draw
from whence.sim.world import World
from whence.store.consumer_offsets import ConsumerOffsets
from whence.store.log import Log
from whence.trace.memory import Row
from whence.trace.schema import COLUMNS_OF, Kind
from whence.trace.segments import TraceSegmentWriter, read_segment
from whence.types import Process
from whence.wire.codec import encode

ME = Process(0, 1)
SYNC_NS = 2_000_000
READIES_MAX = 400

Effect = tuple[Any, ...]


def copy_of(ready: Ready) -> Ready:
    return replace(ready, send=list(ready.send), deliver=list(ready.deliver), notes=list(ready.notes))


def tape(level: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> list[Ready]:
    """Return what the members of one schedule asked for, one after the other."""
    readies: list[Ready] = []

    class Taping(SimRunner):
        def perform(self, ready: Ready) -> None:
            readies.append(copy_of(ready))
            super().perform(ready)

    with monkeypatch.context() as patched:
        patched.setattr(SimProcess, "runner_type", Taping)
        run(draw(level, seed))
    wanted = [ready for ready in readies if all(note.kind != "leave" for note in ready.notes)]
    return wanted[:: max(1, len(wanted) // READIES_MAX)]


def effects(rows: Iterator[tuple[Kind, Row]]) -> list[Effect]:
    """Return rows without their times, in the order of their process; positions of both worlds count from 0."""
    told = []
    for kind, row in rows:
        named = dict(zip(COLUMNS_OF[kind], row, strict=True))
        told.append((named["ev"], kind.value, *(value for name, value in named.items() if name not in TIMES)))
    return [effect[1:] for effect in sorted(told, key=lambda effect: effect[0])]


TIMES = ("ev", "t_clk", "t_true")


def simulated(readies: Sequence[Ready]) -> list[Effect]:
    loop, rows = Loop(), {kind: list[Row]() for kind in Kind}
    network = Network(loop, NetworkModel(latency=ONE_MS), RandomStreams(1), Counter())
    process = SimProcess(0, World(loop, network, rows, GROUP, Counter(), SYNC_NS), Clock(), Random(0))
    for peer in sorted({0, *(target for ready in readies for send in ready.send for target in send.to)}):
        network.attach(peer, Socket(lambda copy: None, lambda peer: None))
    process.start(lambda me, now: Scripted(me))
    runner = process._runner
    assert runner is not None
    for ready in readies:
        runner.apply(replace(copy_of(ready), wake_at=None))
    loop.run(1 << 50)
    assert not runner.waits
    return effects((kind, row) for kind, of_kind in rows.items() for row in of_kind)


ELSEWHERE = NodeServices(
    send=lambda group, to, item, incarnation: len(encode(group, ME, [item], incarnation)),
    member_changed=lambda group: None,
    check_act=lambda group, act: None,
    members=lambda group: [ME.pid],
)
"""A node that sends nothing anywhere."""


class Unsent:
    """An outbox in which nothing ever waits."""

    most_waiting = unlooked_bytes = high_bytes = 0

    def congested(self) -> bool:
        return False

    def waiting_bytes(self) -> int:
        return 0

    def waiting_by_peer(self) -> dict[int, int]:
        return {}


async def live(readies: Sequence[Ready], at: Path) -> list[Effect]:
    spec = LEVELS["fifo"]
    context = GroupContext(GROUP, "fifo", spec, spec.settings_from(settings_of("fifo", [], {})), ME, Random(1).random)
    inbox = Inbox("fifo", 1 << 16, Overflow.PAUSE, receive=True, on_batch=lambda batch: None)
    spool = TraceSegmentWriter(at / "spool", GROUP, "fifo", *ME)
    commit, offsets = Commit(Log(at / "journal")), ConsumerOffsets.at(at / "steps")
    driver = Driver(
        context,
        ELSEWHERE,
        inbox,
        Unsent(),
        TraceRecorder(spool, ME, GROUP),
        GroupStorage(commit, offsets),
        durable=False,
    )
    for ready in readies:
        driver.runner.apply(replace(copy_of(ready), wake_at=None))
    while not commit.idle:
        await asyncio.sleep(0)
    assert not driver.runner.waits
    assert driver.failure is None
    await commit.close()
    offsets.close()
    spool.close()
    segments = [read_segment(path)[1] for path in sorted((at / "spool").iterdir())]
    return effects(each for segment in segments for each in segment)


@pytest.mark.parametrize("level", ["eventual", "fifo", "optimistic", "causal", "total"])
@pytest.mark.parametrize("seed", [5, 6])
def test_the_same_readies_have_the_same_effects_in_both_worlds(
    level: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readies = tape(level, seed, monkeypatch)
    assert sum(bool(ready.send) for ready in readies) > 10
    assert any(ready.deliver for ready in readies)
    here = simulated(readies)
    there = asyncio.run(live(readies, tmp_path))
    assert here == there
    assert {effect[0] for effect in here} >= {"send", "deliver"}
