"""Corrupted memory as a fault of the simulated world: the state of a member at level `total` is corrupted from outside.

Some part of it claims to be from a far future, is out of order, or contradicts the rest. Members do not know about this
fault: their guards (core/levels/total/clock.py, merge_buffer.py, roles.py) must find and repair it.
"""

from typing import TypeAlias

from whence.core.clocks.hlc import Hlc
from whence.core.clocks.kn import Kn
from whence.core.clocks.stamp import REST_BITS, StampClock, key_below, last_key_of
from whence.core.levels.total.member import TotalMember
from whence.core.levels.total.merge_buffer import MergeBuffer
from whence.core.levels.total.outbox import Outbox
from whence.core.levels.total.role_table import RoleTable
from whence.core.levels.total.roles import Roles
from whence.core.member import Member
from whence.core.ready import Ready
from whence.errors import UsageError
from whence.types import Instant, Process, packed

CORRUPT_STATE = "corrupt_state"
"""The act of a scenario that causes this fault; its argument is the kind, below KINDS."""

KINDS, OF_STREAMS = 14, 8
"""The kinds; the first ones are of stamps, buffers and streams, the others of roles."""

Clock: TypeAlias = StampClock[object] | Hlc | Kn


def corrupt_state(member: Member, kind: int, now: Instant) -> Ready:
    """Corrupt some part of a member's state; return a Ready that wakes it at once, so that its guards see it first.

    Raises UsageError for a member of another level: other levels promise nothing about corrupt memory.
    """
    if not isinstance(member, TotalMember):
        raise UsageError("only members of level total recover from corrupt state")
    ready = member.guard(now)
    clock, merger, follower = member.clock, member.roles.merger, member.roles.follower
    timing = clock.timing
    far = clock.rt + 100 * (timing.stall_max + timing.delta + timing.epsilon)
    match kind % KINDS:
        case at if at >= OF_STREAMS:
            corrupt_roles(member.roles, clock.rt, now, at - OF_STREAMS)
        case 0:
            corrupt_stamps(clock.stamps, far)
        case 1:
            clock.ticks.rt = far
        case 2:
            corrupt_outbox(member.outbox, far)
        case 3 if follower is not None and follower.subscription.last is not None:
            follower.subscription.last = last_key_of(far, timing.origin)
        case _ if merger is not None:
            corrupt_buffer(merger.buffer, clock.rt, far, kind % 4)
        case _:
            corrupt_stamps(clock.stamps, far)
    ready.wake_at = now
    return ready


def corrupt_roles(roles: Roles, rt: int, now: Instant, kind: int) -> None:
    """Let a member be wrong about who merges: a term that no table can have, places for the wrong members, everybody
    heard just now or for a long time not, a role that the table does not give it, or contradictions."""
    exchange = roles.exchange
    table, origins, far = exchange.table, exchange._origins, rt + (1 << 40)
    match kind:
        case 0:
            exchange.table = table._replace(term=far)
        case 1:
            exchange.table = RoleTable(max(table.term + 1, rt), origins[-1:])
        case 2:
            exchange._heard = dict.fromkeys((*table.mergers, *table.deputies), now + (1 << 60))
            exchange._beat_at = exchange._ticked_at = exchange._judges_from = now + (1 << 60)
            if roles.merger is not None:
                roles.merger.warm_at = far
        case 3:
            roles.merger = roles.follower = None
        case 4:
            exchange.table = RoleTable(rt, (*table.mergers, *table.mergers), table.mergers)
        case _:
            exchange.merges = not exchange.merges
            exchange._heard, exchange._former = {}, dict.fromkeys(origins)
            exchange._alone_since = -(1 << 60)


def corrupt_stamps(stamps: Clock, tick: int) -> None:
    """Let a process believe that its last event was at some tick."""
    if isinstance(stamps, Hlc):
        stamps._last = tick << REST_BITS
    elif isinstance(stamps, Kn):
        stamps._set(tick, 0, stamps._kn)


def corrupt_outbox(outbox: Outbox, last_tick: int) -> None:
    """Let every pending publication claim to be worth sending until some tick."""
    for pending in outbox._pending.values():
        pending.last_tick = last_tick


def corrupt_buffer(buffer: MergeBuffer, rt: int, far: int, kind: int) -> None:
    """Put the last key, pending bundles or the memory of bundles into the future, or the heap out of order."""
    match kind:
        case 0:
            buffer.last = last_key_of(far, buffer._origin)
        case 1:
            key = key_below(far, buffer._origin)
            garbage = packed(Process(0, 1), 1, [b"garbage"])
            buffer._heap += [(key, 0, len(buffer._heap) + at, rt, 0, 7, garbage) for at in range(3)]
        case 2:
            buffer._stale_up_to = far
            buffer._fading.appendleft((far, 1, [1]))
        case _:
            buffer._heap.reverse()
            buffer._bytes += 1 << 20
            buffer._scan_at = buffer._tidy_at = far
