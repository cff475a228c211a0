"""Rows of an earlier incarnation that are gone accuse nobody and acquit nobody, whoever judges."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.net.lives import life
from tests.pipeline import plain_oracle
from tests.pipeline.engines import verify
from tests.pipeline.test_agreement import cells
from whence.check.judge import judge
from whence.check.levels import PROMISES_OF
from whence.trace.gathering import Gathering
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.segments import FORMER_MISSING, NO_TRACE, ROWS_LOST, last_segment_before
from whence.trace.writer import write_trace
from whence.wire.frame import HEADER_BYTES, announced

PROMISES = PROMISES_OF["causal"]


def deleted(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    """Only what says whose it is remains."""
    whole = path.read_bytes()
    path.write_bytes(whole[: HEADER_BYTES + announced(whole)])


def without_its_end(path: Path) -> None:
    """The last records are gone, each of them as a whole: what remains looks sound."""
    whole, ends, at = path.read_bytes(), [], 0
    while at < len(whole):
        at += HEADER_BYTES + announced(whole[at:])
        ends.append(at)
    path.write_bytes(whole[: ends[len(ends) // 2]])


def torn(path: Path) -> None:
    """Half of the last record: as if its machine had died, and it had not."""
    path.write_bytes(path.read_bytes()[:-5])


def changed_within(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)


def changed_at_its_head(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[HEADER_BYTES + 3] ^= 1
    path.write_bytes(whole)


WAYS: tuple[Callable[[Path], None], ...] = (
    deleted, emptied, without_its_end, torn, changed_within, changed_at_its_head
)  # fmt: skip


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what four incarnations recorded of which three were killed with an event in hand; the last took all."""
    directory = tmp_path_factory.mktemp("four")
    life("tree", directory, "kill", 3, "publish")
    life("tree", directory, "kill", 20)
    life("tree", directory, "kill", 30)
    life("tree", directory, "close", 40)
    return directory / "trace"


def incarnations(directory: Path) -> list[Path]:
    """Return the segments of a directory, one for each incarnation."""
    return sorted(directory.glob("*.rows"), key=incarnation)


def incarnation(path: Path) -> int:
    """Return the incarnation that wrote a segment."""
    return int(path.name.split("-")[3])


def gathered(directory: Path, run_id: str) -> tuple[Gathering, Trace]:
    found = Gathering([directory], "alps", run_id, "test")
    trace = Trace(found.run)
    for kind, row in found.rows():
        trace.rows[kind].append(row)
    return found, trace


def outcomes(spark: SparkSession, out: Path) -> dict[str, dict[str, set[str]]]:
    """Return what all verifiers say of every run below a directory, by run and promise."""
    said: dict[str, dict[str, set[str]]] = {}
    for judged in verify(spark, [out], PROMISES).runs:
        at = out / f"run_id={judged.run.run_id}"
        answers = (cells(judged.verdicts), cells(judge(read_trace(at), PROMISES)), plain_oracle.judge(at, PROMISES))
        said[judged.run.run_id] = {promise: {answer[promise][0] for answer in answers} for promise in PROMISES}
    return said


def write_damaged(traced: Path, work: Path) -> None:
    """Gather what is left after each way of damage to each earlier incarnation."""
    for number in range(3):
        for way in WAYS:
            run_id = f"{way.__name__}-{number}"
            shutil.copytree(traced, work / run_id)
            path = incarnations(work / run_id)[number]
            way(path)
            found, trace = gathered(work / run_id, run_id)
            assert found.incomplete == [(0, incarnation(path), NO_TRACE if way is deleted else ROWS_LOST)], run_id
            write_trace(work / "out", trace)


def write_scattered(work: Path) -> None:
    """Let each incarnation write to a directory of its own, and gather without the first of them, then with it."""
    for number, (how, count) in enumerate([("kill", 30), ("kill", 30), ("close", 32)]):
        life("tree", work, how, count, "" if number else "publish")
        (work / "trace").rename(work / f"trace-{number}")
    for number, run_id in ((1, ""), (2, "scattered"), (0, "scattered-all")):
        shutil.copytree(work / f"trace-{number}", work / "some" / str(number))
        found, trace = gathered(work / "some", run_id)
        (second,) = incarnations(work / "trace-1")
        assert ((0, incarnation(second), FORMER_MISSING) in found.incomplete) == (number != 0)
        if run_id:
            write_trace(work / "out", trace)


def test_rows_of_an_earlier_incarnation_that_are_gone_accuse_nobody_and_acquit_nobody(
    spark: SparkSession, traced: Path, tmp_path: Path
) -> None:
    """Whatever happens to the segments of one: gathering says whose rows are missing, and no verifier finds that an
    event came twice, out of order or never, nor that all is well. The same where an incarnation wrote elsewhere, and
    only a restart tells that its application had taken more than the rows say it was handed."""
    write_trace(tmp_path / "out", gathered(traced, "whole")[1])
    write_damaged(traced, tmp_path)
    write_scattered(tmp_path)
    said = outcomes(spark, tmp_path / "out")
    for run_id, by_promise in said.items():
        expected = "holds" if run_id in ("whole", "scattered-all") else "unknown"
        for promise in ("integrity", "no_duplicates", "fifo", "causal", "agreement"):
            assert by_promise[promise] == {expected}, (run_id, promise)
    assert len(said) == 3 * len(WAYS) + 3


def test_a_segment_says_which_incarnation_wrote_there_before(traced: Path) -> None:
    first, second, *_ = incarnations(traced)
    numbers = [incarnation(path) for path in (first, second)]
    assert last_segment_before(traced, "alps", 0, numbers[0]) is None
    assert last_segment_before(traced, "alps", 0, numbers[1]) == (numbers[0], 0, first.stat().st_size)
    assert last_segment_before(traced, "alps", 1, numbers[1]) is None
    assert last_segment_before(traced, "andes", 0, numbers[1]) is None
