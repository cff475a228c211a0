"""Seeds: at most one founder per generation, whatever is slow, lost or restarted.

docs/papers/optimistic.md 4.9; trap F21.
"""

from random import Random
from struct import Struct as Layout

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.levels.optimistic.tickets.test_records import alone
from whence.core.levels.optimistic.tickets.acceptor import Ballot, FounderAcceptor
from whence.core.levels.optimistic.tickets.epochs import BLOCK, Reservation
from whence.core.levels.optimistic.tickets.items import (
    GenerationRead,
    GenerationValue,
    Genesis,
    GenesisAnswer,
    Reserve,
    Reserved,
)
from whence.core.levels.optimistic.tickets.record_bytes import pack
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.ready import Ready
from whence.types import Process

A, B = Process(7, 1), Process(8, 1)
RECORD = pack(alone())


def seed() -> FounderAcceptor:
    acceptor = FounderAcceptor()
    acceptor.begin()
    return acceptor


def read(
    acceptor: FounderAcceptor, who: Process, number: int, now: int = 0, hold_ns: int = 0
) -> GenerationValue | None:
    ready = Ready()
    acceptor.read(who, GenerationRead(number), b"", hold_ns, Turn(Process(0, 1), now, ready))
    items = [send.item for send in ready.send]
    assert not items or isinstance(items[0], GenerationValue)
    return items[0] if items else None  # type: ignore[return-value]


def propose(acceptor: FounderAcceptor, who: Process, number: int, generation: int = 1) -> bool:
    ready = Ready()
    record = pack(alone(epoch=1 + (generation - 1) * BLOCK))
    acceptor.accept(who, Genesis(number, generation, record), Turn(Process(0, 1), 0, ready))
    (item,) = [send.item for send in ready.send]
    assert isinstance(item, GenesisAnswer)
    return item.accepted


def test_a_promise_keeps_lower_founders_out() -> None:
    acceptor = seed()
    assert read(acceptor, A, 1)
    value = read(acceptor, B, 2)
    assert value is not None
    assert value.promised
    assert not propose(acceptor, A, 1)
    assert propose(acceptor, B, 2)
    assert not propose(acceptor, A, 3, generation=1), "that generation has a founder"
    assert propose(acceptor, B, 2), "asked again, it says so again"


def test_an_attempt_heard_of_lately_is_not_disturbed() -> None:
    acceptor = seed()
    read(acceptor, A, 1, now=0, hold_ns=100)
    refused = read(acceptor, B, 2, now=50, hold_ns=100)
    assert refused is not None
    assert not refused.promised
    taken = read(acceptor, B, 3, now=101, hold_ns=100)
    assert taken is not None
    assert taken.promised


def test_what_a_seed_said_it_has_written_down_before() -> None:
    acceptor, ready = seed(), Ready()
    turn = Turn(Process(0, 1), 0, ready)
    acceptor.read(A, GenerationRead(1), b"", 0, turn)
    acceptor.accept(A, Genesis(1, 1, RECORD), turn)
    assert len(ready.persist) == 2
    again = FounderAcceptor()
    assert again.restore(ready.persist[-1])
    assert (again.generation, again.genesis, again.promised) == (1, RECORD, Ballot(1, 7, 1))
    assert not propose(again, B, 0)


@pytest.mark.parametrize("journal", [b"", b"short", b"\x00" * 16 + b"no record"])
def test_a_journal_that_is_none_is_not_taken_up(journal: bytes) -> None:
    acceptor = FounderAcceptor()
    assert not acceptor.restore(journal)
    assert read(acceptor, A, 1) is None, "a seed that knows nothing says nothing"


@given(st.integers(0, 2**32), st.integers(3, 5))
def test_of_all_founders_of_a_generation_at_most_one_has_a_majority(randomness: int, seeds: int) -> None:
    """Random interleavings of reads and proposals, with losses, against the count of votes."""
    random = Random(randomness)
    arbiters = [seed() for _ in range(seeds)]
    most = seeds // 2 + 1
    elected: dict[int, set[int]] = {}
    votes: dict[tuple[int, int, int], set[int]] = {}
    promises: dict[tuple[int, int], dict[int, int]] = {}
    for _ in range(120):
        who, number, at = random.choice((A, B, Process(9, 1))), random.randrange(1, 6), random.randrange(seeds)
        held = promises.setdefault((who.pid, number), {})
        if random.random() < 0.5 or len(held) < most:
            value = read(arbiters[at], who, number)
            if value is not None and value.promised:
                held.setdefault(at, value.generation)
            continue
        generation = max(held.values()) + 1
        if propose(arbiters[at], who, number, generation):
            voters = votes.setdefault((generation, who.pid, number), set())
            voters.add(at)
            if len(voters) >= most:
                elected.setdefault(generation, set()).add(who.pid * 100 + number)
    assert all(len(founders) == 1 for founders in elected.values())


def test_a_restarted_founder_is_another_one_even_with_the_same_number() -> None:
    """Trap F34: an answer to its former life must not stand for a founder that no seed has written down."""
    acceptor = seed()
    read(acceptor, A, 1)
    assert propose(acceptor, A, 1)
    reborn = Process(A.pid, 2)
    read(acceptor, reborn, 1)
    assert propose(acceptor, reborn, 1, generation=2)
    assert acceptor.generation == 2


