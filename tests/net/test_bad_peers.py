"""Bad peers, on real sockets: each leaves honest members unharmed, connected and delivering."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.net.live import QUICK, fast, nodes, within
from whence.api.node import Node, join
from whence.core.clocks import cct
from whence.core.dissemination.direct import Push
from whence.core.links.addresses import _ENTRY, Addresses
from whence.core.links.detector import Ping, Pong
from whence.core.links.greeting import VERSION, Confirm, Hello
from whence.core.links.presence import Place, presence
from whence.core.links.reached import Reached
from whence.core.ready import Item
from whence.errors import UsageError
from whence.limits import PACKET_BYTES_MAX
from whence.net.agreement import configuration
from whence.net.certs import make_authority, make_member
from whence.types import Process, packed
from whence.wire.codec import decode, encode
from whence.wire.frame import HEADER_BYTES, announced, sealed


class Bad:
    """A peer that can say anything, in order or not."""

    def __init__(self, victim: Node, pid: int = 66, incarnation: int = 1) -> None:
        host, _, port = victim.address.rpartition(":")
        self._where = (host, int(port))
        self.victim = victim
        self.me = Process(pid, incarnation)
        self.nonce = b"n" * 16
        self.told: Hello | None = None

    async def connect(self) -> None:
        self.reader, self.writer = await asyncio.open_connection(*self._where)

    def say(self, item: Item, me: Process | None = None, group: str = "", incarnation: int = 0) -> bytes:
        frame = encode(group, me or self.me, [item], incarnation)
        self.writer.write(frame)
        return frame

    async def hear(self) -> Item:
        head = await self.reader.readexactly(HEADER_BYTES)
        body = await self.reader.readexactly(announced(head))
        item: Item = decode(head + body).items[0]
        return item

    async def greet(self, host: str = "", port: int = 0) -> None:
        await self.connect()
        self.say(Hello(VERSION, "whence", self.nonce, host, port))
        hello = await self.hear()
        assert isinstance(hello, Hello)
        self.told = hello
        self.say(Confirm(hello.nonce, *self.victim.live.me))
        assert isinstance(await self.hear(), Confirm)

    async def heeded(self) -> None:
        """Wait until the victim has read all that was said."""
        self.say(Ping(1))
        while not isinstance(await self.hear(), Pong):
            pass

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


async def stale_epoch(victim: Node) -> None:
    """It speaks to an earlier life of the victim, and then as an earlier life of itself."""
    bad = Bad(victim, incarnation=2)
    await bad.greet()
    earlier = Bad(victim, incarnation=1)
    await earlier.connect()
    earlier.say(Hello(VERSION, "whence", earlier.nonce, "", 0))
    await earlier.gone()
    assert victim.live.counts["older_life"] == 1
    bad.say(Push([packed(bad.me, 1, [b"old news"])]), group="alps", incarnation=victim.live.me.incarnation - 1)
    bad.say(Ping(0))
    await bad.hear()
    bad.writer.close()


async def forged_sender(victim: Node) -> None:
    bad = Bad(victim)
    await bad.greet()
    bad.say(Push([packed(Process(2, 1), 1, [b"in another's name"])]), Process(2, 1), "alps")
    await bad.gone()
    assert victim.live.counts["forged_sender"] == 1


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
    bad.say(Confirm(hello.nonce, victim.live.me.pid, victim.live.me.incarnation - 1))
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
    assert victim.live.counts["strangers_refused"] > 0


async def no_host_name(victim: Node) -> None:
    """It says that it is reached where nobody can be: whoever passed that on would lose its own connections."""
    for host in ("b\u00fccher.example", "\u00fc" * 250, "a..b", "h" * 64, "\x1b[2J", "h" * 300):
        bad = Bad(victim)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await bad.greet(host, 4000)
        await bad.gone()
        assert victim.live.peers.book.find(66) is None


async def false_addresses(victim: Node) -> None:
    """It says of others that they are reached where nobody can be."""
    bad = Bad(victim)
    await bad.greet()
    names = [b"b\xc3\xbccher.example", b"\xff\xfe", b"a..b", b"\x1b[2J", b"", b"h" * 255]
    known = b"".join(_ENTRY.pack(100 + at, 1, 4000, len(name), 0) + name for at, name in enumerate(names))
    bad.say(Addresses(known, b""))
    await bad.heeded()
    assert all(victim.live.peers.book.find(100 + at) is None for at in range(len(names)))
    later = Bad(victim, pid=67)
    await later.greet()  # it is told all addresses there are
    later.writer.close()
    bad.writer.close()


async def many_groups(victim: Node) -> None:
    """It is in more groups than anybody could remember."""
    bad = Bad(victim)
    await bad.greet()
    for number in range(5000):
        bad.say(presence("fifo", Place.MEMBER), group=f"group {number}")
        if number % 500 == 0:
            await bad.writer.drain()
    await bad.heeded()
    assert not victim.live.peers.by_pid[66].presence
    bad.writer.close()


async def another_level(victim: Node) -> None:
    """It says that the group runs otherwise, in words that would clear a screen."""
    bad = Bad(victim)
    await bad.greet()
    bad.say(presence("total#\x1b[2J", Place.MEMBER, settings=b'{"spread": "\\u001b[2J"}'), group="alps")
    bad.say(presence("\x1b[2J", Place.WANTS), group="alps")
    await bad.heeded()
    assert 66 not in victim.groups["alps"].members()
    bad.writer.close()


async def forged_events(victim: Node) -> None:
    """It brings events of another member, which is connected, and of the victim itself."""
    bad = Bad(victim)
    await bad.greet()
    told = victim.groups["alps"]
    published, said = told._driver.flow.published_events, victim.live.peers.presence("alps", 2)
    assert said is not None
    incarnation = said.process.incarnation
    mine = told._driver.context.me
    for first in range(1, 9):
        for forged in (
            Process(2, incarnation),
            Process(2, incarnation + 1),
            mine,
            Process(mine.pid, mine.incarnation + 1),
        ):
            bundle = packed(forged, (published if forged == mine else 1) + first, [b"forged"])
            bad.say(Push([bundle, packed(bad.me, first, [b"its own"])]), group="alps")
    await bad.heeded()
    assert told._driver.counts["reject:contradicted"] == 32
    bad.writer.close()


async def with_certificate(victim: Node, files: tuple[Path, Path], most: ssl.TLSVersion) -> None:
    """Greet with a certificate that is no good, or in a way that is not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = most
    context.load_cert_chain(*files)
    host, _, port = victim.address.rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        writer.write(encode("", Process(66, 1), [Hello(VERSION, "whence", b"n" * 16, "", 0)]))
        assert await reader.read(1 << 16) == b"", "not a word may be answered"
        writer.close()
    except OSError:
        pass  # the handshake itself may end it


