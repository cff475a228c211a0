"""Direct spread: one hop to everybody, and digests that mend what a link lost."""

import pytest

from tests.core.parts import ME, ROUND_NS, delivered_in, news_of, node_of, one, rng_of, view_of
from whence import limits
from whence.core.dissemination.direct import HAVE, WANT, DirectSettings, DirectSpread, Have, Push, Want
from whence.core.dissemination.gossip import GossipSettings
from whence.core.links.detector import Ping
from whence.core.ready import Item, Ready, Send
from whence.limits import Limits
from whence.types import Bundle, Process, packed

PEER = Process(2, 1)


def direct_of(peers: tuple[int, ...] = (2, 3, 4), bounds: Limits | None = None, **settings: int) -> DirectSpread:
    gossip = GossipSettings(round_ns=ROUND_NS, jitter=0.0)
    chosen = DirectSettings(spread="direct", **settings)
    return DirectSpread(view_of(peers), gossip, chosen, bounds or Limits(), rng_of(0), 0)


def mine(first: int, payload: bytes = b"x") -> Bundle:
    return packed(ME, first, [payload])


def told(direct: DirectSpread, item: Item, sender: Process = PEER) -> tuple[list[Bundle], Ready]:
    ready = Ready()
    return direct.receive(sender, item, 0, ready), ready


def round_of(direct: DirectSpread) -> list[Send]:
    ready = Ready()
    due = direct.wake_at()
    assert due is not None
    direct.tick(due, ready)
    return ready.send


def have(*entries: tuple[int, int, int, int, int]) -> Have:
    return Have(b"".join(HAVE.pack(*entry) for entry in entries), b"", b"")


def test_a_bundle_goes_to_everybody_at_once() -> None:
    direct, ready = direct_of(), Ready()
    direct.publish(mine(1), 0, ready)
    [send] = ready.send
    assert sorted(send.to) == [2, 3, 4]
    assert send.item == Push([mine(1)])


def test_a_member_that_knows_nobody_sends_nothing() -> None:
    direct, ready = direct_of(peers=()), Ready()
    direct.publish(mine(1), 0, ready)
    assert ready.send == []
    assert round_of(direct) == []


def test_a_bundle_is_handed_up_on_first_sight_only() -> None:
    direct = direct_of()
    assert told(direct, Push([one(2), one(2, 2)]))[0] == [one(2), one(2, 2)]
    again, ready = told(direct, Push([one(2)]), Process(3, 1))
    assert again == []
    assert [note.reason for note in ready.notes] == ["duplicate"]


def test_whoever_has_lacked_something_for_a_round_asks_for_the_rest_once_a_round() -> None:
    direct = direct_of()
    told(direct, Push([one(3), one(3, 2)]))
    assert told(direct, have((3, 1, 1, 6, 6)))[1].send == [], "it may be on its way"
    round_of(direct)
    _, ready = told(direct, have((3, 1, 1, 6, 6)))
    assert ready.send == [Send((3,), Want(WANT.pack(3, 1, 3)), 1)], "the sender itself need not be believed"
    assert told(direct, have((3, 1, 1, 6, 6)), Process(4, 1))[1].send == [], "asked already"
    round_of(direct)
    _, ready = told(direct, have((3, 1, 1, 6, 6)))
    assert ready.send == [Send((2,), Want(WANT.pack(3, 1, 3)), 1)], "a new round, a new try: it may be out of reach"


def test_peers_that_keep_bundles_from_different_numbers_on_do_not_hide_what_is_missing() -> None:
    """To one of them event 1 is the first that is missing here, to the other event 5; both are for a round."""
    direct = direct_of()
    told(direct, Push([one(3, 3), one(3, 4), one(3, 6)]))
    for peer, first in ((PEER, 1), (Process(4, 1), 3)):
        assert told(direct, have((3, 1, first, 7, 7)), peer)[1].send == []
    round_of(direct)
    assert told(direct, have((3, 1, 1, 7, 7)))[1].send == [Send((3,), Want(WANT.pack(3, 1, 1)), 1)]
    round_of(direct)
    assert told(direct, have((3, 1, 3, 7, 7)), Process(4, 1))[1].send == [Send((4,), Want(WANT.pack(3, 1, 5)), 1)]


def test_who_is_gone_is_not_asked_for_its_own_bundles() -> None:
    for gone in ((9, 1), (3, 2)):
        direct = direct_of()
        told(direct, have((*gone, 1, 6, 6)))
        round_of(direct)
        _, ready = told(direct, have((*gone, 1, 6, 6)))
        assert ready.send == [Send((2,), Want(WANT.pack(*gone, 1)), 1)]