def reserve(acceptor: FounderAcceptor, epoch: int) -> tuple[Ready, Reserved]:
    ready = Ready()
    acceptor.reserve(A, Reserve(epoch), Turn(Process(0, 1), 0, ready))
    (item,) = [send.item for send in ready.send]
    assert isinstance(item, Reserved)
    return ready, item


def test_a_seed_accepts_no_founder_whose_epoch_may_have_been_given() -> None:
    """X3: epochs are tokens for resources outside."""
    acceptor = seed()
    read(acceptor, A, 1)
    assert propose(acceptor, A, 1)
    reserve(acceptor, BLOCK + 5)
    value = read(acceptor, B, 2)
    assert value is not None
    assert value.floor == 2 * BLOCK - 1
    assert not propose(acceptor, B, 2, generation=2), "its epoch is in the second block"
    assert propose(acceptor, B, 2, generation=3)


def test_reserved_epochs_are_written_down_before_it_is_said_and_once_per_block() -> None:
    acceptor = seed()
    ready, said = reserve(acceptor, 5)
    assert (len(ready.persist), said) == (1, Reserved(5, 0))
    again = FounderAcceptor()
    assert again.restore(ready.persist[-1])
    assert again.floor == BLOCK - 1
    ready, said = reserve(acceptor, BLOCK - 1)
    assert (ready.persist, said) == ([], Reserved(BLOCK - 1, BLOCK - 1))


def test_a_journal_from_before_epochs_were_reserved_begins_above_all_that_can_have_been_given() -> None:
    before = Layout("<IHIIHII").pack(3, 7, 1, 3, 7, 1, 2) + RECORD
    acceptor = FounderAcceptor()
    assert acceptor.restore(before)
    assert (acceptor.generation, acceptor.genesis, acceptor.promised) == (2, RECORD, Ballot(3, 7, 1))
    assert acceptor.floor > 1 << 20


def test_a_seed_that_lost_its_journal_says_nothing_of_epochs() -> None:
    ready = Ready()
    FounderAcceptor().reserve(A, Reserve(9), Turn(Process(0, 1), 0, ready))
    assert ready.send == []


def written(reservation: Reservation, turn: Turn, floors: dict[int, int]) -> None:
    """Let seeds answer what is asked for now, each with the floor it had."""
    asked = [(send.to[0], send.item.epoch) for send in turn.ready.send if isinstance(send.item, Reserve)]
    for pid, epoch in asked:
        if pid in floors:
            reservation.on_reserved(pid, Reserved(epoch, floors[pid]))
    turn.ready.send.clear()


def test_no_epoch_of_another_block_is_given_before_most_seeds_wrote_it_down() -> None:
    reservation, turn = Reservation((0, 1, 2), 7, {}), Turn(Process(9, 1), 0, Ready())
    assert reservation.covers(BLOCK - 1)
    assert not reservation.covers(BLOCK)
    reservation.reserve_ahead(8, turn)
    assert not turn.ready.send, "there is room"
    reservation.reserve_ahead(BLOCK // 2 + 1, turn)
    written(reservation, turn, {0: BLOCK - 1})
    assert not reservation.covers(BLOCK)
    reservation.reserve_ahead(BLOCK // 2 + 1, turn)
    assert [send.to for send in turn.ready.send] == [(1,), (2,)], "who answered is not asked again"
    written(reservation, turn, {2: BLOCK - 1})
    assert reservation.covers(2 * BLOCK - 1)


def test_where_an_operators_word_stood_for_a_witness_epochs_go_on_above_all_that_was_ever_reserved() -> None:
    """X3: the dead alone may have known which epochs were given; most seeds know which blocks were."""
    reservation, turn = Reservation((0, 1, 2), 7, {}), Turn(Process(9, 1), 0, Ready())
    reservation.distrust(8, turn)
    assert not reservation.covers(9), "somebody may have given it"
    written(reservation, turn, {0: BLOCK - 1, 1: 5 * BLOCK - 1})
    assert reservation.floor == 5 * BLOCK - 1
    assert not reservation.covers(5 * BLOCK)
    reservation.reserve_ahead(8, turn)
    written(reservation, turn, {0: 5 * BLOCK - 1, 2: BLOCK - 1})
    assert reservation.covers(5 * BLOCK)


def test_seeds_that_were_declared_dead_need_not_write() -> None:
    """Otherwise no ticket could be given any more after most seeds were lost for good."""
    dead = {Process(1, 3): 5}
    reservation, turn = Reservation((0, 1, 2), 7, dead), Turn(Process(9, 1), 0, Ready())
    reservation.ask(BLOCK, turn)
    written(reservation, turn, {0: BLOCK - 1})
    assert not reservation.covers(BLOCK), "the third may answer yet"
    dead[Process(2, 1)] = 6
    reservation.ask(BLOCK, turn)
    reservation.on_reserved(0, Reserved(2 * BLOCK - 1, BLOCK - 1))
    assert reservation.covers(BLOCK)
