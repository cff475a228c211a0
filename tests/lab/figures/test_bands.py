"""Bands against thresholds in the figures' checks, and bounds that are judged run by run."""

import json
from typing import Any

import pytest

from whence.trace.schema import COLUMNS_OF, HOLD_NS, M_PID, NODE, T_TRUE, Kind
from whence_lab.figures.bands import straight_change
from whence_lab.figures.catalogue import FIGURES
from whence_lab.figures.cluster_rounds import crossing
from whence_lab.figures.data import Band, Data
from whence_lab.figures.merge_delta import MERGERS, _in_time
from whence_lab.figures.merge_stamps import bits_for, bits_without_rounding
from whence_lab.figures.verdicts import Sentence, judged

MS = 1_000_000


def points(measure: str, along: str, curve: dict[Any, tuple[float, float]], **config: Any) -> list[dict[str, Any]]:
    """Return rows of points.parquet: a mean and half of its band for each value."""
    return [
        {
            "config": json.dumps({**config, along: x}, sort_keys=True), "measure": measure, "mean": mean,
            "low": mean - half, "high": mean + half, "least": mean - half / 2, "most": mean + half / 2, "runs": 3,
        }
        for x, (mean, half) in curve.items()
    ]  # fmt: skip


def sentence(name: str, says: str, rows: list[dict[str, Any]]) -> Sentence:
    """Return the verdict on a sentence of a figure, with made data."""
    checks = [check for check in FIGURES[name].checks if says in check.says]
    assert len(checks) == 1, says
    return judged(FIGURES[name]._replace(checks=checks), Data(rows))[0]


@pytest.mark.parametrize(("half", "outcome"), [(0.01, "holds"), (4.0, "not decided")])
def test_a_wide_band_acquits_no_delay_of_growing_faster_than_a_logarithm(half: float, outcome: str) -> None:
    rows = points(
        "delay_rounds", "members", {1_000: (2.5, 0.01), 1_000_000: (4.9, half)}, view="full", fanout=4, rounds=15
    )
    assert sentence("gossip-scale", "delay increases only", rows).outcome == outcome


@pytest.mark.parametrize(
    ("last", "half", "outcome"), [(28.0, 0.1, "holds"), (30.0, 0.1, "fails"), (29.0, 5.0, "not decided")]
)
def test_latency_that_may_grow_faster_than_a_logarithm_is_not_decided(last: float, half: float, outcome: str) -> None:
    rows = [
        row
        for name in ("5", "25")
        for row in points("latency_ms", "members", {25: (18.3, 0.05), 175: (last, half)}, updaters=name)
    ]
    assert sentence("cluster-scale", "delay grows only", rows).outcome == outcome


@pytest.mark.parametrize(("half", "outcome"), [(1.0, "holds"), (90.0, "not decided")])
def test_throughput_of_which_bands_allow_a_fall_is_not_called_constant(half: float, outcome: str) -> None:
    rows = [
        row
        for name in ("5", "25")
        for row in points("throughput", "members", {25: (700.0, half), 100: (720.0, half)}, updaters=name)
    ]
    assert sentence("cluster-scale", "throughput stays constant", rows).outcome == outcome


def test_the_band_of_a_lines_change_is_that_of_the_difference_where_it_has_two_points() -> None:
    curve = [
        (x, Band(mean, mean - half, mean + half, 0.0, 0.0, 3)) for x, mean, half in ((1, 9.0, 3.0), (5, 11.0, 4.0))
    ]
    assert straight_change(curve) == pytest.approx((0.2 - 0.5, 0.2 + 0.5))


def test_a_rate_falls_to_its_goal_between_lengths_before_them_or_never() -> None:
    assert crossing([(7.0, 0.4), (8.0, 0.0)]) == pytest.approx(7.5)
    assert crossing([(7.0, 0.1), (8.0, 0.0)]) == 7.0
    assert crossing([(7.0, 4.0), (8.0, 0.3)]) == float("inf")


