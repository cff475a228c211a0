"""Who merges: chosen among those who are there, the same for all, told to newcomers, and replaced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.levels.total.group import Group
from whence.core.levels.total.items import Mergers, journal_entry, read_journal
from whence.core.levels.total.role_table import RoleTable, from_record, to_record
from whence.core.levels.total.settings import TotalSettings
from whence.core.settings import parse
from whence.errors import SettingError, StalledError
from whence.types import Process

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


@given(st.integers(1, 2**31 - 1), PIDS, PIDS)
def test_a_role_table_survives_its_record_and_no_other_record_is_taken_for_one(
    version: int, mergers: list[int], relays: list[int]
) -> None:
    table = RoleTable(version, tuple(mergers), tuple(relays))
    assert from_record(to_record(table)) == table
    assert read_journal(to_record(table)) is None
    assert from_record(journal_entry((0x52 << 56, 1, 2), 3)) is None


@given(PIDS, PIDS, st.integers(1, 4))
def test_mending_replaces_the_silent_fills_what_is_free_and_changes_nothing_else(
    mergers: list[int], free: list[int], wanted: int
) -> None:
    table = RoleTable(3, tuple(mergers[:4]))
    silent = [pid for pid in table.mergers if pid % 2]
    mended = table.mended(silent, free, wanted, 0)
    assert len(set(mended.mergers)) == len(mended.mergers) >= len(table.mergers)
    kept = [one == other for one, other in zip(table.mergers, mended.mergers, strict=False)]
    assert all(same or pid in silent for same, pid in zip(kept, table.mergers, strict=True))
    assert (mended == table) or mended.version == 4
    assert mended >= table


@pytest.mark.parametrize("text", ["x", "1,1", "1,,2", "-1", "40000", "1;2"])
def test_named_mergers_are_different_numbers(text: str) -> None:
    with pytest.raises(SettingError, match="merger_pids"):
        parse({"merger_pids": text}, TotalSettings)


def test_a_role_table_that_contradicts_itself_is_no_item() -> None:
    assert not Mergers(0, [1], []).is_valid()
    assert not Mergers(1, [], []).is_valid()
    assert not Mergers(1, [1], [1]).is_valid()
    assert Mergers(0, [], []).is_valid()
    assert Mergers(1, [1], [2]).is_valid()


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
    assert {group.members[pid].roles.exchange.table.mergers for pid in group.members} == {(70, 80)}
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
    assert group.members[1].roles.exchange.table == RoleTable(2, (3, 1))
    assert group.server(3) is not None
    group.down = []
    group.run(100)
    assert group.members[0].roles.exchange.table == RoleTable(2, (3, 1))
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
    assert {group.members[pid].roles.exchange.table for pid in range(6)} == {RoleTable(2, (0, 2)), RoleTable(2, (3, 1))}
    group.cut = []
    group.run(200)
    assert {group.members[pid].roles.exchange.table for pid in range(6)} == {RoleTable(2, (3, 1))}
    group.publish(0, b"x")
    group.run(60)
    assert all(group.delivered[pid] == [b"x"] for pid in range(6))


def test_named_mergers_stay_and_publishing_without_any_is_refused_loudly() -> None:
    group = Group(4, merger_pids="1,2")
    group.down = [1, 2]
    group.run(300)
    assert group.members[3].roles.exchange.table == RoleTable(1, (1, 2))
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
