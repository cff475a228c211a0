"""whence pack: what Spark's executors need, in one archive."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from whence.cli.output import print_json, stdout
from whence.cli.spark import need_spark


def pack(
    out: Annotated[Path, typer.Option(help="The archive to write; its name ends in .tar.gz.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Build the archive of Python packages that executors of a Spark cluster need, from this environment.

    It fits machines with the same platform and minor version of Python, and is given to Spark with --conf; the command
    prints how. Example: whence pack --out whence-executors.tar.gz
    """
    need_spark()
    from whence.pipeline.executors import pack as packed
    from whence.pipeline.executors import settings_for

    size = packed(out)
    settings = settings_for(out)
    if json:
        print_json(0, archive=str(out), bytes=size, settings=settings)
        return
    options = " ".join(f"--conf '{name}={value}'" for name, value in settings.items())
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stdout().print(f"{size / (1 << 20):,.0f} MiB: {out}")
    stdout().print(
        f"Give each command --master spark://HOST:PORT {options}; where executors have Python {version} under another "
        f"path than this machine, also set PYSPARK_PYTHON to it, such as PYSPARK_PYTHON=python{version}",
        soft_wrap=True, markup=False,
    )  # fmt: skip
