"""The fuzzer's engine: packets made from a seed, and ways to spoil their bytes. Reusable; knows nothing of pytest.

Bodies are mutated, not frames: a frame's checksum would hide every mutation but the ones of the header. Whoever wants a
frame seals the mutated body again.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import msgspec

from tests.fuzz.ticket_items import TICKET_MAKERS
from tests.fuzz.tree_items import TREE_MAKERS
from tests.fuzz.view_items import VIEW_MAKERS
from whence import limits
from whence.core.dissemination.direct import HAVE, WANT, Have, Push, Want
from whence.core.dissemination.gossip import Gossip
from whence.core.levels.total.items import (
    Ack,
    Alive,
    Batch,
    Bye,
    Follow,
    LateBundle,
    Mergers,
    Offer,
    Opened,
    Stream,
    ids_of,
)
from whence.core.links.addresses import Address, Addresses, pack
from whence.core.links.detector import Ping, Pong
from whence.core.links.greeting import NONCE_BYTES, Confirm, Hello, Refused
from whence.core.links.presence import Place, Presence, presence
from whence.core.links.reached import WAITED_US_MAX, Reached
from whence.core.membership.items import NEWS, Subscribe, Welcome
from whence.core.ready import Item
from whence.types import Bundle, Process, packed

# --- valid packets ---


def edge(random: Random, low: int, high: int) -> int:
    """Draw a number that is often one of the ends, or near zero."""
    kind = random.randrange(4)
    if kind == 0:
        return random.choice((low, high))
    if kind == 1:
        return random.randint(low, min(high, low + 3))
    return random.randint(low, high)


def some_process(random: Random) -> Process:
    return Process(edge(random, 0, limits.PEER_ID_MAX), edge(random, 0, limits.INCARNATION_MAX))


def some_bundle(random: Random, process: Process | None = None, first: int | None = None) -> Bundle:
    payloads = [random.randbytes(edge(random, 0, 40)) for _ in range(edge(random, 1, 4))]
    if first is None:
        first = edge(random, 1, limits.SEQ_MAX - len(payloads) + 1)
    stamp = random.randbytes(edge(random, 0, 12))
    return packed(process or some_process(random), first, payloads, stamp)


def some_news(random: Random, peers_max: int = 6) -> bytes:
    peers = [some_process(random) for _ in range(random.randint(0, peers_max))]
    return b"".join(NEWS.pack(*peer, edge(random, 0, limits.ROUNDS_MAX)) for peer in peers)


def some_gossip(random: Random) -> Gossip:
    bundles = [some_bundle(random) for _ in range(edge(random, 0, 5))]
    return Gossip(random.randbytes(len(bundles)), bundles, some_news(random), some_news(random))


def some_welcome(random: Random) -> Welcome:
    snapshot = random.randbytes(random.choice((0, 16, 32, 7, 48)))
    return Welcome(some_news(random), snapshot)


NAMES = ("", "billing-1", "n" * 63)


def some_hello(random: Random) -> Hello:
    nonce = random.randbytes(NONCE_BYTES)
    host = random.choice(("", "127.0.0.1", "h" * 63))
    return Hello(edge(random, 0, 255), "whence", nonce, host, 4000, b"", random.choice(NAMES), random.random() < 0.5)


def some_addresses(random: Random) -> Addresses:
    known = [
        Address(*some_process(random), "host" * edge(random, 1, 9), 4000, random.choice(NAMES))
        for _ in range(random.randint(0, 4))
    ]
    asked = b"".join(edge(random, 0, limits.PEER_ID_MAX).to_bytes(2, "little") for _ in range(random.randint(0, 4)))
    return Addresses(b"".join(pack(known)), asked)


def some_presence(random: Random) -> Presence:
    founders = [some_process(random) for _ in range(random.randint(0, 4))]
    return presence(random.choice(("fifo", "", "x" * 32)), random.choice(list(Place)), founders)


def some_have(random: Random) -> Have:
    senders = [
        HAVE.pack(*some_process(random), *[edge(random, 0, limits.SEQ_MAX + 1) for _ in range(3)])
        for _ in range(random.randint(0, 4))
    ]
    return Have(b"".join(senders), some_news(random), some_news(random))


def some_want(random: Random) -> Want:
    senders = [
        WANT.pack(*some_process(random), edge(random, 0, limits.SEQ_MAX + 1)) for _ in range(random.randint(0, 4))
    ]
    return Want(b"".join(senders))


def some_stream(random: Random) -> Stream:
    bundles = [some_bundle(random) for _ in range(edge(random, 0, 4))]
    start = edge(random, 0, 99)
    return Stream(edge(random, 0, 2**63 - 1), start, start + len(bundles) + edge(random, 0, 3), bundles)


MAKERS: dict[type[Item], Callable[[Random], Item]] = {
    Gossip: some_gossip,
    Subscribe: lambda random: Subscribe(joining=random.random() < 0.5),
    Welcome: some_welcome,
    Hello: some_hello,
    Refused: lambda random: Refused(
        edge(random, 0, 255), edge(random, 0, limits.INCARNATION_MAX), random.choice(NAMES), "host", 4000
    ),
    Confirm: lambda random: Confirm(random.randbytes(NONCE_BYTES), *some_process(random)),
    Addresses: some_addresses,
    Ping: lambda random: Ping(edge(random, 0, 2**63 - 1)),
    Pong: lambda random: Pong(edge(random, 0, 2**63 - 1)),
    Presence: some_presence,
    Push: lambda random: Push([some_bundle(random) for _ in range(edge(random, 1, 4))]),
    Have: some_have,
    Want: some_want,
    Reached: lambda random: Reached(edge(random, 1, limits.SEQ_MAX), edge(random, 0, WAITED_US_MAX)),
    Offer: lambda random: Offer(edge(random, 1, limits.SEQ_MAX), random.randbytes(7), random.randbytes(9)),
    Batch: lambda random: Batch(some_bundle(random), edge(random, 0, 62)),
    Ack: lambda random: Ack(ids_of([some_bundle(random) for _ in range(edge(random, 0, 4))])),
    Follow: lambda random: Follow(
        edge(random, 0, 9), random.choice((b"", random.randbytes(24))), edge(random, 0, 2**63 - 1), edge(random, 0, 99),
        edge(random, 0, 99), edge(random, 0, 2**62), edge(random, 0, 2**62),
    ),
    Opened: lambda random: Opened(
        edge(random, 0, 9), edge(random, 0, 99), random.random() < 0.5, random.randbytes(24)
    ),
    Stream: some_stream,
    LateBundle: lambda random: LateBundle(some_bundle(random), edge(random, 0, 99)),
    Alive: lambda random: Alive(random.randbytes(7), edge(random, 1, limits.SEQ_MAX)),
    Bye: lambda _: Bye(),
    Mergers: lambda random: Mergers(
        edge(random, 1, 2**62), random.sample(range(9), 3), random.sample(range(9, 12), 2),
        tuple(random.sample(range(12, 20), edge(random, 0, 8))), ((1, edge(random, 0, 99)), (2, edge(random, 0, 99))),
    ),
}  # fmt: skip
MAKERS |= TICKET_MAKERS | TREE_MAKERS | VIEW_MAKERS
"""How to make one of each kind of item; a test demands that none is forgotten."""


def some_item(random: Random) -> Item:
    return random.choice(list(MAKERS.values()))(random)


def body_of(group: str, sender: Process, items: list[Item]) -> bytes:
    """Return a packet's bytes without the frame around them, whatever the items are."""
    return msgspec.msgpack.encode((group, *sender, 0, items))


