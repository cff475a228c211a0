"""Each promise by hand-written traces: the smallest that keeps it and the smallest that breaks it."""

from typing import Any

import pytest

from tests.check.trace_builder import GRP, TraceBuilder
from tests.check.worlds import with_columns
from whence.check import determinism
from whence.check.history import AT_T_TRUE, History
from whence.check.judge import ORACLES, judge
from whence.check.levels import PROMISES_OF, promises_of
from whence.check.verdict import VIOLATIONS_MAX, Outcome, Verdict
from whence.errors import UsageError
from whence.trace.memory import Phases, digest_of
from whence.trace.schema import Kind
from whence.types import EventId, Level

HOLDS, BROKEN, UNKNOWN, VACUOUS = Outcome.HOLDS, Outcome.BROKEN, Outcome.UNKNOWN, Outcome.VACUOUS


def verdict_on(builder: TraceBuilder, promise: str) -> Verdict:
    (verdict,) = judge(builder.trace, [promise])
    return verdict


def outcome(builder: TraceBuilder, promise: str) -> Outcome:
    return verdict_on(builder, promise).outcome


# --- integrity ---


def test_integrity_holds_when_everyone_delivers_what_was_published() -> None:
    builder = TraceBuilder()
    builder.broadcast(0)
    assert outcome(builder, "integrity") is HOLDS


def test_an_event_that_nobody_published_must_not_be_delivered() -> None:
    builder = TraceBuilder()
    builder.deliver(1, EventId(0, 1, 9))
    verdict = verdict_on(builder, "integrity")
    assert verdict.outcome is BROKEN
    assert verdict.sentence == "process 1 delivered event 9 of process 0, which nobody published in group 'g'"


@pytest.mark.parametrize(("column", "word"), [("payload_bytes", "bytes"), ("payload_crc", "checksum")])
def test_a_payload_must_arrive_as_it_was_published(column: str, word: str) -> None:
    builder = TraceBuilder()
    builder.deliver(1, builder.publish(0), **{column: 99})
    assert f"with {word} 99" in verdict_on(builder, "integrity").sentence


def test_a_delivery_outside_the_destinations_breaks_integrity() -> None:
    builder = TraceBuilder()
    builder.deliver(2, builder.publish(0, dests=[0, 1]))
    assert "not addressed to it" in verdict_on(builder, "integrity").sentence


def test_a_process_that_is_no_member_must_not_deliver() -> None:
    """Before its join row, and after its leave row."""
    builder = TraceBuilder(founders=[0, 1])
    event = builder.publish(0)
    builder.row(Kind.JOIN, 2)
    builder.deliver(2, event)
    assert outcome(builder, "integrity") is HOLDS
    builder.row(Kind.LEAVE, 2)
    builder.deliver(2, builder.publish(0))
    assert "no member" in verdict_on(builder, "integrity").sentence


def test_an_identity_is_published_once_and_by_its_owner() -> None:
    twice = TraceBuilder()
    twice.publish(0)
    twice.publish(0, m_seq=1)
    assert "a second time" in verdict_on(twice, "integrity").sentence
    forged = TraceBuilder()
    forged.publish(0, m_pid=1)
    assert "the id of another process" in verdict_on(forged, "integrity").sentence


def test_an_effect_before_its_cause_is_found_with_and_without_true_time() -> None:
    """A delivery that waits for its own publication fits no order; the walk ends all the same."""
    clocks: list[dict[str, Any]] = [{}, {"t_true": None}]
    for t_true in clocks:
        builder = TraceBuilder()
        builder.deliver(0, EventId(1, 1, 1), **t_true)
        builder.publish(0, **t_true)
        builder.deliver(1, EventId(0, 1, 1), **t_true)
        builder.publish(1, **t_true)
        assert outcome(builder, "integrity") is BROKEN
        assert History(builder.trace).impossible == [((0, 1), 1), ((1, 1), 0)]  # each waits for the other


# --- duplicates ---


