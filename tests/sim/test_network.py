"""The network: late, lost, twice, in another order, wrong or not at all; each as often as it says, and counted."""

from itertools import pairwise
from math import sqrt
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.world import MS, SECOND, Wires
from whence.sim.network import Copy, Latency

COPIES = 4000


def near(count: float, chance: float, trials: int) -> bool:
    """Tell whether a count is within five standard deviations of what a chance predicts."""
    return abs(count - chance * trials) <= 5 * sqrt(trials * chance * (1 - chance))


# --- latency ---


SHAPES = [
    (Latency(shape="constant", low_ns=7 * MS), 7 * MS, 7 * MS, 7 * MS, 0.0),
    (Latency(shape="uniform", low_ns=1 * MS, high_ns=21 * MS), 1 * MS, 21 * MS, 11 * MS, 20 * MS / sqrt(12)),
    (Latency(shape="exponential", low_ns=2 * MS, high_ns=5 * MS), 2 * MS, 2 * MS + 40 * 5 * MS, 7 * MS, 5 * MS),
]


@pytest.mark.parametrize(("latency", "least", "most", "mean", "deviation"), SHAPES, ids=lambda of: str(of)[:24])
def test_each_shape_of_latency_has_its_range_and_mean(
    latency: Latency, least: int, most: int, mean: int, deviation: float
) -> None:
    draw = latency.drawn_from(Random(3))
    draws = [draw() for _ in range(20_000)]
    assert least <= min(draws)
    assert max(draws) <= most
    assert abs(sum(draws) / len(draws) - mean) <= 5 * deviation / sqrt(len(draws)) + 1


def test_a_heavy_tail_is_pareto_with_shape_three_halves_and_an_end() -> None:
    """P(draw > x times the least) = x^-1.5, and never more than 1000 times the least."""
    draw = Latency(shape="heavy", low_ns=MS).drawn_from(Random(3))
    draws = [draw() for _ in range(50_000)]
    assert min(draws) >= MS
    assert max(draws) <= 1000 * MS
    for times in (2, 4, 16, 64):
        assert near(sum(value > times * MS for value in draws), times**-1.5, len(draws))


@pytest.mark.parametrize("faulty", [{}, {"loss": 1e-12}], ids=["fair weather", "bad weather"])
def test_copies_arrive_after_a_latency_of_their_own_with_their_bytes(faulty: dict[str, Any]) -> None:
    wires = Wires(latency=Latency(shape="uniform", low_ns=5 * MS, high_ns=9 * MS), **faulty)
    sent = wires.send_many(500)
    times = {arrival.frame: arrival.time for arrival in wires.finish()}
    assert sorted(times) == sent
    assert all(5 * MS <= time <= 9 * MS for time in times.values())
    assert len(dict.fromkeys(times.values())) > 400


# --- bandwidth ---


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=20), st.integers(1000, 10**9))
def test_copies_of_one_node_leave_one_after_another_at_its_rate(sizes: list[int], bits_per_second: int) -> None:
    """The k-th copy has left when all bytes up to its own had their time, whichever links they take."""
    wires = Wires(bandwidth_bps=bits_per_second)
    for at, size in enumerate(sizes):
        wires.send(0, 1 + at % 3, bytes(size))
    gone, expected = 0, []
    for size in sizes:
        gone += size * 8 * SECOND // bits_per_second
        expected.append(gone + MS)
    assert [arrival.time for arrival in wires.finish()] == expected


def test_an_idle_node_owes_its_bandwidth_nothing() -> None:
    wires = Wires(bandwidth_bps=8000)
    wires.send(0, 1, bytes(10))
    wires.loop.at(SECOND, lambda _: wires.send(0, 1, bytes(10)))
    assert [arrival.time for arrival in wires.finish()] == [11 * MS, SECOND + 11 * MS]


