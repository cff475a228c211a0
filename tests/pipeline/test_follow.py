"""Following live nodes: every row once as segments grow, whatever breaks in between, and what was lost is said."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.conftest import mount_option
from tests.pipeline.kills import command_of, finished, killed
from tests.pipeline.segments import GROUP, LiveNode
from whence.errors import InternalError, StorageError, TraceError, UsageError
from whence.pipeline import follow as following
from whence.pipeline.follow import Following, Lost, committed, follow, read_followed
from whence.pipeline.storage import UriPath
from whence.trace.incarnations import SegmentFacts


def numbers(spark: SparkSession, out: UriPath) -> list[tuple[int, int]]:
    return sorted((row["node"], row["ev"]) for row in read_followed(spark, out).select("node", "ev").collect())


def test_groups_of_different_levels_are_not_followed_as_one(spark: SparkSession, tmp_path: Path) -> None:
    """Neither in one step, nor where the other group's node begins later; nothing of it is committed."""
    LiveNode(tmp_path / "a", 0).close()
    LiveNode(tmp_path / "b", 1, level="total").close()
    with pytest.raises(TraceError, match=r"one is .* another is "):
        follow(spark, [tmp_path / "a", tmp_path / "b"], GROUP, tmp_path / "out", once=True)
    assert not committed(tmp_path / "out")
    follow(spark, [tmp_path / "a"], GROUP, tmp_path / "out", once=True)
    with pytest.raises(TraceError, match=r"one is fifo \(.*/a/.*\), another is total \(.*/b/"):
        follow(spark, [tmp_path / "a", tmp_path / "b"], GROUP, tmp_path / "out", once=True)
    assert committed(tmp_path / "out") == ["00000000"]


