"""Contacts by host name: every address is called, names are resolved again while looking, and this process is passed
over."""

import asyncio
import logging
import socket
from collections.abc import Callable

import pytest

from tests.net.live import QUICK, fast, within
from whence.api.node import Node, join
from whence.errors import JoinError, JoinTimeoutError, UsageError
from whence.net import resolver
from whence.net.resolver import is_loopback, resolve

HOST = "billing.test"
LOOK_NS = 50_000_000


class Resolver:
    """A resolver that the test controls: the addresses of one host name, which change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[str] = []
        self.asked = 0
        monkeypatch.setattr(resolver, "resolve", self.resolve)

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses that the name has now. Raises JoinError without any."""
        if host != HOST:
            return [host]
        self.asked += 1
        await asyncio.sleep(0)
        if not self.addresses:
            raise JoinError(f"{host} cannot be resolved: Name or service not known")
        return list(self.addresses)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    return Resolver(monkeypatch)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def node(name: str, host: str, port: int, **options: object) -> Node:
    settings = fast(retry_ns_max=LOOK_NS)
    return join(
        name, listen=f"{host}:{port}", contacts=[f"{HOST}:{port}"], insecure=True, settings=settings, **options  # type: ignore[arg-type]
    )  # fmt: skip


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_every_address_of_a_name_is_called_and_ones_own_is_passed_over(names: Resolver) -> None:
    port = free_port()

    async def main() -> None:
        names.addresses = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
        async with (
            node("a", "127.0.0.1", port) as a,
            node("b", "127.0.0.2", port) as b,
            node("c", "127.0.0.3", port) as c,
        ):
            await until(lambda: not any(one.live.contacts.missing() for one in (a, b, c)))
            for one in (a, b, c):
                others = sorted(other.pid for other in (a, b, c) if other is not one)
                assert sorted(one.live.peers.connected_pids()) == others
            groups = await asyncio.gather(*[one.open("alps", settings=QUICK) for one in (a, b, c)])
            for group in groups:
                await group.gathered(3)

    within(main())


def test_a_process_whose_contact_is_only_itself_begins_and_meets_the_next_when_the_name_has_it(
    names: Resolver,
) -> None:
    port = free_port()

    async def main() -> None:
        names.addresses = ["127.0.0.1"]
        async with node("a", "127.0.0.1", port) as a:
            group = await a.open("alps", settings=QUICK)
            async with join("b", listen=f"127.0.0.2:{port}", insecure=True) as b:
                other = await b.open("alps", settings=QUICK)
                names.addresses.append("127.0.0.2")
                await group.gathered(2)
                await other.gathered(2)

    within(main())


def test_a_name_that_does_not_resolve_yet_is_waited_for_and_the_reason_is_logged(
    names: Resolver, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()

    async def main() -> None:
        async with node("a", "127.0.0.1", port) as a:
            why = (
                f"contact {HOST}:{port} to answer, which cannot be reached: {HOST} cannot be resolved: Name or service "
            )
            why += "not known"
            with pytest.raises(JoinTimeoutError, match=f"it waits for {why}"):
                await a.open("alps", settings=QUICK, timeout_s=0.3)
            assert names.asked > 2
            opening = asyncio.create_task(a.open("alps", settings=QUICK))
            async with join("b", listen=f"127.0.0.2:{port}", insecure=True) as b:
                await b.open("alps", settings=QUICK)
                names.addresses = ["127.0.0.2"]
                await (await opening).gathered(2)
        assert caplog.text.count("a contact is waited for") == 1, "told once, not at every look"

    with caplog.at_level(logging.WARNING, "whence.net"):
        within(main())


def test_an_address_that_is_not_up_does_not_keep_others_from_being_reached(names: Resolver) -> None:
    port = free_port()

    async def main() -> None:
        names.addresses = ["127.0.0.9", "127.0.0.2"]
        async with join("b", listen=f"127.0.0.2:{port}", insecure=True) as b:
            await b.open("alps", settings=QUICK)
            async with node("a", "127.0.0.1", port) as a:
                assert a.live.peers.connected_pids() == [b.pid]
                await (await a.open("alps", settings=QUICK)).gathered(2)
                assert f"127.0.0.9:{port}" in a.live.contacts.missing()
                names.addresses = ["127.0.0.2"]
                await until(lambda: not a.live.contacts.missing())

    within(main())


def test_a_process_that_comes_back_at_another_address_is_found_again(names: Resolver) -> None:
    port = free_port()

    async def main() -> None:
        names.addresses = ["127.0.0.2"]
        async with node("a", "127.0.0.1", port) as a:
            for address in ("127.0.0.2", "127.0.0.3"):
                names.addresses = [address]
                async with join("b", listen=f"{address}:{port}", insecure=True) as b:
                    assert b.name == "b"
                    await until(lambda: [peer.name for peer in a.live.peers.connected()] == ["b"])
                await until(lambda: not a.live.peers.connected())

    within(main())


def test_a_resolver_that_fails_for_a_while_does_not_lose_the_addresses_it_gave(names: Resolver) -> None:
    port = free_port()

    async def main() -> None:
        names.addresses = ["127.0.0.2"]
        async with join("b", listen=f"127.0.0.2:{port}", insecure=True) as b, node("a", "127.0.0.1", port) as a:
            await until(lambda: not a.live.contacts.missing())
            names.addresses, asked = [], names.asked
            await until(lambda: names.asked > asked + 2)
            assert a.live.contacts.missing() == ""
            assert a.live.peers.connected_pids() == [b.pid]

    within(main())


def test_a_name_that_leads_beyond_loopback_needs_certificates(names: Resolver) -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="beyond loopback"):
            async with join("a", contacts=[f"{HOST}:4000"]):
                pass

    within(main())


@pytest.mark.skipif(not socket.has_ipv6, reason="this system has no IPv6")
def test_addresses_may_be_ipv6_with_the_port_apart() -> None:
    async def main() -> None:
        try:
            async with join("a", listen="[::1]:0") as a:
                assert a.address.startswith("[::1]:")
                async with join("b", listen="[::1]:0", contacts=[a.address]) as b:
                    assert b.live.peers.connected_pids() == [a.pid]
                    found = a.live.peers.book.find(b.pid)
                    assert found is not None
                    assert found.host == "::1"
        except JoinError as error:
            if "cannot listen" not in str(error):
                raise
            pytest.skip("this machine has no IPv6 address")

    within(main())


def test_an_address_is_its_own_and_localhost_has_some() -> None:
    async def main() -> None:
        assert await resolve("127.0.0.1", 1) == ["127.0.0.1"]
        assert await resolve("::1", 1) == ["::1"]
        assert all(map(is_loopback, await resolve("localhost", 1)))

    within(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "localhost.", "::1"])
def test_what_can_only_be_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["127.example.com", "localhost.example.com", "::1234", "10.0.0.1", "billing"])
def test_a_name_that_only_looks_like_this_machine_is_not(host: str) -> None:
    assert not is_loopback(host)
