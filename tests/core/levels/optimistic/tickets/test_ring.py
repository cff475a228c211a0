"""Coordinators together: who may act, how tickets come and go, and what one lost message does (spec 4.4 to 4.9)."""

from random import Random

import pytest
from msgspec import structs

from tests.core.levels.optimistic.tickets.town import ROUND_NS, SETTINGS, TICKETS, Town, town_of
from whence.core.clocks.cct import entry_of
from whence.core.levels.optimistic.tickets import items
from whence.core.levels.optimistic.tickets.applicant import Applicant
from whence.core.levels.optimistic.tickets.authority import TRANSITIONS, SessionState
from whence.core.levels.optimistic.tickets.coordinators import KnownCoordinators
from whence.core.levels.optimistic.tickets.epochs import BLOCK
from whence.core.levels.optimistic.tickets.founding import TRANSITIONS as PHASES
from whence.core.levels.optimistic.tickets.founding import Phase
from whence.core.levels.optimistic.tickets.record_bytes import unpack
from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.ready import Item, Ready
from whence.errors import LeaseSuspendedError, NotCoordinatorError, SettingError, UsageError
from whence.types import Process

ALL = list(range(TICKETS))


def test_one_founder_coordinates_everything() -> None:
    town = Town()
    for pid in (0, 1, 4):
        town.acquire(pid)
    town.rounds(0.5)
    assert len(town.acting()) <= 1
    town.rounds(8)
    assert town.covered() == ALL
    assert town.reasons().count("founded") == 1


@pytest.mark.parametrize("coordinators", [1, 2, 4, 6])
def test_tickets_are_shared_and_each_has_one_that_acts_for_it(coordinators: int) -> None:
    """Lemma 4.1: the intervals of all coordinators are disjoint and, at rest, cover every ticket."""
    town = town_of(coordinators)
    assert town.covered() == ALL
    epochs = [epoch for _, epoch, _ in town.acting().values()]
    assert len(set(epochs)) == coordinators or coordinators > 2


def test_who_has_no_ticket_is_told_why_and_when_to_retry() -> None:
    town = town_of(1)
    with pytest.raises(NotCoordinatorError, match="has not asked for a ticket; call acquire_ticket first"):
        town.managers[5].authorize(town.now)
    town.managers[5].acquire(town.now)
    with pytest.raises(NotCoordinatorError, match=r"still asking.*retry in") as refusal:
        town.managers[5].authorize(town.now)
    assert refusal.value.retry_ns == SETTINGS.ticket_round_ns


def test_a_lease_that_ran_out_suspends_and_a_renewed_one_resumes() -> None:
    town = town_of(2)
    ticket_epoch = town.managers[1].authorize(town.now).ticket_epoch
    town.lost = lambda source, target, item: 1 in (source, target)
    town.now += SETTINGS.lease_ns + 1
    with pytest.raises(LeaseSuspendedError, match="lease has run out; retry in"):
        town.managers[1].authorize(town.now)
    assert town.managers[1].status(town.now).standing == "suspended"
    town.lost = lambda source, target, item: False
    town.rounds(2)
    assert town.managers[1].authorize(town.now).ticket_epoch == ticket_epoch
    status = town.managers[1].status(town.now)
    assert (status.standing, status.ticket, status.epoch) == ("active", *ticket_epoch)
    assert 0 < status.lease_left_ns <= SETTINGS.lease_ns


@pytest.mark.parametrize("asks", [True, False])
def test_a_coordinator_without_a_majority_gives_up_for_who_asks_and_in_the_end_by_itself(asks: bool) -> None:
    """A founder heard two seeds of three, and one of them crashed: by the other's word it lives, and it never acts.

    Neither it could go on nor anybody take over (F29 speaks only of who was fenced somewhere)."""
    town = Town()
    town.lost = lambda source, target, item: {source, target} == {0, 3}
    town.acquire(0)
    while not town.acting():
        town.step()
    session = town.managers[0].coordinator.session
    assert session is not None
    assert [witness.pid for witness in session.authority.record.witnesses] == [1, 2]
    town.crash(1)
    town.lost = lambda source, target, item: False
    if asks:
        town.acquire(4)
    town.rounds(3 * SETTINGS.lease_rounds)
    assert not town.acting()
    town.rounds((9 if asks else 20) * SETTINGS.lease_rounds)
    assert town.covered() == ALL
    assert all(epoch > session.ticket_epoch.epoch for _, epoch, _ in town.acting().values())
    assert 0 in town.acting(), "it asks again by itself"