def test_a_new_life_may_deliver_again_unless_it_remembers() -> None:
    for durable, expected in ((False, HOLDS), (True, BROKEN)):
        builder = TraceBuilder(durable=durable)
        event = builder.broadcast(0)
        builder.crash(1)
        builder.restart(1)
        builder.row(Kind.JOIN, 1)
        builder.deliver(1, event)
        assert outcome(builder, "no_duplicates") is expected


def test_at_most_a_thousand_witnesses_are_kept_and_all_are_counted() -> None:
    builder = TraceBuilder()
    event = builder.publish(0)
    builder.deliver(1, *[event] * (VIOLATIONS_MAX + 51))
    verdict = verdict_on(builder, "no_duplicates")
    assert (len(verdict.violations), verdict.count) == (VIOLATIONS_MAX, VIOLATIONS_MAX + 50)


# --- fifo ---


def test_a_silent_leap_breaks_fifo_and_a_gap_before_it_excuses_it() -> None:
    for report, expected in ((True, HOLDS), (False, BROKEN)):
        builder = TraceBuilder()
        first, second = builder.publish(0), builder.publish(0)
        if report:
            builder.gap(1, first)
        builder.deliver(1, second)
        assert outcome(builder, "fifo") is expected


def test_a_gap_after_the_leap_comes_too_late() -> None:
    builder = TraceBuilder()
    first, second = builder.publish(0), builder.publish(0)
    builder.deliver(1, second)
    builder.gap(1, first)
    assert outcome(builder, "fifo") is BROKEN


@pytest.mark.parametrize("promise", ["fifo", "optimistic_causal"])
def test_what_was_given_up_is_not_delivered_later(promise: str) -> None:
    builder = TraceBuilder()
    event = builder.publish(0)
    builder.gap(1, event)
    builder.deliver(1, event)
    assert "after it had reported it as skipped" in verdict_on(builder, promise).sentence


def test_a_late_joiner_may_begin_anywhere_but_then_skips_nothing() -> None:
    builder = TraceBuilder(founders=[0, 1])
    events = [builder.publish(0) for _ in range(4)]
    builder.row(Kind.JOIN, 2)
    builder.deliver(2, events[1])
    assert outcome(builder, "fifo") is HOLDS
    builder.deliver(2, events[3])
    assert outcome(builder, "fifo") is BROKEN


def test_a_founder_must_begin_at_the_beginning() -> None:
    builder = TraceBuilder()
    builder.row(Kind.JOIN, 1)  # founders may say that they joined; that excuses nothing
    events = [builder.publish(0), builder.publish(0)]
    builder.deliver(1, events[1])
    assert outcome(builder, "fifo") is BROKEN


def test_fifo_holds_per_life_of_the_publisher() -> None:
    """A restarted publisher numbers from 1 again: another process, another order."""
    builder = TraceBuilder()
    old = [builder.broadcast(0), builder.broadcast(0)]
    builder.crash(0)
    builder.restart(0)
    builder.row(Kind.JOIN, 0)
    new = builder.publish(0)
    builder.deliver(1, new)
    assert new.seq < old[1].seq
    assert outcome(builder, "fifo") is HOLDS


# --- causal: corners the random worlds do not reach ---


def test_causal_order_reaches_across_groups() -> None:
    """Both addressed to i: m1 before m2, across groups (LoCaMu, section 1.1)."""
    builder = TraceBuilder(groups={"g": [0, 1, 2], "h": [1, 2]})
    cause = builder.publish(0)
    builder.deliver(1, cause)
    effect = builder.publish(1, grp="h")
    builder.deliver(2, effect, grp="h")
    builder.deliver(2, cause)
    verdict = verdict_on(builder, "causal")
    assert verdict.outcome is BROKEN
    assert verdict.violations[0].ids == (cause, effect)


def test_what_was_published_before_a_member_joined_is_not_owed_to_it() -> None:
    builder = TraceBuilder(founders=[0, 1])
    cause = builder.publish(0)
    builder.deliver(1, cause)
    builder.row(Kind.JOIN, 2)
    builder.deliver(2, builder.publish(1))
    assert outcome(builder, "causal") is HOLDS


