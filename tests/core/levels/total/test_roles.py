"""Who merges: chosen among those who are there, the same for all, told to newcomers, and replaced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.levels.total.group import Group
from whence.core.levels.total.candidates import Candidate, Fitness, by_merit
from whence.core.levels.total.items import Mergers, journal_entry, read_journal
from whence.core.levels.total.role_table import RoleTable, from_record, to_record
from whence.core.levels.total.settings import TotalSettings
from whence.core.settings import parse
from whence.errors import SettingError, StalledError
from whence.types import Process


def mergers_of(group: Group) -> set[tuple[int, ...]]:
    """Return who merges, as far as members that are up know."""
    return {member.roles.exchange.table.mergers for pid, member in group.members.items() if pid not in group.down}


PIDS = st.lists(st.integers(0, 2**15 - 1), min_size=1, max_size=20, unique=True)


@given(PIDS, st.integers(1, 4), st.integers(0, 3))
def test_all_founders_choose_the_same_mergers_among_themselves(pids: list[int], mergers: int, relays: int) -> None:
    settings = parse({"mergers": mergers, "relays": relays}, TotalSettings)
    chosen = settings.first_roles(pids)
    assert chosen == settings.first_roles(sorted(pids, reverse=True))
    assert len(chosen.mergers) == min(mergers, len(pids))
    assert set(chosen.mergers) | set(chosen.relays) <= set(pids)
    assert not set(chosen.mergers) & set(chosen.relays)
    for pid in pids:
        assert set(chosen.sends_to(pid, 2)) <= {*chosen.mergers, *chosen.relays}
        assert chosen.sends_to(pid, 2)


@given(st.integers(1, 2**62), PIDS, PIDS, PIDS)
def test_a_role_table_survives_its_record_and_no_other_record_is_taken_for_one(
    term: int, mergers: list[int], relays: list[int], deputies: list[int]
) -> None:
    table = RoleTable(term, tuple(mergers), tuple(relays), tuple(deputies))
    assert from_record(to_record(table)) == table
    assert read_journal(to_record(table)) is None
    assert from_record(journal_entry((0x54 << 56, 1, 2), 3)) is None


@given(PIDS, PIDS, st.integers(1, 4))
def test_mending_replaces_the_silent_fills_what_is_free_and_changes_nothing_else(
    mergers: list[int], free: list[int], wanted: int
) -> None:
    table = RoleTable(3, tuple(mergers[:4]))
    silent = [pid for pid in table.mergers if pid % 2]
    mended = table.mended(2, silent, free, wanted, 0)
    assert len(set(mended.mergers)) == len(mended.mergers) >= len(table.mergers)
    kept = [one == other for one, other in zip(table.mergers, mended.mergers, strict=False)]
    assert all(same or pid in silent for same, pid in zip(kept, table.mergers, strict=True))
    assert (mended == table) or mended.term == 4, "a term is never less than the next"
    assert mended >= table
    assert mended.is_consistent()
    assert table.mended(70, silent, free, wanted, 0).term in (3, 70), "else it is the tick"


@given(PIDS, PIDS, PIDS)
def test_who_has_a_place_and_is_heard_keeps_it_and_deputies_are_the_best_of_the_rest(
    mergers: list[int], deputies: list[int], free: list[int]
) -> None:
    places = [pid for pid in deputies if pid not in mergers[:3]][:8]
    table = RoleTable(3, tuple(mergers[:3]), (), tuple(places))
    mended = table.mended(9, [], free, 3, 0)
    assert mended.mergers[: len(table.mergers)] == table.mergers
    given = mended.mergers[len(table.mergers) :]
    assert list(given) == [pid for pid in free if pid not in table.mergers][: len(given)], "the best first"
    staying = [pid for pid in places if pid not in given]
    assert list(mended.deputies[: len(staying)]) == staying


@pytest.mark.parametrize("text", ["x", "1,1", "1,,2", "-1", "40000", "1;2"])
def test_named_mergers_are_different_numbers(text: str) -> None:
    with pytest.raises(SettingError, match="merger_pids"):
        parse({"merger_pids": text}, TotalSettings)


def test_a_role_table_that_contradicts_itself_is_no_item() -> None:
    assert not Mergers(0, [1], []).is_valid()
    assert not Mergers(1, [], []).is_valid()
    assert not Mergers(1, [1], [1]).is_valid()
    assert Mergers(0, [], []).is_valid()
    assert not Mergers(1, [1], [], (1,)).is_valid()
    assert Mergers(1, [1], [2], (3,)).is_valid()


@pytest.mark.parametrize("pids", [(5, 6, 7), (1000, 3, 32767), (9,), (2, 1)])
def test_members_of_any_numbers_deliver_one_sequence(pids: tuple[int, ...]) -> None:
    group = Group(pids)
    for pid in pids:
        group.publish(pid, b"of %d" % pid)
        group.run(1)
    group.run(40)
    for pid in pids:
        assert group.delivered[pid] == [b"of %d" % publisher for publisher in pids]


def test_who_founds_alone_merges_and_those_who_come_take_the_places_that_are_free() -> None:
    group = Group((70,))
    for pid in (80, 60, 90):
        group.do(pid, group.start(pid, 1).join([70], group.now))
        group.run(150)
    assert mergers_of(group) == {(70, 80)}
    assert group.server(80) is not None
    group.publish(90, b"x")
    group.run(40)
    assert all(group.delivered[pid] == [b"x"] for pid in group.members)
    group.down = [70]
    group.publish(90, b"y")
    group.run(200)
    assert all(group.delivered[pid] == [b"x", b"y"] for pid in (60, 80, 90))


def test_a_merger_that_is_gone_is_replaced_without_a_hole_and_follows_when_it_is_back() -> None:
    group = Group(5)
    group.down = [0]
    for number in range(300):
        if not number % 10:
            group.publish(2 + number % 3, b"%d" % number)
        group.run(1)
    before = group.members[1].roles.exchange.table
    assert before.mergers == (3, 1)
    assert group.server(3) is not None
    group.down = []
    group.run(100)
    assert mergers_of(group) == {(3, 1)}
    assert group.members[0].roles.exchange.table.term >= before.term
    assert group.server(0) is None
    group.publish(0, b"back")
    group.run(60)
    expected = [b"%d" % number for number in range(0, 300, 10)]
    for pid in (1, 2, 3, 4):
        assert group.delivered[pid] == [*expected, b"back"]
        assert pid not in group.gaps
    assert group.delivered[0][-1:] == [b"back"]


def test_two_that_replaced_each_other_meet_again() -> None:
    group = Group(6)
    sides = ((0, 2, 4), (1, 3, 5))
    group.cut = [(a, b) for a in range(6) for b in range(6) if (a in sides[0]) != (b in sides[0])]
    group.run(200)
    assert mergers_of(group) == {(0, 2), (3, 1)}
    group.cut = []
    group.run(200)
    assert len({group.members[pid].roles.exchange.table for pid in range(6)}) == 1
    group.publish(0, b"x")
    group.run(60)
    assert all(group.delivered[pid] == [b"x"] for pid in range(6))


def test_named_mergers_stay_and_publishing_without_any_is_refused_loudly() -> None:
    group = Group(4, merger_pids="1,2")
    group.down = [1, 2]
    group.run(300)
    assert group.members[3].roles.exchange.table == RoleTable(1, (1, 2)), "no deputy takes their place"
    with pytest.raises(StalledError, match="none of the mergers 1, 2 answers"):
        group.publish(3, b"lost otherwise")
    group.down = []
    group.run(20)
    group.publish(3, b"x")
    group.run(60)
    assert all(group.delivered[pid] == [b"x"] for pid in range(4))


def test_a_new_life_takes_the_part_that_its_journal_and_the_others_tell() -> None:
    group = Group(4)
    records = list(group.persisted[0])
    group.down = [0]
    group.run(200)
    replaced = group.start(0, 2)
    group.down = []
    group.do(0, replaced.restore(records, group.now))
    group.do(0, replaced.join([3], group.now))
    group.run(30)
    assert replaced.roles.exchange.table.mergers == (3, 1)
    assert group.server(0) is None
    group.publish(0, b"x")
    group.run(60)
    assert group.delivered[0] == [b"x"]
    assert Process(0, 2) == replaced.me


@pytest.mark.parametrize("mergers", [1, 2, 3])
def test_when_all_mergers_die_at_once_one_deputy_takes_over_and_the_group_goes_on(mergers: int) -> None:
    group = Group(7, mergers=mergers)
    group.run(50)
    group.publish(6, b"before")
    group.run(50)
    deputies = group.members[6].roles.exchange.table.deputies
    assert len(deputies) == 7 - mergers
    group.down = list(range(mergers))
    group.run(250)
    (left,) = mergers_of(group)
    assert left[0] == deputies[0], "the first in the line of succession, and no other"
    assert len(left) == mergers
    assert not set(left) & set(group.down)
    group.publish(6, b"after")
    group.run(80)
    for pid in range(mergers, 7):
        assert group.delivered[pid] == [b"before", b"after"]
        assert pid not in group.gaps


def test_the_line_of_succession_survives_the_loss_of_its_first() -> None:
    group = Group(7)
    group.run(50)
    first, second, *_ = group.members[6].roles.exchange.table.deputies
    group.down = [0, 1, first]
    group.run(400)
    (left,) = mergers_of(group)
    assert left[0] == second
    assert not set(left) & set(group.down)


def test_a_merger_that_returns_after_all_were_replaced_follows_and_changes_nothing() -> None:
    group = Group(6)
    group.run(50)
    group.down = [0, 1]
    group.run(400)
    before = group.members[5].roles.exchange.table
    group.down = []
    group.run(200)
    assert mergers_of(group) == {before.mergers}
    assert group.server(0) is None
    assert group.server(1) is None
    group.publish(0, b"x")
    group.run(80)
    assert all(group.delivered[pid] == [b"x"] for pid in range(6))


def test_a_place_goes_to_whoever_heard_its_merger_steadily_for_longest_whatever_its_number() -> None:
    group = Group(6, mergers=1)
    group.run(50)
    group.cut = [(0, pid) for pid in (1, 2, 4)]
    group.run(60)
    group.cut = []
    group.run(60)
    group.down = [0]
    group.run(300)
    (left,) = mergers_of(group)
    assert left in ((3,), (5,)), "1, 2 and 4 were interrupted"


def test_a_member_whose_clock_or_link_breaks_the_timing_is_no_candidate() -> None:
    fitness = Fitness(tick_ns=10, delta=20, epsilon=3)
    assert fitness.steady_ns(sent_at=1000, claimed_ns=77, now=1000) == 77
    assert fitness.steady_ns(sent_at=1029, claimed_ns=77, now=1000) == 77
    assert fitness.steady_ns(sent_at=1030, claimed_ns=77, now=1000) == 0, "its clock is ahead by ε"
    assert fitness.steady_ns(sent_at=1000, claimed_ns=77, now=1229) == 77
    assert fitness.steady_ns(sent_at=1000, claimed_ns=77, now=1230) == 0, "δ has passed, and what clocks differ by"
    reports = [[Candidate(1, 5), Candidate(2, 9)], [Candidate(1, 9), Candidate(0, 0)]]
    assert list(by_merit(reports).items()) == [(1, 9), (2, 9), (0, 0)]


@pytest.mark.parametrize("mergers", [1, 2])
def test_a_merger_that_leaves_lets_another_warm_up_and_nothing_is_left_out(mergers: int) -> None:
    group = Group(5, mergers=mergers)
    group.run(50)
    published = []
    for number in range(300):
        if not number % 7:
            published.append(b"%d" % number)
            group.publish(2 + number % 3, published[-1])
        if number == 40:
            group.do(0, group.members[0].leave(group.now))
        group.run(1)
    group.run(60)
    assert group.members[0].lifecycle.value == "left"
    assert not group.gaps
    for pid in range(1, 5):
        assert group.delivered[pid] == published
    assert len(next(iter({group.members[pid].roles.exchange.table.mergers for pid in range(1, 5)}))) == mergers


def test_a_process_that_did_not_run_judges_nobody_silent_before_it_has_listened() -> None:
    group = Group(6)
    group.run(50)
    table = group.members[1].roles.exchange.table
    group.down = [0, 3]  # the first merger and a deputy stand still; nobody replaces anybody in so short a time
    group.run(35)
    group.down = []
    group.do(0, group.members[0].tick(group.now))
    group.do(3, group.members[3].tick(group.now))
    group.run(30)
    assert {member.roles.exchange.table.mergers for member in group.members.values()} == {table.mergers}


def test_a_table_from_the_future_is_nobodys_table() -> None:
    group = Group(4)
    group.run(50)
    member = group.members[3]
    before = member.roles.exchange.table
    group.do(3, member.receive(Process(2, 1), Mergers(1 << 50, [2], []), group.now))
    assert member.roles.exchange.table == before
    member.roles.exchange.table = before._replace(term=1 << 50)
    group.run(30)
    assert group.notes["reset", "roles"] == 1
    assert member.roles.exchange.table == group.members[0].roles.exchange.table


def test_who_is_told_to_follow_a_merger_that_warms_up_looks_for_another() -> None:
    group = Group(5)
    group.run(50)
    group.down = [0]
    while group.members[1].roles.exchange.table.mergers[0] == 0:
        group.run(1)
    new = group.members[1].roles.exchange.table.mergers[0]
    assert group.server(new) is None
    waiting = next(pid for pid in (2, 3, 4) if pid != new)
    group.publish(waiting, b"x")
    group.run(12)
    group.act(waiting, "switch", new)
    group.run(35)
    assert group.server(new) is None, "it still warms up"
    assert group.delivered[waiting] == [b"x"]


def test_the_publisher_that_takes_over_learns_what_died_with_the_mergers() -> None:
    group = Group(4, mergers=1)
    group.run(50)
    heir = group.members[3].roles.exchange.table.deputies[0]
    group.publish(heir, b"acknowledged, and never released")
    group.down = [0]
    group.run(300)
    assert group.server(heir) is not None
    assert group.unheard[heir] == [b"acknowledged, and never released"]


def test_a_deputy_that_is_deaf_does_not_depose_those_whom_it_does_not_hear() -> None:
    group = Group(6)
    group.run(50)
    deaf = group.members[1].roles.exchange.table.deputies[0]
    group.cut = [(pid, deaf) for pid in range(6) if pid != deaf]
    group.run(500)
    assert {group.members[pid].roles.exchange.table.mergers for pid in range(6)} == {(0, 1)}
    group.publish(next(pid for pid in (2, 3) if pid != deaf), b"x")
    group.run(60)
    assert all(group.delivered[pid] == [b"x"] for pid in range(6) if pid != deaf)


def test_the_last_of_a_group_that_knows_nobody_else_takes_over() -> None:
    group = Group(2, mergers=1)
    group.run(50)
    group.down = [0]
    group.run(250)
    assert group.members[1].roles.exchange.table.mergers == (1,)
    group.publish(1, b"x")
    group.run(60)
    assert group.delivered[1] == [b"x"]


def test_the_only_merger_whose_memory_denies_that_it_merges_goes_on() -> None:
    group = Group(3, mergers=1)
    group.run(50)
    group.members[0].roles.exchange.merges = False
    group.publish(0, b"x")
    group.run(60)
    assert group.server(0) is not None
    assert all(group.delivered[pid] == [b"x"] for pid in range(3))
