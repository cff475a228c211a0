"""Files of other writers: a column that is wider or narrower than ours holds the same values, for every reader."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.check.worlds import causal_world
from tests.pipeline.engines import verify
from whence.check.judge import judge
from whence.errors import TraceError
from whence.pipeline import events
from whence.pipeline.events import find_input
from whence.trace.reader import read_trace
from whence.trace.writer import write_trace

PROMISES = ["integrity", "no_duplicates", "fifo", "causal", "total_order"]


def retyped(file: Path, **kinds: pa.DataType) -> None:
    table = pq.read_table(file, partitioning=None)
    for name, kind in kinds.items():
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
    pq.write_table(table, file)


def drifted(directory: Path) -> Path:
    """A trace whose files disagree about the widths of numbers, and one of them with itself."""
    run = write_trace(directory, causal_world(3, 4, 60))
    (delivered,) = (run / "kind=deliver").glob("*.parquet")
    table = pq.read_table(delivered, partitioning=None)
    pq.write_table(table.slice(0, 10), delivered)
    pq.write_table(table.slice(10), delivered.with_name("part-00001.parquet"))
    retyped(delivered, node=pa.int64(), m_seq=pa.int32(), grp=pa.large_string())
    (published,) = (run / "kind=publish").glob("*.parquet")
    retyped(published, node=pa.int64(), ev=pa.int32(), dests=pa.list_(pa.int64()))
    return run


@pytest.mark.parametrize("files_read", [0, 64])
def test_drift_between_widths_changes_no_verdict(
    spark: SparkSession, tmp_path: Path, files_read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "FILES_READ", files_read)
    wanted = [(each.promise, each.outcome, each.count) for each in judge(causal_world(3, 4, 60), PROMISES)]
    run = drifted(tmp_path)
    assert [(each.promise, each.outcome, each.count) for each in judge(read_trace(run), PROMISES)] == wanted
    done = verify(spark, [tmp_path], PROMISES, certify=False)
    assert done.set_aside == []
    assert [(each.promise, each.outcome, each.count) for each in done.runs[0].verdicts] == wanted


def test_a_value_that_does_not_fit_is_named_with_its_file_and_column(tmp_path: Path) -> None:
    run = write_trace(tmp_path, causal_world(3, 4, 60))
    (file,) = (run / "kind=deliver").glob("*.parquet")
    table = pq.read_table(file, partitioning=None)
    wide = pa.array([2**40] * table.num_rows, pa.int64())
    pq.write_table(table.set_column(table.schema.get_field_index("node"), "node", wide), file)
    (aside,) = find_input([tmp_path]).set_aside
    assert aside.path == str(file)
    assert aside.reason.startswith("its column node is int64 and does not fit int32")
    with pytest.raises(TraceError, match=rf"{file.name} is not part of a trace: its column node is int64 and does not"):
        read_trace(run)