def test_a_process_that_remembers_keeps_order_through_its_crashes() -> None:
    for durable, expected in ((False, VACUOUS), (True, BROKEN)):
        builder = TraceBuilder(durable=durable)
        builder.deliver(1, builder.publish(0))
        builder.crash(1)
        builder.restart(1)
        builder.row(Kind.JOIN, 1)
        builder.deliver(2, builder.publish(1))  # follows what life 1 delivered only if life 2 remembers it
        assert outcome(builder, "causal") is expected


def test_three_processes_can_leave_no_order_though_no_two_disagree() -> None:
    """Uniform total order is acyclicity of all sequences together, not agreement of pairs."""
    builder = TraceBuilder()
    a, b, c = builder.publish(0), builder.publish(1), builder.publish(2)
    for node, events in ((0, (a, b)), (1, (b, c)), (2, (c, a))):
        builder.deliver(node, *events)
    verdict = verdict_on(builder, "total_order")
    assert verdict.outcome is BROKEN
    assert sorted(verdict.violations[0].ids) == [a, b, c]
    builder.deliver(1, a)
    assert len(verdict_on(builder, "total_order").violations[0].ids) == 2


def test_each_process_that_disagrees_with_one_before_it_is_told_once() -> None:
    """Not each two processes that disagree, of which there are 24."""
    builder = TraceBuilder(range(10))
    a, b, c = builder.publish(0), builder.publish(1), builder.publish(2)
    for node in range(10):
        builder.deliver(node, *((a, b, c) if node < 4 else (c, b, a)))
    verdict = verdict_on(builder, "total_order")
    assert (verdict.count, [violation.node for violation in verdict.violations]) == (6, [4, 5, 6, 7, 8, 9])


# --- agreement and liveness ---


def healed() -> tuple[TraceBuilder, EventId]:
    """Four processes after the faults: 0 publishes; 1 delivers; 2 crashed before; 3 joined too late."""
    builder = TraceBuilder(range(4), founders=range(3))
    builder.crash(2)
    builder.phases(deadline_ns=5_000)
    builder.row(Kind.JOIN, 3)
    event = builder.publish(0)
    builder.deliver(0, event)
    builder.deliver(1, event)
    return builder, event


def test_only_members_that_stay_are_owed_what_is_published_after_healing() -> None:
    builder, _ = healed()
    verdict = verdict_on(builder, "agreement")
    assert (verdict.outcome, verdict.sentence) == (HOLDS, "2 of 2 expected deliveries were made")
    assert outcome(builder, "liveness") is HOLDS


def test_an_owed_delivery_that_never_came_breaks_agreement_and_liveness() -> None:
    builder, _ = healed()
    missed = builder.broadcast(0, dests=[0, 1])
    builder.trace.rows[Kind.DELIVER] = [
        row for row in builder.trace.rows[Kind.DELIVER] if not (row[0] == 1 and row[8] == missed.seq)
    ]
    for promise in ("agreement", "liveness"):
        verdict = verdict_on(builder, promise)
        assert verdict.outcome is BROKEN
        assert (verdict.violations[0].node, verdict.violations[0].ids) == (1, (missed,))


def test_a_level_of_high_probability_is_judged_by_the_part_it_promises() -> None:
    for reach_min, expected in ((0.75, HOLDS), (0.76, BROKEN)):
        builder, _ = healed()
        builder.deliver(0, builder.publish(0))
        builder.trace.run.reach_min = reach_min
        assert outcome(builder, "agreement") is expected


def test_a_delivery_after_the_deadline_breaks_liveness_alone() -> None:
    builder, _ = healed()
    event = builder.publish(0)
    builder.deliver(0, event)
    builder.now += 6_000
    builder.deliver(1, event)
    assert outcome(builder, "agreement") is HOLDS
    assert outcome(builder, "liveness") is BROKEN


