"""whence merge: publishers' logs become one causal, deterministic order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.output import print_json, print_message, progress, stdout
from whence.cli.spark import need_engine, placed, starting
from whence.cli.verify import Conf, EngineName, Master

if TYPE_CHECKING:
    from whence.pipeline.batch import MergeCounts
    from whence.pipeline.storage import AnyPath

Logs = Annotated[
    str,
    typer.Argument(
        metavar="LOGS",
        help="A file or directory of publishers' logs (Parquet or NDJSON), or a trace: a path or URI.",
    ),
]
Out = Annotated[str, typer.Option(help="Where the merged order goes: a path or URI.")]
Mapping = Annotated[
    str | None,
    typer.Option(help='A TOML file that names the columns of foreign logs, such as l = "sent_ms": a path or URI.'),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a sentence.")]


Strict = Annotated[
    bool,
    typer.Option("--strict", help="Stop at the first rejected row, rather than set it aside."),
]


def merge(
    logs: Logs,
    out: Out,
    group: Annotated[list[str] | None, typer.Option(help="Only this group; may be given again.")] = None,
    one: Annotated[
        bool, typer.Option("--one/--by-group", help="One order over all rows, rather than one for each group.")
    ] = False,
    unique: Annotated[bool, typer.Option("--unique", hidden=True)] = False,
    mapping: Mapping = None,
    strict: Strict = False,
    engine: EngineName = "auto",
    master: Master = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Merge publishers' logs into one causal, deterministic order.

    The order is that of the keys: the same for any partitioning, any order of files and any machine. Each row gets its
    position `pos`. With --one, all groups together, or a group too large for one task, are one sequence. Rows without
    a place in the order go to OUT/_rejected with their file and the reason, further rows of an event that is there
    more than once to OUT/_twice; both are counted.
    """
    need_engine(engine, master, conf)
    from whence.pipeline import batch
    from whence.pipeline import logs as reading
    from whence.pipeline.storage import bytes_below

    start = starting(master, conf, engine)
    named = reading.read_mapping(None if mapping is None else placed(mapping, start))
    source, target = placed(logs, start), placed(out, start)
    reading.check_apart(source, target)
    reading.log_files(source)
    print_unread(reading.unread_files(source))
    with progress(quiet=json) as bar:
        task = bar.add_task("merging", total=None)
        size = bytes_below([source])
        done = start.run(
            lambda session: batch.merge_on(
                session, source, target, size, named, groups=group or None, by_group=not one, strict=strict
            ),
            size * batch.ROWS_TO_BYTES, [source, target], bar, task,
        )  # fmt: skip
    if json:
        print_json(
            0, read=done.read, rows=done.rows, twice=done.twice, rejected=done.rejected, heartbeats=done.heartbeats,
            elsewhere=done.elsewhere, out=str(out),
        )  # fmt: skip
        return
    stdout().print(f"merged {done.rows:,} events into {out}{_other_rows(done)}")
    if done.rejected:
        print_message(f"{done.rejected:,} rows were rejected; {target / batch.REJECTED_TO} says why of each")


def print_unread(files: "Sequence[AnyPath]") -> None:
    """Print which files are not read, so that nobody takes them for merged."""
    if files:
        named = ", ".join(str(file) for file in files[:5]) + (", …" if len(files) > 5 else "")
        print_message(
            f"{len(files):,} files are not read: logs are called .parquet, .ndjson, .jsonl or .json, not {named}"
        )


def _other_rows(done: "MergeCounts") -> str:
    """Return a phrase that counts the rows outside the order; empty where there are none."""
    other = {"there twice": done.twice, "rejected": done.rejected, "heartbeats": done.heartbeats,
             "of other groups": done.elsewhere}  # fmt: skip
    counts = ", ".join(f"{count:,} {name}" for name, count in other.items() if count)
    return f" (besides: {counts})" if counts else ""
