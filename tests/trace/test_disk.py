"""Traces on disk: what is read is what was written, and anything else is one clear sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.check.trace_builder import TraceBuilder
from tests.check.worlds import any_world, copy
from whence.errors import TraceError, UsageError
from whence.trace.layout import LIMITS, SCHEMA, TYPES
from whence.trace.memory import Phases, Row, Trace, digest_of
from whence.trace.reader import read_trace
from whence.trace.schema import COLUMNS, COLUMNS_OF, EV, GRP, INC, M_INC, M_PID, M_SEQ, NODE, Kind
from whence.trace.writer import TraceWriter, write_trace

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
EVENT_ID = st.tuples(st.integers(0, 2**15), st.integers(0, 2**31 - 1), st.integers(0, 2**40))
VALUES: dict[str, st.SearchStrategy[Any]] = (
    {name: INT if TYPES[name] == pa.int32() else TEXT if TYPES[name] == pa.string() else LONG for name in COLUMNS}
    | {name: st.integers(*limits) for name, limits in LIMITS.items()}
    | {
        "payload": st.binary(max_size=8),
        "dests": st.lists(st.integers(0, 2**15), max_size=4).map(tuple),
        "ids": st.lists(EVENT_ID, max_size=3).map(tuple),
    }
)


def rows_of(kind: Kind) -> st.SearchStrategy[Row]:
    needed = [NODE, INC, EV, *([GRP, M_PID, M_INC, M_SEQ] if kind in (Kind.PUBLISH, Kind.DELIVER) else [])]
    columns = [VALUES[name] if name in needed else st.none() | VALUES[name] for name in COLUMNS_OF[kind]]
    return st.tuples(*columns)


@given(st.data())
@settings(max_examples=40)
def test_what_is_read_is_what_was_written(data: st.DataObject) -> None:
    """Any rows of any kind, in order, and the run that they tell of."""
    trace = TraceBuilder().trace
    for kind in data.draw(st.lists(st.sampled_from(list(Kind)), max_size=4, unique=True)):
        trace.rows[kind] = data.draw(st.lists(rows_of(kind), max_size=3))
    with TemporaryDirectory() as directory:
        read = read_trace(write_trace(directory, trace))
    assert read.rows == trace.rows
    assert read.run == trace.run
    assert read.run.digest == digest_of(read) == digest_of(trace)


def test_a_run_keeps_its_whole_description(tmp_path: Path) -> None:
    phases = Phases(heal_at=1, live_from=2, live_until=3, deadline_ns=4)
    builder = TraceBuilder(
        phases=phases, parameters={"fanout": 4, "nested": {"a": [1.5, None]}}, durable=True, reach_min=0.995
    )
    assert read_trace(write_trace(tmp_path, builder.trace)).run == builder.trace.run


def test_writing_in_chunks_gives_the_same_trace(tmp_path: Path) -> None:
    """The driver drains now and then; rows, order and fingerprint are those of the whole."""
    whole = any_world(1, 4, 200)
    growing = Trace(whole.run)
    writer = TraceWriter(tmp_path, growing.run, chunk_rows=7)
    for kind, rows in whole.rows.items():
        for row in rows:
            growing.rows[kind].append(row)
            writer.drain(growing)
            assert len(growing.rows[kind]) < 7
    assert writer.close(growing) == digest_of(whole)
    read = read_trace(tmp_path)
    assert read.rows == whole.rows
    assert len(list(tmp_path.rglob("kind=deliver/*.parquet"))) > 3


def test_every_file_has_all_columns_with_their_types(tmp_path: Path) -> None:
    run = write_trace(tmp_path, any_world(1, 4, 60))
    for file in run.glob("kind=*/*.parquet"):
        assert pq.read_schema(file) == SCHEMA
        assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"


def test_writing_a_trace_leaves_it_as_it_was(tmp_path: Path) -> None:
    trace = any_world(1, 3, 40)
    before = copy(trace)
    write_trace(tmp_path, trace)
    assert trace.rows == before.rows


def test_a_run_written_again_replaces_what_was_there(tmp_path: Path) -> None:
    write_trace(tmp_path, any_world(1, 4, 200))
    second = any_world(2, 3, 10)
    write_trace(tmp_path, second)
    assert read_trace(tmp_path).rows == second.rows


def test_membership_lists_every_stay_with_the_rows_that_end_it(tmp_path: Path) -> None:
    builder = TraceBuilder(founders=[0, 1])
    builder.row(Kind.JOIN, 0)  # a founder's own word adds nothing
    builder.publish(1)
    builder.crash(1)
    builder.restart(1)
    builder.row(Kind.JOIN, 1)
    builder.row(Kind.JOIN, 2)
    builder.row(Kind.LEAVE, 2)
    table = pq.read_table(write_trace(tmp_path, builder.trace) / "membership" / "part-00000.parquet", partitioning=None)
    assert [tuple(row.values())[1:] for row in table.to_pylist()] == [
        ("g", 0, 1, None, None),
        ("g", 1, 1, None, 1),
        ("g", 1, 2, 1, None),
        ("g", 2, 1, 0, 1),
    ]


def test_a_run_whose_name_is_no_plain_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="run_id may have letters"):
        TraceWriter(tmp_path, TraceBuilder(run_id="../elsewhere").trace.run)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(TraceError, match=r"file/run_id=by-hand cannot be written: Not a directory"):
        write_trace(file, TraceBuilder().trace)


# --- what is no trace ---


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A written run of one small trace."""
    return write_trace(tmp_path, any_world(3, 3, 60))