def test_without_phases_agreement_is_unknown_unless_everything_is_promised() -> None:
    builder = TraceBuilder()
    event = builder.publish(0)
    builder.deliver(0, event)
    assert outcome(builder, "agreement") is outcome(builder, "liveness") is UNKNOWN
    builder.trace.run.parameters["agreement"] = "all"
    assert verdict_on(builder, "agreement").count == 2


def test_a_process_that_remembers_is_owed_what_it_missed_while_it_was_down() -> None:
    builder = TraceBuilder(durable=True)
    builder.crash(2)
    event = builder.publish(0)
    builder.deliver(0, event)
    builder.deliver(1, event)
    assert outcome(builder, "agreement") is HOLDS
    builder.restart(2)
    assert outcome(builder, "agreement") is BROKEN
    builder.deliver(2, event)
    assert outcome(builder, "agreement") is HOLDS


# --- tickets (optimistic 4.4 and 4.12) ---


def owned(builder: TraceBuilder, kind: Kind, node: int, epoch: int) -> None:
    builder.row(kind, node, ticket=7, epoch=epoch)


def test_a_ticket_that_changes_hands_in_order_is_exclusive() -> None:
    builder = TraceBuilder(level="optimistic")
    owned(builder, Kind.TICKET_ACQUIRE, 0, 1)
    builder.publish(0, ticket=7, epoch=1)
    owned(builder, Kind.TICKET_SUSPEND, 0, 1)
    owned(builder, Kind.TICKET_ACQUIRE, 0, 1)
    builder.crash(0)
    owned(builder, Kind.TICKET_ACQUIRE, 1, 2)
    builder.publish(1, ticket=7, epoch=2)
    owned(builder, Kind.TICKET_RELEASE, 1, 2)
    assert outcome(builder, "ticket_exclusivity") is HOLDS


def test_two_owners_of_a_ticket_at_once_break_exclusivity() -> None:
    builder = TraceBuilder(level="optimistic")
    owned(builder, Kind.TICKET_ACQUIRE, 0, 1)
    owned(builder, Kind.TICKET_ACQUIRE, 1, 2)
    assert "while process 0 still held it" in verdict_on(builder, "ticket_exclusivity").sentence


def test_a_later_owner_needs_a_greater_epoch() -> None:
    for epoch in (1, 2):
        builder = TraceBuilder(level="optimistic")
        owned(builder, Kind.TICKET_ACQUIRE, 0, 2)
        owned(builder, Kind.TICKET_RELEASE, 0, 2)
        owned(builder, Kind.TICKET_ACQUIRE, 1, epoch)
        assert outcome(builder, "ticket_exclusivity") is BROKEN


def wishing(*, given_back: bool = False, gives_up: bool = False, taken: int = 1, lost: bool = False) -> TraceBuilder:
    """A cluster of two tickets: process 0 has one, process 1 asks for the other."""
    builder = TraceBuilder(level="optimistic", parameters={"tickets": 2, "k": 1, "ticket_round_ns": 10})
    for node in range(2):
        builder.row(Kind.NOTE, node, reason="ticket_asked")
    builder.row(Kind.TICKET_ACQUIRE, 0, ticket=1, epoch=1, value=3 - taken)
    if taken == 2:
        builder.row(Kind.TICKET_ACQUIRE, 2, ticket=0, epoch=2)
    builder.phases()
    if gives_up:
        builder.row(Kind.NOTE, 1, reason="ticket_given_back")
    if given_back:
        builder.row(Kind.NOTE, 0, reason="ticket_given_back")
    if lost or given_back:
        builder.row(Kind.TICKET_RELEASE, 0, ticket=1, epoch=1)
    return builder


def test_who_asked_in_time_has_a_ticket_unless_all_are_taken() -> None:
    assert "process 1 asked for a ticket and had none" in verdict_on(wishing(), "ticket_coverage").sentence
    assert outcome(wishing(gives_up=True), "ticket_coverage") is HOLDS
    assert outcome(wishing(taken=2), "ticket_coverage") is HOLDS
    served = wishing()
    served.row(Kind.TICKET_ACQUIRE, 1, ticket=0, epoch=2)
    assert outcome(served, "ticket_coverage") is HOLDS
    gone = wishing()
    gone.crash(1)
    assert outcome(gone, "ticket_coverage") is HOLDS


