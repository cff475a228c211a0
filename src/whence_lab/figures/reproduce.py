"""Reproduces a figure: runs what is missing as a sweep on Spark, sums up, judges, draws, and stores all beside it.

Below the directory of a figure:

    runs-CODE-SEED/   the sweep's jobs as Parquet; CODE names the source that ran, so results of two sources never mix.
                      What only judges and draws is no part of it
    data.parquet      one row per configuration and seed: what was measured
    points.parquet    means with bands, per configuration and measure
    verdict.json      every sentence of the paper with its threshold, what was seen and the outcome
    NAME.png, .svg    the picture

What is here already is not run again; a run that was interrupted goes on where it was.
"""

from collections.abc import Callable
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyarrow import parquet

from whence import __version__
from whence.pipeline.experiments import band_table, planned, run_experiment
from whence.pipeline.session import configure_for_size, session
from whence_lab.figures.catalogue import FIGURES, chosen
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Figure
from whence_lab.figures.plots import draw
from whence_lab.figures.verdicts import Sentence, judged

__all__ = ("FIGURES", "Reproduced", "chosen", "reproduce")

PACKAGES = ("whence", "whence_lab")
AFTERWARDS = tuple(f"whence_lab/figures/{name}.py" for name in ("data", "plots", "shapes", "verdicts"))
"""Modules that only look at results: another picture needs no other run."""


class Reproduced(Struct, frozen=True):
    """What came of a figure. Its names are those of verdict.json."""

    name: str
    title: str
    source: str
    settings: str
    kind: str
    """quick or full."""
    seed: int
    version: str
    code: str
    """The digest of the source that ran."""
    runs: int
    data: str
    """The digest of data.parquet's rows: equal where every number of every run is."""
    errors: list[str]
    """What runs without a result said, each once."""
    sentences: list[Sentence]
    files: list[str]

    @property
    def as_documented(self) -> bool:
        """Return whether every run has a result and every sentence came out as the documents say."""
        return not self.errors and all(sentence.outcome != "fails" for sentence in self.sentences)


def reproduce(
    figure: Figure,
    out: Path,
    *,
    quick: bool,
    seed: int = 0,
    master: str | None = None,
    conf: dict[str, str] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Reproduced:
    """Reproduce one figure below a directory. Raises UsageError where Spark does not start or the sweep stops."""
    plan, code = figure.quick if quick else figure.full, source_digest()
    where = out / figure.name
    where.mkdir(parents=True, exist_ok=True)
    spark = session(master, conf)
    configure_for_size(spark, 0)
    runs = planned(plan.configs, plan.seeds, seed, figure.same_draw)
    done = run_experiment(spark, runs, figure.measure, where / f"runs-{code[:12]}-{seed}", on_progress).cache()
    rows = [row.asDict() for row in done.collect()]
    points = [row.asDict() for row in band_table(done).collect()]
    done.unpersist()
    parquet.write_table(pa.Table.from_pylist(rows, ROWS), where / "data.parquet", compression="zstd")
    parquet.write_table(pa.Table.from_pylist(points), where / "points.parquet", compression="zstd")
    data, kind = Data(points), "quick" if quick else "full"
    files = draw(figure, data, where, f"{kind}, {plan.seeds} seed{'s' * (plan.seeds > 1)}")
    result = Reproduced(
        name=figure.name, title=figure.title, source=figure.source, settings=figure.settings, kind=kind, seed=seed,
        version=__version__, code=code, runs=len(rows), data=data_digest(rows),
        errors=sorted({row["error"] for row in rows if row["error"]}), sentences=judged(figure, data),
        files=[file.name for file in files],
    )  # fmt: skip
    text = msgspec.json.format(msgspec.json.encode(result), indent=1)
    (where / "verdict.json").write_bytes(text + b"\n")
    return result


ROWS = pa.schema(
    [("config", pa.string()), ("number", pa.int32()), ("seed", pa.int64()),
     ("measures", pa.map_(pa.string(), pa.float64())), ("error", pa.string())]
)  # fmt: skip


def data_digest(rows: list[dict[str, Any]]) -> str:
    """Return a digest of all that runs measured."""
    return blake2b(msgspec.json.encode(rows, order="deterministic"), digest_size=16).hexdigest()


def source_digest() -> str:
    """Return a digest of the source of both packages, as far as a run can depend on it."""
    digest = blake2b(digest_size=16)
    for package in PACKAGES:
        found = find_spec(package)
        top = Path(found.origin).parent if found is not None and found.origin is not None else Path()
        named = {f"{package}/{file.relative_to(top).as_posix()}": file for file in sorted(top.rglob("*.py"))}
        for name, file in named.items():
            if name not in AFTERWARDS:
                digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
