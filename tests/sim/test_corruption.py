"""Corrupted memory is a fault of the simulated world: members suffer it, and know no act that does it."""

from random import Random

import pytest

from tests.core.levels.total.group import Group
from whence.core.level import BuildContext
from whence.core.membership.full_view import Directory
from whence.core.registry import LEVELS
from whence.errors import UsageError
from whence.sim.corruption import CORRUPT_STATE, KINDS, OF_STREAMS, corrupt_state
from whence.types import Process

ROLES_TICKS = 250
"""A few patiences of 40 ticks and a warm-up: the time to find that nobody merges, and to change that."""


@pytest.mark.parametrize("kind", range(KINDS))
@pytest.mark.parametrize("victim", [0, 3], ids=["merger", "follower"])
def test_every_kind_spoils_something_that_the_guards_repair_or_let_fade(kind: int, victim: int) -> None:
    """And the member is woken at once: its guards see the state before anything is done with it."""
    group = Group(4)
    group.publish(victim, b"held")
    group.run(1)
    group.cut = [(victim, pid) for pid in range(4)]
    group.publish(victim, b"on its way")
    before = state_of(group, victim)
    ready = corrupt_state(group.members[victim], kind, group.now)
    assert ready.wake_at == group.now
    assert state_of(group, victim) != before
    group.do(victim, ready)
    group.cut = []
    group.run(2 * 20 + 6 * 3)
    if kind >= OF_STREAMS:
        group.run(ROLES_TICKS)
    group.publish(victim, b"after")
    group.run(60)
    assert all(line[-1] == b"after" for line in group.delivered.values())


def state_of(group: Group, pid: int) -> tuple[object, ...]:
    member = group.members[pid]
    merger, follower = member.roles.merger, member.roles.follower
    return (
        member.clock.stamps.snapshot(),
        member.clock.ticks.rt,
        [pending.last_tick for pending in member.outbox._pending.values()],
        None if follower is None else follower.subscription.last,
        None if merger is None else (merger.buffer.last, list(merger.buffer._heap), merger.buffer._stale_up_to),
        None if merger is None else merger.buffer._scan_at,
        member.roles.exchange.table,
        member.roles.exchange.merges,
        dict(member.roles.exchange._heard),
        follower is None,
    )


def test_no_act_of_a_member_corrupts_it() -> None:
    group = Group(3)
    before = state_of(group, 0)
    with pytest.raises(UsageError, match=f"know no act '{CORRUPT_STATE}'"):
        group.members[0].act(CORRUPT_STATE, 0, group.now)
    assert state_of(group, 0) == before


@pytest.mark.parametrize("level", ["eventual", "fifo", "optimistic", "causal"])
def test_members_of_other_levels_promise_nothing_about_corrupt_memory_and_are_spared(level: str) -> None:
    chosen = LEVELS[level]
    around = BuildContext(Random(1).random, 0, Directory())
    member = chosen.build(Process(0, 1), chosen.settings_from({}), around)
    with pytest.raises(UsageError, match="only members of level total"):
        corrupt_state(member, 0, 0)
