"""Logs as others write them, drawn from a seed, and what a merge of them must be, in plain Python from the docs alone.

An entry is a row of a log as it was meant: its fields, or why it has no place. What is written of it depends on its
file: columns may lack, numbers may be text, lines may be torn.
"""

import gzip
import json
import os
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

FIRST_LANDING = 1_700_000_000
Fields = dict[str, Any]


class Entry(NamedTuple):
    """A row as it was meant; `fields` is None for what is no row at all, such as a torn file."""

    fields: Fields | None
    is_bad: bool = False
    is_heartbeat: bool = False
    line: str = ""
    """What stands in an NDJSON file instead of a row."""


class LogFile(NamedTuple):
    """A file of a log: its name, its rows and the columns it lacks."""

    name: str
    entries: list[Entry]
    lacks: tuple[str, ...]
    types: dict[str, str]
    extra: tuple[str, ...]


class Case(NamedTuple):
    """Files in the order they land, and what is done with them."""

    files: list[LogFile]
    renamed: int | None
    """A file that is moved to another name after it was read, so that it is read again."""
    stops: list[int]
    """After how many files the stream is started anew."""
    breaks: int | None
    """Which write of the stream fails, as on a full disk."""
    mode: str


BAD_ROWS: tuple[Fields, ...] = (
    {"pid": "x"}, {"pid": None}, {"l": None}, {"seq": None}, {"l": "2.5"}, {"seq": "7 o'clock"}, {"l": "-1"},
    {"inc": "2147483648"}, {"k": "1048576"}, {"seq": "1099511627776"}, {"l": "8796093022208"}, {"grp": ""},
    {"pid": "18446744073709551616"}, {"k_hi": "-4"}, {"k_hi": "4"}, {"r": "soon"},
)  # fmt: skip
BAD_LINES = ('{"pid": 1, "seq"', "no json", "[1, 2]", '{"pid": 1, "seq": 1, "l": 1} {"pid": 1, "seq": 2, "l": 1}', "7")


def drawn(seed: int) -> Case:
    """Draw a case."""
    rng = Random(seed)
    publishers = _publishers(rng)
    groups = rng.choice((["all"], ["a", "b"], ["a", "b/c", "ü 1", "d=e"]))
    weights = [rng.choice((1, 1, 50)) for _ in publishers]
    count = rng.choice((1, 2, 3, 4))
    files, seqs, clock = [], dict.fromkeys(range(len(publishers)), 0), 1_000
    for number in range(count):
        lacks = tuple(name for name in ("grp", "inc", "k", "r", "payload") if rng.random() < 0.25)
        entries = []
        for _ in range(rng.choice((1, 12, 40))):
            at = rng.choices(range(len(publishers)), weights)[0]
            seqs[at] += 1
            clock += rng.choice((0, 0, 1, 3))
            entries.append(Entry(_event(rng, publishers[at], seqs[at], clock, groups, lacks)))
        files.append(_with_trouble(rng, number, entries, lacks))
    _repeat_later(rng, files)
    stops = [at for at in range(1, count) if rng.random() < 0.3]
    return Case(
        files, rng.randrange(count) if rng.random() < 0.3 else None, stops,
        rng.randrange(12) if rng.random() < 0.4 else None, rng.choice(("evidence", "evidence", "frontier")),
    )  # fmt: skip


def _publishers(rng: Random) -> list[Fields]:
    kind = rng.choice(("small", "small", "large", "uuid", "named", "mixed"))
    small: list[Fields] = [{"pid": pid} for pid in rng.sample(range(40), 3)]
    large: list[Fields] = [{"pid": rng.getrandbits(bits)} for bits in (16, 40, 63, 64)]
    uuids: list[Fields] = [{"pid": str(UUID(int=rng.getrandbits(128)))} for _ in range(3)]
    stem = f"host-{rng.choice('äbc')}-{'x' * rng.choice((0, 9))}"
    named: list[Fields] = [{"publisher": f"{stem}{at}"} for at in range(3)]
    kinds: dict[str, list[Fields]] = {"small": small, "large": large, "uuid": uuids, "named": named}
    return kinds.get(kind, [*small, *large, *uuids, *named])


