"""TreeMember multicast by hand: the schedules of the thesis and its review, step by step."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from tests.core.levels.causal.tree.grove import MS, Grove
from whence.core.levels.causal.tree.items import Ack, Ask, Copy, FenceAsk, FenceTell, Lookup, Named, Probe, Trail
from whence.core.ready import Item
from whence.core.stale_journal import OWN_LOST
from whence.errors import LimitError, NotMemberError, StorageError, UsageError
from whence.limits import PEER_ID_MAX
from whence.types import EventId, Process


def copies(grove: Grove) -> list[tuple[int, int]]:
    return [(sender.pid, target) for sender, target, item in grove.flying if isinstance(item, Copy)]


@pytest.mark.parametrize("coding", ["whole", "predicted", "thesis"])
@pytest.mark.parametrize("identity", ["uid", "paper"])
def test_a_message_reaches_every_member_once_and_leaves_nothing_behind(coding: str, identity: str) -> None:
    """Line of four, one publish: what the printed algorithm does not manage (E1 to E3)."""
    grove = Grove(tree="line", tree_nodes=4, coding=coding, identity=identity).start(0, 1, 2, 3)
    events = [grove.publish(0), grove.publish(3), grove.publish(0)]
    grove.settle()
    for node in range(4):
        assert sorted(grove.delivered[node]) == sorted(events)
        assert grove.delivered[node].index(events[0]) < grove.delivered[node].index(events[2])
    assert grove.at_rest() == []


def test_a_member_whose_records_nobody_keeps_writes_none_and_does_the_same_otherwise() -> None:
    kept, unkept = (Grove(tree="line", tree_nodes=4, coding="predicted") for _ in range(2))
    unkept.around = structs.replace(unkept.around, remembers=False)
    for grove in (kept, unkept):
        grove.start(0, 1, 2, 3)
        for number in range(100):
            grove.publish(number % 4)
            grove.settle()
    assert unkept.delivered == kept.delivered
    assert (any(kept.journals.values()), any(unkept.journals.values())) == (True, False)
    assert [len(member.outbox.forgotten) for member in unkept.members.values()] == [
        len(member.outbox.forgotten) for member in kept.members.values()
    ], "what is not written down does not pile up either"


def test_a_forwarder_passes_on_what_it_never_delivers() -> None:
    grove = Grove(tree="line", tree_nodes=3, groups="0 2").start(0, 1, 2)
    event = grove.publish(0)
    grove.settle()
    assert grove.delivered == {0: [event], 2: [event]}
    assert grove.at_rest() == []


def test_a_publisher_outside_the_group_does_not_deliver_and_its_call_returns() -> None:
    grove = Grove(tree="line", tree_nodes=3, groups="2").start(0, 1, 2)
    event = grove.publish(0)
    grove.settle()
    assert grove.returned == {0: [event]}
    assert grove.delivered == {2: [event]}


def test_what_overtakes_its_cause_is_held_until_the_cause_has_come() -> None:
    """0 jumps 1 to reach 2; 1 gets a later message, answers it, and the answer waits at 2."""
    grove = Grove(tree="line", tree_nodes=3, groups="0 1 2;1 2").start(0, 1, 2)
    first = grove.publish(0)
    grove.pass_on(0, 1)
    second = grove.publish(1, group=1)
    late = [copy for copy in grove.flying if copy[1] == 2 and isinstance(copy[2], Copy)]
    grove.flying = [copy for copy in grove.flying if copy not in late]
    for copy in reversed(late):
        grove.arrive(copy)
    assert grove.delivered[2] == [first, second]


def test_a_suspected_node_is_leapt_over_and_gets_its_copy_when_it_is_back() -> None:
    grove = Grove(tree="line", tree_nodes=3).start(0, 1, 2)
    grove.apply(0, grove.members[0].act("suspect", 1, 0))
    event = grove.publish(0)
    assert copies(grove) == [(0, 2)]
    grove.pass_on()
    assert grove.delivered == {0: [event], 2: [event]}
    grove.apply(0, grove.members[0].act("trust", 1, 0))
    assert (0, 1) in copies(grove)
    grove.settle()
    assert grove.delivered[1] == [event]
    assert grove.at_rest() == []


def test_a_crashed_member_that_returns_gets_what_it_missed_in_order_and_nothing_twice() -> None:
    grove = Grove(tree="line", tree_nodes=3).start(0, 1, 2)
    before = grove.publish(0)
    grove.settle()
    grove.crash(1)
    missed = [grove.publish(0), grove.publish(2), grove.publish(0)]
    grove.settle(10)
    assert [event for event in grove.delivered[2] if event in missed and event.pid == 0] == [missed[0], missed[2]]
    grove.restart(1)
    grove.settle()
    assert sorted(grove.delivered[1]) == sorted([before, *missed])
    assert grove.delivered[1].index(missed[0]) < grove.delivered[1].index(missed[2])
    assert grove.at_rest() == []


@pytest.mark.parametrize("coding", ["whole", "predicted", "thesis"])
def test_what_is_published_first_after_a_neighbour_came_back_is_sent_to_it_at_once(coding: str) -> None:
    """It was owed nothing meanwhile; the copy had waited for the timer that repeats (4.5)."""
    grove = Grove(tree="line", tree_nodes=3, coding=coding).start(0, 1, 2)
    grove.publish(0)
    grove.settle()
    grove.crash(1)
    grove.restart(1)
    grove.pass_on()
    grove.publish(0)
    assert copies(grove) == [(0, 1)]


def test_a_publication_that_was_written_but_not_told_returns_after_the_crash() -> None:
    """The driver stopped between the sync and the rest: numbers are not given anew, the copies go out."""
    grove = Grove(tree="line", tree_nodes=3).start(0, 1, 2)
    bundle, ready = grove.members[0].publish_to(0, [b"x"], 0)
    grove.journals[0] += ready.persist
    grove.crash(0)
    grove.restart(0)
    name = EventId(bundle.pid, bundle.incarnation, bundle.first)
    assert (grove.returned[0], grove.delivered[0]) == ([name], [name])
    later = grove.publish(0)
    grove.settle()
    assert grove.delivered[2] == [name, later]
    assert grove.at_rest() == []


def test_a_lost_acknowledgement_is_asked_for_again() -> None:
    grove = Grove(tree="line", tree_nodes=3).start(0, 1, 2)
    grove.publish(0)
    for _ in range(3):
        grove.pass_on(kind=Copy)
    grove.tick(50 * MS)
    assert any(isinstance(item, Ack) for _, _, item in grove.flying)
    grove.drop()
    grove.tick(200 * MS)
    assert any(isinstance(item, Probe) for _, _, item in grove.flying)
    grove.settle()
    assert grove.at_rest() == []


def test_a_copy_that_is_held_asks_the_source_named_in_its_dependencies() -> None:
    grove = Grove(tree="line", tree_nodes=2).start(0, 1)
    first, second = grove.publish(0), grove.publish(0)
    grove.flying.pop(0)
    grove.pass_on()
    assert grove.delivered.get(1) is None
    grove.tick(70 * MS)
    asks = [item for _, target, item in grove.flying if isinstance(item, Ask) and target == 0]
    assert asks == [Ask(0, 1)]
    grove.settle()
    assert grove.delivered[1] == [first, second]


def held_behind_a_crash(**settings: Any) -> tuple[Grove, list[EventId]]:
    """Thesis figure 3.3: a node has a message from 0 and is blocked by the number that 1, now down, gave it."""
    grove = Grove(tree="line", tree_nodes=4, **settings).start(0, 1, 2, 3)
    first = grove.publish(0)
    grove.pass_on(0, 1, Copy)
    grove.drop(1)
    grove.crash(1)
    grove.apply(0, grove.members[0].unreachable(1, grove.now))
    return grove, [first]


def test_a_node_down_does_not_keep_its_message_from_others() -> None:
    grove, [first] = held_behind_a_crash()
    grove.settle(10)
    assert grove.delivered[2] == [first]
    assert grove.delivered[3] == [first]
    grove.restart(1)
    grove.settle()
    assert grove.delivered[1] == [first]
    assert grove.at_rest() == []


def test_a_number_can_be_looked_up_at_another_holder_of_the_message() -> None:
    """IDQ and IDR: the name marks the number; a whole copy of the source is replayed instead where it is kept."""
    grove = Grove(tree="line", tree_nodes=3, replay=False).start(0, 1, 2)
    grove.publish(0)
    grove.pass_on(0, 1, Copy)
    ready = grove.members[1].receive(Process(2, 1), Lookup(0, 0, 5), 0)
    assert [send.item for send in ready.send] == [Named(0, 1, 0, 1, 1, {1: 1, 2: 1})]
    replaying = Grove(tree="line", tree_nodes=3).start(0, 1, 2)
    replaying.publish(0)
    replaying.pass_on(0, 1, Copy)
    ready = replaying.members[1].receive(Process(2, 1), Lookup(0, 0, 5), 0)
    [send] = ready.send
    assert isinstance(send.item, Copy)
    replaying.apply(1, ready)
    replaying.pass_on(1, 2, Copy)
    assert replaying.delivered[2]
    grove.pass_on(1, 2, Copy)
    assert grove.members[2].state.reached(0) == 1


@pytest.mark.parametrize("others", [{}, {2: 1, 3: 1}])
def test_a_name_from_a_third_node_marks_the_number_of_a_message_that_is_here(others: dict[int, int]) -> None:
    """With the numbers of others it is passed on to those further on, which may wait for theirs."""
    grove = Grove(tree="line", tree_nodes=4).start(0, 1, 2, 3)
    grove.apply(0, grove.members[0].act("suspect", 1, 0))
    grove.publish(0)
    grove.pass_on(0, 2)
    member = grove.members[2]
    assert member.state.open
    grove.pass_on(2, 3, Copy)
    grove.apply(2, member.receive(Process(3, 1), Named(1, 1, 0, 1, 1, others), 0))
    assert member.state.reached(1) == 1
    grove.pass_on(2, 3)
    assert grove.members[3].state.reached(1) == (3 in others)
    grove.crash(2)
    grove.restart(2)
    assert grove.members[2].state.reached(1) == 1
    grove.apply(0, grove.members[0].act("trust", 1, 0))
    grove.settle()
    assert grove.at_rest() == []


def hole(**settings: Any) -> tuple[Grove, EventId, EventId]:
    """X-U-V, V-W, V-P, P-Y with f = 2: m1 jumps to W and, slowly, to P; W answers and jumps over V and P to Y."""
    grove = Grove(tree="0,1,2,2,4", groups="0 3 5;3 5", f=2, **settings).start(0, 1, 2, 3, 4, 5)
    for node, others in ((0, (1, 2)), (3, (2, 4))):
        for other in others:
            grove.apply(node, grove.members[node].act("suspect", other, 0))
    first = grove.publish(0)
    assert copies(grove) == [(0, 3), (0, 4)]
    grove.pass_on(0, 3)
    answer = grove.publish(3, group=1)
    assert (3, 5) in copies(grove)
    grove.pass_on(3, 5)
    return grove, first, answer


def test_the_fence_stops_what_jumps_over_nodes_that_are_still_owed_its_cause() -> None:
    """Section 6.1: without it, Y delivers the answer before the message."""
    grove, first, answer = hole()
    assert grove.delivered.get(5) is None
    asked = [target for _, target, item in grove.flying if isinstance(item, FenceAsk)]
    assert asked
    grove.settle()
    assert grove.delivered[5] == [first, answer]
    for node, other in ((0, 1), (0, 2), (3, 2), (3, 4)):
        grove.apply(node, grove.members[node].act("trust", other, grove.now))
    grove.settle()
    assert grove.at_rest() == []


def test_a_fence_answer_tells_only_what_was_processed() -> None:
    grove, _, _ = hole()
    ready = grove.members[4].receive(Process(5, 1), FenceAsk(b"\x00\x01"), 0)
    assert ready.send == []
    grove.pass_on(0, 4)
    ready = grove.members[4].receive(Process(5, 1), FenceAsk(b"\x00\x01"), 0)
    [send] = ready.send
    assert isinstance(send.item, FenceTell)
    assert send.item.trail


def test_a_full_buffer_drops_the_newest_copy_which_comes_again() -> None:
    grove = Grove(tree="line", tree_nodes=2, held_copies_max=2).start(0, 1)
    events = [grove.publish(0) for _ in range(5)]
    for copy in reversed([copy for copy in grove.flying if isinstance(copy[2], Copy)]):
        grove.flying.remove(copy)
        grove.arrive(copy)
    assert "held_full" in grove.notes
    grove.settle()
    assert grove.delivered[1] == events
    assert grove.at_rest() == []


def test_publishing_is_refused_when_too_much_is_kept_for_others() -> None:
    grove = Grove(tree="line", tree_nodes=2, records_max=8).start(0)
    grove.publish(0)
    grove.publish(0)
    with pytest.raises(LimitError, match="records_max"):
        grove.publish(0)
    small = Grove(tree="line", tree_nodes=2, retained_bytes_max=40).start(0)
    with pytest.raises(LimitError, match="retained_bytes_max"):
        small.publish(0, payload=b"x" * 11)


@pytest.mark.parametrize("payloads", [[], [b""] * 5000, [b"x" * (1 << 20), b"x"]])
def test_a_publication_over_a_limit_is_refused_by_its_name(payloads: Sequence[bytes]) -> None:
    member = Grove(tree="line", tree_nodes=2).start(0).members[0]
    with pytest.raises(LimitError, match=r"least|publish_"):
        member.publish(payloads, 0)


def test_the_tree_is_fixed_and_only_its_groups_and_acts_are_known() -> None:
    grove = Grove(tree="line", tree_nodes=2)
    grove.incarnations[0] = 1
    member = grove._build(0)
    with pytest.raises(NotMemberError):
        member.publish([b"x"], 0)
    member.found([], 0)
    with pytest.raises(NotMemberError, match="fixed"):
        member.join([1], 0)
    with pytest.raises(NotMemberError, match="fixed"):
        member.leave(0)
    with pytest.raises(UsageError, match="groups"):
        member.publish_to(3, [b"x"], 0)
    with pytest.raises(UsageError, match="reach"):
        member.act("suspect", 9, 0)
    with pytest.raises(UsageError, match="no act"):
        member.act("dance", 0, 0)


@pytest.mark.parametrize("coding", ["predicted", "thesis"])
def test_a_session_that_lost_a_copy_is_begun_anew_and_nothing_is_lost(coding: str) -> None:
    grove = Grove(tree="line", tree_nodes=3, coding=coding).start(0, 1, 2)
    events = [grove.publish(0)]
    grove.settle(3)
    events.append(grove.publish(0))
    grove.drop(0, 1)
    events.append(grove.publish(0))
    grove.pass_on()
    assert "lost_session" in grove.notes
    events.append(grove.publish(2))
    grove.settle()
    events.append(grove.publish(0))
    grove.settle()
    assert sorted(grove.delivered[1]) == sorted(events)
    assert grove.at_rest() == []


def test_bytes_that_are_no_header_are_rejected_and_strangers_dropped() -> None:
    for coding in ("whole", "predicted", "thesis"):
        grove = Grove(tree="line", tree_nodes=9, coding=coding).start(0, 1)
        grove.publish(0)
        [copy] = [item for _, target, item in grove.flying if target == 1 and isinstance(item, Copy)]
        sender = Process(0, 1)
        for header in (b"", b"\x07", b"\x00\xff", copy.header[:-1], copy.header + b"\x00", b"\x05\x01\x00\xff"):
            ready = grove.members[1].receive(sender, Copy(header, copy.bundle), 0)
            assert ready.deliver == []
        ready = grove.members[1].receive(Process(8, 1), Probe(0), 0)
        assert [note.reason for note in ready.notes] == ["stranger"]


def test_a_trail_for_an_unknown_message_and_foreign_items_change_nothing() -> None:
    grove = Grove(tree="line", tree_nodes=3).start(0, 1, 2)
    grove.publish(0)
    [header] = [item.header for _, target, item in grove.flying if target == 1 and isinstance(item, Copy)]
    member = grove.members[1]
    member.receive(Process(0, 1), Trail(header, 5, 1, 1), 0)
    assert member.state.records == {}
    ready = member.receive(Process(0, 1), Item(), 0)
    assert [note.reason for note in ready.notes] == ["other_level"]


def test_a_journal_with_a_record_of_nobody_is_refused() -> None:
    """Nothing that follows it could be trusted: numbers are not written down, they follow from all records."""
    grove = Grove(tree="line", tree_nodes=2).start(0, 1)
    grove.publish(0)
    grove.journals[0].append(b"\x91\x63")
    grove.crash(0)
    with pytest.raises(StorageError, match="no causal group of this kind wrote"):
        grove.restart(0)


NUMBERS = (10, PEER_ID_MAX, 5, 900, 0)


@pytest.mark.parametrize("settings", [{}, {"f": 2}, {"identity": "paper"}, {"coding": "predicted"}, {"retain": True}])
def test_places_come_from_the_list_of_processes_and_never_from_their_numbers(settings: dict[str, Any]) -> None:
    """A tree over the numbers themselves would have nodes that nobody is."""
    grove = Grove(tree="line", processes=" ".join(map(str, NUMBERS)), groups="10 5 900 0", **settings).start(*NUMBERS)
    first = grove.publish(10)
    grove.settle(3)
    grove.crash(5)
    second = grove.publish(0)
    grove.settle(10)
    grove.restart(5)
    grove.settle()
    assert grove.delivered == {number: [first, second] for number in NUMBERS if number != PEER_ID_MAX}
    assert grove.at_rest() == []
    with pytest.raises(UsageError, match="process 7 is not in reach"):
        grove.members[10].act("suspect", 7, grove.now)
    stranger = grove.members[10].receive(Process(3, 1), Probe(1), grove.now)
    assert [(note.reason, note.peer) for note in stranger.notes] == [("stranger", 3)]


@pytest.mark.parametrize(
    ("others", "complaint"),
    [
        ({"processes": "10 20 40"}, "began with the processes 10, 20, 30, and now 10, 20, 40 are named"),
        ({"tree": "star"}, "began with spread=tree tree=line .* and now spread=tree tree=star"),
        ({"f": 2}, "began with .* f=1 .* and now .* f=2"),
    ],
)
def test_a_journal_of_other_processes_or_another_tree_is_refused(others: dict[str, Any], complaint: str) -> None:
    grove = Grove(tree="line", processes="10 20 30").start(10)
    grove.publish(10)
    other = Grove(**{"tree": "line", "processes": "10 20 30", **others})
    other.incarnations[10] = 2
    with pytest.raises(StorageError, match=complaint):
        other._build(10).restore(grove.journals[10], 0)


def test_whoever_knows_more_of_a_members_messages_than_it_does_makes_it_stop() -> None:
    grove = Grove(tree="line", tree_nodes=2).start(0, 1)
    early = list(grove.journals[0])
    grove.publish(0)
    grove.settle(3)
    grove.crash(0)
    grove.journals[0] = early
    grove.restart(0)
    grove.settle(1)
    assert OWN_LOST in grove.notes


@pytest.mark.parametrize("settings", [{}, {"f": 2}, {"identity": "paper"}, {"coding": "predicted"}])
def test_a_checkpoint_stands_for_all_that_was_written_before_it(settings: dict[str, Any]) -> None:
    """A node that returns from one has the state of one that returns from its whole journal, to the last number."""
    grove = Grove(tree="line", tree_nodes=5, groups="0 1 2 3 4;1 3", **settings).start(0, 1, 2, 3, 4)
    grove.apply(1, grove.members[1].act("suspect", 2, 0))
    for node in (0, 1, 4, 3, 0, 1):
        grove.publish(node, group=node % 2)
        grove.pass_on(kind=Copy)
    whole = grove._build(3)
    whole.restore(grove.journals[3], 0)
    short = grove._build(3)
    short.restore(grove.members[3].checkpoint(), 0)
    for name in ("past", "ahead", "retained_bytes"):
        kept, played = getattr(short.state, name), getattr(whole.state, name)
        assert kept == played
    assert list(short.state.records) == list(whole.state.records) == list(grove.members[3].state.records) != []
    for uid, record in short.state.records.items():
        other = whole.state.records[uid]
        for name in ("group", "last", "h", "targets", "mine", "ids", "names", "named", "left"):
            assert getattr(record, name) == getattr(other, name)
        assert +Counter(record.deps) == +Counter(other.deps)
    for name in ("own", "open"):
        kept, played = getattr(short.state, name), getattr(whole.state, name)
        assert {peer: list(of) for peer, of in kept.items()} == {peer: list(of) for peer, of in played.items()}
    assert short.fence.remembered() == whole.fence.remembered()


def test_a_node_goes_on_from_a_checkpoint_as_if_nothing_had_been_left_out() -> None:
    grove = Grove(tree="line", tree_nodes=4, coding="predicted").start(0, 1, 2, 3)
    events = [grove.publish(0), grove.publish(3)]
    grove.pass_on(kind=Copy)
    events.append(grove.publish(2))
    grove.pass_on(kind=Copy)
    grove.rewrite(2)
    events.append(grove.publish(1))
    grove.pass_on(kind=Copy)
    grove.crash(2)
    grove.restart(2)
    events += [grove.publish(2), grove.publish(0)]
    grove.settle()
    assert all(sorted(grove.delivered[node]) == sorted(events) for node in range(4))
    assert grove.at_rest() == []


def test_a_message_is_kept_until_its_forwarder_says_that_all_have_it() -> None:
    """FLOOR: 0 hands a message to 1 and 2 but not to 3, and goes down; 1 still knows what 0's numbers stand for."""
    for retain in (False, True):
        grove = Grove(tree="0,0,1", replay=False, retain=retain).start(0, 1, 2, 3)
        event = grove.publish(0)
        grove.pass_on(0, 1, Copy)
        grove.pass_on(1, 3, Copy)
        grove.drop(0, 2)
        grove.tick(50 * MS)
        grove.pass_on(3, 1)
        assert (event in grove.members[1].state.records) is retain
        ready = grove.members[1].receive(Process(3, 1), Lookup(0, 0, 9), grove.now)
        assert [send.item for send in ready.send] == ([Named(0, 1, *event, {1: 1, 2: 1, 3: 1})] if retain else [])
        grove.settle()
        assert sorted(grove.delivered) == [0, 1, 2, 3]
        assert grove.at_rest() == []


def test_a_floor_that_was_lost_is_asked_for() -> None:
    grove = Grove(tree="line", tree_nodes=3, retain=True).start(0, 1, 2)
    grove.publish(0)
    for _ in range(30):
        grove.pass_on(kind=Copy)
        for copy in list(grove.flying):
            if isinstance(copy[2], Ack) and not copy[2].floor:
                grove.arrive(copy)
        grove.drop()
        grove.tick(40 * MS)
    assert any(member.state.records for member in grove.members.values())
    grove.crash(1)
    grove.restart(1)
    grove.settle()
    assert grove.at_rest() == []
