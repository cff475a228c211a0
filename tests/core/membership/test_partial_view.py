"""Partial views: few peers, never oneself, forgetting those that left or died (gossip 2.2)."""

from hypothesis import given
from hypothesis import strategies as st

from tests.core.parts import ME, ROUND_NS, asked_in, heard, news_of, view_of
from whence import limits
from whence.core.levels.gossip.level import Settings
from whence.core.membership.items import Subscribe, Welcome
from whence.core.membership.partial_view import PartialView
from whence.core.ready import Ready
from whence.types import Process

YOU = Process(2, 1)
PEERS = range(2, 8)

ENTRIES = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from([0, 1, 2, limits.INCARNATION_MAX]), st.integers(0, 255)), max_size=10
)
NEWS = ENTRIES.map(lambda entries: news_of(*entries))
SENDERS = st.builds(Process, st.integers(0, 12), st.integers(0, 2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("hear"), SENDERS, NEWS, NEWS),
        st.tuples(st.just("welcome"), SENDERS, NEWS),
        st.tuples(st.just("subscribe"), SENDERS),
        st.tuples(st.just("unreachable"), st.integers(0, 12)),
        st.tuples(st.just("meet"), SENDERS),
        st.tuples(st.just("parted"), SENDERS),
        st.tuples(st.just("round")),
        st.tuples(st.just("news")),
        st.tuples(st.just("leave")),
    ),
    max_size=40,
)


def peers_of(view: PartialView) -> set[int]:
    return set(view.view() or ())


def rounds_of(view: PartialView, count: int) -> Ready:
    ready = Ready()
    for _ in range(count):
        view.next_round(ready)
        view.news()
    return ready


def take(view: PartialView, step: tuple[object, ...], ready: Ready) -> None:
    match step:
        case "hear", Process() as sender, bytes() as subs, bytes() as unsubs:
            view.hear(sender, subs, unsubs)
        case "welcome", Process() as sender, bytes() as peers:
            view.receive(sender, Welcome(peers, b""), 0, ready)
        case "subscribe", Process() as sender:
            view.receive(sender, Subscribe(joining=True), 0, ready)
        case "unreachable", int() as peer:
            view.unreachable(peer)
        case "meet", Process() as sender:
            view.meet(sender)
        case "parted", Process() as sender:
            view.parted(sender)
        case ("round",):
            view.next_round(ready)
        case ("news",):
            view.news()
        case ("leave",):
            view.leave(0)


@given(
    STEPS,
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 4),
    st.lists(st.integers(0, 12), max_size=9),
    st.integers(),
)
def test_every_list_keeps_its_bound_and_never_holds_oneself(
    steps: list[tuple[object, ...]], view_size: int, subs_max: int, unsubs_max: int, founders: list[int], seed: int
) -> None:
    view = view_of(founders, seed, view_size=view_size, subs_max=subs_max, unsubs_max=unsubs_max)
    for step in [("news",), *steps]:
        ready = Ready()
        take(view, step, ready)
        assert all(gauge.value <= gauge.bound for gauge in view.gauges())
        assert ME.pid not in peers_of(view)
        assert set(view.targets(view_size)) == peers_of(view)
        assert ME.pid not in asked_in(ready)
        for send in ready.send:
            if isinstance(send.item, Welcome):
                assert ME.pid not in heard(send.item.peers), "whoever is welcomed learns the sender from the sender"


@given(ENTRIES, st.integers(0, 12))
def test_hostile_lifetimes_are_cut_to_our_own(entries: list[tuple[int, int, int]], rounds: int) -> None:
    view = view_of([], announce_rounds=3, sub_rounds=5, farewell_rounds=7, view_size=20)
    view.hear(YOU, news_of(*entries), news_of(*entries[::2]))
    for _ in range(rounds):
        view.next_round(Ready())
    subs, unsubs = view.news()
    assert all(left <= 5 - rounds for pid, (_, left) in heard(subs).items() if pid != ME.pid)
    assert all(left <= 7 - rounds for _, left in heard(unsubs).values())