def test_what_makes_progress_is_not_asked_for() -> None:
    direct = direct_of()
    for seq in range(1, 9):
        assert told(direct, have((3, 1, 1, 99, 99)))[1].send == []
        told(direct, Push([one(3, seq)]))
        round_of(direct)


def test_what_nobody_keeps_any_more_is_not_asked_for() -> None:
    direct = direct_of()
    told(direct, have((3, 1, 10, 12, 1)))
    round_of(direct)
    _, ready = told(direct, have((3, 1, 10, 12, 1)))
    assert ready.send == [Send((3,), Want(WANT.pack(3, 1, 10)), 1)]
    told(direct, Push([one(3, 10), one(3, 11)]))
    round_of(direct)
    assert told(direct, have((3, 1, 10, 12, 1)))[1].send == [], "1 to 9 are gone, and all else is here"


def test_a_question_is_answered_with_what_is_kept_within_the_stated_bytes() -> None:
    direct = direct_of(mend_bytes=100)
    told(direct, Push([one(3, seq, b"x" * 40) for seq in range(1, 9)]))
    _, ready = told(direct, Want(WANT.pack(3, 1, 4) + WANT.pack(9, 9, 1)))
    [send] = ready.send
    assert (send.to, send.incarnation) == ((2,), 1)
    assert isinstance(send.item, Push)
    assert [bundle.first for bundle in send.item.bundles] == [4, 5]
    assert told(direct, Want(WANT.pack(3, 1, 9)))[1].send == []


def test_a_newcomer_gets_all_that_is_kept_in_one_answer() -> None:
    """In items of no more bundles than a packet may carry."""
    direct = direct_of()
    count = 2 * limits.PACKET_BUNDLES_MAX + 3
    for seq in range(1, count + 1):
        told(direct, Push([one(3, seq)]))
    pushed = [send.item for send in told(direct, Want(WANT.pack(3, 1, 1)))[1].send]
    assert [len(item.bundles) for item in pushed if isinstance(item, Push)] == [limits.PACKET_BUNDLES_MAX] * 2 + [3]
    assert [bundle.first for item in pushed if isinstance(item, Push) for bundle in item.bundles] == [
        *range(1, count + 1)
    ]


def test_a_round_tells_how_far_each_active_sender_is_here() -> None:
    direct = direct_of()
    told(direct, Push([one(3, 1), one(3, 2), one(3, 5)]))
    [send] = round_of(direct)
    assert isinstance(send.item, Have)
    assert list(HAVE.iter_unpack(send.item.senders)) == [(3, 1, 1, 3, 1)]


def test_a_rare_sender_is_told_of_when_a_busy_one_has_pushed_its_bundles_out() -> None:
    """It learns that its event is here without publishing another; and nobody asks for what is kept no longer."""
    direct = direct_of(keep_bundles=3)
    told(direct, Push([one(3, 1)]))
    told(direct, Push([one(2, seq) for seq in range(1, 6)]))
    [send] = round_of(direct)
    assert isinstance(send.item, Have)
    assert list(HAVE.iter_unpack(send.item.senders)) == [(3, 1, 2, 2, 1), (2, 1, 3, 6, 1)]
    newcomer = direct_of()
    for _ in range(3):
        asked = [each.item for each in told(newcomer, send.item)[1].send if isinstance(each.item, Want)]
        assert not [pid for item in asked for pid, *_ in WANT.iter_unpack(item.senders) if pid == 3]
        round_of(newcomer)


def test_a_sender_that_is_gone_and_of_whom_nothing_is_kept_is_not_told_of() -> None:
    direct = direct_of(peers=(2,), keep_bundles=3)
    told(direct, Push([one(3, 1)]))
    told(direct, Push([one(2, seq) for seq in range(1, 6)]))
    [send] = round_of(direct)
    assert isinstance(send.item, Have)
    assert list(HAVE.iter_unpack(send.item.senders)) == [(2, 1, 3, 6, 1)]


