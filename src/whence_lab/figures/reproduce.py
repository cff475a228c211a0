"""Reproduces a figure: runs what is missing as a sweep on Spark, sums up, judges, draws, and stores all beside it.

Below the directory of a figure:

    runs-CODE-SEED/   the sweep's jobs as Parquet; CODE names the source that ran, so results of two sources never mix.
                      What only judges and draws, and what only other figures need, is no part of it. Figures that
                      measure with the same function share them, below the directory of its module
    data.parquet      one row per configuration and seed: what was measured
    points.parquet    means with bands, per configuration and measure
    verdict.json      every sentence of the paper with its threshold, what was seen and the outcome
    verdict.md        the same as a table
    NAME.png, .svg    the picture

What is here already is not run again; a run that was interrupted goes on where it was. One command at a time works on a
figure's runs. Runs are counted against the plan, by configuration, number and seed: a sentence is not judged where one
is missing that it is judged by.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct, structs
from pyarrow import parquet

from whence import __version__
from whence.errors import StorageError
from whence.pipeline.experiments import band_table, planned, run_experiment
from whence.pipeline.session import configure_for_size, session
from whence.pipeline.sole_writer import sole_writer
from whence.pipeline.stored_runs import check_once
from whence.pipeline.sweep import Planned
from whence_lab.figures.catalogue import FIGURES, chosen
from whence_lab.figures.data import Data
from whence_lab.figures.figure import Figure, Measure
from whence_lab.figures.plots import draw
from whence_lab.figures.tables import table
from whence_lab.figures.verdicts import Sentence, judged

__all__ = ("FIGURES", "Reproduced", "chosen", "reproduce")

PACKAGES = ("whence", "whence_lab")
HERE = "whence_lab.figures"
AFTERWARDS = {f"{HERE}.{name}" for name in ("bands", "data", "plots", "reproduce", "shapes", "tables", "verdicts")}
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
    planned: int
    runs: int
    """Those of them that have a row."""
    data: str
    """The digest of data.parquet's rows: equal where every number of every run is."""
    errors: list[str]
    """What runs without a result said, each once."""
    sentences: list[Sentence]
    files: list[str]

    @property
    def as_documented(self) -> bool:
        """Return whether every run has a result and every sentence came out as the documents say."""
        judged = all(
            sentence.has_data and sentence.outcome not in ("fails", "not decided") for sentence in self.sentences
        )
        return self.runs == self.planned and not self.errors and judged


def reproduce(
    figure: Figure,
    out: Path,
    *,
    quick: bool,
    seed: int = 0,
    master: str | None = None,
    conf: dict[str, str] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    on_message: Callable[[str], None] | None = None,
) -> Reproduced:
    """Reproduce one figure below a directory.

    Raises UsageError where Spark does not start or the sweep stops, and StorageError where another command works on the
    same runs, or what is stored is not what a sweep stores.
    """
    plan, code = figure.quick if quick else figure.full, source_digest(figure.measure)
    spark = session(master, conf)
    configure_for_size(spark, 0)
    runs = planned(plan.configs, plan.seeds, seed, figure.same_draw)
    shared = out / figure.measure.__module__.rpartition(".")[2].replace("_", "-")
    with sole_writer(shared):
        into = shared / f"runs-{code[:12]}-{seed}"
        done = run_experiment(spark, runs, figure.measure, into, on_progress, on_message).cache()
        rows = [row.asDict() for row in done.collect()]
        check_once(rows, into)
        points = [row.asDict() for row in band_table(done).collect()]
        done.unpersist()
        data = Data(points, missing(runs, rows))
        kind = "quick" if quick else "full"
        result = Reproduced(
            name=figure.name, title=figure.title, source=figure.source, settings=figure.settings, kind=kind, seed=seed,
            version=__version__, code=code, planned=len(runs), runs=len(rows), data=data_digest(rows),
            errors=sorted({row["error"] for row in rows if row["error"]}), sentences=judged(figure, data), files=[],
        )  # fmt: skip
        try:
            return _stored(figure, result, data, rows, points, out / figure.name, plan.seeds)
        except OSError as error:
            raise StorageError(f"--out: {out / figure.name} cannot be written: {error.strerror or error}") from error


def missing(plan: Sequence[Planned], rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return, for every configuration of which a planned run has no result, how many have none."""
    came = {(row["config"], row["number"], row["seed"]) for row in rows if not row["error"]}
    return dict(Counter(run[0] for run in plan if run not in came))


def _stored(
    figure: Figure, result: Reproduced, data: Data, rows: list[dict[str, Any]], points: list[dict[str, Any]],
    where: Path, seeds: int,
) -> Reproduced:  # fmt: skip
    """Write data, picture and, last, the verdict; return the result with its files. Raises OSError."""
    where.mkdir(parents=True, exist_ok=True)
    (where / "verdict.json").unlink(missing_ok=True)
    (where / "verdict.md").unlink(missing_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows, ROWS), where / "data.parquet", compression="zstd")
    parquet.write_table(pa.Table.from_pylist(points), where / "points.parquet", compression="zstd")
    files = draw(figure, data, where, f"{result.kind}, {seeds} seed{'s' * (seeds > 1)}")
    result = structs.replace(result, files=[file.name for file in files])
    (where / "verdict.md").write_text(verdict_page(result), encoding="utf-8")
    text = msgspec.json.format(msgspec.json.encode(result), indent=1)
    (where / "verdict.json").write_bytes(text + b"\n")
    return result


def verdict_page(result: Reproduced) -> str:
    """Return settings, where the data is from, and the table of sentences, as they stand in docs/figures.md."""
    short = "" if result.runs == result.planned else f" of {result.planned:,}"
    of = f"{result.runs:,}{short} runs, source {result.code[:12]}, data {result.data[:12]}"
    source = result.source[0].upper() + result.source[1:]
    return f"{source}. {result.settings} {of}.\n\n{table(result.sentences)}"


ROWS = pa.schema(
    [("config", pa.string()), ("number", pa.int32()), ("seed", pa.int64()),
     ("measures", pa.map_(pa.string(), pa.float64())), ("error", pa.string())]
)  # fmt: skip


def data_digest(rows: list[dict[str, Any]]) -> str:
    """Return a digest of all that runs measured."""
    return blake2b(msgspec.json.encode(rows, order="deterministic"), digest_size=16).hexdigest()


def source_digest(measure: Measure) -> str:
    """Return a digest of the source of both packages, as far as what a measuring function returns can depend on it."""
    modules = {name: file for package in PACKAGES for name, file in _modules_of(package).items()}
    needed = _needed(measure.__module__, modules)
    digest = blake2b(digest_size=16)
    for name, file in modules.items():
        if name in needed or not name.startswith(f"{HERE}."):
            digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _modules_of(package: str) -> dict[str, Path]:
    """Return the files of a package by the names of their modules."""
    found = find_spec(package)
    top = Path(found.origin).parent if found is not None and found.origin is not None else Path()
    return {
        ".".join((package, *file.relative_to(top).with_suffix("").parts)): file for file in sorted(top.rglob("*.py"))
    }


def _needed(module: str, modules: dict[str, Path]) -> set[str]:
    """Return a module and those of figures that it imports, and these in turn, but for what only looks at results."""
    needed, new = set[str](), {module}
    while new:
        needed |= new
        trees = (ast.parse(modules[name].read_bytes()) for name in new if name in modules)
        imports = (node.module for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        new = {name for name in imports if name and name.startswith(f"{HERE}.")} - needed - AFTERWARDS
    return needed
