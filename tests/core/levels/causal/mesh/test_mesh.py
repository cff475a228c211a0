"""Direct causal groups by hand: one hop, one clock; and any schedule of losses, overtaking and crashes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.core.levels.causal.tree.grove import MS, Grove
from whence.core.levels.causal.items import Ask, Back, Lookup, Probe
from whence.core.levels.causal.mesh import journal
from whence.core.levels.causal.mesh.items import CausalMessage, Has
from whence.core.levels.causal.mesh.state import SPARE_MESSAGES
from whence.core.ready import Item
from whence.core.stale_journal import OWN_LOST
from whence.errors import LimitError, NotMemberError, SettingError, StorageError, UsageError
from whence.limits import PEER_ID_MAX
from whence.types import EventId, Process, packed

LIVE = {"retry_ns": 1000 * MS, "retry_ns_max": 1600 * MS, "suspect_ns": 3000 * MS}
"""Timers of live groups."""


def group_of(nodes: int, **given: Any) -> Grove:
    return Grove(spread="direct", tree_nodes=nodes, **given).start(*range(nodes))


def flying(grove: Grove, kind: type[Item]) -> list[tuple[int, int]]:
    return [(sender.pid, target) for sender, target, item in grove.flying if isinstance(item, kind)]


def test_a_message_takes_one_hop_to_every_member_and_leaves_nothing_behind() -> None:
    grove = group_of(4)
    events = [grove.publish(0), grove.publish(3), grove.publish(0)]
    grove.pass_on(kind=CausalMessage)
    assert flying(grove, CausalMessage) == []
    for node in range(4):
        assert sorted(grove.delivered[node]) == sorted(events)
    grove.settle()
    assert grove.at_rest() == []


def test_what_overtakes_its_cause_is_held_until_the_cause_has_come() -> None:
    """Birman, Schiper, Stephenson, section 5.1: a reply that arrives first."""
    grove = group_of(3)
    cause = grove.publish(0)
    grove.pass_on(0, 1)
    effect = grove.publish(1)
    grove.pass_on(1, 2)
    assert 2 not in grove.delivered
    grove.pass_on(0, 2)
    assert grove.delivered[2] == [cause, effect]


def test_messages_that_know_nothing_of_each_other_do_not_wait() -> None:
    grove = group_of(3)
    grove.publish(0)
    other = grove.publish(1)
    grove.pass_on(1, 2)
    assert grove.delivered[2] == [other]


def test_a_message_acknowledges_what_its_publisher_has() -> None:
    grove = group_of(2)
    grove.publish(0)
    grove.pass_on()
    grove.publish(1)
    grove.pass_on(kind=CausalMessage)
    grove.tick(50 * MS)
    assert grove.members[0].gauges()[0].value == 0, "nothing is kept: the answer said that it was taken"
    assert flying(grove, Has) == [(0, 1)], "only who has published nothing since says so"


def test_what_is_held_asks_its_publisher_and_others_where_that_one_is_down() -> None:
    """The publisher of the cause reached one member and fell: whoever has the message passes it on as it was."""
    grove = group_of(4)
    cause = grove.publish(0)
    grove.pass_on(0, 1)
    grove.crash(0)
    grove.drop(0)
    effect = grove.publish(1)
    grove.pass_on(1, 2)
    grove.tick(100 * MS)
    assert (2, 0) in flying(grove, Ask)
    grove.pass_on(kind=Ask)
    grove.tick(100 * MS)
    assert (2, 1) in flying(grove, Lookup)
    grove.settle(10)
    assert grove.delivered[2] == grove.delivered[3] == [cause, effect]
    grove.restart(0)
    grove.settle()
    assert grove.delivered[0] == [cause, effect]
    assert grove.at_rest() == []


def test_a_crashed_member_that_returns_gets_what_it_missed_in_order_and_nothing_twice() -> None:
    grove = group_of(3)
    before = grove.publish(0)
    grove.settle()
    grove.crash(1)
    missed = [grove.publish(0), grove.publish(2), grove.publish(0)]
    grove.settle(10)
    assert flying(grove, CausalMessage) == [], "who is suspected is asked, not sent to"
    grove.restart(1)
    grove.settle()
    assert sorted(grove.delivered[1]) == sorted([before, *missed])
    assert grove.delivered[1].index(missed[0]) < grove.delivered[1].index(missed[2])
    assert grove.at_rest() == []


def test_a_publication_that_was_written_but_not_told_returns_after_the_crash() -> None:
    grove = group_of(3)
    bundle, ready = grove.members[0].publish([b"x"], 0)
    grove.journals[0] += ready.persist
    grove.crash(0)
    grove.restart(0)
    name = EventId(bundle.pid, bundle.incarnation, bundle.first)
    assert (grove.returned[0], grove.delivered[0]) == ([name], [name])
    later = grove.publish(0)
    grove.settle()
    assert grove.delivered[2] == [name, later]
    assert grove.at_rest() == []


def test_a_checkpoint_stands_for_all_records_before_it() -> None:
    grove = group_of(3)
    for number in range(40):
        grove.publish(number % 3)
        grove.pass_on(kind=CausalMessage)
    grove.tick(50 * MS)
    grove.pass_on()
    grove.crash(1)
    kept = [grove.publish(0) for _ in range(3)]
    member = grove.members[0]
    grove.journals[0] = member.checkpoint()
    assert member.checkpoint_bytes() == 3
    assert len(grove.journals[0]) == 2 + len(kept), "how it began, what it has, and what is kept"
    grove.crash(0)
    grove.restart(0)
    after = grove.publish(0)
    grove.restart(1)
    grove.settle()
    assert grove.delivered[1][-4:] == [*kept, after]
    assert grove.delivered[0][-4:] == [*kept, after]
    assert grove.at_rest() == []


def test_what_everybody_has_is_written_down_and_not_sent_again_after_a_crash() -> None:
    grove = group_of(2)
    for _ in range(100):
        grove.publish(0)
        grove.pass_on(kind=CausalMessage)
        grove.tick(50 * MS)
        grove.pass_on()
    assert any(isinstance(journal.decode(record), journal.Settled) for record in grove.journals[0])
    grove.crash(0)
    grove.flying.clear()
    grove.restart(0)
    assert len(flying(grove, CausalMessage)) < 40
    grove.settle()
    assert len(grove.delivered[1]) == 100
    assert grove.at_rest() == []


def test_what_an_application_had_not_taken_is_fetched_again_and_kept_for_it_until_then() -> None:
    """Handed out is not taken: a process that dies in between gets it again from those who published it."""
    grove = group_of(3)
    grove.asleep = {1}
    first = grove.publish(0)
    grove.settle(5)
    second = grove.publish(2)
    own = grove.publish(1)
    grove.settle(5)
    assert [grove.members[node].gauges()[0].value for node in (0, 1, 2)] == [1, 1, 1]
    grove.crash(1)
    grove.asleep.clear()
    grove.restart(1)
    grove.settle()
    assert grove.delivered[1].index(first) < grove.delivered[1].index(second)
    assert sorted(grove.delivered[1]) == sorted([first, second, own])
    assert grove.returned[1] == [own]
    assert grove.at_rest() == []
    grove.crash(1)
    grove.restart(1)
    grove.settle()
    assert len(grove.delivered[1]) == 3, "nothing is handed out once more"


def test_the_journal_of_a_member_holds_no_payloads_of_others() -> None:
    grove = group_of(2)
    grove.publish(0, payload=b"a secret of node 0")
    grove.publish(1, payload=b"of node 1")
    grove.settle()
    assert not any(b"secret" in record for record in grove.journals[1])
    assert any(b"of node 1" in record for record in grove.journals[1])


def test_a_lost_acknowledgement_is_made_up_for_by_sending_again() -> None:
    grove = group_of(2)
    grove.publish(0)
    grove.pass_on(kind=CausalMessage)
    grove.tick(50 * MS)
    grove.drop()
    grove.tick(200 * MS)
    assert flying(grove, CausalMessage) == [(0, 1)]
    grove.settle()
    assert "duplicate" in grove.notes
    assert grove.at_rest() == []


def test_a_member_that_is_far_behind_gets_a_window_at_a_time() -> None:
    grove = group_of(3, window=4)
    events = [grove.publish(0) for _ in range(20)]
    assert len(flying(grove, CausalMessage)) == 2 * 4
    grove.settle()
    assert grove.delivered[2] == events
    assert grove.at_rest() == []


def test_all_windows_together_fit_what_a_member_may_hold() -> None:
    grove = group_of(4, window=256, held_copies_max=12)
    first = grove.publish(0)
    grove.pass_on(0, 1)
    grove.pass_on(0, 2)
    grove.drop()  # what everything follows did not come to node 3
    for node in (1, 2):
        for _ in range(20):
            grove.publish(node)
    assert len([hop for hop in flying(grove, CausalMessage) if hop[1] == 3]) == 2 * 4, (
        "a third of what may be held, of each"
    )
    grove.settle()
    assert "held_full" not in grove.notes
    assert len(grove.delivered[3]) == 41
    assert grove.delivered[3][0] == first
    assert grove.at_rest() == []


def test_members_whose_first_messages_cross_go_on_sending_to_each_other() -> None:
    """The first word of a node is not that of a later life: what was sent to it is not taken for lost."""
    grove = group_of(2)
    first, other = grove.publish(0), grove.publish(1)
    grove.pass_on(1, 0)
    later = grove.publish(0)
    assert flying(grove, CausalMessage) == [(0, 1), (0, 1)]
    grove.pass_on(kind=CausalMessage)
    assert grove.delivered[1] == [other, first, later]
    assert flying(grove, CausalMessage) == []


def test_a_life_that_follows_one_never_heard_of_gets_everything_when_it_says_so() -> None:
    grove = group_of(2)
    grove.asleep.add(1)
    event = grove.publish(0)
    grove.pass_on(0, 1)
    grove.drop()
    grove.crash(1)  # with what its application had not taken
    grove.restart(1)
    grove.pass_on(1, 0)
    assert flying(grove, CausalMessage) == [(0, 1)]
    grove.settle()
    grove.take(1)
    grove.settle()
    assert grove.delivered[1] == [event]
    assert grove.at_rest() == []


def test_one_that_is_suspected_is_asked_what_it_has_and_trusted_when_it_answers() -> None:
    grove = group_of(2)
    grove.crash(1)
    grove.publish(0)
    grove.pass_on()  # refused: nobody is there
    assert flying(grove, Probe) == [(0, 1)], "asked at once"
    grove.pass_on()
    assert flying(grove, Probe) == [], "and then in its time"
    grove.tick(200 * MS)
    assert flying(grove, Probe) == [(0, 1)]
    grove.flying.clear()
    grove.restart(1)
    grove.settle()
    assert len(grove.delivered[1]) == 1
    assert grove.at_rest() == []


def test_alone_nothing_is_kept_and_nothing_sent() -> None:
    grove = group_of(1)
    event = grove.publish(0)
    grove.tick(50 * MS)
    assert (grove.delivered, grove.flying, grove.at_rest()) == ({0: [event]}, [], [])


def test_a_member_whose_records_nobody_keeps_writes_none_and_does_the_same_otherwise() -> None:
    kept, unkept = Grove(spread="direct", tree_nodes=3), Grove(spread="direct", tree_nodes=3)
    unkept.around = structs.replace(unkept.around, remembers=False)
    for grove in (kept, unkept):
        grove.start(0, 1, 2)
        for number in range(60):
            grove.publish(number % 3)
            grove.settle(2)
    assert unkept.delivered == kept.delivered
    assert (any(kept.journals.values()), any(unkept.journals.values())) == (True, False)


def test_everything_has_a_limit() -> None:
    grove = group_of(2, held_copies_max=2)
    hasty = Process(0, 1)
    for before in range(1, 5):  # one that does not keep to its window
        early = CausalMessage([before, 0], [], packed(hasty, before + 1, [b"x"]))
        grove.apply(1, grove.members[1].receive(hasty, early, grove.now))
    assert grove.notes.count("held_full") == 2
    full = group_of(2, records_max=8)
    full.publish(0)
    full.publish(0)
    with pytest.raises(LimitError, match="records_max // 4"):
        full.publish(0)
    small = group_of(2, retained_bytes_max=40)
    with pytest.raises(LimitError, match="retained_bytes_max // 4"):
        small.publish(0, payload=b"x" * 11)
    many = group_of(2)
    for _ in range(SPARE_MESSAGES + 50):
        many.publish(0, payload=b"")
        many.pass_on(kind=CausalMessage)
        many.tick(50 * MS)
        many.pass_on()
    assert many.members[1].gauges()[-1].value == SPARE_MESSAGES


def test_what_cannot_be_is_refused() -> None:
    grove = group_of(2)
    member = grove.members[0]
    with pytest.raises(UsageError, match="one group"):
        member.publish_to(1, [b"x"], 0)
    with pytest.raises(UsageError, match="no act"):
        member.act("dance", 0, 0)
    with pytest.raises(UsageError, match="not in reach"):
        member.act("suspect", 7, 0)
    with pytest.raises(NotMemberError, match="fixed"):
        member.join([1], 0)
    with pytest.raises(NotMemberError, match="fixed"):
        member.leave(0)
    with pytest.raises(LimitError, match="least number of events"):
        member.publish([], 0)
    unborn = Grove(spread="direct", tree_nodes=2)
    unborn.incarnations[0] = 1
    with pytest.raises(NotMemberError, match="not started"):
        unborn._build(0).publish([b"x"], 0)
    for given_settings, complaint in (
        ({"groups": "0 1;1 2", "tree_nodes": 3}, "one group"),
        ({"groups": "0 1", "tree_nodes": 3}, "one group of all"),
        ({"tree_nodes": 65}, "at most 64"),
    ):
        with pytest.raises(SettingError, match=complaint):
            Grove(spread="direct", **given_settings)
    outside = Grove(spread="direct", processes="10 20")
    outside.incarnations[2] = 1
    with pytest.raises(SettingError, match="process 2 is not one of the founders 10, 20"):
        outside._build(2)


def test_clocks_of_another_group_and_of_the_future_are_rejected() -> None:
    grove = group_of(3)
    for past in ([0, 0], [0, 0, 0, 0]):
        message = CausalMessage(past, [], packed(Process(1, 1), 1, [b"x"]))
        grove.apply(0, grove.members[0].receive(Process(1, 1), message, 0))
    assert grove.notes.count("not_for_me") == 2
    assert grove.delivered == {}


def test_whoever_knows_more_of_a_members_messages_than_it_does_makes_it_stop() -> None:
    """Its journal is an older one: it would give the numbers of what it lost to others, and nobody would take those."""
    grove = group_of(2)
    early = list(grove.journals[0])
    grove.publish(0)
    grove.settle()
    grove.crash(0)
    grove.journals[0] = early
    grove.restart(0)
    grove.settle(1)
    assert OWN_LOST in grove.notes
    future = CausalMessage([0, 5], [], packed(Process(0, 2), 1, [b"x"]))
    grove.notes.clear()
    grove.apply(1, grove.members[1].receive(Process(0, 2), future, grove.now))
    assert grove.notes == [OWN_LOST]


@pytest.mark.parametrize("numbers", [(10, 20, 30), (0, 1, 2), (2, 1, 0), (PEER_ID_MAX, 5, 900)])
def test_places_come_from_the_list_of_processes_and_never_from_their_numbers(numbers: tuple[int, ...]) -> None:
    grove = Grove(spread="direct", processes=" ".join(map(str, numbers))).start(*numbers)
    first = grove.publish(numbers[0])
    grove.settle(1)
    grove.crash(numbers[2])
    second = grove.publish(numbers[1])
    grove.settle(2)
    grove.restart(numbers[2])
    grove.settle()
    assert grove.delivered == {number: [first, second] for number in numbers}
    assert [len(told) for told in (grove.members[numbers[0]].taken,)] == [3]
    assert grove.at_rest() == []


def test_a_journal_of_other_processes_is_refused() -> None:
    grove = Grove(spread="direct", processes="10 20").start(10, 20)
    grove.publish(10)
    for others, complaint in (
        ({"processes": "10 30"}, "began with the processes 10, 20, and now 10, 30 are named"),
        ({"processes": "10 20", "spread": "tree"}, "began with spread=mesh, and now spread=tree"),
    ):
        given_settings: dict[str, Any] = {"spread": "direct", **others}
        other = Grove(**given_settings)
        other.incarnations[10] = 1
        with pytest.raises(StorageError, match=complaint):
            other._build(10).restore(grove.journals[10], 0)


def test_a_journal_of_a_tree_is_refused_with_the_settings_it_began_with() -> None:
    """Its records are none that a mesh could read; the first says why."""
    grove = Grove(spread="tree", processes="10 20").start(10, 20)
    grove.publish(10)
    mesh = Grove(spread="mesh", processes="10 20")
    mesh.incarnations[10] = 1
    began = "began with spread=tree .*, and now spread=mesh is asked for; give the settings it began with"
    with pytest.raises(StorageError, match=began):
        mesh._build(10).restore(grove.journals[10], 0)


def test_a_journal_with_a_record_of_nobody_is_refused() -> None:
    grove = Grove(spread="mesh", processes="10 20").start(10, 20)
    grove.publish(10)
    grove.journals[10].append(b"\x91\x63")
    grove.crash(10)
    with pytest.raises(StorageError, match="no causal group of this kind wrote"):
        grove.restart(10)


STEPS = st.lists(
    st.tuples(st.sampled_from(["publish", "arrive", "arrive", "arrive", "lose", "crash", "restart", "tick", "sleep"]),
              st.integers(0, 99)), max_size=80)  # fmt: skip


@given(STEPS, st.booleans())
@settings(max_examples=150)
def test_in_any_schedule_effects_follow_their_causes_and_everybody_has_everything_in_the_end(
    steps: list[tuple[str, int]], live: bool
) -> None:
    """Causes are told by program order alone: what a node had delivered or published when it published."""
    nodes = 4
    grove = group_of(nodes, **LIVE if live else {})
    causes: dict[EventId, set[EventId]] = {}
    for what, number in steps:
        node = number % nodes
        if what == "publish" and node in grove.members:
            before = {*grove.delivered.get(node, [])}
            causes[grove.publish(node)] = before
        elif what in ("arrive", "lose") and grove.flying:
            copy = grove.flying.pop(number % len(grove.flying))
            if what == "arrive":
                grove.arrive(copy)
        elif what == "crash" and node in grove.members:
            grove.crash(node)
        elif what == "sleep":
            grove.take(node) if node in grove.asleep else grove.asleep.add(node)
        elif what == "restart" and node not in grove.members:
            grove.restart(node)
        elif what == "tick":
            grove.tick(number * 10 * MS)
    for node in range(nodes):
        grove.take(node)
        if node not in grove.members:
            grove.restart(node)
    grove.settle()
    for node in range(nodes):
        delivered = grove.delivered.get(node, [])
        assert sorted(delivered) == sorted(causes)
        place = {event: at for at, event in enumerate(delivered)}
        assert all(place[cause] < place[event] for event, before in causes.items() for cause in before)
    assert grove.at_rest() == []


def test_what_came_to_an_earlier_life_is_sent_to_the_next_however_often_its_copies_are_lost() -> None:
    """The next life says again what the earlier published, and that says what had come to that one: not to this."""
    grove = group_of(3, **LIVE)
    grove.asleep.add(1)
    lost = grove.publish(0)
    grove.pass_on(0)
    grove.publish(1)  # it follows what its application has not taken
    grove.drop(1)
    grove.crash(1)
    grove.asleep.clear()
    grove.restart(1)
    grove.pass_on(1, 0, Back)
    grove.drop(0, 1)  # what is sent again at once is lost
    grove.pass_on(1, 0)
    grove.settle()
    assert lost in grove.delivered[1]
    assert grove.at_rest() == []


def test_a_late_word_of_an_earlier_life_says_nothing_of_the_present_one() -> None:
    grove = group_of(2, **LIVE)
    grove.asleep.add(1)
    lost = grove.publish(0)
    grove.pass_on(0, 1)
    grove.arrive((Process(0, 1), 1, Probe(1)))
    late = [copy for copy in grove.flying if isinstance(copy[2], Has) and copy[0].pid == 1]
    assert late
    grove.drop(1)
    grove.crash(1)
    grove.asleep.clear()
    grove.restart(1)
    grove.pass_on(1, 0)
    grove.drop(0, 1)
    for copy in late:
        grove.arrive(copy)
    grove.settle()
    assert grove.delivered.get(1) == [lost]
    assert grove.at_rest() == []
