"""Who gave up is not let in: a request to join that is read late is not acted on."""

import asyncio
import os
import socket
from typing import Any

import pytest

from tests.net.live import nodes, within
from tests.net.test_bad_peers import Bad
from tests.net.test_living import BOTH
from whence.api.group import Group
from whence.core.links.presence import Place, presence
from whence.core.views.items import JoinRequest
from whence.wire.codec import encode

GROUP = "alps"
LATE_S = 0.5
"""Far longer than a group of one takes to add somebody."""


class Asker(Bad):
    """A peer whose words are all in the other's socket before that reads any of them."""

    def __enter__(self) -> "Asker":
        self.socket = socket.socket(fileno=os.dup(self.writer.get_extra_info("socket").fileno()))
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()
        self.writer.close()

    def asks(self, group: Group, times: int) -> None:
        """Ask to join, quoting the current view."""
        epoch = group._driver.member.state.adopted  # type: ignore[attr-defined]
        self.socket.sendall(times * encode(GROUP, self.me, [JoinRequest(epoch + 1)]))

    def hangs_up(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def says_that_it_goes(self) -> None:
        self.socket.sendall(encode(GROUP, self.me, [presence("", Place.GONE)]))


def members(group: Group) -> list[int]:
    view = group.view()
    assert view is not None
    return [member.pid for member in view.members]


@pytest.mark.parametrize("gives_up", [Asker.hangs_up, Asker.says_that_it_goes])
@pytest.mark.parametrize("times", [1, 400])
@BOTH
def test_who_gave_up_before_its_request_was_read_is_not_added(kind: dict[str, Any], times: int, gives_up: Any) -> None:
    """At `total` all would wait for its first word, until it is removed as silent."""

    async def main() -> None:
        async with nodes(1) as (one,):
            group = await one.open(GROUP, **kind, create=True)
            newcomer = Asker(one)
            await newcomer.greet()
            with newcomer:
                newcomer.asks(group, times)
                gives_up(newcomer)
                await asyncio.sleep(LATE_S)
                assert members(group) == [1]
                assert one.live.counts["requests_withdrawn"] == 1

    within(main())


@BOTH
def test_who_still_asks_is_added(kind: dict[str, Any]) -> None:
    async def main() -> None:
        async with nodes(1) as (one,):
            group = await one.open(GROUP, **kind, create=True)
            newcomer = Asker(one)
            await newcomer.greet()
            with newcomer:
                newcomer.asks(group, 3)
                await group._driver.until(lambda: members(group) == [1, 66])
                await group.remove(66)

    within(main())