SCRIPTS: dict[str, Callable[[Node], Awaitable[None]]] = {
    "garbage": garbage, "oversize": oversize, "half-open": half_open, "replay": replay, "flood": flood,
    "stale epoch": stale_epoch, "forged sender": forged_sender, "slow drip": slow_drip, "random close": random_close,
    "misdirected": misdirected, "our own name": our_own_name, "crowd": crowd, "no host name": no_host_name,
    "false addresses": false_addresses, "many groups": many_groups, "another level": another_level,
    "forged events": forged_events,
}  # fmt: skip


async def unharmed(script: Callable[[Node], Awaitable[None]], *more: dict[str, Path]) -> None:
    """Check that before and after a bad peer what honest members publish is delivered once and in order."""
    settings = fast(strangers_max=8)
    mine, theirs = more or ({}, {})
    async with (
        join(1, settings=settings, **mine) as one,  # type: ignore[arg-type]
        join(2, contacts=[one.address], settings=settings, **theirs) as two,  # type: ignore[arg-type]
    ):
        here, there = await asyncio.gather(one.open("alps", settings=QUICK), two.open("alps", settings=QUICK))
        await here.gathered(2)
        await there.gathered(2)
        before = sum(peer.link is not None for peer in one.live.peers.by_pid.values())
        await there.publish(b"before")
        await script(one)
        await there.publish(b"after")
        payloads: list[bytes] = []
        async for delivery in here:
            assert delivery.payload != b"forged"
            if delivery.sender == 2:
                payloads.append(delivery.payload)
            if delivery.payload == b"after":
                break
        assert payloads == [b"before", b"after"]
        assert before == 1
        assert one.live.peers.by_pid[2].link is not None


@pytest.mark.parametrize("name", SCRIPTS)
def test_honest_members_are_unharmed_by(name: str) -> None:
    within(unharmed(SCRIPTS[name]))


@pytest.mark.parametrize("name", ["wrong CA", "expired", "TLS 1.2"])
def test_honest_members_with_certificates_are_unharmed_by(name: str, tmp_path: Path) -> None:
    make_authority(tmp_path / "ours", "a")
    make_authority(tmp_path / "theirs", "b")
    honest = [
        dict(zip(("certificate", "key"), make_member(tmp_path / "ours", pid), strict=True))
        | {"authority": tmp_path / "ours" / "ca.pem"}
        for pid in (1, 2)
    ]
    most = ssl.TLSVersion.TLSv1_2 if name == "TLS 1.2" else ssl.TLSVersion.TLSv1_3
    files = {
        "wrong CA": lambda: make_member(tmp_path / "theirs", 66),
        "expired": lambda: make_member(tmp_path / "ours", 66, days=-1),
        "TLS 1.2": lambda: make_member(tmp_path / "ours", 66),
    }[name]()

    async def script(victim: Node) -> None:
        await with_certificate(victim, files, most)
        assert 66 not in victim.live.peers.by_pid

    within(unharmed(script, *honest))