def test_rows_are_followed_once_as_segments_grow_and_losses_are_said(
    spark: SparkSession, tmp_path: Path, mounted: UriPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One node keeps all segments, one only the last two; a step breaks off before its commit and is done again."""
    behind, out = tmp_path / "behind" / "nodes", mounted / "out"
    whole, forgetful = LiveNode(behind / "a", 0), LiveNode(behind / "b", 1, segments_max=2)
    whole.publish(1)
    forgetful.publish(1)
    first = follow(spark, [mounted / "nodes"], GROUP, out, once=True)
    assert (first.number, first.rows, first.lost) == (0, 4, [])
    assert numbers(spark, out) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for seq in range(2, 40):
        whole.publish(seq)
        forgetful.publish(seq)

    def refuses(*_: Any) -> None:
        raise StorageError("the connection was reset")

    monkeypatch.setattr(following, "_commit", refuses)
    with pytest.raises(StorageError):
        follow(spark, [mounted / "nodes"], GROUP, out, once=True)
    monkeypatch.undo()
    assert len(numbers(spark, out)) == 4
    steps: list[following.Step] = []
    last = follow(spark, [mounted / "nodes"], GROUP, out, once=True, on_step=steps.append)
    [lost] = last.lost
    assert (lost.node, lost.inc, lost.first) == (1, 1, 2)
    assert steps == [last]
    there = [(0, ev) for ev in range(40)] + [(1, ev) for ev in range(40) if not lost.first <= ev < lost.end]
    assert numbers(spark, out) == there
    assert last.missing == lost.end - lost.first == 80 - len(there)
    assert lost.sentence() == f"process 1, incarnation 1, lost its rows 2 to {lost.end - 1}"
    assert follow(spark, [mounted / "nodes"], GROUP, out, once=True) == last, "nothing new is no step"
    assert committed(out) == ["00000000", "00000001"]
    for node in (whole, forgetful):
        node.close()


@pytest.mark.parametrize("moment", ["_look", "_write", "_content"])
def test_a_segment_that_is_removed_while_a_step_reads_is_lost_and_stops_nothing(
    spark: SparkSession, tmp_path: Path, mounted: UriPath, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Its node removes its two oldest segments: after they were listed, after they were looked into, or once the step
    has begun to read. The step commits what is left, and counts the rest."""
    node = LiveNode(tmp_path / "behind" / "nodes", 0)
    for seq in range(1, 40):
        node.publish(seq)
    node.close()
    oldest = sorted((tmp_path / "behind" / "nodes").iterdir())[:2]
    real = getattr(Following, moment)

    def removes(following: Following, *given: Any) -> Any:
        found = real(following, *given) if moment == "_content" else None
        for each in oldest:
            each.unlink(missing_ok=True)
        return found if moment == "_content" else real(following, *given)

    monkeypatch.setattr(Following, moment, removes)
    step = follow(spark, [mounted / "nodes"], GROUP, mounted / "out", once=True)
    [lost] = step.lost
    assert (lost.first, step.missing, step.rows) == (0, lost.end, 40 - lost.end)
    assert 1 < lost.end < 40
    assert numbers(spark, mounted / "out") == [(0, ev) for ev in range(lost.end, 40)]


def test_a_step_that_lost_rows_of_a_segment_that_is_there_is_not_committed(
    spark: SparkSession, tmp_path: Path, mounted: UriPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    LiveNode(tmp_path / "behind" / "nodes", 0).close()
    LiveNode(tmp_path / "behind" / "nodes", 1).close()
    real = Following._write
    monkeypatch.setattr(Following, "_write", lambda following, facts, where: real(following, facts[:1], where))
    with pytest.raises(InternalError, match="does not balance and is not committed: 2 rows are in segments, 1 were"):
        follow(spark, [mounted / "nodes"], GROUP, mounted / "out", once=True)
    assert committed(mounted / "out") == []


def test_what_a_step_knows_about_incarnations_adds_up() -> None:
    before = following.Step()
    facts = [
        SegmentFacts("a", 0, 1, 3, whole=90, rows=4, first=6, last=9),
        SegmentFacts("b", 0, 1, 4, whole=50, rows=3, first=10, last=13, holes=[(11, 12)], head={"lost": True}),
    ]
    after = following._after(before, facts, {"a", "b"})
    assert after.offsets == {"a": 90, "b": 50}
    assert after.lost == [Lost(0, 1, 0, 6), Lost(0, 1, 11, 12)]
    known = after.incarnations["0-1"]
    assert (known.rows, known.missing, known.next_ev, known.says_lost) == (7, 7, 14, True)
    assert before.incarnations == {}


def test_who_follows_later_goes_on_and_the_other_stops(spark: SparkSession, tmp_path: Path, mounted: UriPath) -> None:
    node = LiveNode(tmp_path / "behind" / "nodes", 0)
    former = Following(spark, [mounted / "nodes"], GROUP, mounted / "out")
    later = Following(spark, [mounted / "nodes"], GROUP, mounted / "out")
    with pytest.raises(StorageError, match="another writer began"):
        former.step()
    assert later.step() is not None
    node.close()
    with pytest.raises(UsageError, match="holds no rows yet"):
        read_followed(spark, mounted / "elsewhere")
    with pytest.raises(UsageError, match="give the directories"):
        follow(spark, [mounted / "nowhere"], GROUP, mounted / "other", once=True)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_a_follower_killed_at_any_moment_reads_every_row_once(
    spark: SparkSession, tmp_path: Path, mounted: UriPath, seed: int, long_mode: bool
) -> None:
    """Real processes, kill -9, on a file system without local paths, five times in each of three, while nodes write:
    every row is read once, and manifests count exactly the rows that their steps wrote."""
    behind = tmp_path / "behind"
    nodes = [LiveNode(behind / "nodes" / str(number), number, segments_max=10**4) for number in range(3)]
    published = Counter[int]()
    rng, out = Random(seed), behind / "out"
    name, mount = mount_option("killed", behind)
    place = "viewfs://killed/data"
    words = ("gather", f"{place}/nodes", "--out", f"{place}/out", "--group", GROUP, "--follow", "--every-s", "0.1")
    command = command_of(*words, settings={f"spark.hadoop.{name}": mount})

    def write() -> None:
        number = rng.randrange(len(nodes))
        published[number] += 1
        nodes[number].publish(published[number])

    for _ in range(5 if long_mode else 1):
        before = len(committed(out))
        assert killed(command, lambda before=before: len(committed(out)) > before, rng, 1.5, write)  # type: ignore[misc]
    for node in nodes:
        node.close()
    told = json.loads(finished([*command, "--once"]))
    wanted = sorted((number, ev) for number in range(3) for ev in range(published[number] + 1))
    assert numbers(spark, mounted / "out") == wanted
    assert (told["rows"], told["missing"]) == (len(wanted), 0)
    files = [out / "manifests" / f"{step}.json" for step in committed(out)]
    steps = [msgspec.json.decode(file.read_bytes(), type=following.Step) for file in files]
    written = read_followed(spark, mounted / "out").groupBy("step").count().collect()
    assert {int(row["step"]): row["count"] for row in written} == {step.number: step.rows for step in steps}
    assert [step.number for step in steps] == list(range(len(steps)))
    assert {each.next_ev for each in steps[-1].incarnations.values()} == {published[number] + 1 for number in range(3)}
    assert steps[-1].missing == 0
