"""Clusters under a swarm of faults: every promise holds, every trap of the papers is met and caught."""

from collections import Counter

import pytest
from msgspec import structs

from tests.simulation.hunts import hunted
from whence.check.history import AFTER_ALL, History
from whence.check.judge import judge
from whence.check.levels import PROMISES_OF
from whence.check.ticket_exclusivity import PROMISE, covers_of, holds_of
from whence.check.verdict import Findings, Outcome
from whence.core.levels.optimistic.level import OptimisticLevel
from whence.core.ticket_status import dead_argument
from whence.sim.explore import explore, judged
from whence.sim.lab import spec_of
from whence.sim.run import run
from whence.sim.scenario import Act, Clocks, Fault, Publish, Scenario
from whence.sim.scenarios import simulation
from whence.sim.scenarios.tickets import coordinator_killed, warm_up_rounds
from whence.sim.swarm import draw
from whence.sim.workload import Workload
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, EPOCH, TICKET, Kind
from whence.types import Process
from whence_lab.mutants import Mutant, mutants_of

SCHEDULES, SCHEDULES_LONG = 30, 50_000
PARTS = 5

MUST_MEET = (
    "exclusion", "refounded", "soft_close", "ackcjoin_lost", "lease_overslept", "partition_healed", "ticket_takeover",
    "ticket_absorb", "restart", "cut", "slow", "pause", "crash_between_effects", "pause_before_send", "cleave",
    "core_lives", "declare_dead", "predecessor_asked",
)  # fmt: skip
"""What an exploration of clusters must have done."""

MUST_MEET_OFTEN = ("exclusion", "refounded", "soft_close", "ackcjoin_lost", "lease_overslept", "partition_healed")
"""Exclusion, total loss, soft close, a lost ACKCJOIN, a pause longer than a lease, the end of a partition."""


@pytest.mark.no_cover
@pytest.mark.parametrize("part", range(PARTS))
def test_clusters_keep_every_promise_under_a_swarm_of_faults(part: int, long_mode: bool) -> None:
    """At full size 50,000 schedules, and each trouble the protocol has its hardest rules for is met 100 times."""
    schedules = (SCHEDULES_LONG if long_mode else SCHEDULES) // PARTS
    total = explore("optimistic", schedules, seed=1 + part * schedules, workers=1)
    assert total.broken is None, f"seed {total.broken.seed}"
    assert total.delivered > total.published > schedules
    if long_mode:
        met = {kind: total.effective[kind] for kind in MUST_MEET_OFTEN}
        assert min(met.values()) >= 100 // PARTS, met


def test_who_hears_neither_a_coordinator_nor_most_of_its_witnesses_leaves_it_alone() -> None:
    """X2: the deaf one is a witness itself and another coordinator the second, so that only one of three can tell it
    that the coordinator lives. One is no majority, and silence is no proof either."""
    assert {verdict.outcome for verdict in judged(draw("optimistic", 5_551_222))[1]} == {Outcome.HOLDS}


@pytest.mark.no_cover
@pytest.mark.long
def test_the_swarm_meets_everything_the_protocol_has_a_rule_for() -> None:
    met: Counter[str] = Counter()
    for seed in range(600):
        met += run(draw("optimistic", seed)).effective
    assert {kind: met[kind] for kind in MUST_MEET if met[kind] < 2} == {}


@pytest.mark.no_cover
@pytest.mark.parametrize("bug", mutants_of("optimistic"), ids=lambda bug: bug.name)
def test_a_planted_trap_is_caught(bug: Mutant, long_mode: bool) -> None:
    """Every trap of the papers that we planted breaks the promise it is meant to break."""
    caught = hunted("optimistic", bug.name, long_mode)
    assert caught.caught, f"{bug.name} breaks {bug.law} in none of {caught.schedules} schedules"


def test_every_promise_of_a_cluster_is_broken_by_some_planted_bug() -> None:
    """But integrity, liveness and views, whose bugs are planted in the levels below."""
    planted = {bug.law for bug in mutants_of("optimistic")}
    assert set(PROMISES_OF["optimistic"]) - planted == {"integrity", "liveness", "views"}
    assert len(mutants_of("optimistic")) >= 20


def ids_repeat(trace: Trace) -> list[tuple[int, int]]:
    """Return tickets and epochs under which two processes published."""
    at_ticket, at_epoch = COLUMNS_OF[Kind.PUBLISH].index(TICKET), COLUMNS_OF[Kind.PUBLISH].index(EPOCH)
    owners: dict[tuple[int, int], tuple[int, int]] = {}
    repeated = []
    for row in trace.rows[Kind.PUBLISH]:
        ticket_epoch = (row[at_ticket], row[at_epoch])
        if owners.setdefault(ticket_epoch, row[:2]) != row[:2]:
            repeated.append(ticket_epoch)
    return repeated