def test_honest_members_are_unharmed_by_an_owner_of_a_stale_epoch() -> None:
    """optimistic 4.12: what comes under an epoch that was overtaken is dropped, whoever says it."""

    async def main() -> None:
        async with nodes(3) as started:
            settings = {**QUICK, "rounds": 3, "answer_ns": 20_000_000}
            opened = [node.open("alps", "optimistic", settings=settings, founders=[1, 2, 3]) for node in started]
            one, two, three = await asyncio.gather(*opened)
            await one.acquire_ticket()
            await two.acquire_ticket()
            await two.release_ticket()
            told = await three.acquire_ticket()  # the first ticket's second owner, or a later epoch of some other
            while told.epoch == 1:
                await three.release_ticket()
                told = await three.acquire_ticket()
            assert told.ticket is not None
            assert told.epoch is not None
            await three.publish(b"before")
            assert (await anext(aiter(one))).payload == b"before"
            bad = Bad(started[0])
            await bad.greet()
            tickets = one._driver.context.settings.tickets.tickets
            earlier = range(max(1, told.epoch - 8), told.epoch)
            for number, epoch in enumerate(earlier, start=1):
                stamp = cct.packed(told.ticket, cct.entry_of(epoch, 40), 0, [0] * tickets)
                bad.say(Push([packed(bad.me, number, [b"by an earlier owner"], stamp)]), group="alps")
            bad.say(Ping(0))
            await bad.hear()
            await three.publish(b"after")
            assert (await anext(aiter(one))).payload == b"after"
            assert one._driver.counts["drop:obsolete"] >= len(earlier) > 0
            bad.writer.close()

    within(main())


def test_whoever_has_no_right_in_a_group_neither_begins_it_nor_keeps_others_out_nor_is_waited_for() -> None:
    """Its word on a closed group counts for nothing: false founders, another level, a member that takes nothing."""

    async def main() -> None:
        table = {"alps": {1: "rw", 2: "rw"}}
        async with join(1, permits=table) as one, join(2, permits=table, contacts=[one.address]) as two:
            bad = Bad(one)
            await bad.greet()
            opening = asyncio.create_task(one.open("alps", settings=QUICK, founders=[1, 2]))
            await asyncio.sleep(0)
            mark = configuration(one.live.drivers["alps"].context)[0]
            bad.say(presence(mark, Place.MEMBER, [one.live.me, Process(66, 1)]), group="alps")
            bad.say(presence("total", Place.MEMBER), group="alps")
            bad.say(Reached(5), group="alps", incarnation=one.live.me.incarnation)
            await bad.heeded()
            assert not opening.done(), "its founders are not here"
            there = await two.open("alps", settings=QUICK, founders=[1, 2])
            here = await opening
            await here.gathered(2)
            bad.say(presence(mark, Place.MEMBER), group="alps")
            await bad.heeded()
            assert here.members() == (2,)
            assert here._driver.counts["reject:not_permitted"] == 4
            assert 66 not in here._driver.flow.credit._owed_from
            await here.publish(b"x")
            assert (await anext(aiter(there))).payload == b"x"
            bad.writer.close()

    within(main())


def test_a_member_that_names_other_founders_than_this_process_is_not_believed() -> None:
    async def main() -> None:
        async with join(1, settings=fast()) as one:
            bad = Bad(one)
            await bad.greet()
            opening = asyncio.create_task(one.open("alps", settings=QUICK, founders=[1, 2]))
            await asyncio.sleep(0)
            mark = configuration(one.live.drivers["alps"].context)[0]
            bad.say(presence(mark, Place.MEMBER, [one.live.me, Process(66, 1)]), group="alps")
            with pytest.raises(UsageError, match=r"process 66 says .* began with 1, 66, .* here are 1, 2:"):
                await opening
            bad.writer.close()

    within(main())


def test_what_a_refused_peer_says_of_itself_reaches_no_log_unescaped(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with join(1, settings=fast()) as one:
            bad = Bad(one)
            await bad.connect()
            bad.say(Hello(VERSION, "\x1b]0;pwned\x07\u202e", bad.nonce, "", 0))
            await bad.gone()
            opening = asyncio.create_task(one.open("alps", settings=QUICK, founders=[1, 2]))
            await asyncio.sleep(0)
            bad = Bad(one)
            await bad.greet()
            bad.say(presence("\x1b[2J\u202e", Place.MEMBER), group="alps")
            with pytest.raises(UsageError) as refused:
                await opening
            assert str(refused.value).isprintable()
            assert r"level \x1b[2J\u202e at process 66" in str(refused.value)
            bad.writer.close()

    with caplog.at_level("INFO", "whence.net"):
        within(main())
    assert "pwned" in caplog.text
    assert all(record.getMessage().isprintable() for record in caplog.records)
