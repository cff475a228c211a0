"""A member of a cluster never raises on any item that could be decoded, and stays within its bounds."""

from random import Random

import pytest

from tests.fuzz import mutate
from tests.fuzz.ticket_items import TICKET_MAKERS, some_peer
from whence.core.clocks import cct
from whence.core.dissemination.gossip import Gossip
from whence.core.level import BuildContext
from whence.core.levels.optimistic.level import OptimisticLevel
from whence.core.levels.optimistic.member import OptimisticMember
from whence.core.levels.optimistic.tickets import items
from whence.core.levels.optimistic.tickets.record_bytes import pack
from whence.core.levels.optimistic.tickets.records import Pointer, Record, TicketEpoch
from whence.core.membership.full_view import Directory
from whence.core.ready import Item, Ready
from whence.core.staged import Lifecycle
from whence.errors import UsageError
from whence.types import Process, packed
from whence.wire.codec import decode, encode

ME = Process(1, 5)
ROUND_NS = 1000
LIVES, LIVES_LONG = 60, 2_000
STEPS = 150


def near(random: Random) -> Process:
    return random.choice((Process(random.randrange(6), random.choice((1, 4, 5, 6))), some_peer(random)))


def near_item(random: Random, node: OptimisticMember) -> Item:
    """Draw an item that has to do with what the member is now."""
    session = node._tickets.coordinator.session
    ticket_epoch = (
        session.ticket_epoch if session is not None else TicketEpoch(random.randrange(6), random.randrange(5))
    )
    record = pack(session.authority.record) if session is not None else b""
    draw = random.randrange(12)
    if draw == 0 and record:
        return items.Alive(*ticket_epoch, random.randrange(9), random.choice((0, 10**6)), 1)
    if draw == 1:
        if random.random() < 0.4:
            return random.choice((items.Fenced, items.Fresh))(*ticket_epoch, 1)
        return random.choice((items.Exclude, items.RequestFence, items.Probe))(*ticket_epoch)
    if draw == 2:
        return items.Update(*ticket_epoch, *ticket_epoch, random.randrange(9), b"")
    if draw == 3 and record:
        return random.choice((items.ReleaseTicket(*ticket_epoch, record), items.AckFence(*ticket_epoch, record, 1, 0)))
    if draw == 4:
        return items.AcquireTicket(random.randrange(4))
    if draw == 5:
        return items.NotCoordinator(*ticket_epoch, random.random() < 0.5, record)
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
    parts = OptimisticLevel()
    given = {"tickets": 6, "round_ns": ROUND_NS, "rounds": 3, "ticket_round_ns": 5000, "answer_ns": 1000, **shape}
    settings = parts.settings_from(given)
    acted = 0
    for number in range(LIVES_LONG if long_mode else LIVES):
        random = Random(f"a cluster {number} {sorted(shape)}")
        node = parts.build(ME, settings, BuildContext(random.random, 0, Directory()))
        now = 0
        node.found([Process(pid, 1) for pid in (0, 2, 3)], 0)
        for _ in range(STEPS):
            now += random.choice((0, 1, ROUND_NS // 2, ROUND_NS, 9 * ROUND_NS))
            try:
                ready = _step(node, random, now)
            except UsageError:
                continue
            acted += node.status(now).state == "active"
            _judge(node, ready, now)
    assert acted, "some of them held a ticket"


def _step(node: OptimisticMember, random: Random, now: int) -> Ready:
    draw = random.random()
    session, applicant = node._tickets.coordinator.session, node._tickets.applicant
    if draw < 0.1 and session is not None and session.authority.record.witnesses:
        record, pending = session.authority.record, session.registration.pending
        version = pending.record.version if pending is not None else record.version
        return node.receive(random.choice(record.witnesses), items.Alive(*record.ticket_epoch, version, now, 1), now)
    if draw < 0.1 and applicant.wanted:
        epoch = random.choice((random.randint(1, 9), random.randint(20, 29)))  # below and above those of the events
        ticket_epoch, witnesses = TicketEpoch(random.randrange(6), epoch), (Process(0, 6), Process(2, 6))
        own = Pointer(ticket_epoch, ME, 0, witnesses)
        record = Record(
            ticket_epoch=ticket_epoch, owner=ME, generation=1, version=0, top=epoch, witnesses=witnesses, proposed=(),
            succ=own,
        )  # fmt: skip
        return node.receive(Process(0, 1), items.AckAcquireTicket(applicant.nonce, pack(record), 0), now)
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
        return node.act(
            random.choice(("acquire_ticket", "cjoin", "release_ticket", "declare_dead")), random.randrange(1 << 18), now
        )
    return node.leave(now)


def _judge(node: OptimisticMember, ready: Ready, now: int) -> None:
    for gauge in node.gauges():
        assert gauge.value <= gauge.bound, gauge
    for send in ready.send:
        assert send.to
        assert decode(encode("g", ME, [send.item], send.incarnation)).items == [send.item]
    if node.lifecycle is not Lifecycle.LEFT:
        assert ready.wake_at is None or ready.wake_at >= now - 10**6
