"""Exploring: many schedules on all cores, each run and judged; stops at the first that breaks a promise.

A schedule is its seed: the seed draws the scenario, and the scenario decides the run. The seed alone repeats it.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, getsignal, pthread_sigmask, raise_signal, signal
from threading import Thread, current_thread, main_thread
from typing import Any

from msgspec import Struct, field, structs

from whence.check.determinism import compare
from whence.check.judge import judge
from whence.check.verdict import Outcome, Verdict
from whence.sim import run as runs
from whence.sim.crash import PROMISE as CRASH
from whence.sim.crash import crash_of, crash_verdict
from whence.sim.lab import kind_of, mutants_of, spec_of
from whence.sim.leaving import PROMISE as LEAVING
from whence.sim.leaving import leaving_verdict
from whence.sim.scenario import Scenario
from whence.sim.swarm import draw
from whence.trace.memory import digest_of
from whence.trace.schema import Kind

BATCH = 20
"""Schedules a worker takes at a time: long enough to keep it busy, short enough to stop soon after a violation."""

TWICE_EVERY = 25
"""One schedule in this many is run twice, and both runs must leave the same digest."""

MUTANT_SCHEDULES_MAX = 1000
"""Schedules within which a planted bug must be caught."""


class Broken(Struct, frozen=True):
    """A schedule that broke promises: its seed and the verdicts against it."""

    seed: int
    verdicts: list[Verdict]


class Batch(Struct):
    """The results of some schedules."""

    schedules: int = 0
    published: int = 0
    delivered: int = 0
    steps: int = 0
    broken: Broken | None = None
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Verdicts by (promise, outcome)."""
    effective: Counter[str] = field(default_factory=Counter)
    """Faults that did something, by kind."""
    coverage: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Schedules by what the generator drew: (dimension, value)."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Schedules in which a kind of fault did something."""

    @property
    def unknown(self) -> int:
        """Return the number of unknown verdicts."""
        return self.of(Outcome.UNKNOWN)

    def of(self, outcome: Outcome) -> int:
        """Return the number of verdicts with an outcome."""
        return sum(times for (_, which), times in self.outcomes.items() if which == outcome)

    def add(self, other: "Batch") -> None:
        """Add the results of other schedules."""
        self.schedules += other.schedules
        self.published += other.published
        self.delivered += other.delivered
        self.steps += other.steps
        self.outcomes += other.outcomes
        self.effective += other.effective
        self.coverage += other.coverage
        self.kinds += other.kinds
        if other.broken is not None and (self.broken is None or other.broken.seed < self.broken.seed):
            self.broken = other.broken


class Caught(Struct, frozen=True):
    """What became of a planted bug."""

    caught: bool
    schedules: int
    """The number of schedules it took, or that were tried without success."""
    law: str
    seed: int | None = None
    """The schedule that shows it."""
    crashes: int = 0
    """Schedules before that in which the bug made a member or an oracle fail instead."""
    crash_seed: int | None = None
    """The first of them."""


def explore(
    level: str,
    schedules: int,
    seed: int,
    workers: int,
    mutant: str | None = None,
    on_progress: Callable[[Batch], None] | None = None,
) -> Batch:
    """Run and judge schedules seed, seed + 1, …; stop at a violation.

    Return the results, with the lowest seed that shows a violation.
    """
    spec_of(level, mutant)
    total = Batch()
    starts = iter(range(seed, seed + schedules, BATCH))
    with _pool(workers) as submit:
        for batch in _finished_batches(submit, level, mutant, starts, seed + schedules, workers, total):
            total.add(batch)
            if on_progress is not None:
                on_progress(total)
    return total


def hunt(level: str, mutant: str, law: str, seed: int, schedules: int = MUTANT_SCHEDULES_MAX) -> Caught:
    """Run schedules with a planted bug until the promise it must break is found broken."""
    promises: list[str] = [] if law in (CRASH, LEAVING) else [law]
    crashed: list[int] = []
    for at in range(seed, seed + schedules):
        broken = [verdict.promise for verdict in broken_verdicts(judged(draw(level, at), mutant, promises)[1])]
        if law in broken:
            return Caught(True, at - seed + 1, law, at, len(crashed), next(iter(crashed), None))
        crashed += [at] if broken else []
    return Caught(False, schedules, law, None, len(crashed), next(iter(crashed), None))


def hunt_all(
    level: str,
    seed: int,
    workers: int,
    names: list[str] | None = None,
    schedules: int = MUTANT_SCHEDULES_MAX,
    on_progress: Callable[[str, Caught], None] | None = None,
) -> dict[str, Caught]:
    """Hunt every planted bug of a level that random schedules show, or the named ones, several at a time."""
    bugs = [bug for bug in mutants_of(level) if (bug.name in names if names is not None else not bug.directed)]
    found: dict[str, Caught] = {}
    with _pool(workers) as submit:
        hunts = [(bug.name, submit(hunt, level, bug.name, bug.law, seed, schedules)) for bug in bugs]
        for name, future in hunts:
            found[name] = future.result()
            if on_progress is not None:
                on_progress(name, found[name])
    return found