@pytest.mark.parametrize(("half", "outcome"), [(0.05, "holds"), (4.0, "not decided")])
def test_lengths_whose_bands_overlap_do_not_say_which_is_longer(half: float, outcome: str) -> None:
    rates = {"5": (4.0, 0.0, 0.0, 0.0), "25": (9.0, 4.0, 0.0, 0.0), "all": (9.0, 9.0, 4.0, 0.0)}
    rows = [
        row
        for name, each in rates.items()
        for row in points(
            "failed_percent", "round_ms", {x: (y, half * bool(y)) for x, y in zip((7, 8, 9, 10), each, strict=True)},
            updaters=name,
        )
    ]  # fmt: skip
    assert sentence("cluster-rounds", "Larger messages", rows).outcome == outcome


def test_stamps_are_held_to_fields_of_whole_bits_as_is_written_beside_the_check() -> None:
    assert bits_for(2, 4, 6) == 23
    assert bits_without_rounding(2, 4, 6) == pytest.approx(19.63, abs=0.01)

    def found(by_n: float) -> Sentence:
        rows = [
            *points("bits", "n", {2: (by_n, 0.0)}, epsilon=4, delta=6),
            *points("bits", "epsilon", {3: (19.0, 0.0)}, n=3, delta=6),
            *points("bits", "delta", {4: (23.0, 0.0)}, n=3, epsilon=4),
        ]
        return sentence("merge-stamps", "O(ε log n + log δ)", rows)

    assert (found(23.0).outcome, found(24.0).outcome) == ("holds", "fails")
    assert "whole bits" in found(23.0).threshold
    assert "of 3 cases 3 are beyond the sum, which is 19.6 for n = 2" in found(23.0).seen


@pytest.mark.parametrize(("in_time", "outcome"), [(86.9, "holds"), (87.1, "fails")])
def test_what_came_within_delta_is_judged_though_something_else_was_lost(in_time: float, outcome: str) -> None:
    rows = [
        *points("lost_percent", "delta", {80: (0.04, 0.01)}),
        *points("in_time_ms_max", "delta", {80: (in_time, 0.0)}),
        *points("latency_ms_max", "delta", {80: (120.0, 0.0)}),
    ]
    found = sentence("merge-delta", "What is sent at r", rows)
    assert (found.outcome, found.seen.endswith("80: 120")) == (outcome, True)


def test_what_reached_a_merger_later_than_delta_is_no_matter_of_the_lemma() -> None:
    """Of three messages one came within ten ticks and waited, one came later, and one was not released at a merger."""
    columns = COLUMNS_OF[Kind.DELIVER]

    def delivered(node: int, number: int, at_ms: int, held_ms: int) -> tuple[Any, ...]:
        row: list[Any] = [None] * len(columns)
        event = columns.index(M_PID)
        row[event : event + 3] = [5, 1, number]
        for name, value in ((NODE, node), (T_TRUE, at_ms * MS), (HOLD_NS, held_ms * MS)):
            row[columns.index(name)] = value
        return tuple(row)

    trace: Any = type("Made", (), {"rows": {Kind.DELIVER: [
        delivered(MERGERS[0], 1, 15, 5), delivered(MERGERS[1], 2, 15, 4), delivered(5, 3, 12, 8),
    ]}})  # fmt: skip
    assert _in_time(trace, {(5, 1, number): 0 for number in (1, 2, 3)}, 10) == [15 * MS]


@pytest.mark.parametrize(("late", "outcome"), [(0.0, "holds"), (0.05, "not decided"), (0.9, "fails")])
def test_requests_that_wait_though_nobody_lost_too_many_witnesses_count_against_high_probability(
    late: float, outcome: str
) -> None:
    down = {0.1: (late, 0.0), 0.4: (late, 0.0)}
    rows = [
        *points("late_within_k", "down", down, used=0.5), *points("granted", "down", down, used=0.5),
        *points("granted_in_time", "down", dict.fromkeys(down, (1 - late, 0.0)), used=0.5),
        *points("beyond_k", "down", dict.fromkeys(down, (0.0, 0.0)), used=0.5),
    ]  # fmt: skip
    assert sentence("cluster-tickets", "Beyond the condition", rows).outcome == outcome
