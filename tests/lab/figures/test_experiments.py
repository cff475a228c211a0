"""Experiments of the figures: that they run what they say, so that what is drawn is what was meant."""

from math import ceil

import pytest

from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.sim.run import run
from whence.trace.schema import COLUMNS_OF, M_PID, STAMP_BYTES, Kind
from whence_lab.experiments.recovery_buffers import availability
from whence_lab.experiments.ticket_failures import TicketFailures
from whence_lab.experiments.two_layer import FAILURES, GOSSIP_ALONE, Experiment, rounds_for, tuned_round_ns, with_round

SMALL = Experiment(members=12, coordinators=5, events_per_round=6.0, round_ns=100_000_000, rounds=10)
MODES = ("R1", "Rk", "R1+Rk", "none", GOSSIP_ALONE)


def with_mode(recovery: str) -> Experiment:
    """Return a small experiment that loses enough for recovery to matter."""
    return Experiment(
        members=12, coordinators=12, events_per_round=6.0, round_ns=100_000_000, rounds=20, recovery=recovery, loss=0.3,
        fanout=3,
    )  # fmt: skip


def test_only_coordinators_publish_each_with_its_own_ticket_and_about_as_often_as_asked() -> None:
    trace = run(SMALL.scenario(3), SMALL.level()).trace
    published = [row[COLUMNS_OF[Kind.PUBLISH].index(M_PID)] for row in trace.rows[Kind.PUBLISH]]
    assert set(published) == set(range(5))
    rounds = SMALL.warm_up + SMALL.rounds + SMALL.hops
    assert 0.8 * 6 * rounds < len(published) < 1.2 * 6 * rounds


def test_stamps_have_all_entries_from_the_first_event_on() -> None:
    sizes = {
        row[COLUMNS_OF[Kind.PUBLISH].index(STAMP_BYTES)]
        for row in run(SMALL.scenario(3), SMALL.level()).trace.rows[Kind.PUBLISH]
    }
    assert len(sizes) == 1


@pytest.mark.parametrize("recovery", MODES)
def test_every_mode_keeps_the_promises_of_its_level_and_counts_what_it_lost(recovery: str) -> None:
    experiment = with_mode(recovery)
    outcome = run(experiment.scenario(5), experiment.level())
    assert [v.promise for v in judge(outcome.trace) if v.outcome is Outcome.BROKEN] == []
    assert outcome.trace.rows[Kind.DELIVER]


def test_loss_falls_from_gossip_alone_to_the_layer_to_recovery() -> None:
    lost = {recovery: with_mode(recovery).run(5).loss() for recovery in MODES}
    assert lost[GOSSIP_ALONE] > lost["none"] > max(lost["R1"], lost["Rk"], lost["R1+Rk"])


def test_a_tuned_round_lets_two_in_a_thousand_messages_take_longer_than_a_round() -> None:
    narrow = Experiment(
        members=12, coordinators=12, events_per_round=6.0, round_ns=10_000_000, rounds=20, bandwidth_bps=20_000_000
    )
    tuned, rounds = tuned_round_ns(narrow, 1), rounds_for(narrow, 20_000)
    lengths = (tuned // 2, tuned, 2 * tuned)
    rates = [with_round(narrow, length, rounds).run(99).failed_connections() for length in lengths]
    assert rates[0] > 0.05
    assert FAILURES / 2 <= rates[1] <= 2 * FAILURES
    assert rates[2] == 0


def test_a_buffer_as_large_as_all_that_is_published_misses_nothing_and_a_tiny_one_nearly_all() -> None:
    held = []
    for size in (1000, ceil(0.1 * 6 * 20)):
        experiment = Experiment(
            members=12, coordinators=12, events_per_round=6.0, round_ns=100_000_000, rounds=20, recovery_bundles=size
        )
        held.append(availability(experiment, 20, 1))
    assert held[0] > 0.99
    assert held[1] < 0.05


def test_a_newcomer_gets_a_ticket_at_once_where_nobody_failed_and_later_where_its_owner_must_be_fenced() -> None:
    calm = TicketFailures(tickets=4, used=2, down=0, k=1, rounds=16).run(1)
    assert calm.after_rounds is not None
    assert calm.after_rounds < 2
    assert calm.witnesses_lost == 0
    failed = TicketFailures(tickets=4, used=4, down=1, k=1, rounds=16).run(1)
    assert failed.after_rounds is not None
    assert failed.after_rounds > 2
    assert failed.witnesses_lost >= 1