@pytest.mark.parametrize("level", ["eventual", "fifo"])
def test_a_rare_event_beside_a_busy_publisher_settles_without_another(level: str) -> None:
    """The busy one pushes it out of what everybody keeps before the next round."""
    members = {pid: node_of(level, Process(pid, 1), spread="direct", keep_bundles=8) for pid in (1, 2, 3)}
    queue: list[tuple[int, int, Item]] = []
    now = 0

    def post(source: int, ready: Ready) -> None:
        queue.extend((source, pid, send.item) for send in ready.send for pid in send.to)

    def run_round() -> None:
        nonlocal now
        now += ROUND_NS
        for pid, member in members.items():
            post(pid, member.tick(now))
        pass_on()

    def pass_on() -> None:
        while queue:
            source, pid, item = queue.pop(0)
            post(pid, members[pid].receive(Process(source, 1), item, now))

    members[1].found([], now)
    for pid in (2, 3):
        post(pid, members[pid].join([1], now))
        for _ in range(10):
            run_round()
    rare, ready = members[1].publish([b"rare"], now)
    post(1, ready)
    for _ in range(4):
        for _ in range(20):
            post(2, members[2].publish([b"busy"], now)[1])
        pass_on()
        run_round()
    assert members[1].view() == (2, 3)
    assert (members[1].missing(rare.last), members[1].settled()) == ((), rare.last)


def test_what_is_kept_stays_within_its_bounds() -> None:
    direct = direct_of(keep_bundles=3, keep_bytes=100)
    told(direct, Push([one(3, seq, b"x" * 10) for seq in range(1, 9)]))
    told(direct, Push([one(2, 1, b"y" * 90)]))
    by_name = {gauge.name: gauge for gauge in direct.gauges()}
    assert by_name["kept_bundles"].value == 2
    assert by_name["kept_bytes"].value == 100
    assert told(direct, Push([one(3, 1)]))[0] == [], "forgotten is not unseen"


def test_a_life_that_is_closed_takes_its_bundles_along() -> None:
    direct = direct_of(bounds=Limits(incarnations_per_sender_max=1, senders_max=2))
    told(direct, Push([packed(Process(3, 1), 1, [b"xx"])]))
    told(direct, Push([packed(Process(3, 2), 1, [b"yyy"])]))
    by_name = {gauge.name: gauge for gauge in direct.gauges()}
    assert by_name["kept_bytes"].value == 3
    _, ready = told(direct, Push([packed(Process(9, 1), 1, [b"z"])]))
    assert [note.reason for note in ready.notes] == ["senders_max"]
    assert told(direct, have((9, 1, 1, 2, 2)))[1].send == []


def test_own_events_are_settled_when_everybody_in_the_view_has_them() -> None:
    direct = direct_of(peers=(2, 3))
    for seq in (1, 2, 3):
        direct.publish(mine(seq), 0, Ready())
    assert direct.settled() == 0
    told(direct, have((*ME, 1, 4, 1)))
    assert direct.settled() == 0, "3 has not said anything"
    told(direct, have((*ME, 2, 4, 2)), Process(3, 1))
    assert direct.settled() == 0, "3 lacks the first"
    assert direct.missing(3) == (3,)
    told(direct, have((*ME, 1, 3, 1)), Process(3, 1))
    assert direct.settled() == 2
    assert (direct.missing(2), direct.missing(3)) == ((), (3,))


def test_a_digest_tells_from_which_number_on_a_sender_is_complete_here() -> None:
    """What was kept first may be forgotten meanwhile; that it was seen is not."""
    direct = direct_of(keep_bundles=2)
    told(direct, Push([one(3, seq) for seq in (1, 5, 6, 7, 8)]))
    [send] = round_of(direct)
    assert isinstance(send.item, Have)
    assert list(HAVE.iter_unpack(send.item.senders)) == [(3, 1, 7, 9, 5)]


def test_a_hole_that_the_sender_can_fill_no_longer_does_not_hide_what_came_after_it() -> None:
    direct = direct_of()
    told(direct, Push([one(3, seq) for seq in (1, 5, 6, 7)]))
    for kept, entry in ((1, (3, 1, 1, 2, 1)), (4, (3, 1, 1, 2, 1)), (6, (3, 1, 6, 8, 5))):
        told(direct, have((3, 1, kept, 8, 1)), Process(3, 1))
        [send] = round_of(direct)
        assert isinstance(send.item, Have)
        assert list(HAVE.iter_unpack(send.item.senders)) == [entry]


def test_a_newcomer_is_not_waited_for_with_events_that_are_kept_no_longer() -> None:
    direct = direct_of(peers=(2,), keep_bundles=3)
    for seq in range(1, 10):
        direct.publish(mine(seq), 0, Ready())
    told(direct, have((*ME, 8, 10, 8)))
    assert direct.settled() == 0
    assert direct.missing(9) == (2,), "7 is kept, and the newcomer will ask for it"
    told(direct, have((*ME, 8, 10, 7)))
    assert direct.settled() == 9
    assert (direct.missing(3), direct.missing(9), direct.missing(10)) == ((), (), (2,))