def test_different_senders_do_not_share_bandwidth() -> None:
    wires = Wires(bandwidth_bps=8000)
    for source in (0, 1, 2):
        wires.send(source, 3, bytes(10))
    assert [arrival.time for arrival in wires.finish()] == [11 * MS] * 3


def test_with_both_ways_receiving_takes_the_receivers_bandwidth_too() -> None:
    wires = Wires(bandwidth_bps=8000, bandwidth_both_ways=True)
    for source in (0, 1, 2):
        wires.send(source, 3, bytes(10))
    assert [arrival.time for arrival in wires.finish()] == [21 * MS, 31 * MS, 41 * MS]


def test_with_both_ways_what_a_node_receives_delays_what_it_sends() -> None:
    wires = Wires(bandwidth_bps=8000, bandwidth_both_ways=True)
    wires.send(0, 1, bytes(10))
    wires.loop.at(11 * MS + 1, lambda _: wires.send(1, 2, bytes(10)))
    assert [arrival.time for arrival in wires.finish()] == [21 * MS, 31 * MS + MS + 10 * MS]


# --- what happens to single copies ---


def test_loss_loses_its_part_of_the_copies_and_counts_each() -> None:
    wires = Wires(loss=0.3)
    sent = wires.send_many(COPIES)
    got = wires.frames()
    assert got == [frame for frame in sent if frame in dict.fromkeys(got)]
    assert wires.effective == {"loss": COPIES - len(got)}
    assert near(COPIES - len(got), 0.3, COPIES)


def test_duplication_brings_its_part_twice_the_second_one_late_but_not_too_late() -> None:
    wires = Wires(duplicate=0.2, straggle_ns=50 * MS)
    sent = wires.send_many(COPIES)
    arrived = wires.finish()
    twice = len(arrived) - COPIES
    assert sorted(dict.fromkeys(arrival.frame for arrival in arrived)) == sent
    assert wires.effective == {"duplicate": twice}
    assert near(twice, 0.2, COPIES)
    assert max(arrival.time for arrival in arrived) <= MS + 50 * MS


def test_reordering_lets_later_copies_overtake_and_loses_none() -> None:
    wires = Wires(reorder=0.1, straggle_ns=50 * MS)
    sent = wires.send_many(COPIES, every_ns=MS)
    got = wires.frames()
    overtaken = sum(earlier > later for earlier, later in pairwise(got))
    assert sorted(got) == sent
    assert near(wires.effective["reorder"], 0.1, COPIES)
    assert 0 < overtaken <= wires.effective["reorder"]


def test_a_replay_is_an_old_copy_as_it_was_to_the_same_target_and_comes_on_top() -> None:
    wires = Wires(replay=0.1, straggle_ns=50 * MS)
    for at in range(COPIES):
        wires.send(at % 2, 2 + at % 2, b"%d to %d: %d" % (at % 2, 2 + at % 2, at))
    arrived = wires.finish()
    assert len(arrived) == COPIES + wires.effective["replay"]
    assert near(wires.effective["replay"], 0.1, COPIES)
    for arrival in arrived:
        assert arrival.frame.startswith(b"%d to %d" % (arrival.source, arrival.target))


def test_a_replay_can_be_far_older_than_anything_on_its_way() -> None:
    wires = Wires(replay=0.2, straggle_ns=MS)
    wires.send_many(COPIES, every_ns=MS)
    ages = [arrival.time - int(arrival.frame) * MS for arrival in wires.finish()]
    assert max(ages) > 100 * MS


def test_corruption_turns_one_bit_of_its_part_of_the_copies() -> None:
    wires = Wires(corrupt=0.25)
    wires.network.send(0, (1,) * COPIES, bytes(32), 0)
    wrong = [int.from_bytes(frame).bit_count() for frame in wires.frames() if frame != bytes(32)]
    assert wrong == [1] * wires.effective["corrupt"]
    assert near(len(wrong), 0.25, COPIES)