def judged(
    scenario: Scenario, mutant: str | None = None, promises: list[str] | None = None
) -> tuple[runs.Outcome, list[Verdict]]:
    """Run a scenario and judge it by these promises, or by its level's.

    An exception of a member or an oracle is not raised: then the only verdict is that on `crash`.
    """
    outcome = runs.run(scenario, spec_of(kind_of(scenario), mutant), keep_crash=True)
    if outcome.crash is None:
        try:
            verdicts = judge(outcome.trace, promises)
            stayed = leaving_verdict(outcome.trace, outcome.remaining)
            return outcome, verdicts if stayed is None else [*verdicts, stayed]
        except Exception as error:  # noqa: BLE001 - an oracle that fails is a finding, with the seed that shows it
            outcome = structs.replace(outcome, crash=crash_of(error))
    assert outcome.crash is not None
    return outcome, [crash_verdict(outcome.crash)]


def replayed(scenario: Scenario, mutant: str | None = None) -> tuple[runs.Outcome, list[Verdict]]:
    """Run and judge a scenario as an exploration does, and run it again to check that both runs are the same."""
    outcome, verdicts = judged(scenario, mutant)
    return outcome, verdicts if outcome.crash else [*verdicts, _same_again(scenario, mutant, outcome)]


def broken_verdicts(verdicts: list[Verdict]) -> list[Verdict]:
    """Return the verdicts `broken`."""
    return [verdict for verdict in verdicts if verdict.outcome is Outcome.BROKEN]


def _explore_batch(level: str, mutant: str | None, seeds: range) -> Batch:
    """Run and judge some schedules; stop at a violation."""
    batch = Batch()
    for seed in seeds:
        scenario = draw(level, seed)
        outcome, verdicts = judged(scenario, mutant) if seed % TWICE_EVERY else replayed(scenario, mutant)
        _tally(batch, scenario, outcome)
        batch.outcomes.update((verdict.promise, verdict.outcome.value) for verdict in verdicts)
        if broken := broken_verdicts(verdicts):
            batch.broken = Broken(seed, broken)
            break
    return batch


def _same_again(scenario: Scenario, mutant: str | None, outcome: runs.Outcome) -> Verdict:
    """Judge whether the same scenario leaves the same trace when its processes are made in another order."""
    again = runs.run(
        scenario, spec_of(kind_of(scenario), mutant), start_order=reversed(range(scenario.nodes)), keep_crash=True
    )  # fmt: skip
    return compare(digest_of(outcome.trace), digest_of(again.trace))


def _tally(batch: Batch, scenario: Scenario, outcome: runs.Outcome) -> None:
    rows = outcome.trace.rows
    batch.schedules += 1
    batch.steps += outcome.steps
    batch.published += len(rows[Kind.PUBLISH])
    batch.delivered += len(rows[Kind.DELIVER])
    batch.effective += outcome.effective
    batch.kinds.update(outcome.effective.keys())
    network, settings = scenario.network, scenario.settings
    batch.coverage.update(
        (
            ("group", scenario.shape),
            ("members", str(scenario.nodes)),
            ("numbers", "any" if scenario.numbers else "0, 1, …"),
            ("view", "full" if settings.get("view") == "full" else f"partial {settings.get('view_size', '')}".strip()),
            ("latency", network.latency.shape),
            ("links", "ordered" if network.fifo_links else "unordered"),
            ("bandwidth", "bounded" if network.bandwidth_bps else "unbounded"),
            ("clocks", "drifting" if scenario.clocks.drift_ppm else "steady"),
            ("faults", str(len(scenario.faults)) if len(scenario.faults) < 8 else "8 or more"),
        )
    )


@contextmanager
def _pool(workers: int) -> Iterator[Callable[..., Future[Any]]]:
    """Yield a function that calls others in worker processes; calls not begun when the block ends are cancelled.

    An interrupt stops the workers at once.
    """
    others = active_children()
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_end_with_parent)

    def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        with _interrupts_deferred():
            return pool.submit(function, *arguments)

    try:
        yield submit
    except KeyboardInterrupt:
        for worker in active_children():
            if worker not in others:
                worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """End a worker whose parent was killed: it would wait for work for ever."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Start workers that ignore SIGINT, which a terminal sends to the whole process group; defer one that comes now.

    Workers inherit this thread's signal mask. Another thread may receive the signal meanwhile, and Python would raise
    it here, with a worker half started. So it is only noted until the workers have started.
    """
    came: list[int] = []
    handler = getsignal(SIGINT) if current_thread() is main_thread() else None
    if handler is not None:
        signal(SIGINT, lambda number, _: came.append(number))
    earlier = pthread_sigmask(SIG_BLOCK, {SIGINT})
    try:
        yield
    finally:
        pthread_sigmask(SIG_SETMASK, earlier)
        if handler is not None:
            signal(SIGINT, handler)
    if came:
        raise_signal(SIGINT)


def _finished_batches(
    submit: Callable[..., Future[Batch]],
    level: str,
    mutant: str | None,
    starts: Iterator[int],
    end: int,
    workers: int,
    total: Batch,
) -> Iterator[Batch]:
    """Keep the workers busy and yield finished batches; start no more once a violation was found."""
    running: set[Future[Batch]] = set()
    while True:
        while len(running) < 2 * workers and total.broken is None and (start := next(starts, None)) is not None:
            running.add(submit(_explore_batch, level, mutant, range(start, min(start + BATCH, end))))
        if not running:
            return
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()
