"""The batch merge on the local engine, for plain logs: those of which every row has a place in the order.

The result is that of batch.py on Spark: the same rows, keys and positions, and the same directories. A log is plain if
numbers are whole numbers in it, texts are texts, publishers have numbers, and no row lacks anything or is out of its
range. Whatever else there may be, mappings, names, numbers as text, torn lines, is refused by name: Spark reads it, and
says of every row that it rejects why.
"""

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from whence.errors import InternalError, UsageError, WhenceError
from whence.pipeline.batch import TWICE_TO, MergeCounts, check_groups
from whence.pipeline.deduplication import duplicate_blocks, split_duplicates
from whence.pipeline.local.column import as_sql
from whence.pipeline.local.errors import NotLocal
from whence.pipeline.local.frame import DataFrame, write_part
from whence.pipeline.local.types import quoted
from whence.pipeline.logs import (
    BITS_OF,
    DONE,
    GRP,
    HEARTBEAT,
    INC,
    INC_BITS,
    K_BITS,
    K_HI,
    K_LO,
    K_MID,
    KEY,
    KIND,
    LOG,
    ORDER,
    PAYLOAD,
    PID,
    PID_BITS,
    POS,
    PUBLISHER,
    SEQ,
    SEQ_BITS,
    K,
    L,
    R,
    check_apart,
    is_parquet,
    log_files,
)
from whence.pipeline.merge import new_directory
from whence.pipeline.rejected import lines_of
from whence.pipeline.session import first_line
from whence.pipeline.whole_trace import check_whole

_NUMBERS: Final = (PID, INC, SEQ, R, L, K, *KEY)
_TEXTS: Final = (GRP, KIND)
_ROWS_PER_TABLE: Final = 100_000
_ESCAPED: Final = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
"""What Spark writes as three characters in the name of a directory."""
_NO_GROUP: Final = "__HIVE_DEFAULT_PARTITION__"
GRP_BYTES_MAX: Final = 200


def merge_here(
    session: Any, logs: Path, out: Path, *, groups: Sequence[str] | None = None, by_group: bool = True
) -> MergeCounts:
    """Merge plain logs below a path into a new directory. Raises UsageError and TraceError; of what is not plain,
    NotLocal."""
    check_apart(logs, out)
    with new_directory(out):
        try:
            done = _merged(session, logs, out, groups, by_group=by_group)
        except WhenceError:
            raise
        except _NotWritten as error:
            shutil.rmtree(out, ignore_errors=True)
            raise UsageError(f"--out: {out} could not be written and was removed: {error}") from error
        except Exception as error:
            shutil.rmtree(out, ignore_errors=True)
            raise UsageError(f"LOGS: {logs} cannot be merged: {first_line(error)}") from error
        if not done.is_balanced:
            shutil.rmtree(out, ignore_errors=True)
            raise InternalError(f"the merge does not balance and was removed: {done}")
        (out / DONE).touch()
    return done


class _NotWritten(Exception):
    """The disk did not take what was merged; the text says why."""


@contextmanager
def _writing() -> Iterator[None]:
    """Tell what goes wrong with the disk within the block from what goes wrong with logs."""
    try:
        yield
    except OSError as error:
        raise _NotWritten(error.strerror or first_line(error)) from error


def _merged(session: Any, logs: Path, out: Path, groups: Sequence[str] | None, *, by_group: bool) -> MergeCounts:
    files = log_files(logs)
    check_whole(session, files)
    rows = _placed(session, [table for file in files for table in _tables(session, Path(str(file)))])
    wanted = "TRUE" if groups is None else f"{GRP} IN ({', '.join(map(as_sql, groups)) or 'NULL'})"
    ((read, of_groups, elsewhere),) = session.rows_of(
        f"SELECT count(*), count(*) FILTER (WHERE NOT {HEARTBEAT} AND {wanted}), "
        f"count(*) FILTER (WHERE NOT {HEARTBEAT} AND NOT {wanted}) FROM {rows}"
    )
    check_groups(groups, of_groups, elsewhere)
    events = DataFrame(session, f"(SELECT {', '.join(LOG)} FROM {rows} WHERE NOT {HEARTBEAT} AND {wanted})", list(LOG))
    blocks = duplicate_blocks(events, by_group=by_group).persist()  # type: ignore[arg-type]
    once, others = (events, None) if blocks.isEmpty() else split_duplicates(events, blocks)  # type: ignore[arg-type]
    merged = _write(session, once, out, by_group=by_group)
    twice = 0
    if others is not None and (twice := others.count()):
        with _writing():
            others.write.parquet(str(out / TWICE_TO))
    return MergeCounts(read, merged, twice, 0, read - of_groups - elsewhere, elsewhere)