def test_an_arrival_enters_the_view_and_is_passed_on() -> None:
    view = view_of([])
    view.news()
    view.hear(YOU, news_of((9, 3, 4)), b"")
    assert peers_of(view) == {9}
    assert view.changed
    assert heard(view.news()[0])[9] == (3, 4)


def test_a_member_announces_itself_every_so_many_rounds() -> None:
    view = view_of(PEERS, announce_rounds=3, sub_rounds=12)
    announced = []
    for _ in range(7):
        view.next_round(Ready())
        announced.append(heard(view.news()[0]).get(ME.pid))
    assert announced == [(ME.incarnation, 12), None, None, (ME.incarnation, 12), None, None, (ME.incarnation, 12)]


def test_a_leaver_no_longer_announces_itself() -> None:
    view = view_of(PEERS)
    view.leave(0)
    subs, unsubs = view.news()
    assert ME.pid not in heard(subs)
    assert heard(unsubs)[ME.pid][0] == ME.incarnation


def test_a_farewell_removes_its_peer_and_is_passed_on() -> None:
    view = view_of(PEERS)
    view.hear(YOU, b"", news_of((5, 1, 4)))
    assert peers_of(view) == set(PEERS) - {5}
    subs, unsubs = view.news()
    assert heard(unsubs) == {5: (1, 4)}
    assert 5 not in heard(subs)


def test_a_farewell_is_not_undone_by_old_arrivals() -> None:
    """Neither in the same message, where it is read first, nor later while it lives."""
    view = view_of(PEERS)
    view.hear(YOU, news_of((5, 1, 9)), news_of((5, 1, 4)))
    view.next_round(Ready())
    view.hear(YOU, news_of((5, 1, 9)), b"")
    view.hear(Process(5, 1), b"", b"")
    assert 5 not in peers_of(view)


def test_an_expired_farewell_means_nothing() -> None:
    view = view_of(PEERS)
    view.hear(YOU, b"", news_of((5, 1, 0)))
    assert 5 in peers_of(view)
    view.hear(YOU, b"", news_of((5, 1, 1)))
    rounds_of(view, 1)
    view.hear(YOU, news_of((5, 1, 9)), b"")
    assert 5 in peers_of(view)


def test_a_newer_life_replaces_the_older_and_outlives_its_farewell() -> None:
    """ "A process id with a newer incarnation replaces the old one."""
    view = view_of(PEERS)
    view.hear(YOU, news_of((5, 3, 9)), b"")
    view.hear(YOU, news_of((5, 2, 9)), news_of((5, 2, 9)))
    assert 5 in peers_of(view)
    assert heard(view.news()[0])[5][0] == 3
    view.hear(YOU, b"", news_of((5, 3, 9)))
    assert 5 not in peers_of(view)
    view.hear(YOU, news_of((5, 3, 9)), b"")
    assert 5 not in peers_of(view)
    view.hear(YOU, news_of((5, 4, 9)), b"")
    assert 5 in peers_of(view)
    assert 5 not in heard(view.news()[1])


def test_nobody_else_can_say_our_farewell_or_announce_us() -> None:
    view = view_of(PEERS)
    view.hear(YOU, news_of((ME.pid, 9, 9)), news_of((ME.pid, ME.incarnation, 9)))
    assert ME.pid not in peers_of(view)
    assert ME.pid not in heard(view.news()[1])


def test_a_peer_that_fails_three_times_in_a_row_leaves_this_view_only() -> None:
    """ "After 3 consecutive connection failures drop the target from the local view only"."""
    view = view_of(PEERS)
    for _ in range(2):
        view.unreachable(5)
        assert 5 in peers_of(view)
    view.unreachable(5)
    assert 5 not in peers_of(view)
    assert 5 not in heard(view.news()[1]), "no farewell on behalf of others"
    view.unreachable(5)
    view.unreachable(99)
    assert peers_of(view) == set(PEERS) - {5}


def test_a_word_from_a_peer_clears_its_failures() -> None:
    view = view_of(PEERS)
    for _ in range(4):
        view.unreachable(5)
        view.unreachable(5)
        view.hear(Process(5, 1), b"", b"")
    assert 5 in peers_of(view)


