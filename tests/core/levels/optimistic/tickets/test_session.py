"""Coordinators together: who may act, how tickets come and go, what one lost message does (optimistic 4.4 to 4.9)."""

from random import Random

import pytest
from msgspec import structs

from tests.core.levels.optimistic.tickets.cluster import ROUND_NS, SETTINGS, TICKETS, TicketCluster, cluster_of
from whence.core.clocks.cct import entry_of
from whence.core.levels.optimistic.tickets import items
from whence.core.levels.optimistic.tickets.applicant import Applicant
from whence.core.levels.optimistic.tickets.authority import TRANSITIONS, SessionState
from whence.core.levels.optimistic.tickets.epochs import BLOCK
from whence.core.levels.optimistic.tickets.founding import TRANSITIONS as PHASES
from whence.core.levels.optimistic.tickets.founding import Phase
from whence.core.levels.optimistic.tickets.known_coordinators import KnownCoordinators
from whence.core.levels.optimistic.tickets.record_bytes import unpack
from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.ready import Item, Ready
from whence.errors import LeaseSuspendedError, NotCoordinatorError, SettingError, UsageError
from whence.types import Process

ALL = list(range(TICKETS))


def test_one_founder_coordinates_everything() -> None:
    cluster = TicketCluster()
    for pid in (0, 1, 4):
        cluster.acquire(pid)
    cluster.rounds(0.5)
    assert len(cluster.acting()) <= 1
    cluster.rounds(8)
    assert cluster.covered() == ALL
    assert cluster.reasons().count("founded") == 1


@pytest.mark.parametrize("coordinators", [1, 2, 4, 6])
def test_tickets_are_shared_and_each_has_one_that_acts_for_it(coordinators: int) -> None:
    """Lemma 4.1: the intervals of all coordinators are disjoint and, at rest, cover every ticket."""
    cluster = cluster_of(coordinators)
    assert cluster.covered() == ALL
    epochs = [epoch for _, epoch, _ in cluster.acting().values()]
    assert len(set(epochs)) == coordinators or coordinators > 2


def test_who_has_no_ticket_is_told_why_and_when_to_retry() -> None:
    cluster = cluster_of(1)
    with pytest.raises(NotCoordinatorError, match="has not asked for a ticket; call acquire_ticket first"):
        cluster.managers[5].authorize(cluster.now)
    cluster.managers[5].acquire(cluster.now)
    with pytest.raises(NotCoordinatorError, match=r"still asking.*retry in") as refusal:
        cluster.managers[5].authorize(cluster.now)
    assert refusal.value.retry_ns == SETTINGS.ticket_round_ns


def test_a_lease_that_ran_out_suspends_and_a_renewed_one_resumes() -> None:
    cluster = cluster_of(2)
    ticket_epoch = cluster.managers[1].authorize(cluster.now).ticket_epoch
    cluster.lost = lambda source, target, item: 1 in (source, target)
    cluster.now += SETTINGS.lease_ns + 1
    with pytest.raises(LeaseSuspendedError, match="lease has run out; retry in"):
        cluster.managers[1].authorize(cluster.now)
    assert cluster.managers[1].status(cluster.now).state == "suspended"
    cluster.lost = lambda source, target, item: False
    cluster.rounds(2)
    assert cluster.managers[1].authorize(cluster.now).ticket_epoch == ticket_epoch
    status = cluster.managers[1].status(cluster.now)
    assert (status.state, status.ticket, status.epoch) == ("active", *ticket_epoch)
    assert 0 < status.lease_left_ns <= SETTINGS.lease_ns


