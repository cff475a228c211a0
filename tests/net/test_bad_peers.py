"""Twelve bad peers, on real sockets: each leaves honest members unharmed, connected and delivering."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.net.live import QUICK, fast, take, within
from whence.core.link.detector import Ping
from whence.core.link.greeting import VERSION, Confirm, Hello
from whence.core.ready import Item
from whence.core.spread.direct import Push
from whence.group import Node, join
from whence.limits import PACKET_BYTES_MAX
from whence.net.certs import make_authority, make_member
from whence.types import Process, packed
from whence.wire.codec import decode, encode
from whence.wire.frame import HEADER_BYTES, sealed


class Bad:
    """A peer that can say anything, in order or not."""

    def __init__(self, victim: Node, pid: int = 66, boot: int = 1) -> None:
        host, _, port = victim.address.rpartition(":")
        self._where = (host, int(port))
        self.victim = victim
        self.me = Process(pid, boot)
        self.nonce = b"n" * 16
        self.told: Hello | None = None

    async def connect(self) -> None:
        self.reader, self.writer = await asyncio.open_connection(*self._where)

    def say(self, item: Item, me: Process | None = None, group: str = "", boot: int = 0) -> bytes:
        frame = encode(group, me or self.me, [item], boot)
        self.writer.write(frame)
        return frame

    async def hear(self) -> Item:
        head = await self.reader.readexactly(HEADER_BYTES)
        body = await self.reader.readexactly(int.from_bytes(head[:4], "little"))
        item: Item = decode(head + body).items[0]
        return item

    async def greet(self) -> None:
        await self.connect()
        self.say(Hello(VERSION, "whence", self.nonce, "", 0))
        hello = await self.hear()
        assert isinstance(hello, Hello)
        self.told = hello
        self.say(Confirm(hello.nonce, *self.victim.live.me))
        assert isinstance(await self.hear(), Confirm)

    async def gone(self) -> None:
        """Wait until the victim has closed the connection."""
        try:
            while await self.reader.read(1 << 16):
                pass
        except ConnectionError:
            pass
        self.writer.close()


async def garbage(victim: Node) -> None:
    bad = Bad(victim)
    await bad.connect()
    bad.writer.write(b"GET / HTTP/1.1\r\n\r\n" * 10)
    await bad.gone()


async def oversize(victim: Node) -> None:
    bad = Bad(victim)
    await bad.greet()
    bad.writer.write((PACKET_BYTES_MAX + 1).to_bytes(4, "little") + bytes(4))
    await bad.gone()


async def half_open(victim: Node) -> None:
    bad = Bad(victim)
    await bad.connect()
    await bad.gone()  # says nothing until the deadline ends it


async def slow_drip(victim: Node) -> None:
    bad = Bad(victim)
    await bad.connect()
    ended = asyncio.create_task(bad.gone())
    for byte in encode("", bad.me, [Hello(VERSION, "whence", bad.nonce, "", 0)]):
        if not ended.done():
            bad.writer.write(bytes([byte]))
            await asyncio.sleep(0.02)
    await ended


async def replay(victim: Node) -> None:
    honest = Bad(victim)
    await honest.connect()
    recorded = honest.say(Hello(VERSION, "whence", honest.nonce, "", 0))
    hello = await honest.hear()
    assert isinstance(hello, Hello)
    recorded += honest.say(Confirm(hello.nonce, *victim.live.me))
    honest.writer.close()
    again = Bad(victim)
    await again.connect()
    again.writer.write(recorded)
    await again.gone()


async def flood(victim: Node) -> None:
    bad = Bad(victim)
    await bad.greet()
    for number in range(200):
        bad.say(Push([packed(bad.me, 1 + 3 * number, [b"x" * 1000])]), group="alps")
        bad.say(Ping(0))
    await bad.writer.drain()
    bad.writer.write(b"\xff" * 64)
    await bad.gone()


async def stale_boot(victim: Node) -> None:
    bad = Bad(victim)
    await bad.greet()
    bad.say(Push([packed(bad.me, 1, [b"old news"])]), group="alps", boot=victim.live.me.boot - 1)
    bad.say(Ping(0))
    await bad.hear()
    bad.writer.close()


async def forged_sender(victim: Node) -> None:
    bad = Bad(victim)
    await bad.greet()
    bad.say(Push([packed(Process(2, 1), 1, [b"in another's name"])]), Process(2, 1), "alps")
    await bad.gone()
    assert victim.live.switch.counts["forged_sender"] == 1


async def random_close(victim: Node) -> None:
    for length in range(0, 60, 7):
        bad = Bad(victim)
        await bad.connect()
        bad.writer.write(sealed(b"\x95" * 60)[:length])
        bad.writer.transport.abort()


async def misdirected(victim: Node) -> None:
    bad = Bad(victim)
    await bad.connect()
    bad.say(Hello(VERSION, "whence", bad.nonce, "", 0))
    hello = await bad.hear()
    assert isinstance(hello, Hello)
    bad.say(Confirm(hello.nonce, victim.live.me.pid, victim.live.me.boot - 1))
    await bad.gone()


async def our_own_name(victim: Node) -> None:
    bad = Bad(victim, pid=victim.live.me.pid)
    await bad.connect()
    bad.say(Hello(VERSION, "whence", bad.nonce, "", 0))
    await bad.gone()


async def crowd(victim: Node) -> None:
    many = [Bad(victim) for _ in range(12)]
    for bad in many:
        await bad.connect()
    await asyncio.gather(*[bad.gone() for bad in many])
    assert victim.live.switch.counts["strangers_refused"] > 0


SCRIPTS: list[Callable[[Node], Awaitable[None]]] = [
    garbage, oversize, half_open, slow_drip, replay, flood, stale_boot, forged_sender, random_close, misdirected,
    our_own_name, crowd,
]  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_honest_members_are_unharmed_by(script: Callable[[Node], Awaitable[None]]) -> None:
    """Before, during and after a bad peer, what honest members publish is delivered once and in order."""

    async def main() -> None:
        settings = fast(strangers_max=8)
        async with join(1, settings=settings) as one, join(2, contacts=[one.address], settings=settings) as two:
            here, there = await asyncio.gather(one.open("alps", settings=QUICK), two.open("alps", settings=QUICK))
            await here.gathered(2)
            await there.gathered(2)
            before = sum(peer.link is not None for peer in one.live.switch.peers.values())
            await there.publish(b"before")
            await script(one)
            await there.publish(b"after")
            payloads: list[bytes] = []
            async for delivery in here:
                if delivery.sender == 2:
                    payloads.append(delivery.payload)
                if delivery.payload == b"after":
                    break
            assert payloads == [b"before", b"after"]
            assert before == 1
            assert one.live.switch.peers[2].link is not None

    within(main())


def test_a_bad_peer_with_the_wrong_certificate_never_gets_a_word_in(tmp_path: Path) -> None:
    """Wrong authority, and TLS itself refused: tests/net/test_tls.py has the rest of the certificates."""
    make_authority(tmp_path / "ours", "a")
    make_authority(tmp_path / "theirs", "b")
    certificate, key = make_member(tmp_path / "ours", 1)
    theirs = make_member(tmp_path / "theirs", 2)

    async def main() -> None:
        node = join(1, certificate=certificate, key=key, authority=tmp_path / "ours" / "ca.pem", settings=fast())
        async with node:
            group = await node.open("alps")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.load_cert_chain(*theirs)
            host, _, port = node.address.rpartition(":")
            try:
                reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
                writer.write(b"x" * 100)
                assert await reader.read(1 << 16) == b""
                writer.close()
            except OSError:
                pass  # the handshake itself may end it
            await group.publish(b"fine")
            assert [d.payload for d in await take(group, 1)] == [b"fine"]
            assert node.live.switch.peers == {}

    within(main())
