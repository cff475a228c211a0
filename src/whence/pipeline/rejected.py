"""Rejected rows: rows of a log without a place in the order, each with its file, the row as it was and the reason."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from whence.pipeline.frames import DataFrame, F
from whence.pipeline.logs import FILE, RAW, REASON, ROW
from whence.places import is_uri

_SHOWN: Final = 200


def rejected_rows(rows: DataFrame) -> DataFrame:
    """Return the rows that have no place in the order, each with its file, the row as it was and the reason."""
    path = f"url_decode(replace(regexp_replace({FILE}, '^file:/+', '/'), '+', '%2B')) as {FILE}"
    return rows.filter(F.col(REASON).isNotNull()).selectExpr(path, ROW, RAW, REASON)


def first_rejected(rows: DataFrame, sources: dict[str, str] | None = None) -> str:
    """Return a sentence about the first of rejected rows; `sources` maps links to the files they were made from."""
    first = rows.select(FILE, ROW, RAW, REASON).orderBy(FILE, ROW, RAW).limit(1).collect()[0]
    file = local_path(first[FILE])
    source = (sources or {}).get(file, file)
    if first[RAW] is None:
        return f"{source}: {first[REASON]}"
    place = f"row {first[ROW] + 1:,}" if first[ROW] is not None else _line_of(file, first[RAW])
    raw = " ".join(first[RAW].split())
    return f"{source}, {place}: {first[REASON]}: {raw if len(raw) <= _SHOWN else f'{raw[:_SHOWN]} …'}"


def _line_of(file: str, raw: str) -> str:
    for number, line in enumerate(() if is_uri(file) else lines_of(Path(file)), 1):
        if line.decode("utf-8", "replace").strip("\ufeff\r\n") == raw:
            return f"line {number:,}"
    return "a line"


def local_path(path: str) -> str:
    """Return a path as it is on disk, or a URI, from how Spark tells it."""
    return unquote(re.sub(r"^file:/+", "/", path))


def lines_of(file: Path) -> Iterator[bytes]:
    """Return the lines of a file, which may be compressed."""
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        yield from lines