# --- reading ---


def _tables(session: Any, file: Path) -> list[str]:
    """Return the rows of a file as queries in the columns of a log. Raises NotLocal."""
    if is_parquet(file):
        return [_of_parquet(file)]
    tables, rows = [], list[dict[str, Any]]()
    for number, line in enumerate(lines_of(file), 1):
        if line.strip():
            rows.append(_plain(line, f"{file.name}, line {number:,}"))
        if len(rows) == _ROWS_PER_TABLE:
            tables.append(_of_rows(session, rows))
            rows = []
    return [*tables, *([_of_rows(session, rows)] if rows or not tables else [])]


def _of_parquet(file: Path) -> str:
    try:
        schema = pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise NotLocal(f"the file {file.name}, which cannot be read") from error
    if set("*?[") & set(str(file)):
        raise NotLocal(f"files with *, ? or [ in their names, such as {file}")
    is_trace = {"m_pid", "m_inc", "m_seq", "t_true", L} <= set(schema.names)
    renamed = {"m_pid": PID, "m_inc": INC, "m_seq": SEQ} if is_trace else {}
    given = {renamed.get(name, name): schema.field(name).type for name in schema.names}
    columns = {renamed.get(name, name): quoted(name) for name in schema.names}
    for name, kind in given.items():
        is_number = pa.types.is_signed_integer(kind)
        is_text = pa.types.is_string(kind) or pa.types.is_null(kind)
        fits = (
            is_number if name in _NUMBERS else is_text if name in (*_TEXTS, PUBLISHER)
            else is_text or pa.types.is_binary(kind) if name == PAYLOAD else True
        )  # fmt: skip
        if not fits:
            raise NotLocal(f"{name} as {kind}, as in {file.name}")
    if is_trace:
        columns[L] = f"coalesce({L}, t_true // 1000000)"
        columns[K] = f"CASE WHEN {L} IS NULL THEN t_true % 1000000 ELSE 0 END"
    if PAYLOAD in given and pa.types.is_string(given[PAYLOAD]):
        columns[PAYLOAD] = f"encode({PAYLOAD})"
    shown = ", ".join(f"{columns.get(name, 'NULL')} AS {name}" for name in (*_NUMBERS, *_TEXTS, PUBLISHER, PAYLOAD))
    return f"SELECT {shown} FROM read_parquet({as_sql(str(file))}, hive_partitioning = false)"


def _plain(line: bytes, where: str) -> dict[str, Any]:
    """Return the values of a line of JSON by name. Raises NotLocal where one is not plain."""
    try:
        row = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotLocal(f"lines that are no JSON object, such as {where}") from error
    for name in _NUMBERS:
        value = row.get(name)
        if value is not None and (type(value) is not int or not -(2**63) <= value < 2**63):
            raise NotLocal(f"{name} as {value!r}, as in {where}")
    for name in (*_TEXTS, PUBLISHER, PAYLOAD):
        if not isinstance(row.get(name), str | None):
            raise NotLocal(f"{name} as {row[name]!r}, as in {where}")
    return row


def _of_rows(session: Any, rows: list[dict[str, Any]]) -> str:
    numbers = [(name, pa.array([row.get(name) for row in rows], pa.int64())) for name in _NUMBERS]
    texts = [(name, pa.array([row.get(name) for row in rows], pa.string())) for name in (*_TEXTS, PUBLISHER)]
    payloads = [None if row.get(PAYLOAD) is None else row[PAYLOAD].encode() for row in rows]
    made = pa.table(dict([*numbers, *texts, (PAYLOAD, pa.array(payloads, pa.binary()))]))
    frame = session.createDataFrame(made)
    return f"SELECT {', '.join(frame.columns)} FROM {frame._source}"


# --- rules ---


