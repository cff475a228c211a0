"""Spools: rows on file before anything else, bounded, gathered from many processes into one trace."""

import os
import tracemalloc
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import msgpack

from whence.check.history import History
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.cli.app import run as command
from whence.cli.gather import write_gathered
from whence.errors import TraceError
from whence.trace.gathering import Gathering, gather
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.schema import ACK_MANUAL, COLUMNS_OF, Kind
from whence.trace.segments import (
    FORMER_MISSING,
    ROWS_LOST,
    TraceSegmentWriter,
    is_damaged,
    read_segment,
    rows_between,
    whole_until,
)
from whence.trace.writer import TraceWriter, write_trace
from whence.wire.frame import sealed


def row(kind: Kind, node: int, inc: int, ev: int, **values: object) -> tuple[object, ...]:
    given = {"node": node, "inc": inc, "ev": ev, "t_clk": ev, "grp": "alps", **values}
    return tuple(given.get(name) for name in COLUMNS_OF[kind])


def spooled(
    directory: Path, node: int, inc: int, *rows: tuple[Kind, tuple[object, ...]], level: str = "fifo",
    about: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    spool = TraceSegmentWriter(directory, "alps", level, node, inc, about=about)
    for kind, each in rows:
        spool.add(kind, each)
    spool.close()


@pytest.mark.parametrize("place", ["b", "a"])
@pytest.mark.parametrize(
    ("level", "about", "said"),
    [("total", None, "total"), ("fifo", {"settings": {"membership": "living"}}, "fifo on views")],
)
def test_groups_of_one_name_and_of_different_levels_are_no_run(
    tmp_path: Path, place: str, level: str, about: dict[str, Any] | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their promises differ, and the rows of one would break those of the other; also where nodes share a directory."""
    spooled(tmp_path / "a", 0, 1, (Kind.JOIN, row(Kind.JOIN, 0, 1, 0)))
    spooled(tmp_path / place, 0, 2, (Kind.JOIN, row(Kind.JOIN, 0, 2, 0)), level=level, about=about)
    refused = rf"one is fifo \(.*/a/spool-.*-0-1-000000.rows\), another is {said} \(.*/{place}/spool-.*-0-2-000000.rows"
    with pytest.raises(TraceError, match=refused):
        gather([tmp_path], "alps", "run", "1")
    assert command(["gather", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "give the directories of one of them" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("run_id=*"))


def test_spools_of_many_processes_become_one_trace(tmp_path: Path) -> None:
    published = row(Kind.PUBLISH, 0, 1, 1, m_pid=0, m_inc=1, m_seq=1, payload_bytes=1)
    spooled(tmp_path / "a", 0, 1, (Kind.JOIN, row(Kind.JOIN, 0, 1, 0)), (Kind.PUBLISH, published))
    gap = row(Kind.GAP, 1, 1, 1, ids=((0, 1, 1),))
    spooled(tmp_path / "b", 1, 1, (Kind.JOIN, row(Kind.JOIN, 1, 1, 0)), (Kind.GAP, gap))
    trace = gather([tmp_path / "a", tmp_path / "b"], "alps", "run", "1")
    assert trace.run.nodes == [0, 1]
    assert trace.run.level == "fifo"
    assert trace.rows[Kind.PUBLISH] == [published]
    assert trace.rows[Kind.GAP] == [gap]
    assert read_trace(write_trace(tmp_path / "out", trace)).count() == trace.count()


def test_a_life_that_another_follows_has_crashed_unless_it_left(tmp_path: Path) -> None:
    spooled(tmp_path, 0, 1, (Kind.JOIN, row(Kind.JOIN, 0, 1, 0)))
    spooled(tmp_path, 0, 2, (Kind.JOIN, row(Kind.JOIN, 0, 2, 0)), (Kind.LEAVE, row(Kind.LEAVE, 0, 2, 1)))
    spooled(tmp_path, 0, 3, (Kind.JOIN, row(Kind.JOIN, 0, 3, 0)))
    crashes = gather([tmp_path], "alps", "run", "1").rows[Kind.CRASH]
    assert [(crash[0], crash[1], crash[2]) for crash in crashes] == [(0, 1, 1)]


def test_rows_are_on_file_after_a_flush_and_a_torn_tail_is_left_out(tmp_path: Path) -> None:
    spool = TraceSegmentWriter(tmp_path, "alps", "fifo", 0, 1)
    spool.add(Kind.JOIN, row(Kind.JOIN, 0, 1, 0))
    spool.flush()
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes() + b"\x05\x00\x00\x00torn")
    assert gather([tmp_path], "alps", "run", "1").count() == 1
    spool.close()
    spool.close()


def test_segments_are_bounded_in_size_and_number_and_what_is_missing_shows(tmp_path: Path) -> None:
    spool = TraceSegmentWriter(tmp_path, "alps", "fifo", 0, 1, segment_bytes=500, segments_max=3)
    for number in range(200):
        spool.add(Kind.NOTE, row(Kind.NOTE, 0, 1, number, reason="x"))
        spool.flush()
    spool.close()
    assert len(list(tmp_path.iterdir())) <= 3
    rows = gather([tmp_path], "alps", "run", "1").rows[Kind.NOTE]
    assert rows[-1][2] == 199
    assert rows[0][2] > 0


class Disk(FileIO):
    """A file on a disk that may have become full."""

    room: int | None = None
    """Bytes that still fit; None: enough."""

    def write(self, data: Any) -> int:
        """Write what fits, as a disk does; say that nothing fits only to who comes after that."""
        if Disk.room == 0:
            raise OSError(28, "No space left on device")
        if Disk.room is None or len(data) <= Disk.room:
            return super().write(data)
        fits, Disk.room = Disk.room, 0
        return super().write(bytes(data)[:fits])


def test_rows_that_the_disk_does_not_take_are_lost_and_what_is_missing_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "open", lambda path, mode, buffering: Disk(path, mode))
    lost: list[int] = []
    spool = TraceSegmentWriter(
        tmp_path, "alps", "fifo", 0, 1, segment_bytes=400, segments_max=3, on_lost=lambda n, _: lost.append(n)
    )
    for number in range(40):
        monkeypatch.setattr(Disk, "room", {10: 30}.get(number, Disk.room if number < 20 else None))
        spool.add(Kind.NOTE, row(Kind.NOTE, 0, 1, number, reason="x"))
        spool.flush()
    spool.close()
    monkeypatch.undo()
    assert lost == [1] * 10
    kept = [each[2] for each in gather([tmp_path], "alps", "run", "1").rows[Kind.NOTE]]
    assert kept == [*[number for number in range(kept[0], 40) if not 10 <= number < 20], 41]
    assert kept[0] < 10  # what cannot be written pushes nothing out


def test_a_trace_whose_last_rows_are_lost_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that stays full leaves no gap behind it; an event that only others tell of must not look like a lie."""
    monkeypatch.setattr(Path, "open", lambda path, mode, buffering: Disk(path, mode))
    spool = TraceSegmentWriter(tmp_path, "alps", "fifo", 0, 1)
    for number in range(20):
        monkeypatch.setattr(Disk, "room", 0 if number >= 10 else None)
        spool.add(Kind.NOTE, row(Kind.NOTE, 0, 1, number, reason="x"))
        spool.flush()
    spool.close()
    monkeypatch.undo()
    trace = gather([tmp_path], "alps", "run", "1")
    assert [each[2] for each in trace.rows[Kind.NOTE]] == [*range(10), 11]
    assert History(trace).incomplete is not None


def test_what_is_no_spool_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no trace of group"):
        gather([tmp_path], "alps", "run", "1")
    (tmp_path / f"spool-{b'alps'.hex()}-0-1-000000.rows").write_bytes(b"nonsense")
    with pytest.raises(TraceError, match="is no trace segment"):
        gather([tmp_path], "alps", "run", "1")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TraceError, match="cannot be written"):
        TraceSegmentWriter(tmp_path / "file" / "x", "alps", "fifo", 0, 1)


def handed(inc: int, ev: int, seq: int, pid: int = 1) -> tuple[Kind, tuple[object, ...]]:
    return Kind.DELIVER, row(Kind.DELIVER, 0, inc, ev, m_pid=pid, m_inc=1, m_seq=seq)


def restarted(inc: int, value: int) -> tuple[Kind, tuple[object, ...]]:
    return Kind.RESTART, row(Kind.RESTART, 0, inc, 0, value=value)


def told(trace: Trace) -> tuple[list[tuple[int, int]], list[tuple[int, int, str]]]:
    """Return what was delivered, by life, and what was noted."""
    notes = [note for note in trace.records(Kind.NOTE) if note["m_seq"] is not None]
    return [(each["inc"], each["m_seq"]) for each in trace.records(Kind.DELIVER)], [
        (note["inc"], note["m_seq"], note["reason"]) for note in notes
    ]


def test_what_was_in_hand_when_its_process_died_may_be_handed_out_again(tmp_path: Path) -> None:
    """A restart says how much was taken before it; an event, or a batch, beyond that comes again and counts once."""
    spooled(tmp_path, 1, 1)
    spooled(tmp_path, 0, 1, handed(1, 0, 1), handed(1, 1, 2), handed(1, 2, 3))
    spooled(tmp_path, 0, 2, restarted(2, 1), handed(2, 1, 2))
    spooled(tmp_path, 0, 3, restarted(3, 2), handed(3, 1, 3), handed(3, 2, 4))
    delivered, notes = told(gather([tmp_path], "alps", "run", "1", durable=True))
    assert delivered == [(1, 1), (2, 2), (3, 3), (3, 4)]
    assert notes == [(1, 2, "untaken"), (1, 3, "untaken")]


def test_what_was_not_in_hand_and_comes_again_is_a_second_delivery(tmp_path: Path) -> None:
    """A process that says it took less than it was handed hides nothing: only one batch can have been in hand."""
    spooled(tmp_path, 1, 1)
    spooled(tmp_path, 0, 1, handed(1, 0, 1), handed(1, 1, 1, pid=2), handed(1, 2, 2))
    spooled(tmp_path, 0, 2, restarted(2, 0), handed(2, 1, 1), handed(2, 2, 1, pid=2), handed(2, 3, 2))
    delivered, notes = told(gather([tmp_path], "alps", "run", "1", durable=True))
    assert delivered == [(1, 1), (1, 1), (2, 1), (2, 1), (2, 2)]
    assert notes == [(1, 2, "untaken")]


def test_who_acknowledges_itself_may_have_many_events_in_hand(tmp_path: Path) -> None:
    manual = (Kind.NOTE, row(Kind.NOTE, 0, 1, 0, reason=ACK_MANUAL))
    spooled(tmp_path, 1, 1)
    spooled(tmp_path, 0, 1, manual, handed(1, 1, 1), handed(1, 2, 1, pid=2), handed(1, 3, 2))
    spooled(tmp_path, 0, 2, restarted(2, 0), handed(2, 1, 1), handed(2, 2, 1, pid=2), handed(2, 3, 2))
    delivered, notes = told(gather([tmp_path], "alps", "run", "1", durable=True))
    assert delivered == [(2, 1), (2, 1), (2, 2)]
    assert [note[:2] for note in notes] == [(1, 1), (1, 1), (1, 2)]


def test_what_a_process_says_it_took_and_was_never_handed_is_missing(tmp_path: Path) -> None:
    spooled(tmp_path, 1, 1, *[(Kind.PUBLISH, row(Kind.PUBLISH, 1, 1, n, m_pid=1, m_inc=1, m_seq=n)) for n in range(4)])
    spooled(tmp_path, 0, 1, (Kind.JOIN, row(Kind.JOIN, 0, 1, 0)), handed(1, 1, 0), handed(1, 2, 1))
    spooled(tmp_path, 0, 2, restarted(2, 4), (Kind.JOIN, row(Kind.JOIN, 0, 2, 1)))
    trace = gather([tmp_path], "alps", "run", "1", durable=True, groups={"alps": [0]})
    assert judge(trace, promises=["agreement"])[0].outcome is Outcome.BROKEN


def test_a_count_that_no_segments_vouch_for_tells_of_rows_that_are_missing(tmp_path: Path) -> None:
    """The same rows, and the incarnations wrote to different directories: a third may have written between them."""
    spooled(tmp_path / "a", 0, 1, (Kind.JOIN, row(Kind.JOIN, 0, 1, 0)), handed(1, 1, 0), handed(1, 2, 1))
    spooled(tmp_path / "b", 0, 2, restarted(2, 4), handed(2, 1, 4), handed(2, 2, 5))
    spooled(tmp_path / "b", 0, 3, restarted(3, 5), handed(3, 1, 5))
    found = Gathering([tmp_path], "alps", "run", "1", durable=True)
    assert (0, 2, FORMER_MISSING) in found.incomplete
    delivered, notes = told(gather([tmp_path], "alps", "run", "1", durable=True))
    assert delivered == [(1, 0), (1, 1), (2, 4), (3, 5)]
    assert notes == [(2, 5, "untaken")], "what was taken and not seen is counted, so what was in hand is still known"


def test_an_incarnation_without_a_trace_between_two_others_is_told_by_what_was_taken(tmp_path: Path) -> None:
    spooled(tmp_path, 0, 1, (Kind.JOIN, row(Kind.JOIN, 0, 1, 0)), handed(1, 1, 0))
    spool = TraceSegmentWriter(tmp_path, "alps", "fifo", 0, 3, about={"previous": 2})
    spool.add(*restarted(3, 4))
    spool.close()
    found = Gathering([tmp_path], "alps", "run", "1", durable=True)
    assert (0, 3, FORMER_MISSING) in found.incomplete


def test_what_was_handed_out_before_a_directory_was_wiped_is_no_part_of_what_a_restart_counts(tmp_path: Path) -> None:
    """The directory of the second incarnation knows no earlier one; the third goes on from it, and lost nothing."""
    spooled(tmp_path, 0, 1, (Kind.JOIN, row(Kind.JOIN, 0, 1, 0)), handed(1, 1, 0), handed(1, 2, 1), handed(1, 3, 2))
    fresh = TraceSegmentWriter(tmp_path, "alps", "fifo", 0, 2, about={"previous": None})
    for each in (handed(2, 0, 7), handed(2, 1, 8)):
        fresh.add(*each)
    fresh.close()
    again = TraceSegmentWriter(tmp_path, "alps", "fifo", 0, 3, about={"previous": 2})
    for each in (restarted(3, 2), handed(3, 1, 9)):
        again.add(*each)
    again.close()
    delivered, notes = told(gather([tmp_path], "alps", "run", "1", durable=True))
    assert delivered == [(1, 0), (1, 1), (1, 2), (2, 7), (2, 8), (3, 9)]
    assert notes == []


def test_who_returns_with_its_newest_directory_after_an_older_one_was_refused_lost_nothing(tmp_path: Path) -> None:
    """The second incarnation begins with a copy that knows less; the third goes on from the first."""
    spooled(tmp_path, 1, 1, *[(Kind.PUBLISH, row(Kind.PUBLISH, 1, 1, n, m_pid=1, m_inc=1, m_seq=n)) for n in range(5)])
    spooled(tmp_path, 0, 1, *[handed(1, n, n) for n in range(4)])
    for inc, taken, more in ((2, 1, []), (3, 4, [handed(3, 1, 4)]), (4, 4, [handed(4, 1, 4)])):
        spool = TraceSegmentWriter(tmp_path, "alps", "fifo", 0, inc, about={"previous": {2: 1, 3: 1, 4: 3}[inc]})
        for each in (restarted(inc, taken), *more):
            spool.add(*each)
        spool.close()
    found = Gathering([tmp_path], "alps", "run", "1", durable=True)
    assert found.incomplete == []
    delivered, notes = told(gather([tmp_path], "alps", "run", "1", durable=True))
    assert delivered == [(1, 0), (1, 1), (1, 2), (1, 3), (4, 4)]
    assert notes == [(3, 4, "untaken")]


def test_rows_that_are_not_numbered_on_are_missing(tmp_path: Path) -> None:
    """Gathering says so too, and adds no row: every reader sees it by itself."""
    spooled(tmp_path, 0, 1, (Kind.JOIN, row(Kind.JOIN, 0, 1, 1)), (Kind.NOTE, row(Kind.NOTE, 0, 1, 2)))
    found = Gathering([tmp_path], "alps", "run", "1")
    assert found.incomplete == [(0, 1, ROWS_LOST)]
    assert sum(1 for _ in found.rows()) == 2


def test_a_segment_whose_head_is_damaged_is_left_out_and_told(tmp_path: Path) -> None:
    spooled(tmp_path, 0, 1, (Kind.JOIN, row(Kind.JOIN, 0, 1, 0)))
    spooled(tmp_path, 1, 1, (Kind.JOIN, row(Kind.JOIN, 1, 1, 0)))
    (path,) = tmp_path.glob("*-1-1-*.rows")
    path.write_bytes(path.read_bytes().replace(b"alps", b"alpx", 1))
    found = Gathering([tmp_path], "alps", "run", "1")
    assert found.incomplete == [(1, 1, ROWS_LOST)]
    assert [each[0] for each in gather([tmp_path], "alps", "run", "1").rows[Kind.JOIN]] == [0]


def test_a_publication_told_of_twice_around_a_crash_counts_once(tmp_path: Path) -> None:
    def told(inc: int, ev: int) -> tuple[Kind, tuple[object, ...]]:
        return Kind.PUBLISH, row(Kind.PUBLISH, 0, inc, ev, m_pid=0, m_inc=1, m_seq=1)

    spooled(tmp_path, 0, 1, told(1, 0))
    spooled(tmp_path, 0, 2, (Kind.RESTART, row(Kind.RESTART, 0, 2, 0, value=0)), told(2, 1))
    trace = gather([tmp_path], "alps", "run", "1", durable=True)
    assert [each["inc"] for each in trace.records(Kind.PUBLISH)] == [1]
    assert [each["reason"] for each in trace.records(Kind.NOTE)] == ["told_again"]


def test_a_publisher_that_left_no_trace_is_told_of_and_nobody_is_accused(tmp_path: Path) -> None:
    """Its events were delivered; that nobody published them would rest on rows that were not given."""
    delivered = row(Kind.DELIVER, 1, 1, 1, m_pid=7, m_inc=3, m_seq=1, payload_bytes=1)
    spooled(tmp_path, 1, 1, (Kind.JOIN, row(Kind.JOIN, 1, 1, 0)), (Kind.DELIVER, delivered))
    trace = gather([tmp_path], "alps", "run", "1")
    assert trace.run.nodes == [1, 7]
    verdict = judge(trace, promises=["integrity"])[0]
    assert verdict.outcome is Outcome.UNKNOWN
    assert "the rows of process 7 in its incarnation 3" in verdict.sentence
    assert [note[3] for note in trace.rows[Kind.NOTE]] == [1], "its time is one of the run"


def test_a_spool_that_rests_holds_no_file_and_goes_on_where_it_was(tmp_path: Path) -> None:
    spool = TraceSegmentWriter(tmp_path / "t", "alps", "fifo", 1, 7)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(3):
        spool.add(Kind.NOTE, row(Kind.NOTE, 1, 7, number + 1))
        spool.rest()
        assert len(os.listdir("/proc/self/fd")) == before - 1
    spool.close()
    [path] = (tmp_path / "t").iterdir()
    _, rows = read_segment(path)
    assert list(rows) == [(Kind.NOTE, row(Kind.NOTE, 1, 7, number + 1)) for number in range(3)]


def test_only_its_user_may_read_a_trace(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        TraceSegmentWriter(tmp_path / "t", "alps", "fifo", 1, 7).close()
    finally:
        os.umask(before)
    for each in (tmp_path / "t", *(tmp_path / "t").iterdir()):
        assert each.stat().st_mode & 0o077 == 0, each


def test_a_gathered_run_says_how_to_judge_it(tmp_path: Path) -> None:
    """What members were opened with is in the heads of their spools: who remembers, who founded, which settings."""
    settings = {"view": "full", "tick_ns": 1000, "epsilon": 3}
    for node in (0, 1):
        about = {"durable": True, "founders": [0, 1, 2], "settings": settings}
        spool = TraceSegmentWriter(tmp_path, "alps", "causal", node, 1, about=about)
        spool.add(Kind.JOIN, row(Kind.JOIN, node, 1, 0))
        spool.close()
    found = Gathering([tmp_path, tmp_path], "alps", "run", "1")
    run = found.run
    assert (run.durable, run.groups, run.parameters) == (True, {"alps": [0, 1, 2]}, settings)
    assert (run.tick_ns, run.epsilon, run.delta) == (1000, 3, None)
    assert found.incomplete == [(2, 1, "no_trace")]  # a founder is owed everything; nobody knows what it got
    trace = gather([tmp_path], "alps", "run", "1")
    assert len(trace.rows[Kind.JOIN]) == 2
    assert History(trace).incomplete is not None


def test_a_gathered_run_says_who_remembers_where_some_do(tmp_path: Path) -> None:
    for node, inc, durable in ((0, 1, False), (1, 1, True), (1, 2, True), (2, 1, True), (2, 3, False)):
        spool = TraceSegmentWriter(tmp_path, "alps", "causal", node, inc, about={"durable": durable, "founders": []})
        spool.add(Kind.JOIN, row(Kind.JOIN, node, inc, 0))
        spool.close()
    run = gather([tmp_path], "alps", "run", "1").run
    assert (run.durable, run.forgetful) == (True, [(0, 1), (2, 3)])


def test_gathering_holds_one_record_at_a_time_however_long_the_spools_are(tmp_path: Path) -> None:
    """Ten times the rows, the same memory."""
    peaks = []
    for rows in (2_000, 20_000):
        spool = TraceSegmentWriter(tmp_path / str(rows), "alps", "fifo", 0, 1, segment_bytes=1 << 20)
        for number in range(rows):
            spool.add(Kind.NOTE, row(Kind.NOTE, 0, 1, number, reason="x" * 50))
            if number % 100 == 99:
                spool.flush()
        spool.close()
        tracemalloc.start()
        found = Gathering([tmp_path / str(rows)], "alps", "run", "1")
        assert sum(1 for _ in found.rows()) == rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]


def test_a_gathered_trace_is_written_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks, none lost and none twice, and the same rows as in one piece."""
    monkeypatch.setattr("whence.cli.gather.DRAIN_ROWS", 10)
    monkeypatch.setattr(TraceWriter.__init__, "__defaults__", (20,))
    spool = TraceSegmentWriter(tmp_path / "spools", "alps", "fifo", 0, 1)
    for number in range(95):
        spool.add(Kind.NOTE, row(Kind.NOTE, 0, 1, number, reason="x"))
    spool.close()
    found = Gathering([tmp_path / "spools"], "alps", "run", "1")
    path, rows = write_gathered(tmp_path / "out", found)
    assert rows == 95
    assert len(list((path / "kind=note").iterdir())) == 5
    assert read_trace(path).rows == gather([tmp_path / "spools"], "alps", "run", "1").rows


def test_what_is_gathered_again_replaces_its_own_run_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for grp in ("alps", "andes"):
        spool = TraceSegmentWriter(tmp_path / grp, grp, "fifo", 0, 1)
        spool.add(Kind.NOTE, row(Kind.NOTE, 0, 1, 0, reason="x"))
        spool.close()

    def gathered_of(grp: str, *more: str) -> int:
        return command(["gather", str(tmp_path / grp), "--group", grp, "--out", str(tmp_path / "out"), *more])

    assert gathered_of("alps") == 0
    assert gathered_of("alps") == 0, "nodes go on writing: the newest picture of a run takes its place"
    assert gathered_of("andes") == 2
    assert "has a run 'live' of group alps already; give another --run-id or --out" in capsys.readouterr().err
    assert gathered_of("andes", "--run-id", "second") == 0


def written(directory: Path) -> Path:
    """Return a spool of one process with some flushes."""
    spool = TraceSegmentWriter(directory, "alps", "fifo", 7, 3)
    for at in range(40):
        spool.add(Kind.NOTE, row(Kind.NOTE, 7, 3, at))
        spool.flush()
    spool.close()
    (path,) = directory.glob("*.rows")
    return path


def test_a_flipped_bit_in_a_spool_is_told_and_not_taken_for_its_end(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    assert gather([tmp_path], "alps", "run", "1").count() == 40
    head = len(whole) // 41
    for bit in range(8 * (head + 200), 8 * (len(whole) - 60), 97):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert Gathering([tmp_path], "alps", "run", "1").incomplete == [(7, 3, ROWS_LOST)], bit


def test_half_a_record_at_the_end_is_how_a_machine_dies(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    assert Gathering([tmp_path], "alps", "run", "1").incomplete == []


def test_zeros_behind_the_last_record_are_a_torn_tail_and_no_records(tmp_path: Path) -> None:
    """File systems extend a file before its bytes arrive."""
    path = written(tmp_path)
    for zeros in (1, 8, 64):
        path.write_bytes(path.read_bytes() + bytes(zeros))
        found = Gathering([tmp_path], "alps", "run", "1")
        assert (found.incomplete, sum(1 for _ in found.rows())) == ([], 40)


@given(noise=st.binary(max_size=200), head=st.booleans(), cut=st.integers(0, 200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_bytes_a_segment_has_are_rows_or_one_error(tmp_path: Path, noise: bytes, head: bool, cut: int) -> None:
    path = tmp_path / "segment"
    whole = sealed(msgpack.encode({"group": "alps"})) if head else b""
    path.write_bytes(whole + noise[:cut] + sealed(b"\x90") + noise[cut:])
    end = whole_until(path, 0)
    assert len(whole) <= end <= path.stat().st_size
    assert is_damaged(path, last=True) <= is_damaged(path, last=False) == (end < path.stat().st_size)
    try:
        rows = list(read_segment(path)[1])
    except TraceError:
        return
    assert rows == list(rows_between(path, 0, end)) == list(rows_between(path, 0, path.stat().st_size))


def shortened(tmp_path: Path, *last: tuple[Kind, tuple[object, ...]]) -> Trace:
    """Return a run in which process 1 delivered two events of process 0, whose spool tells of one and then of these."""
    events = [{"m_pid": 0, "m_inc": 1, "m_seq": seq} for seq in (1, 2)]
    told = (Kind.PUBLISH, row(Kind.PUBLISH, 0, 1, 1, **events[0]))
    spooled(tmp_path, 0, 1, (Kind.JOIN, row(Kind.JOIN, 0, 1, 0)), told, *last)
    delivered = [(Kind.DELIVER, row(Kind.DELIVER, 1, 1, ev, **event)) for ev, event in enumerate(events, 1)]
    spooled(tmp_path, 1, 1, (Kind.JOIN, row(Kind.JOIN, 1, 1, 0)), *delivered)
    return gather([tmp_path], "alps", "run", "1")


def test_a_spool_that_ends_before_events_that_others_have_accuses_nobody(tmp_path: Path) -> None:
    """Its end was cut off, or is not on file yet: that the event was never published would rest on missing rows."""
    (verdict,) = judge(shortened(tmp_path), promises=["integrity"])
    assert verdict.outcome is Outcome.UNKNOWN
    assert "the rows of process 0" in verdict.sentence


def test_who_told_of_its_end_published_nothing_else(tmp_path: Path) -> None:
    (verdict,) = judge(shortened(tmp_path, (Kind.LEAVE, row(Kind.LEAVE, 0, 1, 2))), promises=["integrity"])
    assert verdict.outcome is Outcome.BROKEN
    assert "which nobody published" in verdict.sentence


def test_the_group_may_be_left_out_where_there_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spooled(tmp_path / "a", 0, 1, handed(1, 0, 0, pid=0))
    out = ("--out", str(tmp_path / "out"))
    assert command(["gather", str(tmp_path / "a"), *out]) == 0
    assert "was gathered before" not in capsys.readouterr().err
    assert command(["gather", str(tmp_path / "a"), *out]) == 0
    assert "run_id=live was gathered before (" in (said := " ".join(capsys.readouterr().err.split()))
    assert "and is replaced; give another --run-id to keep both" in said
    other = TraceSegmentWriter(tmp_path / "a", "dolomites", "fifo", 0, 1)
    other.close()
    assert command(["gather", str(tmp_path / "a"), *out]) == 2
    assert "traces of the groups alps, dolomites: give one of them" in " ".join(capsys.readouterr().err.split())
    assert command(["gather", str(tmp_path), *out, "--group", "alpen"]) != 0
