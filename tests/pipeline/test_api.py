"""The pipeline as functions, as notebooks use it: the notebook of the examples runs, and says what the commands say."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.test_stories import broken
from whence.errors import UsageError
from whence.pipeline import api
from whence.pipeline.frames import F
from whence.trace.writer import write_trace

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "pipeline.ipynb"


def run_cells(notebook: Path) -> dict[str, Any]:
    """Run the cells of a notebook one after the other, as a kernel does; return what they left."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), notebook.name, "exec"), names)
    return names


def test_the_notebook_of_the_examples_runs_from_its_first_cell_to_its_last(spark: SparkSession) -> None:
    left = run_cells(NOTEBOOK)
    assert {row["outcome"] for row in left["verdicts"]} <= {"holds", "vacuous", "unknown"}
    assert left["violations"] == 0
    assert {row["level"] for row in left["latency"]} == {"fifo", "total"}
    assert [row["pos"] for row in left["merged"]] == list(range(len(left["merged"])))
    assert left["merged"]


def test_what_is_broken_is_a_table_of_verdicts_and_one_of_witnesses(tmp_path: Path) -> None:
    write_trace(tmp_path, broken("one"))
    with api.local_session() as session:
        judged = api.verify(session, tmp_path, promises=["causal"])
        (verdict,) = judged.verdicts.collect()
        witnesses = judged.violations.orderBy("node", "evs").collect()
    assert (verdict["run_id"], verdict["promise"], verdict["outcome"]) == ("one", "causal", "broken")
    assert verdict["count"] == len(witnesses) > 0
    assert all(len(row["events"]) == 2 and row["sentence"] for row in witnesses)


def test_logs_are_read_on_spark_by_a_mapping_or_its_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "log.ndjson").write_text('{"who": 7, "seq": 1, "l": 5}')
    (tmp_path / "map.toml").write_text('pid = "who"')
    for mapping in ({"pid": "who"}, tmp_path / "map.toml", str(tmp_path / "map.toml")):
        (row,) = api.read_logs(spark, str(tmp_path / "log.ndjson"), mapping).collect()
        assert (row["pid"], row["reason"]) == (7, None)
    with pytest.raises(UsageError, match="cannot be read as TOML"):
        api.read_logs(spark, tmp_path / "log.ndjson", tmp_path / "nowhere.toml")
    with pytest.raises(UsageError, match="mapping must be a dictionary or the path of a mapping file, not 5"):
        api.read_logs(spark, tmp_path / "log.ndjson", cast(Any, 5))
    with api.local_session() as local, pytest.raises(UsageError, match="on Spark alone: give the session of"):
        api.read_logs(local, tmp_path / "log.ndjson")


def test_one_promise_may_be_given_by_its_name_alone(tmp_path: Path) -> None:
    write_trace(tmp_path, broken("one"))
    with api.local_session() as session:
        (verdict,) = api.verify(session, tmp_path, promises="causal").verdicts.collect()
    assert verdict["promise"] == "causal"


def test_what_is_no_session_no_place_and_no_table_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_trace(tmp_path, broken("one"))
    nothing: Any = None
    with api.local_session() as session:
        with pytest.raises(UsageError, match="a place must be a path or a URI, not ''"):
            api.read_trace(session, "")
        with pytest.raises(UsageError, match="not 5"):
            api.read_trace(session, cast(Any, 5))
    for no_session, said in ((session, "the session is closed"), (nothing, "must be a session of session()")):
        for ask in (api.read_trace, api.verify, api.read_logs):
            with pytest.raises(UsageError, match=re.escape(said)):
                ask(no_session, tmp_path)
        with pytest.raises(UsageError, match=re.escape(said)), api.metrics(no_session, tmp_path):
            pass
    with pytest.raises(UsageError, match="merge takes the rows that read_logs returns, not None"):
        api.merge(nothing)


def test_rows_of_a_trace_are_read_clean(tmp_path: Path) -> None:
    trace = broken("one")
    write_trace(tmp_path, trace)
    with api.local_session() as session:
        rows = api.read_trace(session, tmp_path)
        counts = {row["kind"]: row["rows"] for row in rows.groupBy("kind").agg(F.count("*").alias("rows")).collect()}
    assert counts == {kind.value: len(of_kind) for kind, of_kind in trace.rows.items() if of_kind}
