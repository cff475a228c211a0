"""Input that cannot be used: `check`, `verify` on both engines, `metrics` and `report` name it, and none takes what is
left for all there was."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.check.living.living_worlds import living_world
from tests.check.trace_builder import TraceBuilder
from tests.pipeline.engines import measured_tables, merge_logs, verify
from tests.pipeline.test_lost_rows import stopped_in_order
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.cli.app import run
from whence.errors import TraceError, WhenceError
from whence.pipeline import api
from whence.pipeline.batch import merge_on
from whence.pipeline.events import find_input
from whence.pipeline.local.session import local_session
from whence.trace.layout import RUN_FILE
from whence.trace.memory import Trace
from whence.trace.schema import Kind
from whence.trace.writer import write_trace

Capture = pytest.CaptureFixture[str]


def rewrite(file: Path, change: Callable[[Any], Any]) -> None:
    pq.write_table(change(pq.ParquetFile(file).read()), file)


def without_a_value(directory: Path, kind: str, name: str) -> None:
    """Take the value of a column from the first row of a kind."""

    def change(table: Any) -> Any:
        values = [None, *table[name].to_pylist()[1:]]
        return table.set_column(
            table.schema.get_field_index(name), name, pa.array(values, table.schema.field(name).type)
        )

    rewrite(next((directory / f"kind={kind}").glob("*.parquet")), change)


def printed(capsys: Capture, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run a command with --json; return its exit code, its object, and what it said on standard error."""
    code = run([*arguments, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


LACKS: list[tuple[Trace, str, str]] = [
    *((stopped_in_order("r"), "deliver", name) for name in ("node", "ev", "m_seq")),
    (living_world(1, 30, strict=True, durable=False).trace, "view", "epoch"),
]


@pytest.mark.parametrize(("trace", "kind", "name"), LACKS)
def test_a_row_that_does_not_say_whose_it_is_makes_check_and_verify_exit_with_2(
    tmp_path: Path, capsys: Capture, trace: Trace, kind: str, name: str
) -> None:
    directory = write_trace(tmp_path, trace)
    without_a_value(directory, kind, name)
    code, told, err = printed(capsys, "check", str(directory))
    assert (code, "verdicts" in told) == (2, False)
    assert f"its column {name} must have a value in every row" in err
    code, told, err = printed(capsys, "verify", str(directory), "--engine", "local")
    assert (code, set(told["verdicts"].values()) & {"holds", "broken"}) == (2, set())
    assert [each["rows"] for each in told["set_aside"]] == [1]
    assert "(1 rows): rows without node, inc, ev" in err


def test_spark_sets_views_that_nobody_can_name_aside_as_the_local_engine_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    directory = write_trace(tmp_path, living_world(1, 30, strict=True, durable=False).trace)
    without_a_value(directory, "view", "epoch")
    assert [each.rows for each in verify(spark, [tmp_path]).set_aside] == [1]


def test_where_a_description_names_no_group_no_ticket_is_covered(spark: SparkSession, tmp_path: Path) -> None:
    made = TraceBuilder((0, 1), run_id="r", parameters={"promises": ["ticket_coverage"], "tickets": 2, "k": 1})
    made.phases()
    made.deliver(1, made.publish(0))
    made.trace.run.groups = {}
    (checked,) = judge(made.trace)
    (verified,) = verify(spark, [write_trace(tmp_path, made.trace)]).runs[0].verdicts
    assert (checked.outcome, checked.sentence) == (Outcome.VACUOUS, "the run has no tickets")
    assert (verified.outcome, verified.sentence) == (checked.outcome, checked.sentence)


def test_a_view_of_a_group_with_fixed_members_needs_no_epoch(tmp_path: Path, capsys: Capture) -> None:
    made = TraceBuilder((0, 1), run_id="r", parameters={"promises": ["integrity"]})
    made.deliver(1, made.publish(0))
    made.row(Kind.VIEW, 0, dests=(0, 1))
    directory = write_trace(tmp_path, made.trace)
    assert printed(capsys, "check", str(directory))[0] == 0
    assert printed(capsys, "verify", str(directory), "--engine", "local")[0] == 0


def test_a_description_of_another_run_than_its_directory_is_called_after_is_not_trusted(
    spark: SparkSession, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = write_trace(tmp_path, stopped_in_order("r"))
    described = json.loads((directory / RUN_FILE).read_text())
    (directory / RUN_FILE).write_text(json.dumps(described | {"run_id": "other"}))
    said = "describes the run 'other', and its directory is called run_id=r"
    with pytest.raises(TraceError, match=said):
        verify(spark, [tmp_path])
    monkeypatch.chdir(directory)
    for arguments in (["check", str(directory)], ["check", "."], ["verify", str(tmp_path), "--engine", "local"]):
        code, told, err = printed(capsys, *arguments)
        assert (code, "verdicts" in told) == (2, False)
        assert said in err


Change = Callable[[dict[str, Any]], dict[str, Any]]


def parameter(name: str, value: Any) -> Change:
    return lambda run: run | {"parameters": run["parameters"] | {name: value}}


BESIDE_THE_POINT: list[tuple[Change, str]] = [
    (lambda run: run | {"groups": {"g": [1 << 40]}}, "Expected `int` <= 2147483647 - at `$.groups["),
    (lambda run: run | {"rows": -5}, "Expected `int` >= 0 - at `$.rows`"),
    (lambda run: run | {"forgetful": [[1 << 40, 1]]}, "Expected `int` <= 2147483647 - at `$.forgetful["),
    (lambda run: run | {"phases": dict.fromkeys(("heal_at", "live_from", "live_until", "deadline_ns"), 1 << 62)},
     "Expected `int` <= 2305843009213693952 - at `$.phases."),
    (lambda run: run | {"epsilon": 1 << 60, "tick_ns": 1 << 60}, "is longer than any run"),
    (lambda run: run | {"reach_min": 7.5}, "Expected `float` <= 1.0 - at `$.reach_min`"),
    (parameter("drift_max", "x"), "its parameter drift_max is 'x'"),
    (parameter("ticket_round_ns", None), "its parameter ticket_round_ns is None"),
    (parameter("tickets", 1 << 40), "its parameter tickets is 1099511627776"),
    (parameter("promises", "fifo"), "its parameter promises is 'fifo' and must be a list of names"),
    (parameter("promises", ["fif"]), "no promise is called 'fif'; known are integrity, "),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), BESIDE_THE_POINT)
def test_a_description_with_values_that_no_run_has_is_refused_by_all_with_one_sentence(
    tmp_path: Path, capsys: Capture, change: Change, said: str
) -> None:
    directory = write_trace(tmp_path, stopped_in_order("r"))
    file, page = directory / RUN_FILE, ("--out", str(tmp_path / "page.html"))
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    local = ("--engine", "local")
    for arguments in (
        ["check"],
        ["verify", *local],
        ["metrics", "--out", str(tmp_path), *local],
        ["report", *page, *local],
    ):
        code, told, err = printed(capsys, arguments[0], str(directory), *arguments[1:])
        assert (code, "verdicts" in told) == (2, False)
        assert said in err


# --- metrics and report ---


def torn(directory: Path) -> None:
    file = next((directory / "kind=deliver").glob("*.parquet"))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def unfinished(directory: Path) -> None:
    (directory / RUN_FILE).unlink()


def removed(directory: Path) -> None:
    shutil.rmtree(directory / "kind=deliver")


def measured(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(out / "run_metrics").to_pylist()
    return rows


@pytest.mark.parametrize("damage", [torn, removed])
def test_what_a_run_lost_is_unknown_where_its_rows_are_missing(
    tmp_path: Path, capsys: Capture, damage: Callable[[Path], None]
) -> None:
    directory, out = write_trace(tmp_path / "traces", stopped_in_order("r")), str(tmp_path / "out")
    code, told, err = printed(capsys, "metrics", str(directory), "--out", out, "--engine", "local")
    assert (code, told["set_aside"], told["incomplete"], err) == (0, [], {}, "")
    assert [row["loss"] for row in measured(tmp_path / "out")] == [0]
    damage(directory)
    code, told, err = printed(capsys, "metrics", str(directory), "--out", out, "--engine", "local", "--overwrite")
    assert (code, list(told["incomplete"])) == (2, ["r"])
    assert "; its loss is unknown" in err
    assert [Path(each["path"]).name for each in told["set_aside"]] == (["part-00000.parquet"] if damage is torn else [])
    (row,) = measured(tmp_path / "out")
    assert (row["loss"], row["deliveries_expected"], row["owed_delivered"]) == (None, None, None)
    assert row["published"] == 30


def test_spark_does_not_know_what_was_lost_either(spark: SparkSession, tmp_path: Path) -> None:
    removed(write_trace(tmp_path, stopped_in_order("r")))
    lines = measured_tables(spark, find_input([tmp_path]))["run_metrics"]
    assert "'loss': None" in lines[-1]


def test_rows_that_were_missing_when_a_run_was_gathered_are_named_and_no_error(tmp_path: Path, capsys: Capture) -> None:
    made = TraceBuilder((0, 1), run_id="r")
    made.deliver(1, made.publish(0))
    made.row(Kind.NOTE, 0, reason="rows_lost", ev=9)
    code, told, _ = printed(
        capsys, "metrics", str(write_trace(tmp_path, made.trace)), "--out", str(tmp_path / "out"), "--engine", "local"
    )
    assert (code, list(told["incomplete"])) == (0, ["r"])


@pytest.mark.parametrize("damage", [torn, unfinished])
def test_a_page_is_written_about_the_rest_and_what_is_not_in_it_is_named(
    tmp_path: Path, capsys: Capture, damage: Callable[[Path], None]
) -> None:
    for name in ("good", "bad"):
        write_trace(tmp_path / "traces", stopped_in_order(name))
    page = tmp_path / "page.html"
    arguments = ("report", str(tmp_path / "traces"), "--out", str(page), "--engine", "local")
    assert printed(capsys, *arguments)[0] == 0
    damage(tmp_path / "traces" / "run_id=bad")
    page.unlink()
    code, told, err = printed(capsys, *arguments)
    assert (code, len(told["set_aside"])) == (2, 1)
    assert "run_id=bad" in told["set_aside"][0]["path"]
    assert err.startswith("whence: set aside: ")
    assert "good" in page.read_text(encoding="utf-8")


def test_a_second_run_of_one_name_is_named_by_metrics_and_report(tmp_path: Path, capsys: Capture) -> None:
    places = [
        str(write_trace(tmp_path / name, stopped_in_order("r", deaf=deaf))) for name, deaf in (("a", None), ("b", 1))
    ]
    for command in ("metrics", "report"):
        code, told, _ = printed(capsys, command, *places, "--out", str(tmp_path / command), "--engine", "local")
        assert (code, [each["path"] for each in told["set_aside"]]) == (2, places[1:])


# --- merge ---


def half_published(directory: Path) -> None:
    rewrite(next((directory / "kind=publish").glob("*.parquet")), lambda table: table.slice(0, len(table) // 2))


def refused_by_both(spark: SparkSession, logs: Path, out: Path) -> str:
    """Merge on both engines; return the sentence with which both refuse, and leave nothing."""

    def refused(session: SparkSession) -> str:
        with pytest.raises(WhenceError) as said:
            merge_on(session, logs, out, 0, {}, groups=None, by_group=True, strict=False)
        assert not list(out.glob("[!.]*"))
        return str(said.value)

    on_spark = refused(spark)
    with local_session() as local:
        assert refused(local) == on_spark
    return on_spark


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (half_published, "the trace is incomplete"),
        (unfinished, "the run did not finish"),
        (torn, "not a whole Parquet"),
    ],
)
def test_a_trace_that_lacks_rows_is_not_merged(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    directory = write_trace(tmp_path / "traces", stopped_in_order("r"))
    damage(directory)
    for logs in (tmp_path / "traces", directory / "kind=publish"):
        assert said in refused_by_both(spark, logs, tmp_path / "out")
    with pytest.raises(WhenceError, match=said):
        api.read_logs(spark, directory)
    shutil.copytree(directory / "kind=publish", tmp_path / "left")
    left = merge_logs(spark, tmp_path / "left", tmp_path / "merged", 1)
    assert left.rows == (15 if damage is half_published else 30), "what is left can be merged by itself"


def test_a_trace_whose_files_were_shipped_twice_is_merged(spark: SparkSession, tmp_path: Path) -> None:
    directory = write_trace(tmp_path / "traces", stopped_in_order("r"))
    file = next((directory / "kind=publish").glob("*.parquet"))
    shutil.copy(file, file.with_name("part-00001.parquet"))
    done = merge_logs(spark, tmp_path / "traces", tmp_path / "out", 1)
    assert (done.rows, done.twice) == (30, 30)


def test_a_trace_without_keys_and_true_time_says_how_to_gather_it(spark: SparkSession, tmp_path: Path) -> None:
    made = TraceBuilder((0, 1), run_id="r")
    for seq in (1, 2):
        made.row(Kind.PUBLISH, 0, t_true=None, m_pid=0, m_inc=1, m_seq=seq)
    said = refused_by_both(spark, write_trace(tmp_path, made.trace), tmp_path / "out")
    assert said.endswith("if all nodes ran on one machine, gather the trace with --one-clock")