def _placed(session: Any, tables: Sequence[str]) -> str:
    """Return a table of all rows with their keys, as log_sql.py makes them on Spark. Raises NotLocal."""
    cast = ", ".join(f"CAST({name} AS BIGINT) AS {name}" for name in _NUMBERS)
    texts = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in (*_TEXTS, PUBLISHER))
    every = " UNION ALL ".join(
        f"SELECT {cast}, {texts}, CAST({PAYLOAD} AS BLOB) AS {PAYLOAD} FROM ({each})" for each in tables
    )
    given = session.table_of(f"SELECT * REPLACE (coalesce({GRP}, 'all') AS {GRP}) FROM ({every})")
    _check(session, given)
    inc, low_bits = f"coalesce({INC}, 1)", INC_BITS + SEQ_BITS
    tail = f"((({inc} & {(1 << INC_BITS) - 1}) << {SEQ_BITS}) | {SEQ})"
    is_small = f"{PID} < {1 << PID_BITS}"
    return str(
        session.table_of(
            f"SELECT {GRP}, {PID}, CAST(NULL AS VARCHAR) AS {PUBLISHER}, CAST({inc} AS INTEGER) AS {INC}, {SEQ}, "
            f"coalesce({R}, {L}) AS {R}, {L}, coalesce({K_HI}, ({L} << {K_BITS}) | coalesce({K}, 0)) AS {K_HI}, "
            f"coalesce({K_MID}, CASE WHEN {K_HI} IS NULL AND NOT {is_small} THEN {PID} >> 2 ELSE 0 END) AS {K_MID}, "
            f"coalesce({K_LO}, CASE WHEN {is_small} THEN ({PID} << {low_bits}) | {tail} "
            f"ELSE (({PID} & 3) << {low_bits}) | {tail} END) AS {K_LO}, "
            f"{PAYLOAD}, {KIND} IS NOT DISTINCT FROM '{HEARTBEAT}' AS {HEARTBEAT} FROM {given}"
        )
    )


def _check(session: Any, given: str) -> None:
    """Refuse logs with a row that Spark might reject, or whose publisher has a name. Raises NotLocal."""
    is_heartbeat = f"({KIND} IS NOT DISTINCT FROM '{HEARTBEAT}')"
    is_made = f"({K_HI} IS NULL OR {K_LO} IS NULL)"
    wrong = [
        f"{PID} IS NULL", f"{L} IS NULL", f"({SEQ} IS NULL AND NOT {is_heartbeat})",
        *(f"{name} < 0" for name in _NUMBERS), f"({K_HI} IS NULL) <> ({K_LO} IS NULL)",
        f"{GRP} IN ('', '{_NO_GROUP}')", f"contains({GRP}, chr(0))",
        f"strlen({GRP}) > {GRP_BYTES_MAX // 3}", f"{INC} > {(1 << BITS_OF[INC]) - 1}",
        *(f"({name} > {(1 << BITS_OF[name]) - 1} AND {is_made})" for name in (SEQ, L, K)),
    ]  # fmt: skip
    ((rows,),) = session.rows_of(f"SELECT count(*) FROM {given} WHERE {' OR '.join(wrong)}")
    if rows:
        raise NotLocal(f"rows without a place in the order ({rows:,} of these), or groups with long names")


# --- writing ---


def _write(session: Any, events: Any, out: Path, *, by_group: bool) -> int:
    """Write the order, each group below out/grp=… or all as one; return the rows."""
    order = ", ".join(f"{name} ASC NULLS FIRST" for name in (ORDER if by_group else (*ORDER, GRP)))
    over = f"PARTITION BY {GRP} ORDER BY {order}" if by_group else f"ORDER BY {order}"
    ordered = session.table_of(f"SELECT *, row_number() OVER ({over}) - 1 AS {POS} FROM {events._from()}")
    if not by_group:
        return _write_part(session, f"SELECT * FROM {ordered} ORDER BY {POS}", out)
    rows = 0
    names = ", ".join([name for name in (*LOG, POS) if name != GRP])
    for (group,) in session.rows_of(f"SELECT DISTINCT {GRP} FROM {ordered} ORDER BY {GRP}"):
        query = f"SELECT {names} FROM {ordered} WHERE {GRP} = {as_sql(group)} ORDER BY {POS}"
        rows += _write_part(session, query, out / f"{GRP}={_directory(group)}")
    out.mkdir(parents=True, exist_ok=True)
    return rows


def _directory(group: str) -> str:
    """Return how the directory of a group is called, as Spark calls it."""
    return _ESCAPED.sub(lambda letter: f"%{ord(letter[0]):02X}", group)


def _write_part(session: Any, query: str, where: Path) -> int:
    table = session.arrow_of(query)
    with _writing():
        write_part(table, where)
    return int(table.num_rows)
