"""Runs with more publishers than one walk keeps are proved by several, and what is wrong in them is found."""

from pathlib import Path

import pytest

from tests.check.trace_builder import TraceBuilder
from tests.check.worlds import causal_world
from tests.pipeline.test_agreement import cells
from tests.pipeline.test_neighbourhood import quiet_traces, troubled_traces
from whence.check.judge import judge
from whence.pipeline import certificate
from whence.pipeline.certificate import PROVABLE, SLOTS_AT_ONCE, certified
from whence.pipeline.events import find_input, read_events
from whence.pipeline.local.session import local_session
from whence.pipeline.verify import verify
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.schema import Kind
from whence.trace.writer import write_trace


def publishers_of(trace: Trace) -> int:
    return len({row[6] for row in trace.rows[Kind.PUBLISH]})


def test_several_walks_say_the_same_as_one_look_at_the_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long_mode: bool
) -> None:
    """60 runs, 600 in long mode, clean and damaged in every way, walked for one publisher at a time."""
    made = dict(quiet_traces(5)) | troubled_traces(600 if long_mode else 56)
    for name, trace in made.items():
        trace.run.run_id = name
        write_trace(tmp_path, trace)
    monkeypatch.setattr(certificate, "SLOTS_AT_ONCE", 1)
    promises = list(PROVABLE)
    with local_session() as local:
        told = {
            judged.run.run_id: cells(judged.verdicts)
            for judged in verify(local, [tmp_path], promises, certify=True).runs
        }
        events = read_events(local, find_input([tmp_path]), dict.fromkeys(made, promises))
        walked = certified(events, dict.fromkeys(made, promises))
    assert not walked.seen, "no neighbourhood is looked at"
    proved = {promise for verdicts in walked.verdicts.values() for promise in verdicts}
    assert proved == set(promises)
    for name in made:
        assert cells(judge(read_trace(tmp_path / f"run_id={name}"), promises)) == told[name], name


def chain(late: int | None, cause_of: int) -> Trace:
    """40 publishers: all publish, then one more event of one and an effect of it of another; one member delivers these
    two the other way round."""
    everybody = range(SLOTS_AT_ONCE + 8)
    builder = TraceBuilder(everybody, level="causal")
    for event in [builder.publish(node) for node in everybody]:
        for node in everybody:
            builder.deliver(node, event)
    cause = builder.publish(cause_of)
    builder.deliver(cause_of, cause)
    builder.deliver(cause_of + 1, cause)
    effect = builder.publish(cause_of + 1)
    for node in everybody:
        for event in (effect, cause) if node == late else (cause, effect):
            if event is effect or node not in (cause_of, cause_of + 1):
                builder.deliver(node, event)
    return builder.trace


def test_a_cause_that_only_one_walk_looks_at_is_not_passed_over(tmp_path: Path) -> None:
    made = {
        "clean": chain(None, 34), "in-first": chain(3, 4), "in-second": chain(3, 34), "of-both": chain(3, 31),
        "wide": causal_world(1, SLOTS_AT_ONCE + 8, 900),
    }  # fmt: skip
    assert all(SLOTS_AT_ONCE < publishers_of(trace) <= certificate.PUBLISHERS_MAX for trace in made.values())
    for name, trace in made.items():
        trace.run.run_id = name
        write_trace(tmp_path, trace)
    asked = ["causal", "optimistic_causal", "fifo"]
    promises = dict.fromkeys(made, asked)
    with local_session() as local:
        walked = certified(read_events(local, find_input([tmp_path]), promises), promises).verdicts
        told = verify(local, [tmp_path], asked, certify=True).runs
    assert set(walked["clean"]) == set(walked["wide"]) == set(asked)
    for judged in told:
        name = judged.run.run_id
        assert cells(judged.verdicts) == cells(judge(read_trace(tmp_path / f"run_id={name}"), asked))
        if name not in ("clean", "wide"):
            assert set(walked[name]) == {"fifo"}
            assert {verdict.promise for verdict in judged.verdicts if verdict.count} == set(asked) - {"fifo"}