@pytest.mark.parametrize("asks", [True, False])
def test_a_coordinator_without_a_majority_gives_up_for_who_asks_and_in_the_end_by_itself(asks: bool) -> None:
    """A founder heard two seeds of three, and one of them crashed: by the other's word it lives, and it never acts.

    Neither it could go on nor anybody take over (F29 speaks only of who was fenced somewhere)."""
    cluster = TicketCluster()
    cluster.lost = lambda source, target, item: {source, target} == {0, 3}
    cluster.acquire(0)
    while not cluster.acting():
        cluster.step()
    session = cluster.managers[0].coordinator.session
    assert session is not None
    assert [witness.pid for witness in session.authority.record.witnesses] == [1, 2]
    cluster.crash(1)
    cluster.lost = lambda source, target, item: False
    if asks:
        cluster.acquire(4)
    cluster.rounds(3 * SETTINGS.lease_rounds)
    assert not cluster.acting()
    cluster.rounds((9 if asks else 20) * SETTINGS.lease_rounds)
    assert cluster.covered() == ALL
    assert all(epoch > session.ticket_epoch.epoch for _, epoch, _ in cluster.acting().values())
    assert 0 in cluster.acting(), "it asks again by itself"


def test_a_coordinator_that_slept_says_how_long_its_lease_has_been_over() -> None:
    cluster = cluster_of(1)
    session = cluster.managers[0].coordinator.session
    assert session is not None
    ended = session.authority.until()
    cluster.now = ended + 7 * ROUND_NS
    ready = Ready()
    cluster.managers[0].tick(cluster.now, ready)
    suspended = [note for note in ready.notes if note.kind == "ticket_suspend"]
    assert [note.late_ns for note in suspended] == [7 * ROUND_NS]


def test_a_crashed_coordinator_is_fenced_and_its_tickets_come_back() -> None:
    """Invariant 2: crash, three missed greetings, fences, one drained lease, takeover."""
    cluster = cluster_of(4)
    gone = cluster.acting()[2]
    cluster.crash(2)
    began = cluster.now
    while cluster.covered() != ALL:
        cluster.rounds(0.5)
        assert cluster.now - began < 14 * ROUND_NS
    assert cluster.now - began > SETTINGS.wait_ns, "not before the last lease had ended"
    assert "exclusion" in cluster.reasons()
    cluster.acquire(5)
    cluster.rounds(8)
    taken = [ticket_epoch for ticket_epoch in cluster.acting().values() if ticket_epoch[0] == gone[0]]
    assert all(epoch > gone[1] for _, epoch, _ in taken), "a ticket given again has a higher epoch"


def test_a_chain_of_dead_neighbours_is_closed_in_one_pass() -> None:
    """Traps F12 and F30: two successors in a row die; with k = 2 nobody else loses anything."""
    cluster = cluster_of(5, 8, k=2, seeds="0,1,2,3,6,7")
    order = sorted(cluster.acting().items(), key=lambda each: -each[1][0])
    victims = [pid for pid, _ in order if pid not in (0, 1)][:2]
    for pid in victims:
        cluster.crash(pid)
    cluster.rounds(18)
    assert cluster.covered() == ALL
    assert len(cluster.acting()) == 3


def test_a_leaver_is_silent_before_its_ticket_is_given_back() -> None:
    """Trap B5: it stops acting first, and only then is its interval absorbed."""
    cluster = cluster_of(3)
    cluster.release(1)
    assert 1 not in cluster.acting()
    assert cluster.covered() != ALL
    cluster.rounds(6)
    assert cluster.covered() == ALL
    assert cluster.managers[1].coordinator.session is None
    assert "ticket_absorb" in cluster.reasons()
    assert "exclusion" not in cluster.reasons()


def test_the_last_coordinator_must_stay() -> None:
    """Traps B10 and F20: the theorem assumes that there is one."""
    cluster = cluster_of(1)
    with pytest.raises(UsageError, match="last coordinator"):
        cluster.release(0)
    assert cluster.covered() == ALL


def test_leavers_without_anyone_to_take_over_close_in_the_end_and_the_cluster_is_founded_anew() -> None:
    cluster = cluster_of(2)
    cluster.release(1)
    cluster.managers[0].applicant.wanted = False
    ready = Ready()
    cluster.managers[0].depart(cluster.now, ready)
    cluster.take(0, ready)
    cluster.acquire(5)
    cluster.rounds(40)
    assert cluster.covered() == ALL
    assert "refounded" in cluster.reasons()


