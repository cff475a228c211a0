"""One scenario, simulated and live: the same members, publications and faults, the same oracles, the same verdicts."""

import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.faults.run import NEEDED, NEEDED_S, SETTINGS, SKIPS, Worker, level_of
from tests.faults.wires import Parted
from tests.faults.worker import Task
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.core.levels.gossip.level import GOSSIP
from whence.core.registry import LEVELS
from whence.core.settings import by_name
from whence.net.proxy import between
from whence.net.settings import settings_of
from whence.sim.run import run
from whence.sim.scenario import SECOND_NS, Act, Fault, Publish, Scenario
from whence.trace.gathering import gather
from whence.trace.memory import Phases, Trace
from whence.trace.schema import BOUND, COLUMNS_OF, T_TRUE, Kind

NODES = 5
MS = 1_000_000


def scenario(way: str) -> Scenario:
    """Five members publish for two seconds; one is killed and comes back, one sleeps, two are parted from the rest.

    Two seconds after healing they publish some more, which everybody is owed.
    """
    level, settings = level_of(way), dict(SETTINGS[way])
    if level == "causal":
        settings |= {"tree_nodes": NODES}
    elif level in (*GOSSIP, "optimistic"):
        settings = settings_of(level, range(NODES), settings)
    acts = []
    if level == "optimistic":  # live, processes ask for a ticket when they open the group, and go on asking
        asked = [*range(1, 100, 20), *range(1450, 3000, 150)]
        acts = [Act(at_ns=at * MS, node=node, name="cjoin") for at in asked for node in range(NODES)]
    return Scenario(
        level=level, seed=7, nodes=NODES, settings=settings, acts=acts,
        publishes=[
            Publish(at_ns=20 * at * MS, node=at % NODES, events=1 + at % 3) for at in (*range(1, 100), *range(180, 200))
        ],
        faults=[
            Fault(kind="pause", at_ns=300 * MS, until_ns=600 * MS, nodes=[3]),
            Fault(kind="partition", at_ns=700 * MS, until_ns=1200 * MS, nodes=[3, 4]),
            Fault(kind="crash", at_ns=900 * MS, until_ns=1400 * MS, nodes=[2]),
        ],
        heal_at_ns=1500 * MS, live_from_ns=3500 * MS, live_until_ns=4500 * MS, deadline_ns=5 * SECOND_NS,
        end_at_ns=12 * SECOND_NS,
    )  # fmt: skip


def signalled(worker: Worker, how: int) -> None:
    """Send a signal to the present life of a process."""
    worker.process.send_signal(how)


