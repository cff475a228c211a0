"""One writer at a time: two commands that write to one place would leave rows of both under one mark of success.

Whoever writes claims the place first, and whoever finds it claimed is refused before anything is written. On disk the
claim is a lock, which the system releases however the command ends. Behind a URI it is a file that is never put over
another one; a command that was killed leaves it there, and the refusal says which file to remove. Through Spark Connect
each writer leaves a row of its own, and goes on only if it then finds no other's: of two at once, both may be refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Final

from whence.errors import StorageError, UsageError
from whence.pipeline.session import is_connected
from whence.pipeline.storage import AnyPath, UriPath, entries, put_new, remove
from whence.store.lock import locked_while

CLAIM: Final = ".lock"
"""What a claim is called; readers pass over such names."""
_TOKEN_DDL: Final = "token string"


@contextmanager
def sole_writer(place: AnyPath, claim: str = CLAIM) -> Iterator[None]:
    """Claim a place to write to, with a file of this name in it, within the block.

    Raises UsageError and StorageError, which say who has it.
    """
    if isinstance(place, UriPath):
        claimed = _claimed_by_row if is_connected(place.spark) else _claimed_by_file
        with claimed(place / claim):
            yield
        return
    with locked_while(place / claim, "--out:", "one command at a time writes there"):
        yield


@contextmanager
def _claimed_by_file(file: UriPath) -> Iterator[None]:
    was_there = file.parent.exists()
    if was_there and file.exists():  # without a try, whose unfinished file might stay there
        raise _refused(file)
    try:
        put_new(file, token_hex(16).encode())
    except StorageError:
        if not file.exists():
            raise
        raise _refused(file) from None
    try:
        yield
    finally:
        remove(file)
        if not was_there and not entries(file.parent):
            remove(file.parent)


@contextmanager
def _claimed_by_row(file: UriPath) -> Iterator[None]:
    spark, mine = file.spark, token_hex(16)
    spark.createDataFrame([(mine,)], _TOKEN_DDL).coalesce(1).write.mode("append").parquet(str(file))
    if [row[0] for row in spark.read.schema(_TOKEN_DDL).parquet(str(file)).collect()] != [mine]:
        raise _refused(file)
    try:
        yield
    finally:
        spark.createDataFrame([], _TOKEN_DDL).write.mode("overwrite").parquet(str(file))


def _refused(claim: UriPath) -> UsageError:
    return UsageError(
        f"--out: another command writes to {claim.parent}, or was stopped while it did; if none does, remove {claim}"
    )