def test_a_joiner_that_never_heard_of_its_ticket_refuses_it_for_good() -> None:
    """Traps F23 and F24: the ticket is reusable at once, and a late copy of the answer is not taken."""
    cluster = cluster_of(1)
    late: list[tuple[int, items.AckAcquireTicket]] = []

    def hold_back(source: int, target: int, item: Item) -> bool:
        if isinstance(item, items.AckAcquireTicket) and target == 5:
            late.append((source, item))
            return True
        return False

    cluster.lost = hold_back
    cluster.acquire(5)
    while "soft_close" not in cluster.reasons():
        cluster.step()
    cluster.lost = lambda source, target, item: False
    refused = unpack(late[0][1].record).ticket_epoch
    ready = Ready()
    cluster.managers[5].receive(cluster.managers[late[0][0]].me, late[0][1], cluster.now, ready)
    cluster.take(5, ready)
    assert (
        cluster.managers[5].coordinator.session is None
        or cluster.managers[5].coordinator.session.ticket_epoch != refused
    )
    cluster.rounds(10)
    assert cluster.covered() == ALL
    assert "exclusion" not in cluster.reasons(), "nobody had to be fenced"


def test_a_coordinator_answers_only_for_the_ticket_epoch_it_is_now() -> None:
    """Section 1, trap B8: the same process with an earlier ticket epoch is somebody else, and says it is closed."""
    cluster = cluster_of(3)
    session = cluster.managers[2].coordinator.session
    assert session is not None
    old = session.ticket_epoch
    cluster.release(2)
    cluster.rounds(6)
    cluster.acquire(2)
    cluster.rounds(6)
    now = cluster.managers[2].coordinator.session
    assert now is not None
    assert now.ticket_epoch != old
    ready = Ready()
    cluster.managers[2].receive(Process(1, 1), items.Update(*old, 0, 1, 99, b""), cluster.now, ready)
    assert [type(send.item) for send in ready.send] == [items.NotCoordinator]
    ready = Ready()
    cluster.managers[2].receive(Process(1, 1), items.Exclude(*now.ticket_epoch), cluster.now, ready)
    assert [type(send.item) for send in ready.send] == [items.AckExclude]
    ready = Ready()
    cluster.managers[2].receive(Process(1, 1), items.Fenced(*old, 1), cluster.now, ready)
    assert cluster.managers[2].coordinator.session is now, "a fence for an earlier self does not close this one"


def test_a_restarted_witness_is_the_same_only_if_it_remembers() -> None:
    """Trap F34: without its journal, its answers under a new incarnation renew nothing (X6)."""
    cluster = cluster_of(2)
    session = cluster.managers[1].coordinator.session
    assert session is not None
    before = session.authority.until()

    def answered(since: int) -> int:
        record = session.authority.record
        for witness in record.witnesses:
            alive = items.Alive(*session.ticket_epoch, record.version, cluster.now, since)
            cluster.managers[1].receive(Process(witness.pid, 2), alive, cluster.now, Ready())
        return session.authority.until()

    assert answered(since=2) == before
    assert answered(since=1) > before


def test_when_all_coordinators_are_lost_another_generation_begins_above_all_epochs() -> None:
    """optimistic 4.9, trap F22: every ticket epoch of the last generation is closed first."""
    cluster = cluster_of(2)
    top = max(epoch for _, epoch, _ in cluster.acting().values())
    for pid in (0, 1):
        manager = cluster.managers[pid]
        assert manager.coordinator.session is not None
        ready = Ready()
        manager.applicant.wanted = False
        turn = manager._begin_turn(cluster.now, ready)
        manager.coordinator.session.close(turn)
        manager._end_turn(turn)
    cluster.acquire(5)
    cluster.rounds(20)
    assert cluster.covered() == ALL
    (ticket_epoch,) = cluster.acting().values()
    assert ticket_epoch[1] > top
    assert "refounded" in cluster.reasons()