def test_a_coordinator_that_slept_says_how_long_its_lease_has_been_over() -> None:
    town = town_of(1)
    session = town.managers[0].coordinator.session
    assert session is not None
    ended = session.authority.until()
    town.now = ended + 7 * ROUND_NS
    ready = Ready()
    town.managers[0].tick(town.now, ready)
    suspended = [note for note in ready.notes if note.kind == "ticket_suspend"]
    assert [note.late_ns for note in suspended] == [7 * ROUND_NS]


def test_a_crashed_coordinator_is_fenced_and_its_tickets_come_back() -> None:
    """Invariant 2: crash, three missed greetings, fences, one drained lease, takeover."""
    town = town_of(4)
    gone = town.acting()[2]
    town.crash(2)
    began = town.now
    while town.covered() != ALL:
        town.rounds(0.5)
        assert town.now - began < 14 * ROUND_NS
    assert town.now - began > SETTINGS.wait_ns, "not before the last lease had ended"
    assert "exclusion" in town.reasons()
    town.acquire(5)
    town.rounds(8)
    taken = [ticket_epoch for ticket_epoch in town.acting().values() if ticket_epoch[0] == gone[0]]
    assert all(epoch > gone[1] for _, epoch, _ in taken), "a ticket given again has a higher epoch"


def test_a_chain_of_dead_neighbours_is_closed_in_one_pass() -> None:
    """Traps F12 and F30: two successors in a row die; with k = 2 nobody else loses anything."""
    town = town_of(5, 8, k=2, seeds="0,1,2,3,6,7")
    order = sorted(town.acting().items(), key=lambda each: -each[1][0])
    victims = [pid for pid, _ in order if pid not in (0, 1)][:2]
    for pid in victims:
        town.crash(pid)
    town.rounds(18)
    assert town.covered() == ALL
    assert len(town.acting()) == 3


def test_a_leaver_is_silent_before_its_ticket_is_given_back() -> None:
    """Trap B5: it stops acting first, and only then is its interval absorbed."""
    town = town_of(3)
    town.release(1)
    assert 1 not in town.acting()
    assert town.covered() != ALL
    town.rounds(6)
    assert town.covered() == ALL
    assert town.managers[1].coordinator.session is None
    assert "ticket_absorb" in town.reasons()
    assert "exclusion" not in town.reasons()


def test_the_last_coordinator_must_stay() -> None:
    """Traps B10 and F20: the theorem assumes that there is one."""
    town = town_of(1)
    with pytest.raises(UsageError, match="last coordinator"):
        town.release(0)
    assert town.covered() == ALL


def test_leavers_without_anyone_to_take_over_close_in_the_end_and_the_cluster_is_founded_anew() -> None:
    town = town_of(2)
    town.release(1)
    town.managers[0].applicant.wanted = False
    ready = Ready()
    town.managers[0].depart(town.now, ready)
    town.take(0, ready)
    town.acquire(5)
    town.rounds(40)
    assert town.covered() == ALL
    assert "refounded" in town.reasons()


def test_a_joiner_that_never_heard_of_its_ticket_refuses_it_for_good() -> None:
    """Traps F23 and F24: the ticket is reusable at once, and a late copy of the answer is not taken."""
    town = town_of(1)
    late: list[tuple[int, items.AckAcquireTicket]] = []

    def hold_back(source: int, target: int, item: Item) -> bool:
        if isinstance(item, items.AckAcquireTicket) and target == 5:
            late.append((source, item))
            return True
        return False

    town.lost = hold_back
    town.acquire(5)
    while "soft_close" not in town.reasons():
        town.step()
    town.lost = lambda source, target, item: False
    refused = unpack(late[0][1].record).ticket_epoch
    ready = Ready()
    town.managers[5].receive(town.managers[late[0][0]].me, late[0][1], town.now, ready)
    town.take(5, ready)
    assert town.managers[5].coordinator.session is None or town.managers[5].coordinator.session.ticket_epoch != refused
    town.rounds(10)
    assert town.covered() == ALL
    assert "exclusion" not in town.reasons(), "nobody had to be fenced"


