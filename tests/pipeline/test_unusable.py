"""Input that cannot be used: `check`, `verify` on both engines, `metrics` and `report` name it, and none takes what is
left for all there was."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.check.living.living_worlds import living_world
from tests.check.trace_builder import TraceBuilder
from tests.pipeline.engines import verify
from tests.pipeline.test_lost_rows import stopped_in_order
from whence.cli.app import run
from whence.errors import TraceError
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