def test_a_round_costs_each_coordinator_what_the_paper_allows() -> None:
    """optimistic 4.11: 2 (2k + 1) small messages and 2, per coordinator and ticket round."""
    cluster = cluster_of(4)
    cluster.rounds(10)
    cluster.said.clear()
    cluster.rounds(20)
    per_round = len(cluster.said) / 4 / 20
    assert per_round <= 2 * 3 + 2


def test_seeds_are_needed_for_every_failure_planned_for() -> None:
    with pytest.raises(SettingError, match="at least 2k \\+ 1 = 3 peers"):
        TicketSettings(k=1, seeds="0,1")
    assert TicketSettings(k=1, seeds="0,1", allow_unsafe_liveness=True).witnesses == 3
    with pytest.raises(SettingError, match="numbers with commas"):
        TicketSettings(seeds="a,b,c")


@pytest.mark.parametrize(
    "given",
    [{"tickets": 0}, {"k": 9}, {"lease_rounds": 0.5}, {"drift_max": 1.0}, {"exclude_chance": 0.0}, {"answer_ns": 1}],
)
def test_a_setting_that_cannot_work_is_refused_by_name(given: dict[str, float]) -> None:
    with pytest.raises(SettingError, match=next(iter(given))):
        TicketSettings(**{"seeds": "0,1,2,3,4,5,6,7,8", **given})  # type: ignore[arg-type]


def test_every_state_and_phase_is_in_its_table() -> None:
    assert set(TRANSITIONS) == set(SessionState)
    assert set(PHASES) == set(Phase)


def test_a_founder_that_denied_its_ticket_epoch_never_takes_it() -> None:
    """Whoever walked past it counts on its word, though the seeds' votes are still on their way."""
    cluster = TicketCluster()
    cluster.lost = lambda source, target, item: isinstance(item, items.GenesisAnswer)
    cluster.acquire(4)
    while not any(isinstance(item, items.Genesis) for item in cluster.said):
        cluster.step()
    founding = cluster.managers[4].founder.attempt
    assert founding is not None
    assert founding.record is not None
    ticket_epoch, ballot = founding.record.ticket_epoch, founding.ballot.number
    cluster.managers[4].receive(Process(1, 1), items.Exclude(*ticket_epoch), cluster.now, Ready())
    for pid in (0, 1, 2, 3):
        cluster.managers[4].receive(Process(pid, 1), items.GenesisAnswer(ballot, True, ballot), cluster.now, Ready())
    assert cluster.managers[4].coordinator.session is None


def test_an_operators_word_frees_what_too_many_deaths_had_closed() -> None:
    """optimistic 4.9: more than k witnesses are gone for good; each that is declared dead counts as its fence."""
    cluster = cluster_of(6, count=10)
    for pid in (2, 3, 4):
        cluster.crash(pid)
    cluster.rounds(20)
    assert cluster.covered() != ALL
    waited_for = {
        witness.pid for manager in cluster.managers.values() for witness in manager.status(cluster.now).waits_for
    }
    assert waited_for == {2, 3, 4}, "those who are stuck say whom they wait for"
    with pytest.raises(UsageError, match="a moment ago: it is alive"):
        cluster.managers[0].declare_dead(Process(1, 1), cluster.now)
    with pytest.raises(UsageError, match="this process is alive"):
        cluster.managers[0].declare_dead(Process(0, 1), cluster.now)
    for manager in cluster.managers.values():
        for pid in (2, 3, 4):
            manager.declare_dead(Process(pid, 1), cluster.now)
    before = max(epoch for _, epoch, _ in cluster.acting().values())
    cluster.rounds(20)
    assert cluster.covered() == ALL
    cluster.acquire(7)
    cluster.rounds(12)
    assert cluster.acting()[7][1] >= BLOCK > before, "what only the dead knew of may have been given"


