"""What a witness promised, its later incarnations keep; one that lost its journal is another witness.

docs/papers/optimistic.md 4.9, X6; trap F34.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.levels.optimistic.tickets.cluster import ROUND_NS, SETTINGS, TicketCluster
from tests.core.levels.optimistic.tickets.test_witness import LEASE_NS, WAIT_NS, renew
from whence.core.levels.optimistic.tickets.items import (
    AckFence,
    Alive,
    Fenced,
    Fresh,
    Probe,
    RequestFence,
    Stale,
)
from whence.core.levels.optimistic.tickets.manager import TicketManager
from whence.core.levels.optimistic.tickets.memory import Answers, Memory, speaks_for
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.levels.optimistic.tickets.witness import Witness
from whence.errors import StorageError
from whence.types import Process

SEEDS = (0, 1, 2)


class Life:
    """One incarnation of a witness, and all that was written down by it and those before."""

    def __init__(
        self, incarnation: int = 1, journal: tuple[bytes, ...] = (), now: int = 0, wait_ns: int = WAIT_NS
    ) -> None:
        self.memory = Memory(Process(7, incarnation), wait_ns, SEEDS)
        self.witness = Witness(9, LEASE_NS, 10 * LEASE_NS, self.memory)
        self.witness.restore(self.memory.restore(journal, now), now)
        self.memory.begin()
        self.incarnation = incarnation
        self._journal = list(journal)

    @property
    def journal(self) -> tuple[bytes, ...]:
        self._journal += self.memory.take()
        return tuple(self._journal)

    def next(self, now: int = 0, wait_ns: int = WAIT_NS, compacted: bool = False) -> "Life":
        journal = tuple(self.memory.checkpoint(self.witness.remembered())) if compacted else self.journal
        return Life(self.incarnation + 1, journal, now, wait_ns)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("renew", "change", "fence", "restart", "compact")), st.integers(4, 5), st.integers(1, 5)
    ),
    max_size=30,
)


@given(STEPS)
def test_no_restart_makes_a_witness_forget_a_fence_or_a_record(steps: list[tuple[str, int, int]]) -> None:
    """Against one that never restarted."""
    life, steady = Life(), Life()
    for kind, ticket, epoch in steps:
        if kind in ("restart", "compact"):
            life = life.next(compacted=kind == "compact")
            continue
        answers = [
            each.witness.fence(RequestFence(ticket, epoch), 0)
            if kind == "fence"
            else each.witness.renew(renew(epoch, version=int(kind == "change"), ticket=ticket), 0)
            for each in (life, steady)
        ]
        assert answers[0] == answers[1]
    assert life.witness.remembered() == steady.witness.remembered()
    assert life.memory.since == 1


def test_what_is_acknowledged_is_written_down_and_what_was_known_before_is_not_again() -> None:
    life = Life()
    before = len(life.journal)
    life.witness.renew(renew(3), 0)
    assert len(life.journal) == before + 1
    life.witness.renew(renew(3), 50)
    assert len(life.journal) == before + 1, "a renewal of the same record costs the disk nothing"
    life.witness.fence(RequestFence(4, 3), 60)
    life.witness.fence(RequestFence(4, 2), 70)
    assert len(life.journal) == before + 2, "a lower epoch is dead already"


def test_a_process_speaks_for_every_incarnation_since_which_it_remembers() -> None:
    sender = Process(7, 5)
    assert [speaks_for(sender, 3, Process(7, each)) for each in range(1, 7)] == [False, False, True, True, True, False]
    assert not speaks_for(sender, 3, Process(8, 4))


def test_answers_count_each_witness_once_and_survive_that_it_loses_its_journal_later() -> None:
    answers = Answers()
    answers.add(Process(7, 2), 1)
    answers.add(Process(7, 3), 1)
    answers.add(Process(7, 4), 4)
    assert [Process(7, each) in answers for each in range(6)] == [False, True, True, True, True, False]
    assert len(answers) == 1
    answers.discard(Process(7, 3), 1)
    assert Process(7, 2) not in answers


def test_a_witness_without_its_journal_is_another_one_and_one_of_before_journals_is_too() -> None:
    assert Life(incarnation=6).memory.since == 6
    assert not Life(incarnation=6).memory.restored
    assert Life(incarnation=6, journal=(b"\0" * 40,)).memory.since == 6


def test_a_restarted_witness_says_nothing_of_renewals_it_cannot_know_of_until_a_lease_has_passed() -> None:
    life = Life()
    life.witness.renew(renew(3), 0)
    later = life.next(now=1000)
    assert later.witness.probe(Probe(4, 3), 1000 + LEASE_NS) is None
    assert later.witness.probe(Probe(4, 3), 1001 + LEASE_NS) == Stale(4, 3, renew(3).record, 1)
    later.witness.renew(renew(3), 1050)
    assert later.witness.probe(Probe(4, 3), 1060) == Fresh(4, 3, 1)


@pytest.mark.parametrize("now", [-(10**10), 0, 10**10])
def test_a_fence_tells_how_long_leases_of_earlier_incarnations_may_last(now: int) -> None:
    """Its settings may have changed: whoever closes a coordinator waits for the longer lease, once."""
    life = Life(wait_ns=500)
    assert life.witness.fence(RequestFence(4, 1), now) == AckFence(4, 1, b"", 1, 500)
    later = life.next(now=now)
    assert later.witness.fence(RequestFence(4, 2), now + 100).wait_ns == 400
    again = later.next(now=now + 150)
    assert again.witness.fence(RequestFence(4, 2), now + 150).wait_ns == 500, "the one before had not waited it out"
    again.memory.let_drain(now + 649)
    assert again.next(now=now).witness.fence(RequestFence(4, 2), now).wait_ns == 500
    again.memory.let_drain(now + 650)
    assert again.next(now=now).witness.fence(RequestFence(4, 2), now).wait_ns == WAIT_NS


def test_no_lease_is_lent_that_lasts_longer_than_those_of_the_witness() -> None:
    """Its answer to a fence would not tell of it."""
    life = Life()
    longer = renew(3).__class__(4, 3, 0, 0, renew(3).record, LEASE_NS + 1)
    assert life.witness.renew(longer, 0) is None
    assert isinstance(life.witness.renew(renew(3), 0), Alive)
    life.witness.fence(RequestFence(4, 3), 0)
    assert isinstance(life.witness.renew(longer, 0), Fenced)


def test_a_journal_of_other_seeds_is_refused() -> None:
    life = Life()
    with pytest.raises(StorageError, match=r"seeds of this group were 0, 1, 2 .* and now are 0, 1, 3"):
        Memory(Process(7, 2), WAIT_NS, (0, 1, 3)).restore(life.journal, 0)


# --- whole clusters ---


class Stoppable(TicketCluster):
    """A cluster that can be stopped and started again."""

    def restart(self, wiped: tuple[int, ...] = (), settings: TicketSettings | None = None) -> None:
        """Stop everybody and start it again, some without their journals."""
        self.settings = settings or self.settings
        self.bag.clear()
        for pid, former in self.managers.items():
            me = Process(pid, former.me.incarnation + 1)
            manager = TicketManager(me, self.settings, lambda: 0.5, lambda _: 0, 0)
            if pid in wiped:
                self.journals[pid] = []
            self.journals[pid] += manager.restore(self.journals[pid], self.now)
            self.journals[pid] += manager.remember()
            self.managers[pid] = manager

    def acting_after(self, pids: list[int], rounds: int = 40) -> None:
        for pid in pids:
            self.acquire(pid)
        end = self.now + rounds * ROUND_NS
        while self.now < end and len(self.acting()) < len(pids):
            self.step()


def two_acting() -> Stoppable:
    cluster = Stoppable()
    cluster.acting_after([0, 4])
    assert sorted(cluster.acting()) == [0, 4]
    return cluster


@pytest.mark.parametrize("wiped", [(), (0,), (3,)])
def test_a_cluster_that_stopped_whole_is_founded_anew_once_its_leases_have_ended(wiped: tuple[int, ...]) -> None:
    cluster = two_acting()
    epochs = [epoch for _, epoch, _ in cluster.acting().values()]
    cluster.restart(wiped)
    at = cluster.now
    cluster.acquire(2)
    while not cluster.acting():
        cluster.step()
        assert cluster.now < at + 40 * ROUND_NS
    assert cluster.now - at > SETTINGS.lease_ns
    assert cluster.covered() == list(range(6))
    assert min(epoch for _, epoch, _ in cluster.acting().values()) > max(epochs)
    assert "refounded" in cluster.reasons()


def test_a_cluster_whose_witnesses_lost_their_journals_waits_for_an_operator() -> None:
    """More than k of one set are forgotten, so nobody knows whether a lease of theirs is still in use."""
    cluster = two_acting()
    session = cluster.managers[0].coordinator.session
    assert session is not None
    cluster.restart(tuple(witness.pid for witness in session.authority.record.witnesses[:2]))
    cluster.acting_after([4])
    assert not cluster.acting()
    assert cluster.managers[4].founder.waits_for()


@pytest.mark.parametrize(
    "changed", [{"tickets": 3}, {"tickets": 11}, {"k": 0}, {"lease_rounds": 1.5}, {"lease_rounds": 4.0}]
)
def test_tickets_k_and_leases_change_with_the_generation_that_a_full_stop_begins(changed: dict[str, int]) -> None:
    settings = TicketSettings(**{name: getattr(SETTINGS, name) for name in SETTINGS.__struct_fields__} | changed)
    cluster = two_acting()
    for each in (settings, SETTINGS):
        epochs = [epoch for _, epoch, _ in cluster.acting().values()]
        cluster.restart(settings=each)
        cluster.acting_after([1, 5])
        assert cluster.covered() == list(range(each.tickets))
        assert min(epoch for _, epoch, _ in cluster.acting().values()) > max(epochs)


def test_a_coordinator_outlives_the_restart_of_all_its_witnesses() -> None:
    """They are the same witnesses, so it keeps its ticket."""
    cluster = Stoppable()
    cluster.acting_after([4])
    (before,) = cluster.acting().values()
    alone, others = cluster.managers[4], dict(cluster.managers)
    cluster.restart()
    cluster.managers = {**cluster.managers, 4: others[4]}
    cluster.rounds(12)
    assert cluster.managers[4] is alone
    assert cluster.acting()[4] == before


@pytest.mark.parametrize("erased", [True, False])
def test_a_witness_declared_dead_must_not_come_back_with_its_journal(erased: bool) -> None:
    """optimistic 4.9: whoever was told counts it as fenced, and it does not know. With its journal, it lends the
    coordinator that was closed another lease, and two act."""
    cluster = Stoppable()
    cluster.acting_after([4])
    session = cluster.managers[4].coordinator.session
    assert session is not None
    dead, hears, _ = (witness.pid for witness in session.authority.record.witnesses)
    gone = cluster.managers.pop(dead)
    walks = (Probe, RequestFence)
    cluster.lost = lambda source, target, item: 4 in (source, target) or (target == hears and isinstance(item, walks))
    cluster.now += 3 * SETTINGS.lease_ns
    cluster.managers[5].declare_dead(gone.me, cluster.now)
    cluster.acting_after([5], rounds=80)
    assert list(cluster.acting()) == [5]
    cluster.managers[dead] = TicketManager(Process(dead, 2), SETTINGS, lambda: 0.5, lambda _: 0, 0)
    if not erased:
        cluster.managers[dead].restore(cluster.journals[dead], cluster.now)
    heard = ({4, hears}, {4, dead})
    cluster.lost = lambda source, target, item: 4 in (source, target) and {source, target} not in heard
    session.authority.suspended_since = cluster.now  # it was paused, and has not looked at its clock since
    cluster.rounds(3)
    assert sorted(cluster.acting()) == ([5] if erased else [4, 5])
