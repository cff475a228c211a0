"""Closing a living group: whoever leaves waits until the others can let it go, and says so; all may go together."""

import asyncio
import logging
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.net.live import DEADLINE_S, within
from tests.net.test_living import BOTH, CAUSAL, Cluster, quiet
from tests.net.test_living_commands import Node, nodes
from whence.api.inbox import INBOX_BYTES_MAX
from whence.net import leaving
from whence.net.leaving import LEAVE_S, LEAVE_S_MAX, patience_s

NOT_LET_GO = "before the others let this process go"


@BOTH
def test_members_that_close_together_are_all_let_go_without_a_word(
    kind: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        made = Cluster(tmp_path, kind | {"remove_after_s": 60}, durable=False)  # a busy machine has time to decide
        started = await made.found(1, 2, 3, 4)
        await quiet(started)
        drivers = [process.group._driver for process in started]
        await asyncio.gather(*[process.node.close() for process in started])
        assert all(driver.ended for driver in drivers)

    within(main())
    assert NOT_LET_GO not in caplog.text


def test_an_application_that_has_stopped_taking_holds_up_nobody_when_all_close(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its inbox was full, and its process read nothing more."""

    async def main() -> None:
        made = Cluster(tmp_path, CAUSAL, durable=False)
        one, two = await made.found(1, 2, inbox_events_max=1)
        assert two.reader is not None
        two.reader.cancel()
        sent, size = 0, 1 << 20
        while sent < 2 * INBOX_BYTES_MAX and two.group._inbox._bytes <= INBOX_BYTES_MAX:
            try:
                one.group.publish_nowait(bytes(size))
                sent += size
            except Exception:  # noqa: BLE001 - there is no room for now
                pass
            await asyncio.sleep(0)
        assert two.group._inbox._paused
        drivers = [process.group._driver for process in (one, two)]
        await asyncio.gather(one.node.close(), two.node.close())
        assert all(driver.ended for driver in drivers)

    within(main())
    assert NOT_LET_GO not in caplog.text


def test_who_closes_while_another_is_dead_waits_for_its_removal_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "SAY_S", 0.1)
    caplog.set_level(logging.INFO, "whence.net")

    async def main() -> None:
        made = Cluster(tmp_path, CAUSAL, durable=False)
        one, two, three = await made.found(1, 2, 3, remove_after_s=2)
        await quiet([one, two, three])
        await three.kill()
        drivers = [process.group._driver for process in (one, two)]
        await asyncio.gather(one.group.close(), two.group.close())
        assert all(driver.ended for driver in drivers)
        await one.node.close()
        await two.node.close()

    within(main())
    assert NOT_LET_GO not in caplog.text
    assert "is being left, for" in caplog.text


def test_those_that_stay_have_a_quorum_when_one_closes_while_another_is_dead(tmp_path: Path) -> None:
    async def main() -> None:
        made = Cluster(tmp_path, CAUSAL, durable=False)
        one, two, three = await made.found(1, 2, 3, remove_after_s=2)
        await quiet([one, two, three])
        await three.kill()
        await two.stop()
        await one.sees(1)
        (four,) = await made.start(4)
        await four.open()
        await quiet([one, four])
        await asyncio.gather(one.stop(), four.stop())

    within(main())


def test_who_cannot_be_let_go_says_for_whom_it_waited_and_what_it_is_now(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "LEAVE_S", 1.0)

    async def main() -> None:
        made = Cluster(tmp_path, CAUSAL, durable=False)
        one, two = await made.found(1, 2, remove_after_s=float("inf"))
        await quiet([one, two])
        await one.kill()
        await two.stop()

    within(main())
    assert f"closed after 1 s, {NOT_LET_GO}; it waited for 1 to" in caplog.text
    assert "It counts as one of them until they remove it" in caplog.text


def test_closing_takes_longer_than_the_removal_of_the_dead_and_has_an_end(tmp_path: Path) -> None:
    async def main() -> None:
        for after_s, limit in ((None, None), (1000, LEAVE_S_MAX), (float("inf"), LEAVE_S)):
            made = Cluster(tmp_path / str(after_s), CAUSAL, durable=False)
            (one,) = await made.start(1)
            await one.open(remove_after_s=after_s)
            patience = patience_s(one.group._driver)
            assert patience == limit if limit is not None else 13 < patience <= LEAVE_S_MAX
            await one.stop()

    within(main())


# --- signals ---


def log_of(node: Node) -> str:
    """Return what a node has logged."""
    return (node.tmp / f"log-{node.pid}").read_text()


def test_nodes_that_are_stopped_while_another_is_dead_leave_once_it_is_removed(tmp_path: Path) -> None:
    with nodes(tmp_path, 3, "causal", data=False, more=["--set", "remove_after_s=2", "--founders", "0,1,2"]) as made:
        for node in made:
            node.start()
        for node in made:
            node.up()
        made[2].end(signal.SIGKILL)
        for node in made[:2]:
            node.tell()
        for node in made[:2]:
            node.ended()
            assert NOT_LET_GO not in log_of(node)


def test_a_second_signal_ends_a_node_at_once(tmp_path: Path) -> None:
    with nodes(tmp_path, 2, "causal", data=False, more=["--set", "remove_after_s=1000", "--founders", "0,1"]) as made:
        for node in made:
            node.start()
        for node in made:
            node.up()
        made[0].end(signal.SIGKILL)
        made[1].tell()
        deadline = time.monotonic() + DEADLINE_S
        while "is being left" not in log_of(made[1]):
            assert time.monotonic() < deadline, log_of(made[1])
            time.sleep(0.05)
        began = time.monotonic()
        made[1].end()
        assert time.monotonic() - began < LEAVE_S_MAX / 2
        assert "ended by a second signal" in log_of(made[1])
