"""Which engine a command runs on: DuckDB in this process for what is small, Spark for everything.

Both give the same results. Starting Spark takes longer than most small questions take on the local engine; a cluster,
input that does not fit into this machine, and what the local engine does not know need Spark.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from whence.pipeline.local.errors import NotLocal
from whence.pipeline.local.session import is_installed, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY_PER_BYTE: Final = 3
"""Memory that the local engine takes for a byte of rows: 2.4 to 2.8 were measured (docs/decisions/0041)."""
LOCAL_BYTES_MAX: Final = 3 << 30
"""The most that was measured: some 24 million rows, which the local engine judges sooner than Spark."""
_CONTAINER: Final = Path("/sys/fs/cgroup/memory.max")

Result = TypeVar("Result")


class Engine(StrEnum):
    """What does the work."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


def run_on(
    engine: Engine, input_bytes: int, job: "Callable[[SparkSession], Result]", start: "Callable[[], SparkSession]",
    *, asks_spark: bool = False, is_here: bool = True,
) -> Result:  # fmt: skip
    """Run a job on an engine, or on the one that suits its input; `start` starts Spark. Raises UsageError.

    `asks_spark`: a master or a setting of Spark was named. `is_here`: all places are paths of this machine. What the
    local engine does not know is done by Spark, unless somebody asked for the local engine; until then the job must
    leave nothing behind.
    """
    if engine is Engine.LOCAL and not is_here:
        raise NotLocal("places behind a URI")
    if engine is Engine.LOCAL or (engine is Engine.AUTO and is_here and _suits_local(input_bytes, asks_spark)):
        try:
            with local_session() as local:
                return job(local)
        except NotLocal:
            if engine is Engine.LOCAL:
                raise
    return job(start())


def _suits_local(input_bytes: int, asks_spark: bool) -> bool:
    if asks_spark or os.environ.get("WHENCE_MASTER") or not is_installed():
        return False
    return input_bytes <= local_bytes() or find_spec("pyspark") is None


def local_bytes() -> int:
    """Return how much input the local engine gets where nobody asks for another: what takes half of the memory."""
    return min(LOCAL_BYTES_MAX, _memory_bytes() // 2 // MEMORY_PER_BYTE)


def _memory_bytes() -> int:
    """Return the memory of this machine, or of the container that this process is in."""
    all_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no container, or one without a limit
        return min(all_bytes, int(_CONTAINER.read_text(encoding="ascii")))
    return all_bytes