class Stage:
    """Plays a scenario with real processes, at its own pace."""

    def __init__(self, played: Scenario, directory: Path) -> None:
        self.played, self.directory, self.begin_ns = played, directory, 0
        self.wires = Parted(list(range(NODES)))
        everyone = list(range(NODES))
        self.workers = [
            Worker(
                Task(
                    pid, self.wires.listen(pid), self.wires.advertise(pid),
                    [self.wires.contact(other) for other in everyone if other < pid], str(directory), played.level,
                    everyone, 0.0, played.settings, durable=played.level not in SKIPS,
                ),
                [],
            )
            for pid in everyone
        ]  # fmt: skip

    def play(self) -> Trace:
        """Do everything at its time; return the trace once everybody has what it is owed."""
        try:
            for worker in self.workers:
                assert worker.joined.wait(NEEDED_S)
            time.sleep(0.5)
            begin = time.monotonic()
            self.begin_ns = time.time_ns()
            for at_ns, act in sorted(self._acts(), key=lambda entry: entry[0]):
                time.sleep(max(0.0, begin + at_ns / 1e9 - time.monotonic()))
                act()
            for worker in self.workers:
                assert worker.joined.wait(NEEDED_S)
                worker.tell("quiet")
            self._settled()
            for worker in self.workers:
                worker.end(signal.SIGTERM)
        finally:
            for worker in self.workers:
                worker.end()
            self.wires.close()
        return self._trace()

    def _acts(self) -> list[tuple[int, Callable[[], None]]]:
        acts: list[tuple[int, Callable[[], None]]] = [
            (publish.at_ns, partial(self.workers[publish.node].tell, f"publish {publish.events}"))
            for publish in self.played.publishes
        ]
        for fault in self.played.faults:
            [first, *_] = fault.nodes
            worker, rest = self.workers[first], [pid for pid in range(NODES) if pid not in fault.nodes]
            turns: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
                "pause": (partial(signalled, worker, signal.SIGSTOP), partial(signalled, worker, signal.SIGCONT)),
                "crash": (worker.end, worker.start),
                "partition": (partial(self.wires.starve, between(fault.nodes, rest)), self.wires.mend),
            }
            begin, end = turns[fault.kind]
            acts += [(fault.at_ns, begin), (fault.until_ns, end)]
        return acts

    def _settled(self) -> None:
        """Wait until nothing more is delivered, and everything stored is delivered where it is owed."""
        deadline, before = time.monotonic() + NEEDED_S, -1
        while time.monotonic() < deadline:
            time.sleep(1.0)
            rows = self._trace().rows[Kind.DELIVER]
            stored = sum(len(worker.stored) for worker in self.workers)
            at_first = sum(row[0] == 0 for row in rows)
            if len(rows) == before and (at_first >= stored or self.played.level in SKIPS):
                return
            before = len(rows)
        raise AssertionError("the live run never came to rest")

    def _trace(self) -> Trace:
        durable = self.played.level == "causal"
        members = {"alps": list(range(NODES)) if durable else []}
        played, begin = self.played, self.begin_ns
        phases = Phases(
            begin + played.heal_at_ns, begin + played.live_from_ns, begin + played.live_until_ns, int(NEEDED_S * 1e9)
        )
        reach_min = 0.9 if played.level in SKIPS else 1.0  # what a busy machine makes late is skipped, and told
        given = settings_of(played.level, range(NODES), played.settings)
        return gather(
            [self.directory / "trace"], "alps", "live", "test", durable=durable, groups=members, phases=phases,
            one_clock=True, reach_min=reach_min, parameters=by_name(LEVELS[played.level].settings_from(given)),
        )  # fmt: skip


def verdicts(trace: Trace) -> dict[str, Outcome]:
    """Return every promise that the trace can tell of, and whether it holds."""
    return {v.promise: v.outcome for v in judge(trace) if v.outcome is not Outcome.UNKNOWN}


def _owed(trace: Trace) -> list[int]:
    """Return when each event was published that everybody is owed."""
    phases, at = trace.run.phases, COLUMNS_OF[Kind.PUBLISH].index(T_TRUE)
    assert phases is not None
    return [row[at] for row in trace.rows[Kind.PUBLISH] if phases.live_from <= row[at] <= phases.live_until]


@pytest.mark.no_cover
@pytest.mark.parametrize("way", ["causal", "causal-tree", "fifo", "eventual", "optimistic", "total"])
def test_the_same_scenario_gets_the_same_verdicts_simulated_and_live(way: str, tmp_path: Path) -> None:
    """One machine has one clock, so that what rests on true time is judged live too."""
    simulated = verdicts(run(scenario(way)).trace)
    trace = Stage(scenario(way), tmp_path).play()
    live = verdicts(trace)
    assert {"integrity", "no_duplicates", "agreement", "liveness", *NEEDED[level_of(way)]} <= simulated.keys()
    assert live == {promise: outcome for promise, outcome in simulated.items() if promise != "determinism"}
    assert set(simulated.values()) <= {Outcome.HOLDS, Outcome.VACUOUS}
    assert len(_owed(trace)) >= 20, "something is owed to everybody"
    at = COLUMNS_OF[Kind.NOTE].index(BOUND)
    measured = {row[0] for row in trace.rows[Kind.NOTE] if row[at] is not None}
    assert measured == set(range(NODES)), "every node tells how full its buffers were"
