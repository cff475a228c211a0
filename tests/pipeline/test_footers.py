"""Law: what a footer tells spares reading, and changes no row: files with and without it are read as the same."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from whence.pipeline.footers import ranges_of_numbers
from whence.pipeline.log_reader import read_logs
from whence.pipeline.logs import FILE, LOG, REASON

COLUMNS = {"pid": pa.int64(), "inc": pa.int32(), "seq": pa.int64(), "l": pa.int64(), "r": pa.int64(), "k": pa.int32()}
KEYS = {"k_hi": pa.int64(), "k_mid": pa.int64(), "k_lo": pa.int64()}


def a_log(seed: int) -> pa.Table:
    """Return the log of some publisher: some columns may lack, and in every second log something is wrong."""
    draw = Random(seed)
    kinds = {name: kind for name, kind in COLUMNS.items() if name in ("pid", "seq", "l") or draw.random() < 0.6}
    kinds |= KEYS if draw.random() < 0.4 else {}
    rows: list[dict[str, int | str | None]] = [{name: draw.randrange(1, 1 << 15) for name in kinds} for _ in range(50)]
    if draw.random() < 0.5:
        draw.choice(rows)[draw.choice(sorted(kinds))] = draw.choice([None, -1])
    named = [row | {"grp": draw.choice(["a", "b", "", "n\0", "x" * 201, None])} for row in rows]
    has_groups = draw.random() < 0.7
    fields = [pa.field(name, kind) for name, kind in kinds.items()] + [pa.field("grp", pa.string())] * has_groups
    return pa.Table.from_pylist(named if has_groups else rows, schema=pa.schema(fields))


@pytest.mark.parametrize("seed", range(8))
def test_rows_are_the_same_whether_footers_tell_of_them_or_not(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    table = a_log(seed)
    read = {}
    for name, has_ranges in (("with", True), ("without", False)):
        (tmp_path / name).mkdir()
        file = tmp_path / name / "log.parquet"
        pq.write_table(table, file, write_statistics=has_ranges, row_group_size=20)
        assert has_ranges or ranges_of_numbers(pq.read_metadata(file)) is None
        rows = read_logs(spark, tmp_path / name).select(*LOG, "row", "raw", REASON).collect()
        read[name] = sorted(map(repr, rows))
    assert read["with"] == read["without"]
    assert FILE not in LOG


@pytest.mark.parametrize(
    ("column", "wrong"), [("seq", None), ("l", -1), ("pid", -1), ("inc", None), ("k", 1 << 20), ("seq", 1 << 40)]
)
def test_a_footer_does_not_suffice_if_it_shows_a_number_that_is_missing_or_out_of_range(
    tmp_path: Path, column: str, wrong: int | None
) -> None:
    kinds = COLUMNS | {"grp": pa.string()}
    rows = [dict.fromkeys(COLUMNS, 7) | {"grp": "a"} for _ in range(10)]
    schema = pa.schema(kinds.items())
    file = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)
    assert ranges_of_numbers(pq.read_metadata(file)) is not None
    pq.write_table(pa.Table.from_pylist([*rows, rows[0] | {column: wrong}], schema=schema), file)
    assert ranges_of_numbers(pq.read_metadata(file)) is None