def test_a_suspect_is_asked_in_every_round_until_it_answers() -> None:
    view = view_of(PEERS)
    view.unreachable(5)
    assert asked_in(rounds_of(view, 2)) == [5, 5]
    view.receive(Process(5, 1), Welcome(b"", b""), 0, Ready())
    assert asked_in(rounds_of(view, 2)) == []


def test_a_rumoured_peer_takes_the_place_of_a_dead_one() -> None:
    """ "drop the target … and replace it from subs"."""
    replaced = 0
    for seed in range(20):
        view = view_of([9], seed, view_size=2, failures_max=1)
        view.hear(YOU, news_of((10, 1, 9), (11, 1, 9)), b"")
        if 9 in peers_of(view):
            continue
        view.unreachable(10)
        assert peers_of(view) == {9, 11}, "pushed out of the full view, but still news"
        replaced += 1
    assert replaced


def test_a_full_view_changes_at_random_and_keeps_its_size() -> None:
    kept = set()
    for seed in range(40):
        view = view_of(PEERS, seed, view_size=len(PEERS))
        view.hear(YOU, news_of((50, 1, 9)), b"")
        assert len(peers_of(view)) == len(PEERS)
        kept.add(50 in peers_of(view))
    assert kept == {True, False}


def test_a_member_that_hears_nothing_asks_to_be_let_in_again() -> None:
    """ "A process that received no gossip for isolation_rounds re-subscribes"."""
    view = view_of(PEERS, isolation_rounds=4, reach_rounds=255)
    assert asked_in(rounds_of(view, 3)) == []
    (asked,) = asked_in(rounds_of(view, 1))
    assert asked in PEERS
    view.hear(YOU, b"", b"")
    assert asked_in(rounds_of(view, 3)) == []
    assert len(asked_in(rounds_of(view, 1))) == 1
    assert len(asked_in(rounds_of(view, 4))) == 1


def test_a_lost_peer_is_asked_now_and_then_so_that_a_split_heals() -> None:
    view = view_of(PEERS, isolation_rounds=255, reach_rounds=5, failures_max=1)
    view.unreachable(5)
    assert asked_in(rounds_of(view, 4)) == []
    assert asked_in(rounds_of(view, 1)) == [5]
    view.hear(YOU, news_of((5, 1, 9)), b"")
    assert asked_in(rounds_of(view, 5)) == [], "it is not lost any more"


def test_lost_peers_are_remembered_within_a_bound() -> None:
    view = view_of([2, 3], view_size=2, failures_max=1)
    for pid in range(10, 20):
        view.hear(YOU, news_of((pid, 1, 9)), b"")
        for peer in sorted(peers_of(view)):
            view.unreachable(peer)
    assert {gauge.name: gauge.value for gauge in view.gauges()}["lost"] == 2


def test_whoever_has_no_one_to_ask_asks_nobody() -> None:
    view, ready = view_of([], isolation_rounds=1), Ready()
    view.join([ME.pid], 0, ready)
    view.next_round(ready)
    assert ready.send == []


def test_contacts_are_asked_in_turn_until_one_answers() -> None:
    view, ready = view_of([], join_retry_rounds=2), Ready()
    view.join([7, ME.pid, 8], 0, ready)
    due = 0
    for _ in range(3):
        assert view.wake_at() == due + 2 * ROUND_NS
        view.tick(due + 2 * ROUND_NS - 1, ready)
        due += 2 * ROUND_NS
        view.tick(due, ready)
    assert asked_in(ready) == [7, 8, 7, 8]
    assert view.receive(Process(8, 1), Welcome(news_of((9, 1, 5)), b"past"), due, ready) == b"past"
    view.settle()
    assert view.wake_at() is None
    assert peers_of(view) == {8, 9}
    assert view.receive(Process(7, 1), Welcome(b"", b"other"), due, ready) is None, "once is enough"


