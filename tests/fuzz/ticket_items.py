"""Items of tickets and recovery, made from a seed for the fuzzers."""

from collections.abc import Callable
from random import Random

from whence import limits
from whence.core.levels.optimistic.recovery import Recover, Recovered
from whence.core.levels.optimistic.tickets import items as say
from whence.core.levels.optimistic.tickets.records import (
    EPOCH_MAX,
    TICKETS_MAX,
    WITNESSES_MAX,
    Claim,
    Pointer,
    Record,
    last_with,
    pack,
    pack_processes,
)
from whence.core.ready import Item
from whence.types import Process, packed


def _number(random: Random, high: int) -> int:
    return random.choice((0, 1, high, random.randint(0, high), random.randint(0, min(high, 5))))


def some_peer(random: Random) -> Process:
    return Process(_number(random, limits.PEER_ID_MAX), _number(random, limits.BOOT_MAX))


def some_peers(random: Random) -> tuple[Process, ...]:
    return tuple(some_peer(random) for _ in range(random.randint(0, WITNESSES_MAX)))


def some_claim(random: Random) -> Claim:
    return Claim(_number(random, TICKETS_MAX - 1), _number(random, EPOCH_MAX))


def some_pointer(random: Random) -> Pointer:
    return Pointer(some_claim(random), some_peer(random), _number(random, 9), some_peers(random))


def some_record(random: Random) -> bytes:
    last = b""
    for _ in range(random.randint(0, 4)):
        last = last_with(last, _number(random, TICKETS_MAX - 1), _number(random, 2**62))
    record = Record(
        claim=some_claim(random), owner=some_peer(random), generation=_number(random, 9), version=_number(random, 99),
        top=_number(random, EPOCH_MAX), witnesses=some_peers(random), proposed=some_peers(random),
        succ=some_pointer(random), beyond=random.choice((None, some_pointer(random))), last=last,
    )  # fmt: skip
    return pack(record)


def record_or_none(random: Random) -> bytes:
    return random.choice((b"", some_record(random)))


def some_ranges(random: Random) -> bytes:
    return b"".join(random.randbytes(14) for _ in range(random.randint(1, 5)))


def _about(kind: type[Item]) -> Callable[[Random], Item]:
    return lambda random: kind(*some_claim(random))


TICKET_MAKERS: dict[type[Item], Callable[[Random], Item]] = {
    say.Renew: lambda random: say.Renew(*some_claim(random), 3, _number(random, 2**60), some_record(random)),
    say.Alive: lambda random: say.Alive(*some_claim(random), 3, _number(random, 2**60)),
    say.Fenced: _about(say.Fenced),
    say.Update: lambda random: say.Update(
        *some_claim(random), *some_claim(random), 5, pack_processes(some_peers(random))
    ),
    say.AckUpdate: lambda random: say.AckUpdate(
        *some_claim(random), 2, pack_processes(some_peers(random)), random.random() < 0.5
    ),
    say.NotCoordinator: lambda random: say.NotCoordinator(
        *some_claim(random), random.random() < 0.3, record_or_none(random)
    ),
    say.Probe: _about(say.Probe),
    say.Fresh: _about(say.Fresh),
    say.Stale: lambda random: say.Stale(*some_claim(random), some_record(random)),
    say.Exclude: _about(say.Exclude),
    say.AckExclude: lambda random: say.AckExclude(*some_claim(random), random.random() < 0.3, some_record(random)),
    say.RequestFence: _about(say.RequestFence),
    say.AckFence: lambda random: say.AckFence(*some_claim(random), record_or_none(random)),
    say.ClusterJoin: lambda random: say.ClusterJoin(_number(random, 9)),
    say.AckClusterJoin: lambda random: say.AckClusterJoin(_number(random, 9), some_record(random), 7),
    say.RejectClusterJoin: lambda random: say.RejectClusterJoin(
        _number(random, 9), random.random() < 0.5, random.random() < 0.5, pack_processes(some_peers(random))
    ),
    say.Cleave: lambda random: say.Cleave(*some_claim(random), some_record(random)),
    say.AckCleave: _about(say.AckCleave),
    say.GenerationRead: lambda random: say.GenerationRead(_number(random, 9)),
    say.GenerationValue: lambda random: say.GenerationValue(
        _number(random, 9),
        random.random() < 0.5,
        3,
        _number(random, 4),
        record_or_none(random),
        record_or_none(random),
        _number(random, 99),
    ),
    say.Reserve: lambda random: say.Reserve(_number(random, 99)),
    say.Reserved: lambda random: say.Reserved(_number(random, 99), _number(random, 99)),
    say.Genesis: lambda random: say.Genesis(_number(random, 9), _number(random, 9), some_record(random)),
    say.GenesisAnswer: lambda random: say.GenesisAnswer(_number(random, 9), random.random() < 0.5, 3),
    Recover: lambda random: Recover(some_ranges(random)),
    Recovered: lambda random: Recovered(
        [packed(some_peer(random), random.randint(1, 99), [random.randbytes(5)], random.randbytes(9)) for _ in range(2)]
    ),
}
"""How to make one of each."""
