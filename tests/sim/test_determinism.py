"""Same scenario, same trace, to the byte: whatever the hash seed, the order of starting, the process or the disk."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from whence.core.registry import LEVELS
from whence.sim.run import describe, run
from whence.sim.scenarios.gossip import churn
from whence.sim.swarm import draw
from whence.trace.memory import Trace, digest_of
from whence.trace.reader import read_trace
from whence.trace.writer import TraceWriter, write_trace

LADDER = ("eventual", "fifo", "optimistic", "causal", "total")

PROGRAM = """
from whence.sim.run import run
from whence.sim.swarm import draw
from whence.sim.scenarios.gossip import churn
from whence.trace.memory import digest_of
drawn = [draw(level, 3) for level in ("eventual", "fifo", "optimistic", "causal", "total")]
print(*(digest_of(run(scenario).trace) for scenario in (*drawn, churn("fifo", 20, 30, 1))))
"""


def digests_with(hash_seed: str) -> str:
    """Run some scenarios in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.no_cover
def test_the_hash_seed_of_the_interpreter_changes_nothing() -> None:
    drawn = [draw(level, 3) for level in LADDER]
    here = [digest_of(run(scenario).trace) for scenario in (*drawn, churn("fifo", 20, 30, 1))]
    assert [digests_with(hash_seed) for hash_seed in ("0", "1", "random")] == [" ".join(here)] * 3


@pytest.mark.parametrize(
    ("level", "seed"), [*((level, seed) for level in LADDER for seed in (1, 5)), ("optimistic", 111003525)]
)  # in the last one, processes that come back after a full stop are told of each other
def test_the_order_in_which_processes_are_made_changes_nothing(level: str, seed: int) -> None:
    scenario = draw(level, seed)
    expected = digest_of(run(scenario).trace)
    for order_seed in range(3):
        order = Random(order_seed).sample(range(scenario.nodes), scenario.nodes)
        assert digest_of(run(scenario, start_order=order).trace) == expected


def test_another_seed_is_another_run() -> None:
    """Otherwise the digests above would say nothing."""
    digests = [digest_of(run(churn("fifo", 20, 30, seed)).trace) for seed in range(4)]
    assert len(dict.fromkeys(digests)) == 4


def test_runs_of_one_seed_with_other_settings_have_other_names() -> None:
    """Otherwise the second would take the place of the first where traces are kept."""
    drawn = draw("fifo", 3)
    other = structs.replace(drawn, settings=drawn.settings | {"fanout": 7})
    names = [describe(scenario, LEVELS["fifo"]).run_id for scenario in (drawn, other, draw("fifo", 3))]
    assert names[0] == names[2] != names[1]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_trace_read_back_from_disk_has_the_digest_it_was_written_with(tmp_path: Path, seed: int) -> None:
    trace = run(draw("fifo", seed)).trace
    expected = digest_of(trace)
    again = read_trace(write_trace(tmp_path, trace))
    assert digest_of(again) == expected
    assert again.run.digest == expected


def test_a_trace_written_out_while_the_run_goes_on_has_the_same_digest(tmp_path: Path) -> None:
    scenario = churn("fifo", 20, 30, 1)
    expected = digest_of(run(scenario).trace)
    writers: list[TraceWriter] = []

    def drain(trace: Trace, _: float) -> None:
        if not writers:
            writers.append(TraceWriter(tmp_path, trace.run, chunk_rows=500))
        writers[0].drain(trace)

    outcome = run(scenario, on_slice=drain)
    assert writers[0].close(outcome.trace) == expected
    assert digest_of(read_trace(tmp_path)) == expected


def test_reporting_progress_changes_nothing() -> None:
    scenario = draw("fifo", 4)
    done: list[float] = []
    watched = run(scenario, on_slice=lambda _, part: done.append(part))
    assert digest_of(watched.trace) == digest_of(run(scenario).trace)
    assert done == sorted(done)
    assert done[-1] == 1.0