@pytest.mark.no_cover
@pytest.mark.parametrize("drift_ppm", [400_000, 0])
def test_clocks_beyond_the_bound_cost_exclusivity_at_most(drift_ppm: int, long_mode: bool) -> None:
    """optimistic 4.12: no two events share an id, nothing is delivered against causal order, even when leases overlap.

    Pauses between the lease check and the send are part of the swarm (`pause_before_send`).
    """
    stalled = 0
    for seed in range(1, 2000 if long_mode else 60):
        drawn = draw("optimistic", seed)
        faults = [structs.replace(fault, between_effects=True) for fault in drawn.faults if fault.kind == "pause"]
        if not faults:
            continue
        outcome = run(structs.replace(drawn, clocks=Clocks(drift_ppm=drift_ppm), faults=faults))
        stalled += outcome.effective["pause_before_send"]
        verdicts = judge(outcome.trace, ["integrity", "no_duplicates", "optimistic_causal"])
        assert [verdict.sentence for verdict in verdicts if not verdict.is_fine] == [], f"seed {seed}"
        assert ids_repeat(outcome.trace) == [], f"seed {seed}"
    assert stalled


def test_a_killed_coordinators_ticket_is_fenced_and_reused_and_gaps_are_told() -> None:
    outcome, verdicts = judged(coordinator_killed(12, 60, 7))
    assert [verdict.promise for verdict in verdicts if not verdict.is_fine] == []
    assert outcome.effective["exclusion"]
    assert outcome.effective["ticket_takeover"]
    assert outcome.trace.rows[Kind.GAP]


def test_a_calm_cluster_delivers_everything_to_everybody() -> None:
    outcome, verdicts = judged(simulation("optimistic", 9, 40, 3, "none", {"tickets": 9}))
    assert [verdict.promise for verdict in verdicts if not verdict.is_fine] == []
    assert len(outcome.trace.rows[Kind.DELIVER]) == 9 * len(outcome.trace.rows[Kind.PUBLISH]) > 300


def test_a_member_without_a_ticket_is_refused_and_says_so_in_the_trace() -> None:
    scenario = simulation("optimistic", 6, 20, 3, "none", {"tickets": 6})
    outcome = run(structs.replace(scenario, acts=[]), spec_of("optimistic", None))
    assert not outcome.trace.rows[Kind.PUBLISH]
    assert outcome.effective["publish_refused"] == 20
    assert {row[-3] for row in outcome.trace.rows[Kind.REJECT]} == {"NotCoordinatorError"}


def covered_at_the_end(scenario: Scenario) -> list[int]:
    """Run a cluster; return the tickets that somebody acts for when the run ends."""
    outcome, verdicts = judged(scenario)
    assert [verdict.sentence for verdict in verdicts if verdict.promise == PROMISE and not verdict.holds] == []
    history = History(outcome.trace)
    covers = covers_of(history, holds_of(history, Findings(PROMISE)))
    return sorted(ticket for (_, ticket), stretch in covers.items() if any(h.until == AFTER_ALL for h in stretch))


def test_what_too_many_deaths_closed_an_operators_word_opens_again() -> None:
    """optimistic 4.9: a coordinator and two of its three witnesses end at once; every survivor is told of it."""
    given = {"tickets": 8, "rounds": 3, "view": "full"}
    ticket_round = OptimisticLevel().settings_from(given).tickets.ticket_round_ns
    stuck = 0
    for seed in range(3):
        calm = simulation("optimistic", 10, 1, seed, "none", given, workload=Workload(coordinators=6))
        at = (warm_up_rounds(6) + 2) * ticket_round
        gone = [1 + seed, 2 + seed, 3 + seed]
        told = [
            Act(
                at_ns=at + 12 * ticket_round + pid,
                node=node,
                name="declare_dead",
                argument=dead_argument(Process(pid, 1)),
            )
            for pid in gone
            for node in range(10)
            if node not in gone
        ]
        scenario = structs.replace(
            calm, faults=[Fault(kind="crash", at_ns=at, nodes=gone)], publishes=[], heal_at_ns=0, live_until_ns=0,
            end_at_ns=at + 30 * ticket_round,
        )  # fmt: skip
        stuck += covered_at_the_end(scenario) != list(range(8))
        assert covered_at_the_end(structs.replace(scenario, acts=[*scenario.acts, *told])) == list(range(8))
    assert stuck, "so many deaths must cost something without an operator"


