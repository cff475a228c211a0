"""Full views: everybody knows everybody, as the paper's experiments allowed (gossip 2.2)."""

from hypothesis import given
from hypothesis import strategies as st

from tests.core.parts import ME, ROUND_NS, news_of, rng_of
from whence.core.membership.full_view import Directory, FullView
from whence.core.membership.items import Subscribe, Welcome
from whence.core.membership.partial_view import PartialView
from whence.core.membership.settings import ViewSettings
from whence.core.ready import Ready
from whence.types import Process

YOU = Process(2, 1)


def full_of(directory: Directory, seed: object = 0) -> FullView:
    settings = ViewSettings(view="full", farewell_rounds=4)
    return FullView(ME, settings, ROUND_NS, rng_of(seed), lambda: b"past", directory)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30))
def test_a_directory_is_the_set_of_who_was_entered_and_not_struck(steps: list[tuple[bool, int]]) -> None:
    directory, dumb = Directory(), set()
    for enter, pid in steps:
        if enter:
            directory.add(pid)
            dumb.add(pid)
        else:
            directory.remove(pid)
            dumb.discard(pid)
        assert sorted(directory.pids) == sorted(dumb)


@given(st.sets(st.integers(0, 9)), st.integers(1, 8), st.integers())
def test_targets_are_distinct_members_and_never_oneself(pids: set[int], count: int, seed: int) -> None:
    """Whether one is in the directory oneself or, leaving, no longer."""
    directory = Directory()
    for pid in sorted(pids):
        directory.add(pid)
    targets = full_of(directory, seed).targets(count)
    assert len(targets) == len(set(targets)) == min(count, len(pids - {ME.pid}))
    assert set(targets) <= pids - {ME.pid}


def test_a_member_is_in_the_directory_from_start_to_farewell() -> None:
    directory = Directory()
    view = full_of(directory)
    view.found([YOU], 0)
    assert directory.pids == [ME.pid]
    view.leave(0)
    assert directory.pids == []
    view.next_round(Ready())
    assert not view.gone(), "what is on its way gets some rounds"
    view.next_round(Ready())
    assert view.gone()


def test_a_newcomer_enters_the_directory_when_it_was_let_in() -> None:
    directory, ready = Directory(), Ready()
    view = full_of(directory)
    view.join([2], 0, ready)
    assert [send.to for send in ready.send] == [(2,)]
    assert directory.pids == []
    assert view.receive(YOU, Welcome(b"", b"past"), 0, ready) == b"past"
    view.settle()
    assert directory.pids == [ME.pid]


def test_nothing_is_heard_lost_or_passed_on() -> None:
    directory, ready = Directory(), Ready()
    directory.add(2)
    view: PartialView = full_of(directory)
    view.found([], 0)
    view.hear(YOU, news_of((9, 1, 5)), news_of((2, 1, 5)))
    for _ in range(5):
        view.unreachable(2)
    view.next_round(ready)
    assert ready.send == []
    assert view.news() == (b"", b"")
    assert view.targets(9) == (2,)
    assert view.view() is None
    assert view.gauges() == []


def test_a_newcomer_gets_the_snapshot_and_no_peers() -> None:
    view, ready = full_of(Directory()), Ready()
    view.found([], 0)
    view.receive(YOU, Subscribe(joining=True), 0, ready)
    assert [send.item for send in ready.send] == [Welcome(b"", b"past")]
