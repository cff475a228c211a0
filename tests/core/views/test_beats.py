"""How promises travel in a strict group: at once while there are few, together under load, with messages where it can.

Nothing here waits for a timer but where it says so.
"""

from tests.core.views.group import Group, between, both, of
from whence.core.views.beats import AT_ONCE
from whence.core.views.items import Beat, ViewAck, ViewMessage
from whence.core.views.settings import MS, ViewSettings

VOLATILE = ViewSettings(journal=False)


def strict_group(founders: int = 3) -> Group:
    """Return members that owe each other nothing."""
    group = Group("total-strict", None, VOLATILE, founders=founders)
    group.wait(200 * MS)
    return group


def beats_of(group: Group, pid: int) -> list[int]:
    """Return to whom beats of a member are on their way."""
    return [packet.to for packet in group.packets if packet.source == pid and isinstance(packet.item, Beat)]


def settle(group: Group) -> None:
    """Let packets arrive and let due timers go off, without letting time go on."""
    for _ in range(8):
        group.wake()
        group.flow()


def test_a_message_is_handed_out_after_two_hops_and_no_time() -> None:
    group = strict_group()
    event = group.publish(0)
    group.arrive(of(ViewMessage))
    assert beats_of(group, 1) == [0, 2]
    assert beats_of(group, 2) == [0, 1]
    settle(group)
    assert group.log[0] == group.log[1] == group.log[2] == [event]


def test_messages_that_come_in_one_turn_share_a_beat_after_the_first() -> None:
    group = strict_group()
    for _ in range(4):
        group.publish(0)
    group.arrive(of(ViewMessage))
    assert beats_of(group, 1) == [0, 2]
    group.wake()
    assert beats_of(group, 1) == [0, 2, 0, 2]


def test_an_own_message_saves_the_beat() -> None:
    group = strict_group()
    group.publish(0)
    group.publish(0)
    group.arrive(of(ViewMessage))
    group.publish(1)
    group.wake(1)
    assert beats_of(group, 1) == [0, 2], "of the first; the second was saved"


def take_turns(group: Group, count: int) -> None:
    """Let one member get messages of another, one in each turn of its loop."""
    for _ in range(count):
        group.publish(0)
        group.arrive(both(of(ViewMessage), between([0], [1])))
        group.wake(1)


def test_whoever_of_many_has_told_its_clock_often_pauses_and_then_tells_the_latest() -> None:
    group = strict_group(founders=5)
    take_turns(group, AT_ONCE + 3)
    assert len(beats_of(group, 1)) == 4 * AT_ONCE
    settle(group)
    assert len(group.log[2]) < AT_ONCE + 3, "the last ones wait for a beat"
    group.wait(20 * MS)
    settle(group)
    assert len(group.log[2]) == AT_ONCE + 3


def test_three_members_never_pause() -> None:
    group = strict_group()
    take_turns(group, AT_ONCE + 3)
    assert len(beats_of(group, 1)) == 2 * (AT_ONCE + 3)


def test_a_newcomer_that_is_not_opened_lets_nobody_wait() -> None:
    """Law: who is in the view promises by what arrives, though nothing counts there yet."""
    group = strict_group()
    unopened = both(of(ViewAck), between([0, 1, 2], [9]))
    group.join(9, 0)
    group.wait(200 * MS, hold=unopened)
    assert group.pids(0) == group.pids(1) == group.pids(2) == [0, 1, 2, 9]
    assert not group.is_live(9)
    event = group.publish(0)
    for _ in range(8):
        group.wake()
        group.flow(hold=unopened)
    assert group.log[0] == group.log[1] == group.log[2] == [event]