def refusal(path: Path) -> str:
    """Return the sentence with which a path is refused: one line, no more."""
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def a_file(run: Path) -> Path:
    return run / "kind=deliver" / "part-00000.parquet"


def rewrite(file: Path, change: Callable[[Any], Any]) -> None:
    pq.write_table(change(pq.read_table(file, partitioning=None)), file)


def test_a_path_that_is_no_trace_is_refused_by_what_is_wrong_with_it(run: Path, tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "nowhere")
    assert "is not a directory" in refusal(a_file(run))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "holds no run.json" in refusal(empty)


def test_a_directory_of_several_runs_asks_for_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_trace(tmp_path, TraceBuilder(run_id=name).trace)
    assert "holds 2 runs; give the directory of one, such as" in refusal(tmp_path)


def test_a_run_that_did_not_finish_is_refused(run: Path) -> None:
    (run / "run.json").unlink()
    assert "run.json is missing" in refusal(run.parent)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"run_id": 1}', "\x00", "[" * 100_000])
def test_a_description_that_is_none_is_refused(run: Path, text: str) -> None:
    (run / "run.json").write_text(text)
    assert "run.json is not the description of a run" in refusal(run)


def test_a_description_lacking_a_field_names_it(run: Path) -> None:
    described = json.loads((run / "run.json").read_text())
    del described["level"]
    (run / "run.json").write_text(json.dumps(described))
    assert "`level`" in refusal(run)


def test_a_file_without_a_column_names_the_column(run: Path) -> None:
    rewrite(a_file(run), lambda table: table.drop_columns(["m_seq"]))
    assert "lacks the column m_seq" in refusal(run)


@pytest.mark.parametrize(("name", "foreign"), [("m_seq", "x"), ("grp", 3), ("payload", 1.5), ("ev", [1])])
def test_a_column_of_another_type_is_refused(run: Path, name: str, foreign: object) -> None:
    def change(table: Any) -> Any:
        return table.set_column(table.schema.get_field_index(name), name, pa.array([foreign] * len(table)))

    rewrite(a_file(run), change)
    assert f"its column {name} is" in refusal(run)


def test_a_row_of_nobody_is_refused(run: Path) -> None:
    def change(table: Any) -> Any:
        return table.set_column(0, NODE, pa.array([None] * len(table), pa.int32()))

    rewrite(a_file(run), change)
    assert "node must have a value in every row" in refusal(run)


def test_columns_we_do_not_know_and_other_widths_are_fine(run: Path) -> None:
    """Spark writes wider lists and strings, and later versions more columns."""
    before = read_trace(run).rows

    def change(table: Any) -> Any:
        wider = table.set_column(0, NODE, table.column(NODE).cast(pa.int64()))
        wider = wider.set_column(5, GRP, wider.column(GRP).cast(pa.large_string()))
        return wider.append_column("mood", pa.array(["fine"] * len(table)))

    rewrite(a_file(run), change)
    (run / "kind=deliver" / ".part-00001.parquet.unfinished").write_bytes(b"half")
    (run / "kind=deliver" / "_part-00002.parquet").write_bytes(b"foreign")
    assert read_trace(run).rows == before


def test_a_trace_cut_off_anywhere_is_refused(run: Path) -> None:
    whole = a_file(run).read_bytes()
    rng = Random(1)
    for _ in range(150):
        a_file(run).write_bytes(whole[: rng.randrange(len(whole))])
        assert str(a_file(run)) in refusal(run)


def test_bytes_changed_anywhere_are_refused_or_harmless(run: Path, long_mode: bool) -> None:
    """Nothing but TraceError ever comes out of a damaged file, and pages that differ are never taken for whole."""
    whole, before = a_file(run).read_bytes(), read_trace(run).rows
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    rng = Random(2)
    for _ in range(20_000 if long_mode else 600):
        damaged = bytearray(whole)
        place = rng.randrange(len(whole))
        damaged[place] ^= rng.randint(1, 255)
        a_file(run).write_bytes(damaged)
        try:
            read = read_trace(run)
        except TraceError:
            continue
        assert place >= footer or read.rows == before
