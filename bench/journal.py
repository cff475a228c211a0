"""Append-only log against sqlite3 in WAL mode: durable commits per second, alone and in groups, side by side.

python bench/journal.py [--seconds 1] [--rounds 3]
"""

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from whence.store.log import Log

RECORD = b"r" * 200
GROUPS = (1, 16, 256)


def log_commits(directory: Path, group: int, seconds: float) -> float:
    """Return durable records per second of our log."""
    log = Log(directory / "journal")
    records, count, until = [RECORD] * group, 0, time.monotonic() + seconds
    while time.monotonic() < until:
        log.append(records)
        log.sync()
        count += group
    log.close()
    return count / seconds


def sqlite_commits(directory: Path, group: int, seconds: float) -> float:
    """Return durable records per second of sqlite3: WAL, synchronous=FULL, one transaction per group."""
    base = sqlite3.connect(directory / "journal.db", isolation_level=None)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA synchronous=FULL")
    base.execute("CREATE TABLE journal (number INTEGER PRIMARY KEY, record BLOB)")
    rows, count, until = [(RECORD,)] * group, 0, time.monotonic() + seconds
    while time.monotonic() < until:
        base.execute("BEGIN")
        base.executemany("INSERT INTO journal (record) VALUES (?)", rows)
        base.execute("COMMIT")
        count += group
    base.close()
    return count / seconds


KINDS: dict[str, Callable[[Path, int, float], float]] = {"log": log_commits, "sqlite": sqlite_commits}


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rates: dict[tuple[str, int], list[float]] = {(kind, group): [] for kind in KINDS for group in GROUPS}
    for _ in range(given.rounds):
        for (kind, group), told in rates.items():
            with tempfile.TemporaryDirectory(dir=".") as directory:
                told.append(KINDS[kind](Path(directory), group, given.seconds))
    medians = {key: statistics.median(told) for key, told in rates.items()}
    result = {
        "bench": "journal",
        "record_bytes": len(RECORD),
        "records_per_s": {f"{kind} by {group}": round(rate) for (kind, group), rate in medians.items()},
        "log_to_sqlite": {str(group): round(medians["log", group] / medians["sqlite", group], 2) for group in GROUPS},
    }
    print(json.dumps(result))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