def test_a_wish_whose_time_nobody_knows_was_not_made_in_time() -> None:
    untimed = wishing()
    rows = untimed.trace.rows[Kind.NOTE]
    rows[:] = [(*row[:AT_T_TRUE], None, *row[AT_T_TRUE + 1 :]) for row in rows]
    assert outcome(untimed, "ticket_coverage") is HOLDS


def test_after_healing_nobody_loses_a_ticket_that_it_did_not_give_back() -> None:
    lost = wishing(gives_up=True, lost=True)
    assert "process 0 lost ticket 1" in verdict_on(lost, "ticket_coverage").sentence
    assert outcome(wishing(gives_up=True, given_back=True), "ticket_coverage") is HOLDS


def test_only_the_holder_publishes_under_a_ticket() -> None:
    builder = TraceBuilder(level="optimistic")
    owned(builder, Kind.TICKET_ACQUIRE, 0, 1)
    owned(builder, Kind.TICKET_SUSPEND, 0, 1)
    builder.publish(0, ticket=7, epoch=1)
    assert "which it did not hold" in verdict_on(builder, "ticket_exclusivity").sentence


def test_without_any_ticket_exclusivity_is_not_at_stake() -> None:
    for level in ("optimistic", "fifo"):
        assert outcome(TraceBuilder(level=level), "ticket_exclusivity") is VACUOUS


def test_without_true_time_two_owners_cannot_be_compared_but_a_shared_epoch_shows() -> None:
    builder = TraceBuilder(level="optimistic")
    builder.row(Kind.TICKET_ACQUIRE, 0, ticket=7, epoch=1, t_true=None)
    assert outcome(builder, "ticket_exclusivity") is UNKNOWN
    builder.row(Kind.TICKET_ACQUIRE, 1, ticket=7, epoch=1, t_true=None)
    assert outcome(builder, "ticket_exclusivity") is BROKEN


def by_clocks(skew_ns: int, *, told_end: bool = True) -> TraceBuilder:
    """Two owners without true time whose stretches overlap by 1,000 ns on their clocks."""
    builder = TraceBuilder(level="optimistic", epsilon=1, tick_ns=skew_ns)
    builder.row(Kind.TICKET_ACQUIRE, 0, ticket=7, epoch=1, t_true=None)
    builder.row(Kind.TICKET_ACQUIRE, 1, ticket=7, epoch=2, t_true=None)
    if told_end:
        builder.row(Kind.TICKET_RELEASE, 0, ticket=7, epoch=1, t_true=None)
    builder.row(Kind.TICKET_RELEASE, 1, ticket=7, epoch=2, t_true=None)
    return builder


def test_without_true_time_clocks_show_an_overlap_for_certain_or_as_possible() -> None:
    """Longer than clocks may differ it is certain; shorter, or where an end is not told, nobody can judge."""
    assert "still held it" in verdict_on(by_clocks(999), "ticket_exclusivity").sentence
    for unsure in (by_clocks(1000), by_clocks(10, told_end=False)):
        assert outcome(unsure, "ticket_exclusivity") is UNKNOWN
        assert "two owners at once in 1 case" in verdict_on(unsure, "ticket_exclusivity").sentence
    slept = TraceBuilder(level="optimistic", epsilon=1, tick_ns=1)
    slept.row(Kind.TICKET_ACQUIRE, 0, ticket=7, epoch=1, t_true=None)
    slept.row(Kind.TICKET_ACQUIRE, 1, ticket=7, epoch=2, t_true=None)
    slept.row(Kind.TICKET_SUSPEND, 0, ticket=7, epoch=1, t_true=None, late_ns=1500)
    assert outcome(slept, "ticket_exclusivity") is UNKNOWN
    assert "cannot be compared" in verdict_on(slept, "ticket_exclusivity").sentence