def test_a_coordinator_answers_only_for_the_claim_it_is_now() -> None:
    """Section 1 and trap B8: the same process with an earlier claim is somebody else, and says that it is closed."""
    town = town_of(3)
    session = town.managers[2].coordinator.session
    assert session is not None
    old = session.ticket_epoch
    town.release(2)
    town.rounds(6)
    town.acquire(2)
    town.rounds(6)
    now = town.managers[2].coordinator.session
    assert now is not None
    assert now.ticket_epoch != old
    ready = Ready()
    town.managers[2].receive(Process(1, 1), items.Update(*old, 0, 1, 99, b""), town.now, ready)
    assert [type(send.item) for send in ready.send] == [items.NotCoordinator]
    ready = Ready()
    town.managers[2].receive(Process(1, 1), items.Exclude(*now.ticket_epoch), town.now, ready)
    assert [type(send.item) for send in ready.send] == [items.AckExclude]
    ready = Ready()
    town.managers[2].receive(Process(1, 1), items.Fenced(*old), town.now, ready)
    assert town.managers[2].coordinator.session is now, "a fence for an earlier self does not close this one"


def test_a_restarted_witness_is_another_process() -> None:
    """Trap F34: its answers under a new life renew nothing."""
    town = town_of(2)
    session = town.managers[1].coordinator.session
    assert session is not None
    before = session.authority.until()
    for witness in session.authority.record.witnesses:
        reborn = Process(witness.pid, 2)
        ready = Ready()
        town.managers[1].receive(
            reborn, items.Alive(*session.ticket_epoch, session.authority.record.version, town.now), town.now, ready
        )
    assert session.authority.until() == before


def test_when_all_coordinators_are_lost_another_generation_begins_above_all_epochs() -> None:
    """Spec 4.9, trap F22: every claim of the last generation is closed first."""
    town = town_of(2)
    top = max(epoch for _, epoch, _ in town.acting().values())
    for pid in (0, 1):
        manager = town.managers[pid]
        assert manager.coordinator.session is not None
        ready = Ready()
        manager.applicant.wanted = False
        turn = manager._begin_turn(town.now, ready)
        manager.coordinator.session.close(turn)
        manager._end_turn(turn)
    town.acquire(5)
    town.rounds(20)
    assert town.covered() == ALL
    (ticket_epoch,) = town.acting().values()
    assert ticket_epoch[1] > top
    assert "refounded" in town.reasons()


def test_a_round_costs_each_coordinator_what_the_paper_allows() -> None:
    """Spec 4.11: 2 (2k + 1) small messages and 2, per coordinator and ticket round."""
    town = town_of(4)
    town.rounds(10)
    town.said.clear()
    town.rounds(20)
    per_round = len(town.said) / 4 / 20
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
    town = Town()
    town.lost = lambda source, target, item: isinstance(item, items.GenesisAnswer)
    town.acquire(4)
    while not any(isinstance(item, items.Genesis) for item in town.said):
        town.step()
    founding = town.managers[4].founder.attempt
    assert founding is not None
    assert founding.record is not None
    ticket_epoch, ballot = founding.record.ticket_epoch, founding.ballot.number
    town.managers[4].receive(Process(1, 1), items.Exclude(*ticket_epoch), town.now, Ready())
    for pid in (0, 1, 2, 3):
        town.managers[4].receive(Process(pid, 1), items.GenesisAnswer(ballot, True, ballot), town.now, Ready())
    assert town.managers[4].coordinator.session is None


