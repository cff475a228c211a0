"""The first row of a log that has no place in the order, named for a person: file, row or line, reason and row."""

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from whence.pipeline.normalise import FILE, RAW, REASON, ROW, lines_of, on_disk

_SHOWN: Final = 200


def first_rejected(rows: DataFrame, sources: dict[str, str] | None = None) -> str:
    """Return a sentence about the first of rejected rows; `sources` tells what files are links of."""
    first = rows.select(FILE, ROW, RAW, REASON).orderBy(FILE, ROW, RAW).limit(1).collect()[0]
    file = on_disk(first[FILE])
    source = (sources or {}).get(file, file)
    if first[RAW] is None:
        return f"{source}: {first[REASON]}"
    place = f"row {first[ROW] + 1:,}" if first[ROW] is not None else _line_of(Path(file), first[RAW])
    return f"{source}, {place}: {first[REASON]}: {' '.join(first[RAW].split())[:_SHOWN]}"


def _line_of(file: Path, raw: str) -> str:
    for number, line in enumerate(lines_of(file), 1):
        if line.decode("utf-8", "replace").strip("\ufeff\r\n") == raw:
            return f"line {number:,}"
    return "a line"