def test_one_copys_bad_luck_does_not_touch_the_other_copies_of_its_frame() -> None:
    wires = Wires(corrupt=0.5)
    frame = bytes(8)
    wires.network.send(0, (1, 2, 3), frame, 0)
    wires.finish()
    assert frame == bytes(8)
    assert len(wires.arrived) == 3


@given(
    st.integers(0, 2**32),
    st.fixed_dictionaries({ill: st.sampled_from((0.0, 0.5)) for ill in ("loss", "duplicate", "reorder", "replay")}),
)
def test_links_with_order_keep_it_whatever_else_they_do(seed: int, ills: dict[str, Any]) -> None:
    """Whole copies of one link arrive in the order they were first sent; second ones and old ones only come again."""
    wires = Wires(seed=seed, fifo_links=True, latency=Latency(), **ills)
    wires.send_many(100, every_ns=MS)
    times = [arrival.time for arrival in wires.finish()]
    assert times == sorted(times)
    first_seen = list(dict.fromkeys(arrival.frame for arrival in wires.arrived))
    assert first_seen == sorted(first_seen)


def test_links_without_order_do_not_keep_it() -> None:
    wires = Wires(latency=Latency())
    sent = wires.send_many(100, every_ns=MS)
    assert wires.frames() != sent


# --- cuts, partitions, slow links, bursts ---


def talk(wires: Wires, nodes: int = 4) -> list[tuple[int, int]]:
    """Let everybody write to everybody; return which pairs got through."""
    wires.arrived.clear()
    for source in range(nodes):
        for target in range(nodes):
            if source != target:
                wires.send(source, target)
    return sorted((arrival.source, arrival.target) for arrival in wires.finish())


def silent(wires: Wires) -> list[tuple[int, int]]:
    """Let everybody write to everybody; return which pairs did not get through."""
    heard = talk(wires)
    return [pair for pair in ALL if pair not in heard]


ALL = sorted((source, target) for source in range(4) for target in range(4) if source != target)


def test_a_cut_is_one_way_and_ends() -> None:
    wires = Wires()
    wires.network.cut([0], [1, 2], on=True)
    assert silent(wires) == [(0, 1), (0, 2)]
    assert wires.effective == {"cut": 2}
    wires.network.cut([0], [1, 2], on=False)
    assert talk(wires) == ALL


def test_cuts_that_overlap_end_one_by_one() -> None:
    wires = Wires()
    wires.network.cut([0], [1], on=True)
    wires.network.cut([0], [1, 2], on=True)
    wires.network.cut([0], [1], on=False)
    assert silent(wires) == [(0, 1), (0, 2)]


def test_a_partition_parts_both_ways_and_leaves_each_side_alone() -> None:
    wires = Wires()
    wires.network.partition([0, 3], on=True)
    assert talk(wires) == [(0, 3), (1, 2), (2, 1), (3, 0)]
    assert wires.effective == {"partition": 8}
    wires.network.partition([0, 3], on=False)
    assert talk(wires) == ALL


def test_partitions_that_overlap_part_what_either_parts() -> None:
    wires = Wires()
    wires.network.partition([0, 1], on=True)
    wires.network.partition([0, 2], on=True)
    assert talk(wires) == []
    wires.network.partition([0, 1], on=False)
    assert talk(wires) == [(0, 2), (1, 3), (2, 0), (3, 1)]


@pytest.mark.parametrize("how", ["cut", "partition"])
def test_a_sender_learns_of_every_copy_that_a_cut_did_not_take(how: str) -> None:
    wires = Wires(refusal_ns=70 * MS)
    if how == "cut":
        wires.network.cut([0], [1], on=True)
    else:
        wires.network.partition([0], on=True)
    wires.send(0, 1)
    wires.send(0, 1)
    wires.finish()
    assert wires.arrived == []
    assert wires.refused == [(70 * MS, 0, 1)] * 2


def test_nobody_learns_of_a_copy_that_was_lost() -> None:
    wires = Wires(loss=1.0)
    wires.send(0, 1)
    wires.finish()
    assert (wires.arrived, wires.refused, wires.effective) == ([], [], {"loss": 1})


