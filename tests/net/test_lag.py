"""A living group of sixteen with one application that is stuck: how far the others get, what they hear, who goes."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.net.live import DEADLINE_S, within
from tests.net.test_living import CAUSAL, GROUP, STRICT, Load, Process, cluster
from whence.cli.app import run as command
from whence.errors import BackPressureError, EventsLostError, RemovedError, UsageError
from whence.net.membership import Removed
from whence.net.status_server import serve_status

MEMBERS = range(1, 17)
STUCK = 7
AHEAD = 32
"""Bundles that a publisher may be ahead of the slowest application."""


def stick(process: Process) -> None:
    """Let an application ask for nothing any more."""
    assert process.reader is not None
    process.reader.cancel()


async def fill(process: Process) -> tuple[int, BackPressureError]:
    """Publish, one event at a time, until that is refused; return how many were accepted, and the refusal."""
    accepted = 0
    while True:
        try:
            receipt = await process.group.publish(b"%d of %d" % (accepted, process.pid))
            await asyncio.wait_for(receipt.accepted(), 0.5)
        except BackPressureError as full:
            return accepted, full
        except TimeoutError:
            continue  # it waits for room, and the next one is refused
        accepted += 1


def test_the_others_go_on_up_to_a_bound_and_hear_who_holds_them_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, durable=True) as made:
            started = await made.found(*MEMBERS, settings={"records_max": 4 * AHEAD}, publish_wait_s=0.5)
            one, stuck = started[0], made.up[STUCK]
            served = await serve_status(one.node.live, tmp_path / "s")
            stick(stuck)
            accepted, full = await fill(one)
            assert AHEAD - 2 <= accepted <= AHEAD, "marks of views take room too"
            assert (full.name, full.value, full.behind) == ("records_max // 4", AHEAD, f"process {STUCK}")
            view = one.group.view()
            assert view is not None
            slow = [member.pid for member in view.members if member.lag >= accepted]
            assert slow == [STUCK]
            await made.up[2].group.publish(b"another one may still publish")
            await made.up[16].has(b"another one may still publish")
            asked = ["members", GROUP, "--json", "--socket", str(tmp_path / "s")]
            assert await asyncio.to_thread(command, asked) == 0
            served.close()
            stuck.reader = asyncio.create_task(stuck._take())
            await one.group.publish(b"goes on")
            await stuck.has(b"goes on")

    within(main())
    listed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert max(listed["members"], key=lambda member: member["lag"])["pid"] == STUCK


@pytest.mark.parametrize(
    ("kind", "durable"), [(CAUSAL, True), (STRICT, False)], ids=["causal, journals", "total, none"]
)
def test_whose_application_lags_for_so_long_is_removed_and_hears_the_verdict(
    kind: dict[str, Any], durable: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind, durable=durable) as made:
            started = await made.found(*MEMBERS, lag_max_s=1.0)
            one, stuck = started[0], made.up[STUCK]
            own = await (await stuck.group.publish(b"in time")).settled(DEADLINE_S)
            stick(stuck)
            load = Load(one, started[1], started[-1])
            rest = [pid for pid in MEMBERS if pid != STUCK]
            for process in (one, started[-1]):
                await process.sees(*rest)
            await load.stop()
            last: object = None
            async for event in stuck.group.events():
                last = event
            assert isinstance(last, Removed)
            assert last.cut == own
            with pytest.raises((RemovedError, EventsLostError)):
                await stuck.group.publish(b"too late")
            await stuck.kill()

    within(main())


def test_seconds_of_lag_are_a_number_and_not_negative(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, CAUSAL, heals=False) as made:
            (one,) = await made.start(1)
            for wrong in (-1.0, "soon"):
                with pytest.raises(UsageError, match="lag_max_s"):
                    await one.open(founders=[1], lag_max_s=wrong)

    within(main())