def test_a_session_whose_ticket_has_a_later_owner_closes_and_asks_anew() -> None:
    """X3: an event under a later epoch of its ticket was delivered here; it will never be believed again."""
    cluster = cluster_of(2)
    session = cluster.managers[1].coordinator.session
    assert session is not None
    ticket, epoch = session.ticket_epoch
    session._entry_of = lambda of: entry_of(epoch + 1, 3) if of == ticket else 0
    cluster.rounds(2)
    assert cluster.managers[1].coordinator.session is not session
    assert "ticket_overtaken" in cluster.reasons()
    cluster.rounds(12)
    assert 1 in cluster.acting()
    assert cluster.covered() == ALL


def test_a_ticket_that_was_used_is_given_with_an_epoch_above_all_that_were_delivered_here() -> None:
    cluster = cluster_of(1)
    session = cluster.managers[0].coordinator.session
    assert session is not None
    session.grants._entry_of = lambda of: entry_of(40, 3) if of != session.ticket_epoch.ticket else 0
    cluster.acquire(5)
    cluster.rounds(10)
    assert cluster.acting()[5][1] > 40


def test_a_coordinator_whose_witnesses_all_forgot_their_promises_lets_go() -> None:
    """No majority of them can ever renew it, and who closes itself harms nobody: the others take over at once."""
    cluster = cluster_of(2)
    session = cluster.managers[1].coordinator.session
    assert session is not None
    lost = session.authority.record.witnesses
    cluster.lost = lambda source, target, item: 1 in (source, target)
    cluster.rounds(1)
    for witness in lost:
        cluster.managers[1].peers.hear_since(Process(witness.pid, 2), 2)
    cluster.now += SETTINGS.lease_ns
    cluster.rounds(2)
    assert (1, "ticket_closed") in [(pid, note.reason) for pid, note in cluster.notes]


def test_who_asks_where_no_ticket_is_free_is_told_so() -> None:
    cluster = cluster_of(6, count=8)
    cluster.acquire(7)
    cluster.rounds(6)
    with pytest.raises(NotCoordinatorError, match=r"asked last had none to give; retry in") as refusal:
        cluster.managers[7].authorize(cluster.now)
    status = cluster.managers[7].status(cluster.now)
    assert (status.state, status.why, status.retry_ns) == ("joining", refusal.value.why, refusal.value.retry_ns)
    cluster.managers[7].applicant.on_reject(Process(8, 1), cluster.now, full=False)
    assert "had none to give" in cluster.managers[7].status(cluster.now).why, (
        "who is no coordinator knows nothing of tickets"
    )


def test_a_leaver_is_told_that_it_gives_its_ticket_back() -> None:
    cluster = cluster_of(2)
    cluster.release(1)
    with pytest.raises(NotCoordinatorError, match="giving its ticket back; call acquire_ticket first"):
        cluster.managers[1].authorize(cluster.now)


def test_a_coordinator_that_does_not_answer_is_passed_over_for_a_while() -> None:
    """optimistic 3, rule 8: the joiner turns to another one; a dead one costs it an answer's time, not rounds."""
    me, dead, alive = Process(9, 1), Process(11, 1), Process(12, 1)
    coordinators = KnownCoordinators(me)
    applicant = Applicant(me, SETTINGS, Random(3).random, coordinators)
    applicant.want(0)
    coordinators.hear_owner(TicketEpoch(1, 1), dead)
    coordinators.hear_owner(TicketEpoch(2, 1), alive)
    asked, now = [], 0
    while now < 4 * ROUND_NS:
        asked.append(applicant.ask(now))
        if asked[-1] != dead.pid:
            applicant.on_reject(Process(asked[-1], 1), now, full=False)
        now = applicant.next_at
    assert asked.count(dead.pid) == 1
    assert asked.count(alive.pid) > 3


def test_a_founder_whose_only_seed_it_is_acts_alone() -> None:
    """optimistic 4.9: without other seeds the witnesses are the other ring members, and there are none yet."""
    cluster = TicketCluster(2, structs.replace(SETTINGS, k=0, seeds="0"))
    cluster.acquire(0)
    cluster.rounds(4)
    assert cluster.covered() == ALL
    cluster.acquire(1)
    cluster.rounds(6)
    assert sorted(cluster.acting()) == [0, 1]
    assert cluster.covered() == ALL