# --- bounds, views, determinism ---


def test_a_value_over_its_bound_is_named_with_both() -> None:
    builder = TraceBuilder()
    builder.row(Kind.NOTE, 0, reason="held_bundles", value=5, bound=5)
    builder.row(Kind.NOTE, 0, reason="rounds", value=10**9)
    assert outcome(builder, "bounds") is HOLDS
    builder.row(Kind.NOTE, 1, reason="held_bundles", value=6, bound=5)
    assert verdict_on(builder, "bounds").sentence == "process 1 had held_bundles at 6, over its bound of 5"


def with_views(*views: tuple[int, tuple[int, ...]], crash: int | None = None) -> TraceBuilder:
    builder = TraceBuilder()
    if crash is not None:
        builder.crash(crash)
    builder.now += 1000
    builder.trace.run.phases = Phases(heal_at=builder.now, live_from=builder.now, live_until=10**9, deadline_ns=1)
    for node, view in views:
        builder.row(Kind.VIEW, node, dests=view)
    return builder


def test_views_hold_when_everyone_is_known_to_someone() -> None:
    assert outcome(with_views((0, (1,)), (1, (2,)), (2, (0,))), "views") is HOLDS


def test_a_member_in_nobodys_view_breaks_the_promise_of_views() -> None:
    """lpbcast: an isolated member would never be gossiped to again."""
    verdict = verdict_on(with_views((0, (1,)), (1, (0,)), (2, (0,))), "views")
    assert [violation.node for violation in verdict.violations] == [2]


def test_a_view_must_forget_who_crashed_before_the_faults_stopped() -> None:
    assert outcome(with_views((0, (1,)), (1, (0,)), crash=2), "views") is HOLDS
    assert "still has process 2" in verdict_on(with_views((0, (1, 2)), (1, (0,)), crash=2), "views").sentence


def test_only_the_last_view_counts_but_never_may_it_name_its_owner() -> None:
    assert outcome(with_views((0, (1, 2)), (0, (1,)), (1, (0,)), crash=2), "views") is HOLDS
    assert "itself" in verdict_on(with_views((0, (0, 1)), (0, (1, 2)), (1, (0,)), (2, (0,))), "views").sentence


def test_without_true_time_only_an_owner_in_its_own_view_can_be_accused() -> None:
    """When a view was held, and who was there then, needs a time that all share."""
    timeless = with_views((0, (1,)), (1, (0,)), (2, (0,)))
    timeless.trace.rows[Kind.VIEW] = [(*row[:4], None, *row[5:]) for row in timeless.trace.rows[Kind.VIEW]]
    assert outcome(timeless, "views") is UNKNOWN
    timeless.row(Kind.VIEW, 0, dests=(0,), t_true=None)
    assert outcome(timeless, "views") is BROKEN


def test_full_views_need_no_rows() -> None:
    assert outcome(TraceBuilder(), "views") is UNKNOWN
    assert outcome(TraceBuilder(parameters={"view": "full"}), "views") is VACUOUS


def test_two_runs_of_a_seed_leave_one_fingerprint() -> None:
    builder = TraceBuilder()
    builder.broadcast(0)
    assert outcome(builder, "determinism") is UNKNOWN
    builder.trace.run.digest = digest_of(builder.trace)
    assert outcome(builder, "determinism") is HOLDS
    builder.broadcast(0)
    assert outcome(builder, "determinism") is BROKEN
    assert determinism.compare("a", "a").holds


# --- nothing at stake ---


def test_a_promise_about_which_nothing_was_checked_does_not_hold() -> None:
    """An empty trace, by every promise: vacuous, or unknown where the run does not say enough."""
    empty = TraceBuilder(level="optimistic", parameters={"tickets": 4, "k": 1})
    empty.phases()
    told = {verdict.promise: verdict.outcome for verdict in judge(empty.trace, ORACLES)}
    assert told.pop("determinism") is UNKNOWN
    assert told.pop("views") is UNKNOWN
    assert told.pop("ticket_coverage") is BROKEN  # nobody ever acted for any of four tickets
    assert set(told.values()) == {VACUOUS}


