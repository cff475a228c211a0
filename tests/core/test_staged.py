"""One member: its life, its errors, the order of its stages, and that same inputs give same outputs."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.parts import ME, ROUND_NS, asked_in, ball, balls_in, delivered_in, heard, node_of, one
from whence import limits
from whence.core.levels.gossip.level import GOSSIP
from whence.core.membership.items import Subscribe, Welcome
from whence.core.ready import Gap, Item, Ready
from whence.core.staged import STEPS, Lifecycle, StagedMember
from whence.errors import LimitError, NotMemberError
from whence.types import Process

YOU = Process(2, 1)
HOLD_NS = 10 * ROUND_NS


def member(level: str = "fifo", seed: object = 0, **settings: object) -> StagedMember:
    node = node_of(level, ME, seed, **settings)
    node.found([YOU, Process(3, 1)], 0)
    return node


def joining() -> StagedMember:
    node = node_of()
    node.join([7, 8], 0)
    return node


def leaving() -> StagedMember:
    node = member(farewell_rounds=2)
    node.leave(0)
    return node


def left() -> StagedMember:
    node = joining()
    node.leave(0)
    return node


IN_LIFE = {
    Lifecycle.OUTSIDE: node_of,
    Lifecycle.JOINING: joining,
    Lifecycle.MEMBER: member,
    Lifecycle.LEAVING: leaving,
    Lifecycle.LEFT: left,
}

AFTER: dict[tuple[Lifecycle, str], Lifecycle] = {
    (Lifecycle.OUTSIDE, "found"): Lifecycle.MEMBER,
    (Lifecycle.OUTSIDE, "join"): Lifecycle.JOINING,
    (Lifecycle.JOINING, "leave"): Lifecycle.LEFT,
    (Lifecycle.MEMBER, "leave"): Lifecycle.LEAVING,
}
"""What each call makes of each life; every other call is refused."""


def call(node: StagedMember, name: str) -> Ready:
    if name == "found":
        return node.found([YOU], 1)
    return node.join([7], 1) if name == "join" else node.leave(1)


@pytest.mark.parametrize("name", ["found", "join", "leave"])
@pytest.mark.parametrize("life", Lifecycle)
def test_a_life_goes_only_where_the_table_lets_it(life: Lifecycle, name: str) -> None:
    node = IN_LIFE[life]()
    assert node.lifecycle is life
    if (life, name) in AFTER:
        call(node, name)
        assert node.lifecycle is AFTER[life, name]
        assert node.lifecycle in STEPS[life]
    else:
        with pytest.raises(NotMemberError, match=life.value):
            call(node, name)
        assert node.lifecycle is life


def test_every_life_is_in_the_table_and_only_the_last_has_no_next() -> None:
    assert set(STEPS) == set(Lifecycle)
    assert [life for life, after in STEPS.items() if not after] == [Lifecycle.LEFT]


@pytest.mark.parametrize("life", [life for life in Lifecycle if life is not Lifecycle.MEMBER])
def test_only_a_member_may_publish(life: Lifecycle) -> None:
    with pytest.raises(NotMemberError, match=life.value):
        IN_LIFE[life]().publish([b"x"], 1)


@pytest.mark.parametrize("life", Lifecycle)
def test_only_a_living_member_delivers_what_comes(life: Lifecycle) -> None:
    node = IN_LIFE[life]()
    ready = node.receive(YOU, ball((0, one(50))), 1)
    if life in (Lifecycle.MEMBER, Lifecycle.LEAVING):
        assert delivered_in(ready) == [one(50)]
    else:
        assert [(note.kind, note.reason) for note in ready.notes] == [("drop", "not_member")]


@pytest.mark.parametrize("item", [Subscribe(joining=True), Welcome(b"", b"")])
@pytest.mark.parametrize("life", [Lifecycle.OUTSIDE, Lifecycle.LEFT])
def test_who_is_not_in_the_group_answers_nobody(life: Lifecycle, item: Item) -> None:
    node = IN_LIFE[life]()
    for ready in (node.receive(YOU, item, 1), node.tick(10 * ROUND_NS), node.unreachable(2, 1)):
        assert ready == Ready()


@pytest.mark.parametrize(
    ("payloads", "name"),
    [
        ([], "least number"),
        ([b""] * 5, "publish_events_max is 4"),
        ([b"x" * 6, b"y" * 5], "publish_bytes_max is 10"),
    ],
)
def test_a_publish_over_a_limit_names_the_limit_and_its_value(payloads: list[bytes], name: str) -> None:
    node = member(publish_events_max=4, publish_bytes_max=10)
    with pytest.raises(LimitError, match=name):
        node.publish(payloads, 0)
    bundle, _ = node.publish([b"x" * 10], 0)
    assert bundle.first == 1, "a refused publish takes no number"


def test_a_life_publishes_no_more_events_than_have_numbers() -> None:
    node = member()
    node._published = limits.SEQ_MAX - 1
    with pytest.raises(LimitError, match=str(limits.SEQ_MAX)):
        node.publish([b"", b""], 0)


@pytest.mark.parametrize("level", sorted(GOSSIP))
def test_a_publisher_delivers_its_own_bundle_at_creation_and_passes_it_on(level: str) -> None:
    node = member(level)
    first, ready = node.publish([b"a", b"b"], 0)
    second, _ = node.publish([b"c"], 0)
    assert delivered_in(ready) == [first]
    assert (first.process, first.first, first.last, second.first) == (ME, 1, 2, 3)
    (message,) = balls_in(node.tick(ROUND_NS))
    assert message.bundles == [first, second]


def test_a_member_wakes_for_the_first_of_its_stages() -> None:
    node = member()
    round_at = node.receive(YOU, ball((9, one(50))), 0).wake_at
    assert round_at is not None
    assert round_at < ROUND_NS, "spread wants its round first"
    node.tick(9 * ROUND_NS)
    held = node.receive(YOU, ball((9, one(50, 5))), 9 * ROUND_NS - HOLD_NS + 5)
    assert held.wake_at == 9 * ROUND_NS + 5, "then the order's hold ends before the next round"


def test_who_joins_wakes_to_ask_the_next_contact_and_for_nothing_else() -> None:
    node = node_of(join_retry_rounds=2)
    ready = node.join([7, 8], 5)
    assert asked_in(ready) == [7]
    assert ready.wake_at == 5 + 2 * ROUND_NS
    early = node.tick(5 + ROUND_NS)
    assert (early.send, early.wake_at) == ([], ready.wake_at)
    assert asked_in(node.tick(5 + 2 * ROUND_NS)) == [8]


def test_a_hold_that_has_lasted_long_enough_ends_with_a_gap() -> None:
    node = member()
    node.receive(YOU, ball((9, one(50, 2))), 0)
    ready = node.tick(HOLD_NS)
    assert isinstance(ready.deliver[0], Gap)
    assert delivered_in(ready) == [one(50, 2)]


def test_a_newcomer_becomes_a_member_with_the_welcome_and_starts_from_its_snapshot() -> None:
    old = member()
    for seq in (1, 2, 3):
        old.receive(YOU, ball((9, one(50, seq))), 0)
    (send,) = old.receive(Process(9, 1), Subscribe(joining=True), 0).send
    new = node_of(me=Process(9, 1))
    new.join([ME.pid], 0)
    ready = new.receive(ME, send.item, 1)
    assert new.lifecycle is Lifecycle.MEMBER
    assert [(note.kind, note.peer) for note in ready.notes] == [("join", ME.pid)]
    assert ME.pid in (new.view() or ())
    late = new.receive(YOU, ball((9, one(50, 3)), (9, one(50, 4))), 2)
    assert delivered_in(late) == [one(50, 4)]


def test_a_welcome_with_a_wrong_snapshot_is_rejected_and_the_search_goes_on() -> None:
    node = joining()
    ready = node.receive(YOU, Welcome(b"", b"odd"), 1)
    assert [(note.kind, note.reason) for note in ready.notes] == [("reject", "snapshot")]
    assert node.lifecycle is Lifecycle.JOINING
    assert ready.wake_at is not None


def test_a_second_welcome_changes_nothing() -> None:
    node = joining()
    node.receive(YOU, Welcome(b"", b""), 1)
    ready = node.receive(Process(3, 1), Welcome(b"", b"odd"), 2)
    assert (ready.notes, node.lifecycle) == ([], Lifecycle.MEMBER)


def test_who_finds_nobody_begins_the_group_anew() -> None:
    node = node_of(join_tries_max=2)
    ready = node.join([7], 0)
    while node.lifecycle is Lifecycle.JOINING:
        assert ready.wake_at is not None
        ready = node.tick(ready.wake_at)
    assert [(note.kind, note.reason) for note in ready.notes] == [("join", "alone")]
    node.publish([b"x"], 10**12)


def test_a_leaver_says_farewell_and_is_gone_when_it_was_heard() -> None:
    node = member(farewell_rounds=4)
    ready = node.leave(0)
    assert ready.wake_at is not None
    farewells = 0
    for _ in range(20):
        if node.lifecycle is Lifecycle.LEFT:
            break
        assert ready.wake_at is not None
        ready = node.tick(ready.wake_at)
        farewells += sum(ME.pid in heard(message.unsubs) for message in balls_in(ready))
    assert node.lifecycle is Lifecycle.LEFT
    assert [(note.kind, note.reason) for note in ready.notes] == [("leave", None)]
    assert ready.wake_at is None
    assert farewells == 2


def test_a_dead_peer_leaves_the_view_after_some_failures() -> None:
    node = member()
    for _ in range(3):
        node.unreachable(2, 0)
    assert node.view() == (3,)


def test_nothing_is_taken_up_from_an_earlier_life_by_parts_that_promise_nothing() -> None:
    assert node_of().restore([b"record"], 0) == Ready()


def test_every_buffer_of_every_stage_has_a_gauge() -> None:
    names = {gauge.name for gauge in member().gauges()}
    assert {"senders", "held_bundles", "held_bytes", "gossip_buffer", "gossip_history", "view", "lost"} <= names


@given(st.integers(), st.sampled_from(sorted(GOSSIP)))
def test_same_inputs_and_same_dice_give_same_outputs(seed: int, level: str) -> None:
    """A member is a function of what it is told: two of them, told the same, cannot be told apart."""

    def story() -> list[object]:
        random = Random(seed)
        node, now = member(level, seed), 0
        told: list[object] = []
        for _ in range(40):
            now += random.randrange(ROUND_NS)
            draw = random.randrange(4)
            if draw == 0:
                told.append(node.publish([random.randbytes(3)], now))
            elif draw == 1:
                told.append(node.receive(YOU, ball((1, one(random.randrange(9), random.randrange(1, 9)))), now))
            elif draw == 2:
                told.append(node.unreachable(random.randrange(5), now))
            else:
                told.append(node.tick(now))
        return [*told, node.view(), node.gauges()]

    assert story() == story()
