"""Figures: what panels and checks read, how sentences are judged, and what the catalogue must hold."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from whence.errors import UsageError
from whence.pipeline.experiments import planned
from whence_lab.figures import reproduce
from whence_lab.figures.bands import at_least, at_most, both, ratio, weighed
from whence_lab.figures.catalogue import ALL, FIGURES, chosen
from whence_lab.figures.data import Band, Data
from whence_lab.figures.figure import Check, Figure, Finding, Panel, Plan, grid
from whence_lab.figures.shapes import falls, logarithmic, rises, straight, through_origin
from whence_lab.figures.verdicts import Sentence, judged

MEASURED = ("mean", "low", "high", "least", "most", "runs")


def row(measure: str, mean: float, **config: Any) -> dict[str, Any]:
    """Return a row of points.parquet, its band one to either side."""
    band = (mean, mean - 1, mean + 1, mean - 2, mean + 2, 3)
    return {"config": json.dumps(config, sort_keys=True), "measure": measure, **dict(zip(MEASURED, band, strict=True))}


ROWS = [row("ms", 10.0 * n + k, n=n, kind=name) for n in (3, 1, 2) for k, name in enumerate("ab")]
DATA = Data(ROWS)


def figure(*checks: Check) -> Figure:
    """Return a figure with these checks."""
    plan = Plan(grid(n=[1, 2, 3], kind=["a", "b"]), 3)
    return Figure("f", "t", "J", "s", lambda config, seed: {}, plan, plan, [Panel("p", "n", "ms", "n", "ms")], checks)


def test_a_curve_has_the_points_of_its_configurations_by_rising_value() -> None:
    assert DATA.means("n", "ms", kind="b") == [(1, 11.0), (2, 21.0), (3, 31.0)]
    assert DATA.values("kind") == ["a", "b"]
    assert DATA.band("ms", n=2, kind="a") == Band(20.0, 19.0, 21.0, 18.0, 22.0, 3)
    assert DATA.means("n", "bytes", kind="b") == []


def test_a_value_that_no_configuration_or_several_have_is_no_answer() -> None:
    for only in ({"n": 2}, {"n": 9, "kind": "a"}):
        with pytest.raises(LookupError, match="configurations"):
            DATA.mean("ms", **only)


def test_bands_overlap_exactly_where_they_have_a_value_in_common() -> None:
    band = Band(2.0, 1.0, 3.0, 0.0, 4.0, 5)
    assert band.overlaps(Band(4.0, 3.0, 5.0, 2.0, 6.0, 5))
    assert not band.overlaps(Band(5.0, 3.1, 6.0, 3.0, 7.0, 5))


def test_a_line_explains_points_on_it_wholly_and_others_in_part() -> None:
    exact = straight([(1, 3.0), (2, 5.0), (4, 9.0)])
    assert (exact.slope, exact.offset, exact.r2) == pytest.approx((2.0, 1.0, 1.0))
    assert straight([(1, 0.0), (2, 1.0), (3, 0.0)]).r2 < 0.5
    assert logarithmic([(1, 1.0), (10, 2.0), (100, 3.0)]).r2 == pytest.approx(1.0)
    assert rises([(1, 1.0), (2, 2.0)])
    assert not rises([(1, 1.0), (2, 1.0)])
    assert falls([(1, 2.0), (2, 1.0)])


@pytest.mark.parametrize(
    ("holds", "known", "outcome"),
    [(True, "", "holds"), (False, "", "fails"), (False, "E20", "refuted"), (True, "E20", "fails")],
)
def test_a_sentence_known_to_be_wrong_must_not_hold_and_any_other_must(holds: bool, known: str, outcome: str) -> None:
    check = Check("it grows", "6", "more", lambda _: Finding(holds, "seen"), known)
    (sentence,) = judged(figure(check), DATA)
    assert (sentence.outcome, sentence.because) == (outcome, known)


@pytest.mark.parametrize("known", ["", "E20"])
@pytest.mark.parametrize(("size", "is_judged"), [({}, True), ({"n": 3}, True), ({"n": 4}, False), ({"m": 1}, False)])
def test_a_sentence_about_a_larger_system_than_was_run_is_not_judged(
    known: str, size: dict[str, int], is_judged: bool
) -> None:
    check = Check("it is far", "6", "more", lambda _: Finding(not known, "seen"), known, size)
    (sentence,) = judged(figure(check), DATA)
    assert sentence.outcome == (("refuted" if known else "holds") if is_judged else "not judged")
    assert ("runs were smaller" in sentence.seen) != is_judged


@pytest.mark.parametrize("known", ["", "E20"])
@pytest.mark.parametrize(
    "judge",
    [
        lambda data: Finding(data.mean("bytes", n=1, kind="a") > 0, ""),
        lambda data: Finding(all(band.most < 1 for _, band in data.curve("n", "bytes", kind="c")), ""),
    ],
)
def test_a_sentence_without_its_data_is_not_judged_and_is_not_as_documented(
    judge: Callable[[Data], Finding], known: str
) -> None:
    (sentence,) = judged(figure(Check("it grows", "6", "more", judge, known)), DATA)
    assert (sentence.outcome, sentence.has_data) == ("not judged", False)
    assert sentence.seen.startswith("not judged: ")


@pytest.mark.parametrize("known", ["", "E20"])
def test_a_sentence_of_which_nothing_happened_is_not_judged(known: str) -> None:
    (sentence,) = judged(figure(Check("it heals", "6", "soon", lambda _: Finding(None, "nothing broke"), known)), DATA)
    assert (sentence.outcome, sentence.has_data, sentence.seen) == ("not judged", True, "nothing broke")


@pytest.mark.parametrize(("kind", "outcome"), [("a", "not judged"), ("b", "holds")])
def test_a_sentence_is_not_judged_where_a_run_is_missing_that_it_is_judged_by(kind: str, outcome: str) -> None:
    """The runs that are there would do: only the plan tells that one is not."""
    data = Data(ROWS, {json.dumps({"kind": "a", "n": 2}): 1, json.dumps({"kind": "a", "n": 4}): 3})
    check = Check("it grows", "6", "more", lambda data: Finding(rises(data.means("n", "ms", kind=kind)), "seen"))
    (sentence,) = judged(figure(check), data)
    assert (sentence.outcome, sentence.has_data) == (outcome, outcome == "holds")
    assert ("4 runs" in sentence.seen) != (outcome == "holds")


def test_what_one_sentence_reads_is_not_held_against_another() -> None:
    data = Data(ROWS, {json.dumps({"kind": "a", "n": 2}): 1})
    checks = [
        Check("it grows", "6", "more", lambda data, kind=kind: Finding(rises(data.means("n", "ms", kind=kind)), "seen"))  # type: ignore[misc]
        for kind in "aba"
    ]
    assert [each.outcome for each in judged(figure(*checks), data)] == ["not judged", "holds", "not judged"]


def test_a_figure_is_as_documented_only_if_every_run_of_its_plan_has_a_result() -> None:
    whole: dict[str, Any] = {"planned": 2, "runs": 2, "errors": [], "sentences": []}
    told: dict[str, Any] = dict.fromkeys(("name", "title", "source", "settings", "kind", "version", "code", "data"), "")

    def made(**changed: Any) -> reproduce.Reproduced:
        return reproduce.Reproduced(**(told | whole | {"seed": 0, "files": []} | changed))

    short = Sentence("s", "6", "t", "seen", "not judged", has_data=False)
    assert made().as_documented
    assert not any(made(**wrong).as_documented for wrong in ({"runs": 1}, {"errors": ["e"]}, {"sentences": [short]}))


def test_missing_runs_are_counted_by_configuration_number_and_seed() -> None:
    plan = [("a", 0, 7), ("a", 1, 8), ("b", 0, 9), ("b", 1, 10)]
    came = [("a", 0, 7, None), ("a", 1, 9, None), ("b", 0, 9, "a bug"), ("b", 2, 10, None)]
    rows = [dict(zip(("config", "number", "seed", "error"), each, strict=True)) for each in came]
    assert reproduce.missing(plan, rows) == {"a": 1, "b": 2}
    assert reproduce.missing(plan, [dict(zip(("config", "number", "seed"), run), error=None) for run in plan]) == {}  # noqa: B905


def test_configurations_have_seeds_of_their_own_but_for_values_that_have_no_part_in_the_draw() -> None:
    configs = grid(nodes=[7, 15], f=[1, 2])
    own, shared = planned(configs, 2), planned(configs, 2, same_draw=("f",))
    assert [run[:2] for run in own] == [run[:2] for run in shared]
    assert len({seed for *_, seed in own}) == 8
    assert len({seed for *_, seed in shared}) == 4
    assert {seed for *_, seed in shared}.isdisjoint(seed for *_, seed in planned(configs, 2, 1, ("f",)))
    for config, number, seed in shared:
        assert seed == planned([{"nodes": json.loads(config)["nodes"]}], 2)[number][2]


@pytest.mark.parametrize(
    ("module", "matters"),
    [("whence.core.runner", True), ("whence_lab.experiments.tree_load", True),
     ("whence_lab.figures.tree_publishers", True), ("whence_lab.figures.tree_schemes", True),
     ("whence_lab.figures.tree_groups", False), ("whence_lab.figures.cluster_scale", False),
     ("whence_lab.figures.plots", False)],
)  # fmt: skip
def test_runs_are_of_the_source_that_measures_and_what_other_figures_need_does_not_matter(
    module: str, matters: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measure, real = FIGURES["tree-groups"].measure, reproduce._modules_of
    before = reproduce.source_digest(measure)
    changed = tmp_path / "changed.py"
    changed.write_bytes(real(module.partition(".")[0])[module].read_bytes() + b"\n")
    monkeypatch.setattr(
        reproduce, "_modules_of",
        lambda package: {name: changed if name == module else file for name, file in real(package).items()},
    )  # fmt: skip
    assert (reproduce.source_digest(measure) != before) == matters


def test_figures_are_chosen_by_name_each_once_and_all_by_all() -> None:
    first = next(iter(FIGURES))
    assert chosen([first, first]) == [FIGURES[first]]
    assert chosen([ALL]) == list(FIGURES.values())
    for names in ([], ["nothing"]):
        with pytest.raises(UsageError, match=first):
            chosen(names)


@pytest.mark.parametrize("each", FIGURES.values(), ids=lambda each: each.name)
def test_every_figure_says_what_decides_and_draws_what_it_measures(each: Figure) -> None:
    assert each.checks
    for check in each.checks:
        assert check.says
        assert check.where
        assert check.threshold
    for plan in (each.quick, each.full):
        assert len({json.dumps(config, sort_keys=True) for config in plan.configs}) == len(plan.configs)
        assert plan.seeds >= 1
        assert all(name in config for name in each.same_draw for config in plan.configs)
        for panel in each.panels:
            shown = [config for config in plan.configs if all(config.get(k) == v for k, v in panel.only.items())]
            assert any(panel.x in config for config in shown), panel.title


def test_a_threshold_within_a_band_decides_nothing() -> None:
    assert at_most([(0.0, 1.0), (0.5, 2.0)], 2.0) is True
    assert at_most([(0.0, 1.0), (1.5, 2.5)], 2.0) is None
    assert at_most([(1.5, 2.5), (2.1, 3.0)], 2.0) is False
    assert at_least([(1.0, 2.0)], 1.0) is True
    assert at_least([(0.5, 2.0)], 1.0) is None
    assert at_least([(0.5, 0.9)], 1.0) is False
    assert [both([True, each]) for each in (True, None, False)] == [True, None, False]
    assert both([None, False]) is False


def test_the_ratio_of_two_bands_is_what_both_allow() -> None:
    one, other = Band(2.0, 1.0, 3.0, 0.0, 4.0, 5), Band(5.0, 4.0, 6.0, 3.0, 7.0, 5)
    assert ratio(other, one) == (4 / 3, 6.0)
    assert ratio(one, Band(0.5, 0.0, 1.0, 0.0, 1.0, 5)) == (1.0, float("inf"))


@pytest.mark.parametrize("known", ["", "E20"])
@pytest.mark.parametrize("told", [True, False, None])
def test_a_sentence_that_bands_do_not_decide_is_not_decided_and_not_as_documented(
    told: bool | None, known: str
) -> None:
    (sentence,) = judged(figure(Check("it grows", "6", "more", lambda _: weighed(told, "seen"), known)), DATA)
    assert (sentence.outcome == "not decided") == (told is None)
    assert ("a band contains the threshold" in sentence.seen) == (told is None)


def test_a_line_through_the_origin_explains_what_is_in_proportion_and_little_of_a_constant_with_a_slope() -> None:
    assert through_origin([(1, 2.0), (2, 4.0), (4, 8.0)]).r2 == pytest.approx(1.0)
    assert through_origin([(1, 11.0), (2, 12.0), (4, 14.0)]).r2 < 0


def points(measure: str, along: str, curve: Mapping[Any, float], **config: Any) -> list[dict[str, Any]]:
    """Return rows of points.parquet without spread."""
    return [
        {**row(measure, y, **config, **{along: x}), **dict.fromkeys(("mean", "low", "high", "least", "most"), y)}
        for x, y in curve.items()
    ]


def outcome_of(name: str, says: str, rows: list[dict[str, Any]]) -> str:
    """Return the outcome of a sentence of a figure, with made data."""
    checks = [check for check in FIGURES[name].checks if says in check.says]
    assert len(checks) == 1, says
    (sentence,) = judged(FIGURES[name]._replace(checks=checks), Data(rows))
    return sentence.outcome


def test_growth_as_a_logarithm_is_not_linear_though_a_line_explains_nearly_all_of_it() -> None:
    def grown(curve: Mapping[int, float]) -> str:
        return outcome_of(
            "cluster-scale", "latency grows linearly", points("latency_ms", "members", curve, updaters="all")
        )

    assert grown({25: 10.0, 75: 30.0, 125: 50.0}) == "holds"
    assert grown({25: 19.8, 75: 28.8, 125: 34.9}) == "fails"


@pytest.mark.parametrize(("large", "outcome"), [(1.1, "fails"), (0.9, "holds"), (0.6, "fails")])
def test_messages_that_shrink_by_more_than_a_quarter_do_not_shrink_a_little(large: float, outcome: str) -> None:
    rows = [row for n in ("5", "25") for row in points("message_bytes", "members", {25: 1.0, 125: large}, updaters=n)]
    assert outcome_of("cluster-scale", "shrink a little", rows) == outcome


def test_recovery_that_takes_as_long_whatever_epsilon_is_is_not_in_proportion() -> None:
    def grown(by_epsilon: Mapping[int, float], by_delta: Mapping[int, float]) -> str:
        rows = [
            row
            for order in ("kn", "hlc")
            for row in (
                *points("worst_stream", "epsilon", by_epsilon, order=order, delta=6),
                *points("worst_stream", "delta", by_delta, order=order, epsilon=3),
            )
        ]
        return outcome_of("merge-recovery", "grows in proportion", rows)

    rising: dict[int, float] = {2: 12.0, 4: 24.0, 8: 48.0}
    assert grown(rising, {0: 5.0, **rising}) == "holds"
    assert grown(rising, {0: 9.0, 2: 9.0, 4: 9.0}) == "fails"
    assert grown({2: 9.0, 4: 9.0, 8: 9.0}, rising) == "fails"


@pytest.mark.parametrize(("first", "outcome"), [(0.0, "not judged"), (0.01, "refuted")])
def test_nothing_is_said_of_how_r4_succeeds_where_it_asks_for_nothing(first: float, outcome: str) -> None:
    rows = [
        *points("asked_per_delivery", "events_per_round", {1: first, 12.5: 0.1}, scheme="R4"),
        *points("success_percent", "events_per_round", {1: 99.0, 12.5: 100.0}, scheme="R4"),
    ]
    assert outcome_of("cluster-recovery", "unexpectedly low", rows) == outcome


PANEL_B: dict[str, Any] = {"panel": "publishers"}


@pytest.mark.parametrize(
    ("says", "locamu", "other", "outcome"),
    [
        ("saturated much more quickly", {1: 9.5, 8: 10.0}, {1: 1.0, 4: 4.0, 8: 8.0}, "fails"),
        ("saturated much more quickly", {1: 9.5, 20: 10.0}, {1: 1.0, 4: 4.0, 20: 20.0}, "holds"),
        ("much higher aggregated", {1: 10.0, 20: 10.0}, {1: 1.0, 20: 20.0}, "fails"),
        ("much higher aggregated", {1: 10.0, 20: 10.0}, {1: 1.0, 20: 21.0}, "holds"),
    ],
)
def test_much_in_a_sentence_of_figure_5_1_is_more_than_some(
    says: str, locamu: Mapping[int, float], other: Mapping[int, float], outcome: str
) -> None:
    rows = [
        *points("aggregated", "publishers", locamu, scheme="causal, thesis coding", **PANEL_B),
        *points("aggregated", "publishers", other, scheme="neighbourhood", **PANEL_B),
    ]
    assert outcome_of("tree-localized", says, rows) == outcome


@pytest.mark.parametrize(("cbcast", "outcome"), [(100.0, "holds"), (80.0, "fails")])
def test_a_latency_that_slows_another_causal_protocol_is_no_matter_of_delta_neighbourhood_alone(
    cbcast: float, outcome: str
) -> None:
    curves = {"causal, thesis coding": 100.0, "cbcast": cbcast, "barriers": 100.0, "neighbourhood": 50.0}
    rows = [
        row
        for scheme, slow in curves.items()
        for row in points("individual", "latency_ms", {1: 100.0, 4: slow}, scheme=scheme, panel="latency")
    ]
    assert outcome_of("tree-localized", "The latency of links", rows) == outcome


@pytest.mark.parametrize(
    ("barriers", "outcome"),
    [(10.0, "holds"), (100.0, "not judged"), (30.0, "holds"), (200.0, "fails"), (0.5, "fails")],
)
def test_metadata_is_the_main_cause_if_bytes_explain_more_of_a_factor_than_they_leave(
    barriers: float, outcome: str
) -> None:
    """Copies of ten times the bytes: a tenth of the deliveries is explained wholly, a third half, neither twice nor a
    two-hundredth of them."""
    carried = {"causal, thesis coding": (100.0, 68.0), "cbcast": (100.0, 68.0), "barriers": (barriers, 968.0)}
    rows = [
        row
        for scheme, (rate, size) in carried.items()
        for wires in ("wide", "narrow")
        for name, value in (("aggregated", rate), ("metadata_bytes", size))
        for row in points(name, "publishers", {127: value}, scheme=scheme, wires=wires, groups="subtrees")
    ]
    assert outcome_of("tree-groups", "mainly caused", rows) == outcome


@pytest.mark.parametrize(("large", "outcome"), [(80.0, "holds"), (35.0, "fails")])
def test_compression_that_a_larger_tree_does_not_harm_is_efficient_there(large: float, outcome: str) -> None:
    names: dict[str, Any] = {"scheme": "cbcast", "groups": "all", "publishers": 31}
    rows = [
        *points("metadata_bytes", "nodes", {31: 40.0, 63: 60.0}, wires="wide, smaller trees", **names),
        *points("metadata_bytes", "nodes", {127: large}, wires="wide", **names),
    ]
    assert outcome_of("tree-causal", "very large system", rows) == outcome


@pytest.mark.parametrize(("at_most", "outcome"), [(0.1, "holds"), (6.0, "fails")])
def test_a_layer_that_saves_as_much_under_low_load_does_not_save_it_above_all_under_high(
    at_most: float, outcome: str
) -> None:
    rows = [
        *points("loss_percent", "events_per_round", {1: at_most, 12: 5.0}, scheme="gossip only"),
        *points("loss_percent", "events_per_round", {1: 0.0, 12: 1.0}, scheme="no recovery"),
    ]
    assert outcome_of("cluster-recovery", "causality layer significantly reduces", rows) == outcome


@pytest.mark.parametrize(("many", "outcome"), [(30.0, "holds"), (40.0, "fails")])
def test_stamps_in_proportion_to_the_processes_do_not_grow_logarithmically(many: float, outcome: str) -> None:
    rows = [
        *points("bits", "n", {2: 10.0, 26: many}, epsilon=4, delta=6),
        *points("bits", "delta", {1: 10.0, 4: 12.0}, epsilon=4, n=3),
    ]
    assert outcome_of("merge-stamps", "logarithmically in the number", rows) == outcome