def test_nobody_is_there_after_so_many_contacts_asked_in_vain() -> None:
    view, ready = view_of([], join_tries_max=2), Ready()
    assert not view.alone()
    view.join([7], 0, ready)
    for _ in range(2):
        assert not view.alone()
        due = view.wake_at()
        assert due is not None
        view.tick(due, ready)
    assert view.alone()


def test_a_newcomer_is_welcomed_with_a_sample_and_a_snapshot() -> None:
    """ "it treats it as a sub and answers with a random sample of its view … and a causality snapshot"."""
    view, ready = view_of(PEERS), Ready()
    newcomer = Process(40, 3)
    assert view.receive(newcomer, Subscribe(joining=True), 0, ready) is None
    (send,) = ready.send
    assert (send.to, send.incarnation) == ((40,), 3)
    assert isinstance(send.item, Welcome)
    assert set(heard(send.item.peers)) == set(PEERS)
    assert send.item.snapshot == b"snapshot"
    assert 40 in peers_of(view)
    assert heard(view.news()[0])[40][0] == 3


def test_who_seeks_to_be_let_in_lets_nobody_in() -> None:
    view, ready = view_of([]), Ready()
    view.join([7], 0, ready)
    view.receive(YOU, Subscribe(joining=True), 0, ready)
    assert [type(send.item) for send in ready.send] == [Subscribe]


def test_a_leaver_says_farewell_for_some_rounds_and_is_gone() -> None:
    view = view_of(PEERS, farewell_rounds=6)
    assert not view.gone()
    view.leave(0)
    for _ in range(3):
        assert not view.gone()
        view.next_round(Ready())
        assert ME.pid in heard(view.news()[1])
    assert view.gone()


def test_even_the_shortest_farewell_is_said_once() -> None:
    view = view_of(PEERS, farewell_rounds=1)
    view.leave(0)
    assert not view.gone()


def test_a_leaver_waits_while_the_farewells_of_others_fill_the_list() -> None:
    """ "A process whose unsubs set is full SHOULD delay its leave by a round"."""
    view = view_of(PEERS, unsubs_max=2, farewell_rounds=4)
    view.hear(YOU, b"", news_of((5, 1, 3), (6, 1, 3)))
    view.leave(0)
    rounds_of(view, 2)
    assert not view.gone(), "these two did not count"
    rounds_of(view, 2)
    assert view.gone()


def test_by_default_news_live_twice_as_long_as_an_event() -> None:
    """gossip 2.2: the lifetime of farewells is at least 2 × term rounds; 2.1: view_size must exceed F."""
    default = Settings()
    assert default.views.farewell_rounds >= 2 * default.gossip.rounds
    assert default.views.sub_rounds >= 2 * default.gossip.rounds
    assert default.views.view_size > default.gossip.fanout
    assert default.views.announce_rounds < default.views.sub_rounds
    assert default.fifo.hold_rounds >= default.gossip.rounds + 2


def test_a_member_met_in_person_is_known_at_once_and_no_rumour_of_it_is_spread() -> None:
    view = view_of([2])
    view.news()
    view.meet(Process(9, 4))
    assert peers_of(view) == {2, 9}
    assert not view.changed
    assert 9 not in heard(view.news()[0])
    assert view.reaches(Process(9, 4))
    assert not view.reaches(Process(9, 3))


def test_a_member_that_says_itself_that_it_left_is_forgotten_and_older_rumours_of_it_are_not_believed() -> None:
    view = view_of([2, 9])
    view.parted(Process(9, 1))
    view.hear(YOU, news_of((9, 1, 12)), b"")
    assert peers_of(view) == {2}
    view.meet(Process(9, 2))
    assert peers_of(view) == {2, 9}, "a later life of it is another process"


def test_who_asks_to_be_let_in_asks_members_met_meanwhile_too() -> None:
    view, ready = view_of(), Ready()
    view.join([2], 0, ready)
    view.meet(Process(3, 1))
    for _ in range(3):
        due = view.wake_at()
        assert due is not None
        view.tick(due, ready)
    assert asked_in(ready) == [2, 3, 2, 3]