def stopped_whole(seed: int, survivors: int) -> Scenario:
    """Make a cluster whose processes all stop at once, but for some that witnessed nothing, and come back.

    The seeds' journals are whole. An operator tells everybody which lives are over; who had a ticket asks again.
    """
    given = {"tickets": 6, "rounds": 3, "view": "full", "seeds": "0,1,2,3"}
    ticket_round = OptimisticLevel().settings_from(given).tickets.ticket_round_ns
    calm = simulation("optimistic", 8, 1, seed, "none", given, workload=Workload(coordinators=6))
    at = (warm_up_rounds(6) + 4) * ticket_round
    back = at + 2 * ticket_round
    gone = list(range(8 - survivors))
    told_at = back + 30 * ticket_round
    told = [
        Act(at_ns=told_at + pid, node=node, name="declare_dead", argument=dead_argument(Process(pid, 1)))
        for pid in gone
        for node in range(8)
    ]
    asking = [Act(at_ns=back + (12 + pid) * ticket_round, node=pid, name="cjoin") for pid in range(6)]
    end = told_at + 60 * ticket_round
    spoken = [
        Publish(at_ns=now + pid, node=pid)
        for pid in range(6)
        for now in range(warm_up_rounds(6) * ticket_round, end, ticket_round // 3)
    ]
    return structs.replace(
        calm, faults=[Fault(kind="crash", at_ns=at, until_ns=back, nodes=gone)], acts=[*calm.acts, *told, *asking],
        publishes=sorted(spoken, key=lambda each: each.at_ns), heal_at_ns=0, live_until_ns=0, end_at_ns=end,
    )  # fmt: skip


@pytest.mark.parametrize("survivors", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_no_epoch_is_used_twice_after_a_full_stop_and_an_operators_word(seed: int, survivors: int) -> None:
    """X3: epochs are tokens for resources outside, so whoever founds anew begins above all that may have been given."""
    outcome, verdicts = judged(stopped_whole(seed, survivors))
    at_epoch = COLUMNS_OF[Kind.PUBLISH].index(EPOCH)
    lives = {life: [row[at_epoch] for row in outcome.trace.rows[Kind.PUBLISH] if row[1] == life] for life in (1, 2)}
    assert outcome.effective["refounded"]
    assert lives[2], "the cluster goes on"
    assert ids_repeat(outcome.trace) == []
    assert [verdict.sentence for verdict in verdicts if verdict.promise == PROMISE and not verdict.holds] == []
    assert min(lives[2]) > max(lives[1])


def handed_over(seed: int, recovery: str) -> Scenario:
    """Make a cluster of two tickets in which one owner gives its own back, and a newcomer that missed its last events
    obtains it."""
    given = {"tickets": 2, "rounds": 3, "view": "full", "recovery": recovery}
    ticket_round = OptimisticLevel().settings_from(given).tickets.ticket_round_ns
    calm = simulation("optimistic", 6, 1, seed, "none", given, workload=Workload(coordinators=2))
    at = (warm_up_rounds(2) + 2) * ticket_round
    last = [Publish(at_ns=at + number * ticket_round // 10, node=1, events=2) for number in range(3)]
    deaf = Fault(kind="cut", at_ns=at, until_ns=at + 2 * ticket_round, nodes=[0, 1, 2, 3, 4], others=[5])
    goes = Act(at_ns=at + 2 * ticket_round, node=1, name="cleave")
    comes = Act(at_ns=at + 3 * ticket_round, node=5, name="cjoin")
    first = [Publish(at_ns=at + (8 + number) * ticket_round, node=5) for number in range(4)]
    return structs.replace(
        calm, faults=[deaf], acts=[*calm.acts, goes, comes], publishes=[*last, *first], heal_at_ns=0, live_until_ns=0,
        end_at_ns=at + 20 * ticket_round,
    )  # fmt: skip


@pytest.mark.parametrize("recovery", ["R1", "Rk", "R1+Rk"])
@pytest.mark.parametrize("seed", range(3))
def test_a_new_owner_has_its_predecessors_last_events_before_its_own_first(seed: int, recovery: str) -> None:
    """X4: everybody else recovers them when they hear of its first event; it must ask for them itself."""
    outcome, verdicts = judged(handed_over(seed, recovery))
    rows = outcome.trace.rows
    assert {row[0] for row in rows[Kind.PUBLISH]} == {1, 5}, "the newcomer has the ticket"
    assert rows[Kind.GAP] == []
    assert len(rows[Kind.DELIVER]) == 6 * len(rows[Kind.PUBLISH])
    assert [verdict.promise for verdict in verdicts if verdict.outcome is Outcome.BROKEN] == []
