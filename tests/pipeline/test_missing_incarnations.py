"""Rows of an earlier incarnation that are gone accuse nobody and acquit nobody, whoever judges."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.net.lives import life
from tests.pipeline import plain_oracle
from tests.pipeline.test_agreement import cells
from whence.check.judge import judge
from whence.check.levels import PROMISES_OF
from whence.pipeline.verify import verify
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
    life("mesh", directory, "kill", 3, "publish")
    life("mesh", directory, "kill", 20)
    life("mesh", directory, "kill", 30)
    life("mesh", directory, "close", 40)
    return directory / "trace"


def incarnations(directory: Path) -> list[Path]:
    """Return the segments of a directory, one for each incarnation."""
    return sorted(directory.glob("*.rows"), key=lambda path: int(path.name.split("-")[3]))


def gathered(directory: Path, run_id: str) -> tuple[Gathering, Trace]:
    found = Gathering([directory], "alps", run_id, "test")
    trace = Trace(found.run)
    for kind, row in found.rows():
        trace.rows[kind].append(row)
    return found, trace


def outcomes(spark: SparkSession, out: Path) -> dict[str, dict[str, set[str]]]:
    """Return what all verifiers say of every run below a directory, by run and promise."""
    said: dict[str, dict[str, set[str]]] = {}
    for certify in (False, True):
        for judged in verify(spark, [out], PROMISES, certify=certify).runs:
            for promise, (outcome, _) in cells(judged.verdicts).items():
                said.setdefault(judged.run.run_id, {}).setdefault(promise, set()).add(outcome)
    for run_id, by_promise in said.items():
        at = out / f"run_id={run_id}"
        for answers in (cells(judge(read_trace(at), PROMISES)), plain_oracle.judge(at, PROMISES)):
            for promise, (outcome, _) in answers.items():
                by_promise[promise].add(outcome)
    return said


def test_rows_of_an_earlier_incarnation_that_are_gone_leave_it_open_what_was_delivered(
    spark: SparkSession, traced: Path, tmp_path: Path
) -> None:
    """Whatever happens to the segments of one: gathering says whose rows are missing, and no verifier finds that an
    event came twice, out of order or never, nor that all is well."""
    write_trace(tmp_path / "out", gathered(traced, "whole")[1])
    for number in range(3):
        for way in WAYS:
            run_id = f"{way.__name__}-{number}"
            shutil.copytree(traced, tmp_path / run_id)
            path = incarnations(tmp_path / run_id)[number]
            inc = int(path.name.split("-")[3])
            way(path)
            found, trace = gathered(tmp_path / run_id, run_id)
            assert found.incomplete == [(0, inc, NO_TRACE if way is deleted else ROWS_LOST)], run_id
            write_trace(tmp_path / "out", trace)
    said = outcomes(spark, tmp_path / "out")
    assert {said["whole"][promise] == {"holds"} for promise in ("no_duplicates", "fifo", "agreement")} == {True}
    for run_id in said.keys() - {"whole"}:
        for promise in ("integrity", "no_duplicates", "fifo", "causal", "agreement"):
            assert said[run_id][promise] == {"unknown"}, (run_id, promise)


def test_a_restart_tells_of_an_earlier_incarnation_that_wrote_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    """Each incarnation writes to a directory of its own, and not all are given: what the application had taken is more
    than what it was handed."""
    for number, (how, count) in enumerate([("kill", 30), ("kill", 30), ("close", 32)]):
        life("mesh", tmp_path, how, count, "" if number else "publish")
        (tmp_path / "trace").rename(tmp_path / f"trace-{number}")
    shutil.copytree(tmp_path / "trace-1", tmp_path / "some" / "1")
    shutil.copytree(tmp_path / "trace-2", tmp_path / "some" / "2")
    found, trace = gathered(tmp_path / "some", "some")
    (second,) = incarnations(tmp_path / "trace-1")
    assert (0, int(second.name.split("-")[3]), FORMER_MISSING) in found.incomplete
    assert trace.rows, trace
    write_trace(tmp_path / "out", trace)
    assert outcomes(spark, tmp_path / "out")["some"]["no_duplicates"] == {"unknown"}
    shutil.copytree(tmp_path / "trace-0", tmp_path / "some" / "0")
    found, trace = gathered(tmp_path / "some", "all")
    assert found.incomplete == []
    write_trace(tmp_path / "whole", trace)
    assert outcomes(spark, tmp_path / "whole")["all"]["no_duplicates"] == {"holds"}


def test_a_segment_says_which_incarnation_wrote_there_before(traced: Path) -> None:
    first, second, *_ = incarnations(traced)
    numbers = [int(path.name.split("-")[3]) for path in (first, second)]
    assert last_segment_before(traced, "alps", 0, numbers[0]) is None
    assert last_segment_before(traced, "alps", 0, numbers[1]) == (numbers[0], 0, first.stat().st_size)
    assert last_segment_before(traced, "alps", 1, numbers[1]) is None
    assert last_segment_before(traced, "andes", 0, numbers[1]) is None
