"""Writes a trace as Parquet while the run goes on.

The hot path only appends tuples to `trace.rows[kind]`. Now and then the driver calls `drain`, which writes out the
lists that have grown past a chunk and empties them; `close` writes the rest and, last of all, run.json with the
fingerprint of every row and their number. Memory is bounded by one chunk per kind.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from whence.errors import TraceError
from whence.trace.layout import MEMBERSHIP, MEMBERSHIP_SCHEMA, RUN_FILE, SCHEMA, TYPES, part, parts, put, run_directory
from whence.trace.memory import Digest, Row, Run, Trace
from whence.trace.schema import COLUMNS, COLUMNS_OF, EV, GRP, INC, NODE, Kind

CHUNK_ROWS = 65_536
"""Rows of one kind buffered before they are written: some 10 MiB of tuples, and files of a size that suits readers."""

OF_MEMBERSHIP = (Kind.JOIN, Kind.LEAVE, Kind.CRASH)


class TraceWriter:
    """One run's directory, filled while the run goes on. A run written again replaces what was there."""

    def __init__(self, directory: Path | str, run: Run, chunk_rows: int = CHUNK_ROWS) -> None:
        """Prepare the directory. Raises TraceError where it cannot be written."""
        self.path = run_directory(Path(directory), run.run_id)
        self._run = run
        self._chunk_rows = chunk_rows
        self._digest = Digest()
        self._parts = dict.fromkeys(Kind, 0)
        self._turns: list[tuple[Kind, Row]] = []
        self.rows = 0
        """The number of rows written so far."""
        with self._writing():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _clear(self.path)

    def drain(self, trace: Trace) -> None:
        """Write out and empty the lists that have grown past a chunk."""
        for kind, rows in trace.rows.items():
            if len(rows) >= self._chunk_rows:
                self._write(kind, rows)
                rows.clear()

    def close(self, trace: Trace) -> str:
        """Write what is left and run.json; return the fingerprint of all rows, which is also stored in the run."""
        for kind, rows in trace.rows.items():
            self._write(kind, rows)
            rows.clear()
        return self._finish()

    def _write(self, kind: Kind, rows: Sequence[Row]) -> None:
        self._digest.add(kind, rows)
        self.rows += len(rows)
        if kind in OF_MEMBERSHIP:
            self._turns += [(kind, row) for row in rows]
        for start in range(0, len(rows), self._chunk_rows):
            table = table_of(kind, rows[start : start + self._chunk_rows])
            self._put_table(part(self.path, kind, self._parts[kind]), table)
            self._parts[kind] += 1

    def _finish(self) -> str:
        membership = membership_rows(self._run, self._turns)
        columns = list(zip(*membership, strict=True)) or [()] * len(MEMBERSHIP_SCHEMA)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, MEMBERSHIP_SCHEMA, strict=True)]
        self._put_table(self.path / MEMBERSHIP / "part-00000.parquet", pa.table(arrays, schema=MEMBERSHIP_SCHEMA))
        self._run.digest, self._run.rows = self._digest.hex(), self.rows
        text = msgspec.json.format(msgspec.json.encode(self._run), indent=2)
        with self._writing():
            put(self.path / RUN_FILE, lambda path: path.write_bytes(text + b"\n"))
        return self._run.digest

    def _put_table(self, path: Path, table: Any) -> None:
        with self._writing():
            put(path, lambda path: pq.write_table(table, path, compression="zstd", write_page_checksum=True))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TraceError(f"{self.path} cannot be written: {error.strerror or error}") from error


def write_trace(directory: Path | str, trace: Trace) -> Path:
    """Write a whole trace, leave its rows as they are, and return the run's directory. Raises TraceError."""
    writer = TraceWriter(directory, trace.run)
    for kind, rows in trace.rows.items():
        writer._write(kind, rows)
    writer._finish()
    return writer.path


def table_of(kind: Kind, rows: Sequence[Row]) -> Any:
    """Return rows of a kind as an Arrow table with all columns."""
    filled = dict(zip(COLUMNS_OF[kind], zip(*rows, strict=True), strict=True))
    arrays = [
        pa.array(filled[name], TYPES[name]) if name in filled else pa.nulls(len(rows), TYPES[name]) for name in COLUMNS
    ]
    return pa.table(arrays, schema=SCHEMA)


def _clear(run: Path) -> None:
    """Remove what an earlier write of the same run left, run.json first: half a run must not look complete."""
    (run / RUN_FILE).unlink(missing_ok=True)
    for kind in Kind:
        for path in parts(run, kind):
            path.unlink()


def membership_rows(run: Run, rows: list[tuple[Kind, Row]]) -> list[tuple[str, str, int, int, int | None, int | None]]:
    """Return (run_id, grp, node, inc, from_ev, to_ev) for every stay of a process in a group."""
    at_node, at_inc, at_ev, at_grp = map(COLUMNS_OF[Kind.JOIN].index, (NODE, INC, EV, GRP))
    rows = [(kind, row) for kind, row in rows if kind is Kind.CRASH or row[at_grp] is not None]
    rows.sort(key=lambda entry: (entry[1][at_node], entry[1][at_inc], entry[1][at_ev]))
    first_incarnation: dict[int, int] = {}
    for _, row in rows:
        first_incarnation.setdefault(row[at_node], row[at_inc])
    here: dict[tuple[str, int, int], int | None] = {
        (grp, node, first_incarnation.get(node, 1)): None for grp, founders in run.groups.items() for node in founders
    }
    stays: list[tuple[str, str, int, int, int | None, int | None]] = []
    for kind, row in rows:
        node, inc, ev = row[at_node], row[at_inc], row[at_ev]
        if kind is Kind.JOIN:
            here.setdefault((row[at_grp], node, inc), ev)
            continue
        left = [(grp, node, inc) for grp in (run.groups if kind is Kind.CRASH else (row[at_grp],))]
        stays += [(run.run_id, *stay, here.pop(stay), ev) for stay in left if stay in here]
    stays += [(run.run_id, grp, node, inc, since, None) for (grp, node, inc), since in here.items()]
    return sorted(stays, key=lambda stay: (stay[1:4], stay[4] or -1))