def _event(rng: Random, who: Fields, seq: int, clock: int, groups: list[str], lacks: tuple[str, ...]) -> Fields:
    row: Fields = who | {"seq": seq, "l": clock, "grp": rng.choice(groups), "inc": 1, "k": rng.choice((0, 0, 1, 5))}
    row |= {"r": clock - rng.randrange(3), "payload": f"{seq}-{rng.randrange(10**6)}".encode()}
    for name in ("grp", "inc", "k", "r", "payload"):
        if name in lacks or rng.random() < 0.05:
            row[name] = None
    return row


def _with_trouble(rng: Random, number: int, entries: list[Entry], lacks: tuple[str, ...]) -> LogFile:
    """Put duplicates, heartbeats and rows without a place between the others, and choose how they are written."""
    suffix = rng.choice((".parquet", ".parquet", ".ndjson", ".ndjson.gz", ".jsonl"))
    is_text = suffix != ".parquet"
    whole = [entry.fields for entry in entries if entry.fields is not None]
    for row in rng.sample(whole, len(whole) // rng.choice((3, 10, 1000))):
        changed = row | {"payload": b"again"} if rng.random() < 0.5 and "payload" not in lacks else dict(row)
        entries.insert(rng.randrange(len(entries) + 1), Entry(changed))
    texts = rng.random() < 0.4
    if texts or is_text:
        for change in rng.sample(BAD_ROWS, rng.choice((0, 1, 4))):
            if not set(change) & set(lacks) and (is_text or not set(change) & {"k_hi"}):
                entries.insert(rng.randrange(len(entries) + 1), Entry(whole[0] | {"publisher": None} | change, True))
    if is_text:
        for line in rng.sample(BAD_LINES, rng.choice((0, 0, 2))):
            entries.insert(rng.randrange(len(entries) + 1), Entry(None, True, line=line))
        if rng.random() < 0.3:
            entries.append(Entry({"pid": 1, "l": whole[-1]["l"], "kind": "heartbeat"}, is_heartbeat=True))
    types = {name: "text" if texts else rng.choice(("whole", "whole", "double", "decimal"))
             for name in ("pid", "inc", "seq", "l", "k", "r")}  # fmt: skip
    extra = tuple(name for name in ("note", "file", "raw", "reason", "Row") if rng.random() < 0.3)
    name = f"{rng.choice(('', 'of today, 100%/', 'x=1/'))}part-{number:03d}{suffix}"
    return LogFile(name, entries, lacks, types, extra)


def _repeat_later(rng: Random, files: list[LogFile]) -> None:
    """Write some rows of a file again, as they are, into a later one; a torn file may follow."""
    for before, after in pairwise(files):
        same = [entry for entry in before.entries if entry.fields and not entry.is_bad and not entry.is_heartbeat]
        shared = {name for name in ("grp", "inc", "k", "r", "payload") if name in after.lacks}
        if rng.random() < 0.4:
            again = rng.sample(same, min(2, len(same)))
            after.entries.extend(
                e for e in again if not any(e.fields and e.fields[name] is not None for name in shared)
            )
    if rng.random() < 0.15:
        files.append(LogFile("torn.parquet", [Entry(None, True)], (), {}, ()))


# --- writing ---


def write_file(directory: Path, file: LogFile, landing: int) -> Path:
    """Write a file as its kind is written, and give it the time at which it landed."""
    path = directory / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    if file.name == "torn.parquet":
        unfinished.write_bytes(b"PAR1 and no more")
    elif file.name.endswith(".parquet"):
        pq.write_table(_table(file), unfinished, row_group_size=16)
    else:
        text = "\n".join(_line(entry, file) for entry in file.entries) + "\n\n"
        unfinished.write_bytes(gzip.compress(text.encode()) if file.name.endswith(".gz") else text.encode())
    os.utime(unfinished, (FIRST_LANDING + landing,) * 2)
    unfinished.rename(path)
    return path


def _columns(file: LogFile) -> list[str]:
    names = ("grp", "pid", "publisher", "inc", "seq", "r", "l", "k", "payload")
    have = {name for entry in file.entries if entry.fields for name in entry.fields}
    return [name for name in names if name in have and name not in file.lacks]


def _table(file: LogFile) -> pa.Table:
    rows = [entry.fields or {} for entry in file.entries]
    made = {}
    for name in _columns(file):
        values = [row.get(name) for row in rows]
        made[name] = pa.array(*_typed(values, file.types.get(name, "")))
    for name in file.extra:
        made[name] = pa.array([f"{at}?" for at in range(len(rows))])
    return pa.table(made)


def _typed(values: list[Any], kind: str) -> tuple[list[Any], Any]:
    """Return values and the Arrow type in which none of them is lost."""
    numbers = [value for value in values if isinstance(value, int)]
    if any(isinstance(value, str) for value in values) or kind == "text":
        texts = [value if value is None or isinstance(value, bytes) else str(value) for value in values]
        return texts, pa.binary() if any(isinstance(value, bytes) for value in values) else pa.string()
    if kind == "decimal" or max(numbers, default=0) >= 2**63:
        is_big = max(numbers, default=0) >= 2**63
        return (
            (values, pa.uint64())
            if is_big
            else ([None if v is None else Decimal(v) for v in values], pa.decimal128(25, 2))
        )
    if kind == "double" and max(numbers, default=0) < 2**53:
        return [None if value is None else float(value) for value in values], pa.float64()
    if kind:
        return values, pa.int32() if max(numbers, default=0) < 2**31 else pa.int64()
    return values, None


def _line(entry: Entry, file: LogFile) -> str:
    if entry.fields is None:
        return entry.line
    shown: Fields = {}
    for name, value in entry.fields.items():
        if name in file.lacks or (value is None and name == "publisher"):
            continue
        text = value.decode() if isinstance(value, bytes) else value
        is_text = file.types.get(name) == "text" and isinstance(text, int)
        shown[name] = str(text) if is_text else text
    return json.dumps(shown | {name: {"a": [1, "}{"]} for name in file.extra}, ensure_ascii=False)


# --- what must come of it ---


class Wanted(NamedTuple):
    """What a merge of a case must be."""

    order: list[tuple[str, int, str, int, int, bytes | None]]
    """Group, position, publisher, incarnation, number and payload."""
    twice: int
    rejected: int
    heartbeats: int


def wanted(files: list[LogFile], repeated: list[LogFile]) -> Wanted:
    """Sort what was meant, by the definition of the order; `repeated` are files that were read twice."""
    entries = [entry for file in (*files, *repeated) for entry in file.entries]
    is_valid = [meant(e.fields) for e in entries if e.fields is not None and not e.is_bad and not e.is_heartbeat]
    least: dict[tuple[Any, ...], Fields] = {}
    for row in is_valid:
        who = row["grp"], row["who"], row["inc"], row["seq"]
        if who not in least or _rank(row) < _rank(least[who]):
            least[who] = row
    order = []
    for grp in sorted({row["grp"] for row in is_valid}):
        line = sorted((row for row in least.values() if row["grp"] == grp), key=_rank)
        order += [
            (grp, pos, str(row["who"][1]), row["inc"], row["seq"], row["payload"]) for pos, row in enumerate(line)
        ]
    bad = sum(entry.is_bad for entry in entries)
    return Wanted(order, len(is_valid) - len(least), bad, sum(entry.is_heartbeat for entry in entries))


def meant(fields: Fields) -> Fields:
    """Return an event with its defaults; a publisher is a number, or after all numbers a name."""
    pid, name = fields.get("pid"), fields.get("publisher")
    who = (0, pid) if isinstance(pid, int) else (1, pid if pid is not None else name)
    return {
        "grp": fields["grp"] if fields["grp"] is not None else "all", "who": who,
        "inc": 1 if fields["inc"] is None else fields["inc"], "seq": fields["seq"], "l": fields["l"],
        "k": fields["k"] or 0, "r": fields["l"] if fields["r"] is None else fields["r"], "payload": fields["payload"],
    }  # fmt: skip


def _rank(row: Fields) -> tuple[Any, ...]:
    kind, who = row["who"]
    name = (kind, who) if kind == 0 else (kind, who.encode())
    return row["l"], row["k"], name, row["inc"], row["seq"], row["r"], row["payload"] is not None, row["payload"] or b""
