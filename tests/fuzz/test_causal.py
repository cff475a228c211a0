"""A member of a tree or of a mesh never raises on any item that could be decoded, and stays within its bounds."""

from random import Random

import pytest

from tests.fuzz.view_items import VIEW_MAKERS
from whence import limits
from whence.core.level import BuildContext
from whence.core.levels.causal.tree import items
from whence.core.membership.full_view import Directory
from whence.core.ready import Item
from whence.core.varint import packed as varints
from whence.core.views.items import ViewAck, ViewMessage
from whence.errors import LimitError, UsageError
from whence.sim.lab import spec_of
from whence.types import Bundle, Process, packed
from whence.wire.codec import decoder_with, encode
from whence_lab.rivals.level import RIVAL_ITEMS
from whence_lab.rivals.member import TreeCopy
from whence_lab.rivals.neighbourhood import NearAck
from whence_lab.rivals.streams import NearCopy

STEPS = 250
DECODE = decoder_with(RIVAL_ITEMS)
CODINGS = ("whole", "predicted", "thesis")


def small(random: Random) -> int:
    return random.choice((0, 1, 1, 2, 3, 4, 5, 9, 200, limits.SEQ_MAX - 1))


def some_header(random: Random, seen: list[bytes]) -> bytes:
    """Draw a header: one that was really sent, cut or changed, numbers at random, or any bytes."""
    draw = random.random()
    if seen and draw < 0.6:
        header = bytearray(random.choice(seen))
        for _ in range(random.randrange(3)):
            header[random.randrange(len(header))] = random.choice((0, 1, 2, 5, 127, 128, 255))
        return bytes(header[: random.randint(1, len(header))] if random.random() < 0.3 else header)
    if draw < 0.9:
        return bytes((random.randrange(128),)) + varints(small(random) for _ in range(random.randrange(20)))
    return random.randbytes(random.randrange(12))


def some_bundle(random: Random) -> Bundle:
    return packed(Process(random.randrange(6), random.randint(1, 2)), random.randint(1, 9), [random.randbytes(3)])


def some_item(random: Random, seen: list[bytes]) -> Item:
    header, bundle = some_header(random, seen), some_bundle(random)
    listed = varints(small(random) for _ in range(random.randrange(9)))
    node, number, more = random.randrange(8), small(random), small(random)
    return random.choice(
        (
            items.Copy(header, bundle), items.Copy(header, bundle), items.Copy(header, bundle),
            items.Trail(header, bundle.pid, bundle.incarnation, bundle.first), items.Ack(number, listed),
            items.Ask(number, more), items.Probe(number), items.Back(1), items.Lookup(node, number, more),
            items.Named(node, number, bundle.pid, bundle.incarnation, bundle.first), items.FenceAsk(listed),
            items.FenceTell(listed, listed), items.Lost(random.randrange(4)),
            TreeCopy(random.randrange(3), random.randrange(4), header, bundle),
            NearCopy(random.randrange(3), random.randrange(3), False, listed, bundle),
            NearAck(bundle.pid, 1, bundle.first, 9),
            some_message(random, bundle), some_message(random, bundle), some_message(random, bundle),
            some_ack(random),
            random.choice(list(VIEW_MAKERS.values()))(random),
        )
    )  # fmt: skip


def some_message(random: Random, bundle: Bundle) -> ViewMessage:
    past = clock(random)
    taken = random.choice(([], [small(random) for _ in past]))
    return ViewMessage(
        random.randrange(len(past)), random.choice((0, 0, 0, 1)), past, small(random), False, taken, bundle
    )


def some_ack(random: Random) -> ViewAck:
    got = clock(random)
    taken, stored = ([small(random) for _ in got] for _ in range(2))
    return ViewAck(0, 0, got, random.choice((got, taken)), random.choice((got, stored)))


def clock(random: Random) -> list[int]:
    """Draw a clock: mostly of the right length and with small numbers, so that some of it makes sense."""
    return [random.choice((0, 0, 1, 2, small(random))) for _ in range(random.choice((6, 6, 6, 6, 7)))]


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("kind", ["causal", "causal mesh", "cbcast", "barriers", "neighbourhood"])
def test_any_item_from_anybody_is_survived_within_bounds(kind: str, seed: int) -> None:
    random = Random(seed)
    level, _, spread = kind.partition(" ")
    given: dict[str, object] = {"tree": "0,0,1,1,2", "groups": "0 1 2 3 4 5;1 3", "f": random.randint(1, 3)}
    if spread:
        given |= {"spread": spread, "groups": "all", "held_copies_max": 4}
    elif level == "causal":
        given |= {"coding": random.choice(CODINGS), "identity": random.choice(("uid", "paper")), "held_copies_max": 4}
    spec = spec_of(level)
    settings = spec.settings_from(given)
    member = spec.build(Process(1, 1), settings, BuildContext(random.random, 0, Directory()))
    member.found([Process(pid, 1) for pid in range(6) if spread and pid != 1], 0)
    seen: list[bytes] = []
    now = 0
    for _ in range(STEPS):
        now += random.choice((0, 1_000_000, 200_000_000))
        sender = Process(random.randrange(7), random.randint(1, 3))
        draw = random.random()
        try:
            if draw < 0.75:
                item = DECODE(encode("g", sender, [some_item(random, seen)])).items[0]
                ready = member.receive(sender, item, now)
            elif draw < 0.85:
                ready = member.tick(now)
            elif draw < 0.9:
                ready = member.publish([b"x"], now)[1]
            elif draw < 0.95:
                ready = member.unreachable(random.randrange(7), now)
            else:
                ready = member.act(random.choice(("suspect", "trust")), random.randrange(7), now)
        except (LimitError, UsageError):
            continue
        for send in ready.send:
            DECODE(encode("g", Process(1, 1), [send.item]))
            if isinstance(send.item, items.Copy):
                seen.append(send.item.header)
        for gauge in member.gauges():
            assert gauge.value <= gauge.bound, gauge