def some_body(random: Random) -> bytes:
    group = random.choice(("", "demo", "größe", "x" * limits.GROUP_NAME_CHARS_MAX))
    return body_of(group, some_process(random), [some_item(random) for _ in range(edge(random, 1, 3))])


def heavy_bodies() -> list[bytes]:
    """Return the packets that cost a reader most beyond their size: as many small objects as the limits allow."""
    far = Process(limits.PEER_ID_MAX, limits.INCARNATION_MAX)
    bundle = packed(far, limits.SEQ_MAX - 1, [b"ab"], b"cd")
    full = Gossip(b"\x02" * limits.GOSSIP_BUNDLES_MAX, [bundle] * limits.GOSSIP_BUNDLES_MAX, b"", b"")
    one = Gossip(b"\x02", [bundle], b"\x00" * NEWS.size, b"\x00" * NEWS.size)
    welcome = Welcome(b"\x00" * NEWS.size, b"ab")
    news = b"".join(NEWS.pack(pid, 1, 9) for pid in range(limits.VIEW_MAX))
    many_small = packed(far, 1, [b""] * limits.BUNDLE_EVENTS_MAX, b"")
    group = "\U0001f600" * limits.GROUP_NAME_CHARS_MAX
    fill = limits.PACKET_ITEMS_MAX - 1
    heavy: list[list[Item]] = [
        [full, *[welcome] * fill],
        [full] * limits.PACKET_ITEMS_MAX,
        [one] * limits.PACKET_ITEMS_MAX,
        [welcome] * limits.PACKET_ITEMS_MAX,
        [Gossip(b"", [], news, news)],
        [Gossip(b"\x01" * 8, [many_small] * 8, b"", b"")],
        [Gossip(b"\x01", [packed(far, 1, [b"x" * 300_000], b"y" * 60_000)], b"", b"")],
        [Welcome(news, b"z" * 250_000)],
    ]
    return [body_of(group, far, items) for items in heavy]


# --- ways to spoil them ---