def test_an_operators_word_frees_what_too_many_deaths_had_closed() -> None:
    """Spec 4.9: more than k witnesses are gone for good; each that is declared dead counts as its fence."""
    town = town_of(6, count=10)
    for pid in (2, 3, 4):
        town.crash(pid)
    town.rounds(20)
    assert town.covered() != ALL
    waited_for = {witness.pid for manager in town.managers.values() for witness in manager.status(town.now).waits_for}
    assert waited_for == {2, 3, 4}, "those who are stuck say whom they wait for"
    with pytest.raises(UsageError, match="a moment ago: it lives"):
        town.managers[0].declare_dead(Process(1, 1), town.now)
    with pytest.raises(UsageError, match="this process lives"):
        town.managers[0].declare_dead(Process(0, 1), town.now)
    for manager in town.managers.values():
        for pid in (2, 3, 4):
            manager.declare_dead(Process(pid, 1), town.now)
    before = max(epoch for _, epoch, _ in town.acting().values())
    town.rounds(20)
    assert town.covered() == ALL
    town.acquire(7)
    town.rounds(12)
    assert town.acting()[7][1] >= BLOCK > before, "what only the dead knew of may have been given"


def test_a_session_whose_ticket_has_a_later_owner_closes_and_asks_anew() -> None:
    """X3: an event under a later epoch of its ticket was delivered here; it will never be believed again."""
    town = town_of(2)
    session = town.managers[1].coordinator.session
    assert session is not None
    ticket, epoch = session.ticket_epoch
    session._entry_of = lambda of: entry_of(epoch + 1, 3) if of == ticket else 0
    town.rounds(2)
    assert town.managers[1].coordinator.session is not session
    assert "ticket_overtaken" in town.reasons()
    town.rounds(12)
    assert 1 in town.acting()
    assert town.covered() == ALL


def test_a_ticket_that_was_used_is_given_with_an_epoch_above_all_that_were_delivered_here() -> None:
    town = town_of(1)
    session = town.managers[0].coordinator.session
    assert session is not None
    session.grants._entry_of = lambda of: entry_of(40, 3) if of != session.ticket_epoch.ticket else 0
    town.acquire(5)
    town.rounds(10)
    assert town.acting()[5][1] > 40


def test_a_coordinator_whose_witnesses_all_began_another_life_lets_go() -> None:
    """No majority of them can ever renew it, and who closes itself harms nobody: the others take over at once."""
    town = town_of(2)
    session = town.managers[1].coordinator.session
    assert session is not None
    lost = session.authority.record.witnesses
    town.lost = lambda source, target, item: 1 in (source, target)
    town.rounds(1)
    for witness in lost:
        town.managers[1].peers.hear(Process(witness.pid, 2), town.now)
    town.now += SETTINGS.lease_ns
    town.rounds(2)
    assert (1, "ticket_closed") in [(pid, note.reason) for pid, note in town.notes]


def test_who_asks_where_no_ticket_is_free_is_told_so() -> None:
    town = town_of(6, count=8)
    town.acquire(7)
    town.rounds(6)
    with pytest.raises(NotCoordinatorError, match=r"asked last had none to give; retry in") as refusal:
        town.managers[7].authorize(town.now)
    status = town.managers[7].status(town.now)
    assert (status.standing, status.why, status.retry_ns) == ("joining", refusal.value.why, refusal.value.retry_ns)
    town.managers[7].applicant.on_reject(Process(8, 1), town.now, full=False)
    assert "had none to give" in town.managers[7].status(town.now).why, "who is no coordinator knows nothing of tickets"


def test_a_leaver_is_told_that_it_gives_its_ticket_back() -> None:
    town = town_of(2)
    town.release(1)
    with pytest.raises(NotCoordinatorError, match="giving its ticket back; call acquire_ticket first"):
        town.managers[1].authorize(town.now)


def test_a_coordinator_that_does_not_answer_is_passed_over_for_a_while() -> None:
    """Spec 3, rule 8: the joiner turns to another one; a dead one costs it an answer's time, not rounds."""
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
    """Spec 4.9: without other seeds the witnesses are the other ring members, and there are none yet."""
    town = Town(2, structs.replace(SETTINGS, k=0, seeds="0"))
    town.acquire(0)
    town.rounds(4)
    assert town.covered() == ALL
    town.acquire(1)
    town.rounds(6)
    assert sorted(town.acting()) == [0, 1]
    assert town.covered() == ALL