def test_a_sender_learns_when_nobody_was_there_to_take_its_copy() -> None:
    wires = Wires()
    wires.network.refuse(Copy(0, 1, b"frame", 0))
    wires.finish()
    assert wires.refused == [(MS, 0, 1)]


def test_slow_nodes_have_slow_links_both_ways_by_their_factor_and_only_they() -> None:
    wires = Wires()
    wires.network.slow([2], 50.0, on=True)
    talk(wires)
    times = {(arrival.source, arrival.target): arrival.time for arrival in wires.arrived}
    assert times == {pair: 50 * MS if 2 in pair else MS for pair in ALL}
    assert wires.effective == {"slow": 6}


def test_between_two_slow_nodes_the_slower_one_decides_up_to_a_limit() -> None:
    wires = Wires()
    wires.network.slow([1], 10.0, on=True)
    wires.network.slow([2], 1e9, on=True)
    wires.send(1, 2)
    assert [arrival.time for arrival in wires.finish()] == [3 * SECOND]


def test_two_slow_faults_of_one_node_end_one_by_one_and_the_slower_decides() -> None:
    wires = Wires()
    wires.network.slow([1], 10.0, on=True)
    wires.network.slow([1], 5.0, on=True)
    wires.send(0, 1)
    wires.finish()
    wires.network.slow([1], 10.0, on=False)
    before = wires.loop.now
    wires.send(0, 1)
    wires.finish()
    wires.network.slow([1], 5.0, on=False)
    after = wires.loop.now
    wires.send(0, 1)
    assert [arrival.time for arrival in wires.finish()] == [10 * MS, before + 5 * MS, after + MS]


def test_a_burst_loses_more_while_it_lasts() -> None:
    wires = Wires()
    wires.network.burst(0.4, on=True)
    wires.send_many(COPIES)
    lost = COPIES - len(wires.finish())
    assert near(lost, 0.4, COPIES)
    assert wires.effective == {"burst": lost}
    wires.network.burst(0.4, on=False)
    assert talk(wires) == ALL


@given(st.integers(0, 2**32), st.data())
def test_after_healing_every_copy_arrives_once_and_whole(seed: int, data: st.DataObject) -> None:
    ills: dict[str, Any] = {
        ill: data.draw(st.sampled_from((0.0, 1.0)), ill) for ill in ("loss", "duplicate", "reorder", "corrupt")
    }
    wires = Wires(seed=seed, fifo_links=data.draw(st.booleans()), replay=data.draw(st.sampled_from((0.0, 1.0))), **ills)
    wires.network.cut([0], [1], on=True)
    wires.network.partition([0, 2], on=True)
    wires.network.slow([1], 100.0, on=True)
    wires.network.burst(0.9, on=True)
    talk(wires)
    wires.network.heal()
    before, counted = wires.loop.now, dict(wires.effective)
    assert talk(wires) == ALL
    assert all(arrival.frame == b"frame" for arrival in wires.arrived)
    assert all(arrival.time == before + MS for arrival in wires.arrived)
    assert dict(wires.effective) == counted


def test_healing_connects_ordered_links_anew_and_drops_what_was_on_them() -> None:
    """Otherwise one held-back copy would keep every later one behind it long after the fault has ended."""
    wires = Wires(fifo_links=True, reorder=1.0, straggle_ns=2 * SECOND)
    wires.send(0, 1, b"old")
    wires.network.heal()
    wires.send(0, 1, b"new")
    assert [(arrival.time, arrival.frame) for arrival in wires.finish()] == [(MS, b"new")]


def test_faults_that_meet_no_copy_are_not_counted() -> None:
    wires = Wires()
    wires.network.cut([0], [1], on=True)
    wires.network.partition([0], on=True)
    wires.network.slow([0], 9.0, on=True)
    wires.network.burst(1.0, on=True)
    wires.finish()
    assert wires.effective == {}
