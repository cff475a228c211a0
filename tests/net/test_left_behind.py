"""What a member published and the view without it leaves out: its application is told, with the payloads, once."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.net.live import DEADLINE_S, within
from tests.net.test_living import BOTH, CAUSAL, Cluster, Process, cluster, quiet
from whence.core.ready import Item
from whence.core.views.items import ViewMessage
from whence.errors import EventsLostError, RemovedError
from whence.net.outboxes import Outboxes
from whence.types import ANY_INCARNATION

EVENTS = [b"%d" % number for number in range(7)]


class Mute:
    """Keeps what processes publish from all others, and nothing else that they say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.outboxes: list[Outboxes] = []
        send = Outboxes.send

        def unless_mute(
            outboxes: Outboxes, group: str, to: Iterable[int], item: Item, incarnation: int = ANY_INCARNATION
        ) -> int:
            if outboxes in self.outboxes and isinstance(item, ViewMessage):
                return 0
            return send(outboxes, group, to, item, incarnation)

        monkeypatch.setattr(Outboxes, "send", unless_mute)

    def let(self, process: Process) -> None:
        """Let nothing get through that this process publishes from now on."""
        self.outboxes.append(process.node.live.outboxes)


async def publishes_in_vain(process: Process, mute: Mute, *, stores: bool) -> None:
    """Let a process publish what is settled, and then what nobody gets."""
    await process.group.publish(b"in time", until="settled", timeout_s=DEADLINE_S)
    mute.let(process)
    for event in EVENTS:
        receipt = await process.group.publish(event, until="stored" if stores else "accepted")
        await receipt.accepted()


@BOTH
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "volatile"])
def test_who_is_removed_alive_is_told_of_everything_beyond_its_cut_once(
    kind: dict[str, Any], durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepted and stored, or not; and not again by the group that is opened after it."""
    mute = Mute(monkeypatch)

    async def main() -> None:
        told: list[EventsLostError] = []
        async with cluster(tmp_path, kind, durable=durable, heals=False) as made:
            one, _, three = await made.found(1, 2, 3, on_lost=told.append)
            await publishes_in_vain(three, mute, stores=durable)
            await one.group.remove(3, DEADLINE_S)
            assert three.reader is not None
            await three.reader
            with pytest.raises(EventsLostError, match="7 events that were published are lost") as lost:
                await three.group.publish(b"too late")
            assert lost.value.payloads == EVENTS
            assert [error.payloads for error in told] == [EVENTS]
            verdict = told[0].why
            assert isinstance(verdict, RemovedError)
            assert verdict.cut is not None
            assert verdict.cut[2] == 1
            assert three.group.lost == 7
            with pytest.raises(RemovedError):
                await three.group.publish(b"too late")
            await three.group.close()
            mute.outboxes.clear()
            await three.open(on_lost=told.append)
            await three.group.publish(b"again", until="settled", timeout_s=DEADLINE_S)
            assert (three.group.lost, len(told)) == (0, 1)

    within(main())


@BOTH
def test_who_was_removed_while_it_was_away_is_told_as_it_comes_back(
    kind: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else has it: it is in the journal alone. A later start is told nothing any more."""
    mute = Mute(monkeypatch)

    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            await publishes_in_vain(three, mute, stores=True)
            await three.kill()
            await one.group.remove(3, DEADLINE_S)
            told: list[EventsLostError] = []
            (three,) = await made.start(3)
            await three.open(on_lost=told.append)
            assert three.group.removed_while_away is not None
            assert three.group.lost == 7
            with pytest.raises(EventsLostError, match="was removed by view 1") as lost:
                await three.group.publish(b"not yet")
            assert lost.value.payloads == EVENTS
            for payload in lost.value.payloads:
                await three.group.publish(payload)
            await one.has(*EVENTS)
            assert [error.payloads for error in told] == [EVENTS]
            await quiet([one, two, three])
            await three.kill()
            (three,) = await made.come_back(3)
            assert three.group.lost == 0
            await quiet([one, two, three])

    within(main())


def test_what_nobody_was_told_of_is_told_though_the_first_attempt_to_come_back_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It learns that it was removed, and is stopped before it is a member again."""
    mute = Mute(monkeypatch)

    async def main() -> None:
        made = Cluster(tmp_path, CAUSAL, durable=True)
        one, _, three = await made.found(1, 2, 3)
        await publishes_in_vain(three, mute, stores=True)
        await three.kill()
        await one.group.remove(3, DEADLINE_S)
        (three,) = await made.start(3)
        opened = three.node.live.open
        attempts = 0

        async def only_once(*given: Any, **options: Any) -> Any:
            nonlocal attempts
            attempts += 1
            if attempts > 1:
                raise TimeoutError
            return await opened(*given, **options)

        monkeypatch.setattr(three.node.live, "open", only_once)
        with pytest.raises(TimeoutError):
            await three.open()
        await three.kill()
        (three,) = await made.start(3)
        await three.open()
        assert three.group.lost == 7
        for process in list(made.up.values()):
            await process.kill()

    within(main())
