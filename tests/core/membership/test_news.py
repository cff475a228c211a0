"""News of the membership: what is passed on, how long, and which word outweighs which."""

from tests.core.parts import rng_of
from whence.core.membership.items import NEWS
from whence.core.membership.news import Known, MembershipNews
from whence.core.membership.settings import ViewSettings
from whence.types import Process

ME = Process(1, 1)


def news_of(**settings: int) -> MembershipNews:
    return MembershipNews(ME, ViewSettings(**settings), rng_of(0))  # type: ignore[arg-type]


def pids(packed: bytes) -> list[int]:
    return [pid for pid, _, _ in NEWS.iter_unpack(packed)]


def test_an_arrival_is_passed_on_once_and_a_farewell_in_every_round_of_its_life() -> None:
    news = news_of(farewell_rounds=3)
    news.arrivals[2] = Known(1, 5)
    news.add_farewell(3, 1, 3)
    said = []
    for _ in range(4):
        said.append(tuple(map(pids, news.take(announces=False))))
        news.next_round()
    assert said == [([2], [3]), ([], [3]), ([], [3]), ([], [])]


def test_a_member_announces_itself_now_and_then_and_not_while_it_leaves() -> None:
    news = news_of(announce_rounds=2)
    announced = []
    for announces in (True, True, True, False, False, True):
        announced.append(pids(news.take(announces=announces)[0]))
        news.next_round()
    assert announced == [[1], [], [1], [], [], [1]]


def test_a_farewell_outweighs_its_own_incarnation_and_gives_way_to_a_later_one() -> None:
    news = news_of()
    assert news.add_farewell(2, 3, 9)
    assert not news.add_farewell(2, 3, 9)
    assert (news.has_left(2, 2), news.has_left(2, 3), news.has_left(2, 4)) == (True, True, False)
    assert news.farewells == {}


def test_a_farewell_ends_the_arrivals_before_it_and_no_later_one() -> None:
    news = news_of()
    news.arrivals[2], news.arrivals[3] = Known(1, 9), Known(2, 9)
    news.drop_arrival(2, 1)
    news.drop_arrival(3, 1)
    news.drop_arrival(4, 1)
    assert list(news.arrivals) == [3]


def test_no_farewell_lives_longer_than_the_settings_let_it() -> None:
    news = news_of(farewell_rounds=4)
    news.add_farewell(2, 1, 200)
    assert news.farewells[2].until == 4


def test_both_lists_stay_within_their_bounds_and_the_own_farewell_is_never_dropped() -> None:
    news = news_of(subs_max=3, unsubs_max=2)
    news.add_farewell(*ME, 5)
    for pid in range(2, 12):
        news.arrivals[pid] = Known(1, 5)
        news.add_farewell(pid, 1, 5)
    news.shorten()
    assert (len(news.arrivals), len(news.farewells)) == (3, 2 + 1)
    assert ME.pid in news.farewells
