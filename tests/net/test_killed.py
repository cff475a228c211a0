"""Traces of processes that were killed: what they lack is neither held against anybody nor taken for granted."""

from pathlib import Path
from typing import Any

import pytest

from tests.net.live import within
from tests.net.test_living import BOTH, CAUSAL, GROUP, Cluster, Process, quiet
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.trace.gathering import Gathering, gather
from whence.trace.schema import Kind


async def killed(process: Process) -> None:
    """End a process without another row of its trace."""
    process.group._driver._recorder = None
    await process.kill()


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "volatile"])
@BOTH
def test_who_was_killed_for_good_is_down_and_owed_nothing(kind: dict[str, Any], durable: bool, tmp_path: Path) -> None:
    async def main() -> None:
        made = Cluster(tmp_path, kind, durable=durable)
        one, two, three = await made.found(1, 2, 3, remove_after_s=float("inf"))
        await quiet([one, two, three])
        await killed(three)
        await (await one.group.publish(b"not for three")).accepted()
        for process in (one, two):
            await process.kill()

    within(main())
    found = Gathering(sorted((tmp_path / "traces").iterdir()), GROUP, "run", "0", one_clock=True)
    assert [node for node, _ in found.killed] == [3]
    trace = gather(sorted((tmp_path / "traces").iterdir()), GROUP, "run", "0", one_clock=True)
    assert [row[0] for row in trace.rows[Kind.CRASH]] == [3]
    broken = [verdict for verdict in judge(trace) if verdict.outcome is Outcome.BROKEN]
    assert not broken, broken


def test_where_nobody_ended_in_order_nobody_is_found_killed(tmp_path: Path) -> None:
    """All may still run: their traces are judged as far as they go."""

    async def main() -> None:
        made = Cluster(tmp_path, {"level": "causal"}, durable=True)
        started = await made.found(1, 2, 3)
        await quiet(started)
        for process in started:
            await killed(process)

    within(main())
    trace = gather(sorted((tmp_path / "traces").iterdir()), GROUP, "run", "0", one_clock=True)
    assert not trace.rows[Kind.CRASH]
    verdicts = {verdict.promise: verdict.outcome for verdict in judge(trace)}
    assert verdicts["agreement"] is Outcome.HOLDS


@BOTH
def test_who_closed_the_group_in_order_is_away_and_owed_nothing_more_until_it_is_back(
    kind: dict[str, Any], tmp_path: Path
) -> None:
    """It is judged by what it had taken; once it is back, by everything."""

    async def main() -> None:
        made = Cluster(tmp_path, kind, durable=True)
        one, two, three = await made.found(1, 2, 3)
        await quiet([one, two, three])
        await three.stop()
        receipt = await one.group.publish(b"not for three")
        await receipt.stored()
        if kind == CAUSAL:
            await two.has(b"not for three")
        for process in (one, two):
            await process.stop()

    async def again() -> None:
        made = Cluster(tmp_path, kind, durable=True)
        one, two, three = await made.come_back(1, 2, 3)
        await quiet([one, two, three])
        for process in (one, two, three):
            await process.stop()

    within(main())
    assert _outcomes(tmp_path, one_clock=True) <= {Outcome.HOLDS, Outcome.UNKNOWN}
    assert _outcomes(tmp_path, one_clock=False) == {Outcome.UNKNOWN}
    within(again())
    assert _outcomes(tmp_path, one_clock=True) == {Outcome.HOLDS}


def _outcomes(tmp_path: Path, *, one_clock: bool) -> set[Outcome]:
    """Return what is said of agreement; nothing is broken."""
    trace = gather(sorted((tmp_path / "traces").iterdir()), GROUP, "run", "0", one_clock=one_clock)
    verdicts = {verdict.promise: verdict for verdict in judge(trace)}
    broken = [verdict for verdict in verdicts.values() if verdict.outcome is Outcome.BROKEN]
    assert not broken, broken
    return {verdicts["agreement"].outcome}
