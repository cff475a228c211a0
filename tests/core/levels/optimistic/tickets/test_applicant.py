"""Who asks for a ticket gets one, whatever is lost, and costs nobody else theirs (optimistic 4.8, 4.9; X1, X2)."""

from random import Random

import pytest

from tests.core.levels.optimistic.tickets.cluster import ROUND_NS, TICKETS, TicketCluster, cluster_of
from whence.core.levels.optimistic.tickets import items
from whence.core.levels.optimistic.tickets.applicant import PASS_OVER_ROUNDS, Applicant
from whence.core.levels.optimistic.tickets.known_coordinators import KnownCoordinators
from whence.core.levels.optimistic.tickets.records import TicketEpoch
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.ready import Item, Ready
from whence.types import Process

ALL = list(range(TICKETS))


def rounds_until_acting(cluster: TicketCluster, pid: int, at_most: float) -> float:
    began = cluster.now
    while pid not in cluster.acting():
        cluster.step()
        assert cluster.now - began < at_most * ROUND_NS, f"{pid} has no ticket after {at_most} rounds"
    return (cluster.now - began) / ROUND_NS


@pytest.mark.parametrize("lost_answers", [1, 2, 5])
def test_a_joiner_whose_answer_was_lost_is_served_anew_by_the_same_coordinator(lost_answers: int) -> None:
    """X1: the grant is forgotten as soon as the coordinator's record names another successor."""
    cluster = cluster_of(1)
    lost: list[Item] = []

    def lose(source: int, target: int, item: Item) -> bool:
        if isinstance(item, items.AckAcquireTicket) and len(lost) < lost_answers:
            lost.append(item)
            return True
        return False

    cluster.lost = lose
    cluster.acquire(5)
    rounds_until_acting(cluster, 5, 12 + 6 * lost_answers)
    assert len(lost) == lost_answers
    assert "soft_close" in cluster.reasons()
    cluster.rounds(3)
    assert cluster.covered() == ALL


def test_a_joiner_whose_answer_was_overtaken_by_the_greeting_is_served_anew() -> None:
    """X1: it has said of that ticket that it will never hold it, and takes the next one."""
    cluster = cluster_of(1)
    late: list[tuple[int, items.AckAcquireTicket]] = []

    def hold_back(source: int, target: int, item: Item) -> bool:
        if isinstance(item, items.AckAcquireTicket) and not late:
            late.append((source, item))
            return True
        return isinstance(item, items.AckAcquireTicket) and "soft_close" not in cluster.reasons()

    cluster.lost = hold_back
    cluster.acquire(5)
    while "soft_close" not in cluster.reasons():
        cluster.step()
    ready = Ready()
    cluster.managers[5].receive(cluster.managers[late[0][0]].me, late[0][1], cluster.now, ready)
    cluster.take(5, ready)
    assert 5 not in cluster.acting()
    rounds_until_acting(cluster, 5, 12)


def test_an_applicant_that_hears_no_answer_does_not_keep_others_waiting() -> None:
    """A grant that nobody took up is closed by fences, and costs a lease: others go before its applicant."""
    cluster = cluster_of(1)
    cluster.lost = lambda source, target, item: target == 5 and source == 0
    cluster.acquire(5)
    cluster.rounds(40)
    cluster.acquire(4)
    assert rounds_until_acting(cluster, 4, 20) < 20
    granted = sum(reason == "ticket_grant" for reason in cluster.reasons())
    cluster.rounds(60)
    again = sum(reason == "ticket_grant" for reason in cluster.reasons()) - granted
    assert again <= 6, "it is not served over and over"


@pytest.mark.parametrize("core", [1, 2])
def test_an_applicant_that_cannot_hear_coordinators_leaves_a_healthy_core_alone(core: int) -> None:
    """X2: witnesses are asked before anybody is fenced, and a majority of them renewed a moment ago."""
    cluster = TicketCluster(8)
    coordinators = [4, 5][:core]
    for pid in coordinators:
        cluster.acquire(pid)
        rounds_until_acting(cluster, pid, 20)
    cluster.rounds(5)
    before = cluster.acting()
    cluster.lost = lambda source, target, item: target == 6 and source in coordinators
    cluster.acquire(6)
    cluster.rounds(150)
    assert cluster.reasons().count("refounded") == 0
    assert {pid: ticket_epoch[:2] for pid, ticket_epoch in cluster.acting().items()} == {
        pid: ticket_epoch[:2] for pid, ticket_epoch in before.items()
    }, "nobody lost a ticket"
    why = cluster.managers[6].status(cluster.now).why
    assert "their witnesses say that they live" in why
    cluster.lost = lambda source, target, item: False
    rounds_until_acting(cluster, 6, 25)


def test_a_core_that_is_gone_is_founded_anew_though_its_witnesses_renewed_a_moment_before() -> None:
    """X2 delays total-loss recovery by what is left of a lease, and no more."""
    cluster = TicketCluster(8)
    cluster.acquire(4)
    rounds_until_acting(cluster, 4, 20)
    cluster.rounds(3)
    cluster.lost = lambda source, target, item: target == 6 and source == 4
    cluster.acquire(6)
    cluster.rounds(9)  # it has found out meanwhile that the core lives
    cluster.lost = lambda source, target, item: False
    cluster.crash(4)
    rounds_until_acting(cluster, 6, 24)
    assert cluster.reasons().count("refounded") == 1


def test_who_knows_only_of_coordinators_that_do_not_answer_asks_the_seeds_for_others() -> None:
    """4.8: all it heard of may be dead, and others have founded the cluster anew."""
    settings = TicketSettings(tickets=TICKETS, seeds="1,2,3,4")
    coordinators = KnownCoordinators(Process(9, 1))
    applicant = Applicant(Process(9, 1), settings, lambda: 0.5, coordinators)
    applicant.want(0)
    coordinators.hear_owner(TicketEpoch(2, 5), Process(7, 1))
    assert applicant.ask(0) == 7
    assert {applicant.ask(now) for now in range(1, 9)} <= {1, 2, 3, 4}
    assert applicant.ask(PASS_OVER_ROUNDS * settings.ticket_round_ns + 2) == 7, "it may have been slow"


def test_a_seed_that_did_not_answer_as_a_coordinator_is_not_asked_as_a_seed() -> None:
    settings = TicketSettings(tickets=TICKETS, seeds="1,2,3,4")
    rng = Random(3)
    coordinators = KnownCoordinators(Process(9, 1))
    applicant = Applicant(Process(9, 1), settings, rng.random, coordinators)
    applicant.want(0)
    coordinators.hear_hint(Process(2, 1))
    while applicant.ask(0) != 2:
        pass
    assert {applicant.ask(1) for _ in range(40)} == {1, 3, 4}