def test_one_event_puts_deliveries_at_stake_and_no_order() -> None:
    builder = TraceBuilder()
    builder.phases()
    builder.broadcast(0)
    for promise in ("integrity", "no_duplicates", "agreement", "liveness"):
        assert outcome(builder, promise) is HOLDS
    for promise in ("fifo", "causal", "optimistic_causal", "total_order", "keys", "bounds"):
        assert outcome(builder, promise) is VACUOUS
    builder.broadcast(0)
    for promise in ("fifo", "causal", "optimistic_causal", "total_order"):
        assert outcome(builder, promise) is HOLDS


def test_beyond_k_nothing_is_promised_of_tickets() -> None:
    builder = TraceBuilder(level="optimistic", parameters={"tickets": 1, "k": 1, "ticket_round_ns": 10**6})
    builder.crash(0)
    builder.crash(1)
    builder.phases()
    verdict = verdict_on(builder, "ticket_coverage")
    assert verdict.outcome is VACUOUS
    assert "more than k = 1" in verdict.sentence
    assert verdict.is_fine
    assert not verdict.holds


def test_with_rows_missing_nobody_can_say_that_nothing_happened() -> None:
    builder = TraceBuilder()
    builder.row(Kind.NOTE, 0, ev=3)
    assert outcome(builder, "integrity") is UNKNOWN


# --- without true time ---


def untimed(builder: TraceBuilder) -> TraceBuilder:
    for kind, rows in builder.trace.rows.items():
        builder.trace.rows[kind] = [with_columns(row, kind, t_true=None) for row in rows]
    return builder


def answered(*at_two: str) -> TraceBuilder:
    """A question, its answer, and what process 2 makes of them; everybody joined, as in a live trace."""
    builder = TraceBuilder(founders=[], level="causal", durable=True)
    for node in range(3):
        builder.row(Kind.JOIN, node)
    question = builder.publish(0)
    builder.deliver(0, question)
    builder.deliver(1, question)
    answer = builder.publish(1)
    builder.deliver(1, answer)
    builder.deliver(2, *({"question": question, "answer": answer}[name] for name in at_two))
    return untimed(builder)


def test_an_answer_before_its_question_breaks_causal_order_whoever_was_a_member_when() -> None:
    """Without true time nobody is certainly a member; who delivers both in the wrong order is wrong all the same."""
    verdict = verdict_on(answered("answer", "question"), "causal")
    assert (verdict.outcome, verdict.count) == (BROKEN, 1)
    assert "came only later" in verdict.sentence


def test_a_cause_that_may_have_been_owed_and_never_came_leaves_a_doubt() -> None:
    verdict = verdict_on(answered("answer"), "causal")
    assert verdict.outcome is UNKNOWN
    assert "1 cause may have been expected" in verdict.sentence
    assert outcome(answered("question", "answer"), "causal") is HOLDS


def test_deliveries_that_may_be_owed_leave_a_doubt_about_agreement() -> None:
    verdict = verdict_on(answered("question"), "agreement")
    assert verdict.outcome is UNKNOWN
    assert "2 deliveries may be expected" in verdict.sentence  # the answer to 0 and to 2


# --- keys ---


def keyed(
    *delivered: int, published: tuple[int, ...] = (10, 20, 30), shown: dict[int, int] | None = None
) -> TraceBuilder:
    builder = TraceBuilder(level="total")
    events = {key: builder.publish(at, k_hi=key, k_lo=at) for at, key in enumerate(published)}
    lows = {key: at for at, key in enumerate(published)}
    for key in delivered:
        builder.deliver(2, events[key], k_hi=(shown or {}).get(key, key), k_lo=lows[key])
    return builder


def test_keys_tell_the_order_of_deliveries() -> None:
    assert outcome(keyed(10, 20, 30), "keys") is HOLDS
    verdict = verdict_on(keyed(10, 30, 20), "keys")
    assert (verdict.outcome, verdict.count) == (BROKEN, 1)
    assert "whose key is not smaller" in verdict.sentence