def test_what_a_member_lost_for_good_is_never_settled_and_what_came_later_is() -> None:
    direct = direct_of(peers=(2,), keep_bundles=3)
    direct.publish(mine(1), 0, Ready())
    told(direct, have((*ME, 1, 2, 1)))
    for seq in range(2, 10):
        direct.publish(mine(seq), 0, Ready())
    told(direct, have((*ME, 6, 10, 6)))
    assert [seq for seq in range(1, 10) if direct.missing(seq)] == [2, 3, 4, 5]
    assert direct.settled() == 9, "nobody can be given 2 to 5 from here"
    told(direct, have((*ME, 6, 10, 1)))
    assert not any(direct.missing(seq) for seq in range(1, 10)), "somebody else kept them"


def test_each_life_of_a_peer_speaks_for_itself() -> None:
    direct = direct_of(peers=(2,), keep_bundles=3)
    for seq in range(1, 10):
        direct.publish(mine(seq), 0, Ready())
    told(direct, have((*ME, 1, 3, 1)))
    told(direct, have((*ME, 7, 9, 7)), Process(2, 2))
    assert (direct.settled(), direct.missing(5)) == (8, ()), "the second life joined after 5, and lost nothing"
    told(direct, have((*ME, 1, 10, 1)))
    assert direct.settled() == 8, "the first life is over"


def test_a_newcomer_to_a_busy_group_asks_for_what_can_still_be_had() -> None:
    """The first number that the sender keeps is another in every round, and the hole before the newcomer the same."""
    direct = direct_of()
    told(direct, Push([one(3, 50)]))
    assert told(direct, have((3, 1, 10, 51, 1)), Process(3, 1))[1].send == []
    round_of(direct)
    assert told(direct, have((3, 1, 20, 51, 1)), Process(3, 1))[1].send == [Send((3,), Want(WANT.pack(3, 1, 20)), 1)]


@pytest.mark.parametrize("level", ["eventual", "fifo"])
def test_events_are_settled_soon_after_a_newcomer_joined_a_busy_group(level: str) -> None:
    """Long before the publisher has forgotten all that was there before: the newcomer asks for what is kept."""
    members = {pid: node_of(level, Process(pid, 1), spread="direct", keep_bundles=256) for pid in (1, 2)}
    publisher, newcomer = members.values()
    queue: list[tuple[int, int, Item]] = []
    now = 0

    def post(source: int, ready: Ready) -> None:
        queue.extend((source, pid, send.item) for send in ready.send for pid in send.to)

    def run_busy_rounds(count: int) -> None:
        nonlocal now
        for _ in range(count):
            now += ROUND_NS
            for _ in range(3):
                post(1, publisher.publish([b"x"], now)[1])
            for pid, member in members.items():
                post(pid, member.tick(now))
            while queue:
                source, pid, item = queue.pop(0)
                post(pid, members[pid].receive(Process(source, 1), item, now))

    publisher.found([], now)
    run_busy_rounds(100)
    post(2, newcomer.join([1], now))
    run_busy_rounds(12)
    assert publisher.view() == (2,)
    bundle, ready = publisher.publish([b"x"], now)
    post(1, ready)
    assert publisher.missing(bundle.last) == (2,)
    run_busy_rounds(3)
    assert publisher.missing(bundle.last) == ()


def test_news_of_the_membership_reach_everybody_in_the_next_round() -> None:
    direct = direct_of(peers=tuple(range(2, 12)))
    told(direct, Have(b"", news_of((40, 1, 9)), b""))
    [send] = round_of(direct)
    assert len(send.to) == 11
    assert len(round_of(direct)) == 0, "nothing kept and no news: quiet until the idle rounds are over"


def test_other_items_and_impossible_numbers_are_harmless() -> None:
    direct = direct_of()
    ready = told(direct, have((3, 1, 0, 9, 9), (3, 1, limits.SEQ_MAX + 1, 2**63, 1)))[1]
    assert ready.send == []
    assert [note.reason for note in told(direct, Ping(0))[1].notes] == ["not_direct"]


@pytest.mark.parametrize("level", ["eventual", "fifo"])
def test_a_group_over_direct_spread_delivers_in_one_hop(level: str) -> None:
    members = {pid: node_of(level, Process(pid, 1), spread="direct") for pid in (1, 2, 3)}
    for member in members.values():
        member.found([Process(pid, 1) for pid in members], 0)
    _, ready = members[1].publish([b"a", b"b"], 0)
    for send in ready.send:
        for pid in send.to:
            assert [
                bundle.payloads() for bundle in delivered_in(members[pid].receive(Process(1, 1), send.item, 1))
            ] == [[b"a", b"b"]]
