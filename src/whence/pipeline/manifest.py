"""Manifests: the commit records of a streaming merge. Only steps with a manifest count.

A manifest says up to which tick everything is released, which files have pending rows, and how many rows went where.
"""

import os
from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession

from whence.errors import UsageError
from whence.pipeline.storage import AnyPath, UriPath, entries, located, put_new

IN, HEARTBEATS = "in", "heartbeats"
PENDING, RELEASED, LATE, TWICE, REJECTED = "pending", "released", "late", "twice", "rejected"
NOTHING: Final = -(2**62)
MANIFESTS: Final = "manifests"
PENDING_DIRECTORY: Final = "held"
VERSION: Final = 2
"""Manifests of version 1 lack the numbers of publishers, and how many events a pending file has."""


class Manifest(msgspec.Struct, kw_only=True):
    """What a step committed, and all that the next one needs. Names in files stay: held, numbers, left_out."""

    step: str = ""
    w: int = NOTHING
    max_r: int = NOTHING
    reached: dict[str, tuple[int, int]] = {}
    """Per publisher, the last (l, r) seen; only in frontier mode."""
    silent: list[int | str] = msgspec.field(default_factory=list, name="left_out")
    """Publishers that were ignored because they were silent for too long."""
    released: dict[str, int] = {}
    """Per group, how many rows have been released so far: the next position."""
    pending: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict, name="held")
    """Per file with pending rows, the least and the greatest l in it. Those linked in PENDING_DIRECTORY of the work
    directory have a name there; those read where they lie, their whole path or URI."""
    events: dict[str, int] = {}
    """Per file with pending rows, how many events it has."""
    highest_seq: dict[str, int] = msgspec.field(default_factory=dict, name="numbers")
    """Per group, publisher and incarnation, the greatest number that was released or late."""
    rows: dict[str, int] = {}
    """What this step did: rows that came in, and were released, late, duplicates or rejected; what is pending now."""
    version: int = 1


def read_released(spark: SparkSession, out: AnyPath | str, fate: str = RELEASED) -> DataFrame:
    """Return what a stream has released, or its late or rejected rows: only of steps that are committed.

    Raises UsageError.
    """
    where = located(out, lambda: spark) / fate
    there = set(entries(where))
    steps = [f"step={step}" for step in committed_steps(located(out, lambda: spark)) if f"step={step}" in there]
    if not steps:
        raise UsageError(f"{out} holds no {fate} rows yet")
    return spark.read.option("basePath", str(where)).parquet(*(str(where / step) for step in steps))


def committed_steps(out: AnyPath) -> list[str]:
    """Return the names of the committed steps, in order."""
    names = [name for name in entries(out / MANIFESTS) if name.endswith(".json") and name[0] != "."]
    return sorted(name.removesuffix(".json") for name in names)


def read_manifest(out: AnyPath, step: str) -> Manifest:
    """Read the manifest of a step."""
    return msgspec.json.decode(manifest_file(out, step).read_bytes(), type=Manifest)


def manifest_file(out: AnyPath, step: str) -> AnyPath:
    """Return where the manifest of a step is."""
    return out / MANIFESTS / f"{step}.json"


def write_manifest(out: AnyPath, manifest: Manifest) -> None:
    """Commit a step: write its manifest whole or not at all, and sync it to disk.

    Behind a URI, that it is not written over another one is what commits a step once. Raises StorageError.
    """
    path, content = manifest_file(out, manifest.step), msgspec.json.encode(manifest)
    if isinstance(path, UriPath):
        put_new(path, content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
