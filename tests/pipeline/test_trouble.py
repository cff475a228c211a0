"""A full disk, a wrong schema, an empty directory: one clear sentence, and nothing left that a reader would trust."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.check.worlds import causal_world
from tests.pipeline.engines import verify
from tests.pipeline.logs import in_order, made_log, write_files
from whence.errors import TraceError, UsageError
from whence.pipeline.batch import merge_logs, merge_on
from whence.pipeline.events import find_input, read_events
from whence.pipeline.local.session import local_session
from whence.pipeline.log_reader import read_logs
from whence.pipeline.manifest import committed_steps, read_released
from whence.pipeline.merge import events_of_groups, write_merged
from whence.pipeline.metrics import Measures, write_metrics
from whence.pipeline.report import write_page
from whence.pipeline.stream import run_stream
from whence.pipeline.stream_step import Rules
from whence.pipeline.sweep import run_sweep, seed_of
from whence.trace.writer import write_trace


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own with a few kilobytes left; where this user may not make one, the test is left out."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True)
    if made.returncode:
        pytest.skip("only root may mount a small disk")
    try:
        (disk / "ballast").write_bytes(bytes(40 << 10))
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_merge_that_does_not_fit_leaves_nothing(spark: SparkSession, tmp_path: Path, full_disk: Path) -> None:
    write_files(tmp_path / "logs", made_log(1, events=3000), 1, 0)
    log = events_of_groups(read_logs(spark, tmp_path / "logs"), None)
    with pytest.raises(UsageError, match=r"could not be written and was removed: .*") as said:
        write_merged(log, full_disk / "out", 1, by_group=True)
    assert "\n" not in str(said.value)
    assert not (full_disk / "out").exists()


def test_a_merge_here_that_does_not_fit_names_the_place_it_was_written_to(tmp_path: Path, full_disk: Path) -> None:
    write_files(tmp_path / "logs", made_log(1, events=3000), 1, 0)
    with (
        local_session() as local,
        pytest.raises(UsageError, match=r"^--out: .*/out could not be written and was removed"),
    ):
        merge_on(local, tmp_path / "logs", full_disk / "out", 0, {}, groups=None, by_group=True, strict=False)
    assert not (full_disk / "out").exists()


def test_a_rejected_row_that_is_cut_short_shows_that_it_is(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "logs", [row | {"l": None, "payload": b"x" * 300} for row in made_log(1, events=3)], 1, 0)
    with pytest.raises(UsageError, match=r"none of the 3 rows .* …$"):
        merge_logs(spark, tmp_path / "logs", tmp_path / "out", 1)


def test_a_stream_that_does_not_fit_goes_on_when_there_is_room(
    spark: SparkSession, tmp_path: Path, full_disk: Path
) -> None:
    """Steps without a manifest are not trusted; with the ballast gone, every row is released once and in order."""
    rows = made_log(2, events=300)
    write_files(tmp_path / "logs", rows, 2, 20)
    rules = Rules(epsilon=5, delta=20)

    def streamed() -> None:
        where = tmp_path / "logs", full_disk / "out", full_disk / "work"
        run_stream(spark, *where, rules, {}, once=True, flush=True, files_per_batch=1)

    with pytest.raises(UsageError, match="can be started again"):
        streamed()
    done = committed_steps(full_disk / "out")
    if not done:
        with pytest.raises(UsageError, match="holds no released rows yet"):
            read_released(spark, full_disk / "out")
    subprocess.run(["mount", "-o", "remount,size=4m", str(full_disk)], check=True)
    streamed()
    got = read_released(spark, full_disk / "out").collect()
    assert sorted((row["grp"], row["pos"], bytes(row["payload"])) for row in got) == in_order(rows)


def test_tables_pages_and_sweeps_that_do_not_fit_are_not_trusted(
    spark: SparkSession, tmp_path: Path, full_disk: Path
) -> None:
    write_trace(tmp_path / "traces", causal_world(1, 3, 20))
    (full_disk / "more ballast").write_bytes(bytes(20 << 10))
    tables = Measures(read_events(spark, find_input([tmp_path / "traces"])))
    with pytest.raises(UsageError, match="could not be written and was removed"):
        write_metrics(tables, full_disk / "metrics")
    assert not (full_disk / "metrics" / "run_metrics").exists()
    with pytest.raises(UsageError, match="cannot be written"):
        write_page(full_disk / "report.html", "words " * 10_000)
    assert not list(full_disk.glob("*report*"))
    config = '{"events": 5, "faults": "none", "level": "fifo", "nodes": 3}'
    with pytest.raises(UsageError, match="--resume goes on"):
        run_sweep(spark, [(config, 0, seed_of(config, 0))], full_disk / "sweep", resume=False)
    assert not list(full_disk.rglob("_SUCCESS"))


def test_a_page_that_may_not_be_written_is_named_by_its_option(full_disk: Path) -> None:
    if subprocess.run(["mount", "-o", "remount,ro", str(full_disk)], capture_output=True).returncode:
        pytest.skip("a disk may not be made read-only")
    with pytest.raises(UsageError, match=r"^--out: \S+/page.html cannot be written: Read-only file system$"):
        write_page(full_disk / "page.html", "words")


def test_a_wrong_schema_is_named_by_its_column(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row | {"l": f"at {row['l']}"} for row in made_log(3, events=20)]
    write_files(tmp_path / "logs", rows, 1, 0)
    with pytest.raises(UsageError, match=r"none of the 20 rows .*row 1: l is at 1.*, no whole number") as said:
        merge_logs(spark, tmp_path / "logs", tmp_path / "out", 1)
    assert "\n" not in str(said.value)
    assert not (tmp_path / "out").exists()
    run = write_trace(tmp_path / "traces", causal_world(1, 3, 20))
    file = next((run / "kind=deliver").glob("*.parquet"))
    table = pq.read_table(file, partitioning=None)
    pq.write_table(table.set_column(table.schema.get_field_index("ev"), "ev", table["ev"].cast(pa.string())), file)
    (set_aside,) = find_input([tmp_path / "traces"]).set_aside
    assert set_aside.reason == "its column ev is string and must be int64"


def test_an_empty_directory_and_a_bad_run_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no \.parquet"):
        run_stream(spark, tmp_path, tmp_path / "out", tmp_path / "work", Rules(), {}, once=True, flush=False)
    (tmp_path / "run_id=x").mkdir()
    with pytest.raises(TraceError, match="did not finish"):
        verify(spark, [tmp_path])
