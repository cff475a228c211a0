"""Publishers' logs for tests: hybrid clocks that hear of each other, in files that arrive out of order."""

import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from whence.pipeline.logs import INC_BITS, K_BITS, SEQ_BITS

Row = dict[str, Any]

FIRST_LANDING = 1_700_000_000


def made_log(seed: int, publishers: int = 5, events: int = 400, groups: int = 2) -> list[Row]:
    """Events in the order they were published; clocks differ by less than 5 ticks and hear of each other."""
    rng = Random(seed)
    offset = [rng.randrange(5) for _ in range(publishers)]
    last = [(0, 0)] * publishers
    seq = [0] * publishers
    rows = []
    for at in range(events):
        pid = rng.randrange(publishers)
        r = 1000 + at // 3 + offset[pid]
        heard = max(last[pid], last[rng.randrange(publishers)] if rng.random() < 0.5 else (0, 0))
        last[pid] = (r, 0) if r > heard[0] else (heard[0], heard[1] + 1)
        seq[pid] += 1
        rows.append(
            {"grp": f"g{rng.randrange(groups)}", "pid": pid, "inc": 1, "seq": seq[pid], "r": r,
             "l": last[pid][0], "k": last[pid][1], "payload": f"{pid}-{seq[pid]}".encode()}
        )  # fmt: skip
    return rows


def key_of(row: Row) -> tuple[int, int, int]:
    return row["l"] << K_BITS | row["k"], 0, row["pid"] << INC_BITS + SEQ_BITS | row["inc"] << SEQ_BITS | row["seq"]


def in_order(rows: list[Row]) -> list[tuple[str, int, bytes]]:
    """Return what a merge by group must give: (group, position, payload), by the definition of the order."""
    merged: list[tuple[str, int, bytes]] = []
    for grp in sorted({row["grp"] for row in rows}):
        line = sorted((row for row in rows if row["grp"] == grp), key=key_of)
        merged += [(grp, pos, row["payload"]) for pos, row in enumerate(line)]
    return merged


def write_files(directory: Path, rows: list[Row], files: int, jitter: int, seed: int = 0) -> None:
    """Write rows into files in the order they land: each up to `jitter` events late."""
    rng = Random(seed)
    landed = [row for _, row in sorted(enumerate(rows), key=lambda entry: entry[0] + rng.randrange(jitter + 1))]
    directory.mkdir(parents=True, exist_ok=True)
    size = -(-len(landed) // files)
    for number in range(files):
        part = landed[number * size : (number + 1) * size]
        if part:
            path = directory / f"part-{number:05d}.parquet"
            pq.write_table(pa.Table.from_pylist(part), path)
            os.utime(path, (FIRST_LANDING + number, FIRST_LANDING + number))  # Spark takes files in the order of these
