"""Of two commands that write to one place, one is refused; and what a merge made is nobody's log."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.logs import made_log, write_files
from tests.pipeline.segments import LiveNode
from whence.cli.app import run
from whence.errors import StorageError, UsageError, WhenceError
from whence.pipeline import batch
from whence.pipeline.local import merging
from whence.pipeline.local.session import local_session
from whence.pipeline.logs import log_files
from whence.pipeline.metrics import write_metrics
from whence.pipeline.sole_writer import CLAIM, sole_writer
from whence.pipeline.storage import AnyPath, UriPath, entries
from whence.store.lock import locked_while
from whence.trace.layout import claim_name


def merge_here(logs: Path, out: Path) -> batch.MergeCounts:
    with local_session() as session:
        return merging.merge_here(session, logs, out)


def positions(out: Path) -> list[tuple[str, int]]:
    return [
        (file.parent.name, row["pos"])
        for file in out.glob("grp=*/*.parquet") for row in pq.ParquetFile(file).read(["pos"]).to_pylist()
    ]  # fmt: skip


def meanwhile(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, other: Callable[[], object]) -> list[str]:
    """Let another command begin just before one writes; return how it was refused."""
    refused: list[str] = []
    write = getattr(module, name)

    def with_another(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(module, name, write)
        with pytest.raises(WhenceError) as said:
            other()
        refused.append(str(said.value))
        return write(*given, **named)

    monkeypatch.setattr(module, name, with_another)
    return refused


def test_of_two_merges_into_one_directory_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "logs", made_log(1, events=30), 2, 0)
    out = tmp_path / "out"
    refused = meanwhile(monkeypatch, merging, "_write", lambda: merge_here(tmp_path / "logs", out))
    assert merge_here(tmp_path / "logs", out).rows == 30
    assert [sentence.split(" of this")[0].split(" in process")[0] for sentence in refused] == [
        f"--out: {out} is in use"
    ]
    assert len(positions(out)) == len(set(positions(out))) == 30
    assert CLAIM not in entries(out)


def test_of_two_merges_on_spark_one_is_refused_on_disk_and_behind_a_uri(
    spark: SparkSession, tmp_path: Path, mounted: UriPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "behind" / "logs", made_log(1, events=30), 2, 0)
    places: list[tuple[AnyPath, AnyPath]] = [
        (tmp_path / "behind" / "logs", tmp_path / "out"), (mounted / "logs", mounted / "out"),
    ]  # fmt: skip
    for logs, out in places:
        refused = meanwhile(monkeypatch, batch, "_write", lambda to=out, of=logs: batch.merge_logs(spark, of, to, 1))  # type: ignore[misc]
        assert batch.merge_logs(spark, logs, out, 1).rows == 30
        assert len(refused) == 1
        assert CLAIM not in entries(out)
    assert f"another command writes to {mounted / 'out'}" in refused[0]


def test_a_merge_that_was_killed_leaves_no_lock_on_disk_and_names_the_file_to_remove_behind_a_uri(
    tmp_path: Path, mounted: UriPath
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / CLAIM).write_text("4711\n")
    with sole_writer(tmp_path / "out"):
        pass
    assert entries(tmp_path / "out") == []
    with (
        sole_writer(mounted / "out"),
        pytest.raises(UsageError, match=r"if none does, remove viewfs://.*/out/\.lock"),
        sole_writer(mounted / "out"),
    ):
        pass
    with sole_writer(mounted / "out"):
        pass
    assert not (mounted / "out").exists()


def test_tables_and_gathered_runs_have_one_writer(tmp_path: Path) -> None:
    rule = "one command at a time writes"
    with sole_writer(tmp_path / "out"), pytest.raises(StorageError, match=rule):
        write_metrics(None, tmp_path / "out")  # type: ignore[arg-type]
    LiveNode(tmp_path / "live", 0).leave()
    gather = ["gather", str(tmp_path / "live"), "--out", str(tmp_path / "out")]
    with locked_while(tmp_path / "out" / claim_name("live"), "--out:", "wait"):
        assert run(gather) == 2
    assert run(gather) == 0


@pytest.mark.parametrize("where", ["logs/out", "."])
def test_logs_and_what_is_made_of_them_need_a_place_each(tmp_path: Path, where: str) -> None:
    write_files(tmp_path / "logs", made_log(1, events=9), 1, 0)
    with pytest.raises(UsageError, match="is within"):
        merge_here(tmp_path / "logs", tmp_path / where)
    assert [file.name for file in log_files(tmp_path / "logs")] == ["part-00000.parquet"]
    assert run(["merge", str(tmp_path / "logs"), "--out", str(tmp_path / where), "--engine", "local"]) == 2


@pytest.mark.parametrize("by_group", [True, False])
def test_what_a_merge_has_made_is_never_read_as_logs(tmp_path: Path, by_group: bool) -> None:
    rows = made_log(1, events=30)
    write_files(tmp_path / "logs", [*rows, *rows[:3]], 2, 0)
    with local_session() as session:
        done = merging.merge_here(session, tmp_path / "logs", tmp_path / "out", by_group=by_group)
    assert (done.rows, done.twice) == (30, 3)
    (tmp_path / "out").rename(tmp_path / "logs" / "out")
    with pytest.raises(UsageError, match=r"logs/out holds what a merge has made of logs"):
        merge_here(tmp_path / "logs", tmp_path / "again")
    assert not any("_twice" in str(file) for file in tmp_path.glob("again/**"))