class Corpus(NamedTuple):
    """Valid bodies to start from; the heavy ones are drawn rarely, because they take long."""

    light: list[bytes]
    heavy: list[bytes]


Mutation = Callable[[Random, bytearray, Corpus], None]


def _at(random: Random, body: bytearray) -> int:
    return random.randrange(len(body)) if body else 0


def flip_bits(random: Random, body: bytearray, corpus: Corpus) -> None:
    for _ in range(random.randint(1, 4) if body else 0):
        body[_at(random, body)] ^= 1 << random.randrange(8)


def set_bytes(random: Random, body: bytearray, corpus: Corpus) -> None:
    for _ in range(random.randint(1, 4) if body else 0):
        body[_at(random, body)] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))


def truncate(random: Random, body: bytearray, corpus: Corpus) -> None:
    del body[_at(random, body) :]


def insert(random: Random, body: bytearray, corpus: Corpus) -> None:
    at = _at(random, body)
    body[at:at] = random.randbytes(random.randint(1, 8))


def delete(random: Random, body: bytearray, corpus: Corpus) -> None:
    at = _at(random, body)
    del body[at : at + random.randint(1, 8)]


def splice(random: Random, body: bytearray, corpus: Corpus) -> None:
    other = random.choice(corpus.light)
    at, from_, to = _at(random, body), random.randrange(len(other)), random.randrange(len(other))
    body[at : at + random.randint(0, 16)] = other[min(from_, to) : max(from_, to)][:512]


def repeat(random: Random, body: bytearray, corpus: Corpus) -> None:
    at = _at(random, body)
    part = bytes(body[at : at + random.randint(1, 32)])
    body[at:at] = part * random.randint(1, 40)


MARKERS = tuple(bytes([marker]) for marker in range(0x80, 0x100))
"""Every first byte of MessagePack that is not a small number: maps, arrays, texts, nil, floats, extensions, lengths."""

LIES = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdc\xff\xff",
    b"\xdd\x00\x00\x00\x40",
    b"\xdc\x01\x01",
    b"\xc6\xff\xff\xff\xff",
    b"\xc5\xff\xff",
    b"\xdb\x7f\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xde\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01",
)
"""Arrays, byte strings, texts, maps and extensions that announce far more than follows."""


def lie_about_a_length(random: Random, body: bytearray, corpus: Corpus) -> None:
    at = _at(random, body)
    body[at : at + random.randint(0, 5)] = random.choice(LIES)


def change_a_type(random: Random, body: bytearray, corpus: Corpus) -> None:
    if body:
        body[_at(random, body)] = random.choice(MARKERS)[0]


def nest_deeply(random: Random, body: bytearray, corpus: Corpus) -> None:
    at = _at(random, body)
    body[at : at + random.randint(0, 3)] = random.choice((b"\x91", b"\x81", b"\x81\xa1x")) * random.randint(1, 3000)


def turn_to_noise(random: Random, body: bytearray, corpus: Corpus) -> None:
    body[_at(random, body) :] = random.randbytes(random.randint(0, 200))


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    set_bytes,
    truncate,
    insert,
    delete,
    splice,
    repeat,
    lie_about_a_length,
    change_a_type,
    nest_deeply,
    turn_to_noise,
)


HEAVY_SHARE = 0.02


def corpus_of(random: Random, size: int = 200) -> Corpus:
    """Return valid bodies, each kind of item among them."""
    singles = [body_of("demo", some_process(random), [make(random)]) for make in MAKERS.values()]
    return Corpus([*singles, *(some_body(random) for _ in range(size))], heavy_bodies())


def spoiled(random: Random, corpus: Corpus) -> bytes:
    """Return one body of the corpus after some mutations."""
    body = bytearray(random.choice(corpus.heavy if random.random() < HEAVY_SHARE else corpus.light))
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        random.choice(MUTATIONS)(random, body, corpus)
    return bytes(body)


def cuts(random: Random, data: bytes) -> Iterator[bytes]:
    """Yield the data in pieces, cut anywhere, some of them empty."""
    ends = sorted(random.randint(0, len(data)) for _ in range(random.randint(0, 6)))
    starts = [0, *ends]
    yield from (data[start:end] for start, end in zip(starts, [*ends, len(data)], strict=True))


def lied_header(random: Random, frame: bytes) -> bytes:
    """Return the frame with another announced length or checksum, or the header cut short."""
    header = bytearray(frame[:8])
    kind = random.randrange(3)
    if kind == 0:
        header[0:4] = random.choice((0, 1, limits.PACKET_BYTES_MAX, limits.PACKET_BYTES_MAX + 1, 2**32 - 1)).to_bytes(
            4, "little"
        )
    elif kind == 1:
        header[random.randrange(8)] ^= 1 << random.randrange(8)
    else:
        del header[random.randrange(8) :]
    return bytes(header) + frame[8:]
