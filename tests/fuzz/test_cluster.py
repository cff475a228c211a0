"""A member of a cluster never raises on any item that could be decoded, and stays within its bounds."""

from random import Random

import pytest

from tests.fuzz import mutate
from tests.fuzz.ticket_items import TICKET_MAKERS, some_peer
from whence.core.clocks import cct
from whence.core.dissemination.gossip import Gossip
from whence.core.level import Surroundings
from whence.core.levels.optimistic.level import ClusterParts
from whence.core.levels.optimistic.member import ClusterNode
from whence.core.levels.optimistic.tickets import items as say
from whence.core.levels.optimistic.tickets.records import Claim, Pointer, Record, pack
from whence.core.membership.full_view import Directory
from whence.core.ready import Item, Ready
from whence.core.staged import Life
from whence.errors import UsageError
from whence.types import Process, packed
from whence.wire.codec import decode, encode

ME = Process(1, 5)
ROUND_NS = 1000
LIVES, LIVES_LONG = 60, 2_000
STEPS = 150


def near(random: Random) -> Process:
    return random.choice((Process(random.randrange(6), random.choice((1, 4, 5, 6))), some_peer(random)))


def near_item(random: Random, node: ClusterNode) -> Item:
    """Draw an item that has to do with what the member is now."""
    seat = node._desk.seat
    claim = seat.claim if seat is not None else Claim(random.randrange(6), random.randrange(5))
    record = pack(seat.record) if seat is not None else b""
    draw = random.randrange(12)
    if draw == 0 and record:
        return say.Alive(*claim, random.randrange(9), random.choice((0, 10**6)))
    if draw == 1:
        return random.choice((say.Fenced, say.Exclude, say.RequestFence, say.Probe, say.Fresh))(*claim)
    if draw == 2:
        return say.Update(*claim, *claim, random.randrange(9), b"")
    if draw == 3 and record:
        return random.choice((say.Cleave(*claim, record), say.AckFence(*claim, record)))
    if draw == 4:
        return say.ClusterJoin(random.randrange(4))
    if draw == 5:
        return say.NotCoordinator(*claim, random.random() < 0.5, record)
    if draw < 9:
        clock = [random.choice((0, 1 << 32, 5 << 32 | 3)) for _ in range(6)]
        stamp = cct.packed(random.randrange(6), random.randint(1, 6) << 32 | random.randrange(4), 0, clock)
        bundle = packed(near(random), random.randint(1, 9), [b"x"], random.choice((stamp, stamp, b"junk")))
        return Gossip(bytes([random.randrange(4)]), [bundle], b"", b"")
    if draw == 9:
        return mutate.some_item(random)
    return random.choice(list(TICKET_MAKERS.values()))(random)


@pytest.mark.no_cover
@pytest.mark.parametrize("shape", [{}, {"held_bundles_max": 2, "recovery_bundles": 2, "recovery": "Rk"}])
def test_a_member_of_a_cluster_survives_whatever_it_is_told(shape: dict[str, object], long_mode: bool) -> None:
    parts = ClusterParts()
    given = {"tickets": 6, "round_ns": ROUND_NS, "rounds": 3, "ticket_round_ns": 5000, "answer_ns": 1000, **shape}
    settings = parts.settings_from(given)
    acted = 0
    for number in range(LIVES_LONG if long_mode else LIVES):
        random = Random(f"a cluster {number} {sorted(shape)}")
        node = parts.build(ME, settings, Surroundings(random.random, 0, Directory()))
        now = 0
        node.found([Process(pid, 1) for pid in (0, 2, 3)], 0)
        for _ in range(STEPS):
            now += random.choice((0, 1, ROUND_NS // 2, ROUND_NS, 9 * ROUND_NS))
            try:
                ready = _step(node, random, now)
            except UsageError:
                continue
            acted += node.status(now).standing == "active"
            _judge(node, ready, now)
    assert acted, "some of them held a ticket"


def _step(node: ClusterNode, random: Random, now: int) -> Ready:
    draw = random.random()
    seat, applicant = node._desk.seat, node._desk.applicant
    if draw < 0.1 and seat is not None and seat.record.witnesses:
        version = seat.pending.record.version if seat.pending is not None else seat.record.version
        return node.receive(random.choice(seat.record.witnesses), say.Alive(*seat.claim, version, now), now)
    if draw < 0.1 and applicant.wanted:
        epoch = random.choice((random.randint(1, 9), random.randint(20, 29)))  # below and above those of the events
        claim, witnesses = Claim(random.randrange(6), epoch), (Process(0, 6), Process(2, 6))
        own = Pointer(claim, ME, 0, witnesses)
        record = Record(
            claim=claim, owner=ME, generation=1, version=0, top=epoch, witnesses=witnesses, proposed=(), succ=own
        )  # fmt: skip
        return node.receive(Process(0, 1), say.AckClusterJoin(applicant.nonce, pack(record), 0), now)
    if draw < 0.6:
        sender = near(random)
        return node.receive(sender, decode(encode("g", sender, [near_item(random, node)])).items[0], now)
    if draw < 0.85:
        return node.tick(now)
    if draw < 0.9:
        return node.publish([b"x"], now)[1]
    if draw < 0.93:
        return node.unreachable(random.randrange(6), now)
    if draw < 0.995:
        return node.act(random.choice(("cjoin", "cjoin", "cleave", "declare_dead")), random.randrange(1 << 18), now)
    return node.leave(now)


def _judge(node: ClusterNode, ready: Ready, now: int) -> None:
    for gauge in node.gauges():
        assert gauge.value <= gauge.bound, gauge
    for send in ready.send:
        assert send.to
        assert decode(encode("g", ME, [send.item], send.boot)).items == [send.item]
    if node.life is not Life.LEFT:
        assert ready.wake_at is None or ready.wake_at >= now - 10**6
