"""Which engine a command runs on: DuckDB in this process for what is small, Spark for everything.

Both give the same results. Starting Spark takes longer than most small questions take on the local engine; a cluster,
input that does not fit into this machine, and what the local engine does not know need Spark.
"""

import os
from collections.abc import Callable
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeVar

from whence.pipeline.local.errors import NotLocal
from whence.pipeline.local.session import is_installed, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_BYTES: Final = 1 << 30
"""Input up to this is handled by the local engine where nobody asks for another: some eight million rows."""

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
    return input_bytes <= LOCAL_BYTES or find_spec("pyspark") is None