def test_an_event_has_one_key_everywhere_and_alone() -> None:
    assert "another key than it was published with" in verdict_on(keyed(10, shown={10: 11}), "keys").sentence
    builder = TraceBuilder(level="total")
    for node in (0, 1):
        builder.publish(node, k_hi=5, k_lo=5)
    assert "with the key of event 1 of process 0" in verdict_on(builder, "keys").sentence


def test_what_a_process_publishes_has_a_greater_key_than_all_it_knew() -> None:
    builder = TraceBuilder(level="total")
    first = builder.publish(0, k_hi=9, k_lo=0)
    builder.deliver(1, first, k_hi=9, k_lo=0)
    builder.publish(1, k_hi=8, k_lo=0)
    builder.publish(1, k_hi=10, k_lo=0)
    verdict = verdict_on(builder, "keys")
    assert verdict.count == 1
    assert "not greater than that of event 1 of process 0" in verdict.sentence


# --- completeness, and which promises are asked ---


def test_a_row_that_is_there_twice_counts_once() -> None:
    """A file shipped twice is no duplicate delivery, and nothing is missing."""
    builder = TraceBuilder()
    builder.broadcast(0)
    for kind in (Kind.PUBLISH, Kind.DELIVER):
        builder.trace.rows[kind] *= 2
    history = History(builder.trace)
    assert history.twice == 4
    assert history.incomplete is None
    assert outcome(builder, "no_duplicates") is HOLDS
    assert outcome(builder, "integrity") is HOLDS
    builder.trace.rows[Kind.DELIVER][0] = with_columns(builder.trace.rows[Kind.DELIVER][0], Kind.DELIVER, hold_ns=7)
    assert History(builder.trace).incomplete is not None  # one number, two stories


def test_a_trace_with_a_missing_row_promises_nothing_and_says_why() -> None:
    builder = TraceBuilder()
    builder.broadcast(0)
    builder.row(Kind.NOTE, 1, reason="x")
    del builder.trace.rows[Kind.DELIVER][1]  # of process 1
    verdict = verdict_on(builder, "integrity")
    assert verdict.outcome is UNKNOWN
    assert "process 1 in its incarnation 1" in verdict.sentence
    assert "number 0 is missing" in verdict.sentence


def test_rows_are_numbered_from_zero_over_all_kinds() -> None:
    builder = TraceBuilder()
    builder.row(Kind.SEND, 0, peer=1)
    builder.publish(0)
    assert History(builder.trace).incomplete is None
    builder.trace.rows[Kind.SEND][0] = with_columns(builder.trace.rows[Kind.SEND][0], Kind.SEND, ev=1)
    assert History(builder.trace).incomplete is not None


def test_every_level_has_promises_and_every_promise_an_oracle() -> None:
    assert set(Level) <= set(PROMISES_OF)
    assert {promise for promises in PROMISES_OF.values() for promise in promises} <= set(ORACLES)


def test_a_run_may_state_its_own_promises() -> None:
    builder = TraceBuilder(parameters={"promises": ["fifo", "bounds"]})
    assert [verdict.promise for verdict in judge(builder.trace)] == ["fifo", "bounds"]


def test_an_unknown_promise_or_level_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(UsageError, match="no promise is called 'luck'; known are integrity"):
        judge(TraceBuilder().trace, ["luck"])
    with pytest.raises(UsageError, match="no level is called 'perfect'"):
        promises_of(TraceBuilder(level="perfect").trace.run)


def test_a_stay_is_over_with_the_life_that_crashed() -> None:
    """A restarted process is a member again only from its own join row on."""
    builder = TraceBuilder()
    builder.crash(1)
    builder.restart(1)
    history = History(builder.trace)
    assert [stay.grp for stay in history.stays[1, 1]] == [GRP]
    assert history.stays[1, 2] == []
    assert (history.up[1, 1], history.up[1, 2]) == (False, True)
