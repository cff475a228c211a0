"""Items of tickets and recovery, made from a seed for the fuzzers."""

from collections.abc import Callable
from random import Random

from whence import limits
from whence.core.levels.optimistic.recovery import Recover, Recovered
from whence.core.levels.optimistic.tickets import items
from whence.core.levels.optimistic.tickets.record_bytes import pack, pack_processes
from whence.core.levels.optimistic.tickets.records import (
    TICKETS_MAX,
    WITNESSES_MAX,
    Pointer,
    Record,
    TicketEpoch,
    last_with,
)
from whence.core.ready import Item
from whence.limits import EPOCH_MAX
from whence.types import Process, packed


def _number(random: Random, high: int) -> int:
    return random.choice((0, 1, high, random.randint(0, high), random.randint(0, min(high, 5))))


def some_peer(random: Random) -> Process:
    return Process(_number(random, limits.PEER_ID_MAX), _number(random, limits.INCARNATION_MAX))


def some_peers(random: Random) -> tuple[Process, ...]:
    return tuple(some_peer(random) for _ in range(random.randint(0, WITNESSES_MAX)))


def some_ticket_epoch(random: Random) -> TicketEpoch:
    return TicketEpoch(_number(random, TICKETS_MAX - 1), _number(random, EPOCH_MAX))


def some_pointer(random: Random) -> Pointer:
    return Pointer(some_ticket_epoch(random), some_peer(random), _number(random, 9), some_peers(random))


def some_record(random: Random) -> bytes:
    last = b""
    for _ in range(random.randint(0, 4)):
        last = last_with(last, _number(random, TICKETS_MAX - 1), _number(random, 2**62))
    record = Record(
        ticket_epoch=some_ticket_epoch(random),
        owner=some_peer(random),
        generation=_number(random, 9),
        version=_number(random, 99),
        top=_number(random, EPOCH_MAX),
        witnesses=some_peers(random),
        proposed=some_peers(random),
        succ=some_pointer(random),
        beyond=random.choice((None, some_pointer(random))),
        last=last,
    )
    return pack(record)


def record_or_none(random: Random) -> bytes:
    return random.choice((b"", some_record(random)))


def some_ranges(random: Random) -> bytes:
    return b"".join(random.randbytes(14) for _ in range(random.randint(1, 5)))


def _about(kind: type[Item]) -> Callable[[Random], Item]:
    return lambda random: kind(*some_ticket_epoch(random))


TICKET_MAKERS: dict[type[Item], Callable[[Random], Item]] = {
    items.Renew: lambda random: items.Renew(
        *some_ticket_epoch(random), 3, _number(random, 2**60), some_record(random), _number(random, 10**9)
    ),
    items.Alive: lambda random: items.Alive(*some_ticket_epoch(random), 3, _number(random, 2**60), _number(random, 9)),
    items.Fenced: lambda random: items.Fenced(*some_ticket_epoch(random), _number(random, 9)),
    items.Update: lambda random: items.Update(
        *some_ticket_epoch(random), *some_ticket_epoch(random), 5, pack_processes(some_peers(random))
    ),
    items.AckUpdate: lambda random: items.AckUpdate(
        *some_ticket_epoch(random), 2, pack_processes(some_peers(random)), random.random() < 0.5
    ),
    items.NotCoordinator: lambda random: items.NotCoordinator(
        *some_ticket_epoch(random), random.random() < 0.3, record_or_none(random)
    ),
    items.Probe: _about(items.Probe),
    items.Fresh: lambda random: items.Fresh(*some_ticket_epoch(random), _number(random, 9)),
    items.Stale: lambda random: items.Stale(*some_ticket_epoch(random), some_record(random), _number(random, 9)),
    items.Exclude: _about(items.Exclude),
    items.AckExclude: lambda random: items.AckExclude(
        *some_ticket_epoch(random), random.random() < 0.3, some_record(random)
    ),
    items.RequestFence: _about(items.RequestFence),
    items.AckFence: lambda random: items.AckFence(
        *some_ticket_epoch(random), record_or_none(random), _number(random, 9), _number(random, 10**9)
    ),
    items.AcquireTicket: lambda random: items.AcquireTicket(_number(random, 9)),
    items.AckAcquireTicket: lambda random: items.AckAcquireTicket(_number(random, 9), some_record(random), 7),
    items.RejectAcquireTicket: lambda random: items.RejectAcquireTicket(
        _number(random, 9), random.random() < 0.5, random.random() < 0.5, pack_processes(some_peers(random))
    ),
    items.ReleaseTicket: lambda random: items.ReleaseTicket(*some_ticket_epoch(random), some_record(random)),
    items.AckReleaseTicket: _about(items.AckReleaseTicket),
    items.GenerationRead: lambda random: items.GenerationRead(_number(random, 9)),
    items.GenerationValue: lambda random: items.GenerationValue(
        _number(random, 9),
        random.random() < 0.5,
        3,
        _number(random, 4),
        record_or_none(random),
        record_or_none(random),
        _number(random, 99),
    ),
    items.Reserve: lambda random: items.Reserve(_number(random, 99)),
    items.Reserved: lambda random: items.Reserved(_number(random, 99), _number(random, 99)),
    items.Genesis: lambda random: items.Genesis(_number(random, 9), _number(random, 9), some_record(random)),
    items.GenesisAnswer: lambda random: items.GenesisAnswer(_number(random, 9), random.random() < 0.5, 3),
    Recover: lambda random: Recover(some_ranges(random)),
    Recovered: lambda random: Recovered(
        [packed(some_peer(random), random.randint(1, 99), [random.randbytes(5)], random.randbytes(9)) for _ in range(2)]
    ),
}
"""How to make one of each."""
