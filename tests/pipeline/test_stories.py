"""What Spark found broken is told like `whence check` tells it: in a few steps, a bounded number, the rest counted."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.check.trace_builder import TraceBuilder
from whence.check.judge import judge
from whence.cli.app import run as command
from whence.pipeline import stories as telling
from whence.pipeline.events import find_input
from whence.pipeline.page import Measured, report_page
from whence.pipeline.stories import broken_promises, promises_left_out
from whence.pipeline.verify import Judged, Verified
from whence.trace.memory import Trace
from whence.trace.writer import write_trace


def broken(run_id: str, events: int = 5) -> Trace:
    """Every event of process 0 comes to process 2 after what process 1 answered to it."""
    builder = TraceBuilder(level="causal")
    for _ in range(events):
        cause = builder.publish(0)
        builder.deliver(0, cause)
        builder.deliver(1, cause)
        effect = builder.publish(1)
        for node in (1, 0, 2):
            builder.deliver(node, effect)
        builder.deliver(2, cause)
    builder.trace.run.run_id = run_id
    return builder.trace


def judged(tmp_path: Path, *traces: Trace) -> Verified:
    for trace in traces:
        write_trace(tmp_path, trace)
    return Verified([Judged(trace.run, judge(trace, ["causal", "no_duplicates"])) for trace in traces], [])


def test_a_broken_promise_is_told_in_steps_and_the_rest_is_counted(tmp_path: Path) -> None:
    done = judged(tmp_path, broken("one"))
    (told,) = broken_promises(find_input([tmp_path]), done)
    assert (told.run_id, told.promise, len(told.sentences)) == ("one", "causal", telling.SENTENCES_MAX)
    assert told.more == f"and {done.runs[0].verdicts[0].count - telling.SENTENCES_MAX} more violations"
    assert told.steps[0].endswith("process 0 publishes its event 1")
    assert told.steps[-1].endswith("process 2 delivers event 1 of process 0 (here)")
    assert promises_left_out(done, [told]) == ""


def test_many_runs_and_large_ones_are_told_in_brief(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = judged(tmp_path, *(broken(f"run-{number:02d}", 1) for number in range(telling.STORIES_MAX + 2)))
    monkeypatch.setattr(telling, "RUN_BYTES_MAX", 10)
    told = broken_promises(find_input([tmp_path]), done)
    assert len(told) == telling.STORIES_MAX
    assert all(each.sentences and not each.steps for each in told)
    assert promises_left_out(done, told) == "and 2 more broken promises"


def test_the_page_shows_how_promises_broke(tmp_path: Path) -> None:
    done = judged(tmp_path, broken("one"))
    text = report_page(done, Measured([], [], [], []), broken_promises(find_input([tmp_path]), done))
    assert "Broken promises" in text
    assert "<li>0.001 ms: process 0 publishes its event 1</li>" in text
    assert "one: <span class='broken'>causal</span>" in text
    assert "Broken promises" not in report_page(Verified([], []), Measured([], [], [], []))


def test_the_command_tells_the_story_that_check_tells(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_trace(tmp_path, broken("one", 1))
    assert command(["check", str(path), "--promise", "causal"]) == 1
    steps = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()[:2] in ("1.", "2.", "3.")]
    assert command(["verify", str(path), "--promise", "causal"]) == 1
    out = capsys.readouterr().out
    assert len(steps) == 3
    assert all(step in out for step in steps)
    assert "causal of one:" in out
