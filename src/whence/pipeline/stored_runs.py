"""What a sweep has stored: files that are damaged are set aside by name, and runs that are there twice are refused.

On disk each file is read whole before Spark reads it, and held to the checksums that Hadoop writes beside it: results
are small, and a sweep reads them once. Behind a URI only Spark reads, and says what is wrong.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import pyarrow as pa
from pyarrow import parquet

from whence.errors import StorageError
from whence.pipeline.storage import AnyPath

DAMAGED: Final = "_damaged"
"""Where damaged files go, below the directory of the results: readers pass over such names."""
_MAGIC: Final = b"crc\0"
_HEADER: Final = len(_MAGIC) + 4
"""Hadoop's checksums: this, the bytes of a chunk in four bytes, and the CRC-32 of each chunk."""


def set_aside_damaged(directory: AnyPath, jobs: Iterable[AnyPath]) -> Iterator[str]:
    """Move the damaged files of finished jobs to DAMAGED; yield a sentence about each."""
    for job in jobs:
        if not isinstance(job, Path) or not isinstance(directory, Path):
            continue
        for file in sorted(job.glob("part-*.parquet")):
            if (trouble := damage_of(file)) is None:
                continue
            to = directory / DAMAGED / f"{job.name}-{file.name}"
            to.parent.mkdir(exist_ok=True)
            file.rename(to)
            with suppress(OSError):  # of a file that was there, and is another one now
                _checksums_beside(file).unlink()
            yield f"{file} is damaged ({trouble}) and was set aside as {to}; its runs are run again"


def damage_of(file: Path) -> str | None:
    """Return what is wrong with a file of Parquet; None if it can be read whole and its checksums are right."""
    try:
        with parquet.ParquetFile(file) as opened:
            opened.read()
        is_as_written = _has_checksums(file)
    except (OSError, ValueError, pa.ArrowException) as error:
        return str(error).splitlines()[0][:120]
    return None if is_as_written else "its checksums are wrong"


def _has_checksums(file: Path) -> bool:
    """Tell whether a file has the checksums that Hadoop wrote beside it; true where it wrote none."""
    beside = _checksums_beside(file)
    if not beside.exists():
        return True
    sums, data = beside.read_bytes(), file.read_bytes()
    if sums[: len(_MAGIC)] != _MAGIC or len(sums) < _HEADER:
        return False
    chunk = int.from_bytes(sums[len(_MAGIC) : _HEADER])
    real = b"".join(crc32(data[at : at + chunk]).to_bytes(4) for at in range(0, len(data), max(1, chunk)))
    return sums[_HEADER:] == real


def _checksums_beside(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")


def check_once(rows: Iterable[dict[str, Any]], where: AnyPath) -> None:
    """Raise StorageError if a run is there more than once: then something else than a sweep wrote there."""
    times = Counter((row["config"], row["number"], row["seed"]) for row in rows)
    twice = [run for run, many in times.items() if many > 1]
    if twice:
        config, number, _ = twice[0]
        raise StorageError(
            f"{where} holds {len(twice):,} of its runs more than once, such as number {number} of {config}: "
            "something else than a sweep wrote there; remove that directory, and start again"
        )
