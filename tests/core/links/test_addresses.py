"""Where peers live: newer lives win, the book is bounded, entries survive the wire."""

import pytest

from whence import limits
from whence.core.links.addresses import (
    _ENTRY,
    ADDRESSES_BYTES_MAX,
    ADDRESSES_MAX,
    Address,
    Addresses,
    Book,
    asking,
    pack,
    unpack,
)

ME = Address(0, 1, "127.0.0.1", 4000)


def test_an_address_of_a_newer_life_replaces_an_older_one_and_never_the_other_way_round() -> None:
    book = Book(ME)
    assert book.learn(Address(1, 3, "a", 1))
    assert not book.learn(Address(1, 3, "a", 1)), "no news"
    assert book.learn(Address(1, 3, "b", 1)), "it moved"
    assert not book.learn(Address(1, 2, "old", 1))
    assert book.learn(Address(1, 4, "c", 2))
    assert book.find(1) == Address(1, 4, "c", 2)
    assert book.find(9) is None
    assert book.some([9, 1]) == [Address(1, 4, "c", 2)]


@pytest.mark.parametrize("address", [Address(0, 9, "liar", 1), Address(1, 1, "a", 0), Address(1, 1, "", 5)])
def test_nobody_tells_us_where_we_live_and_empty_addresses_are_ignored(address: Address) -> None:
    book = Book(ME)
    assert not book.learn(address)
    assert book.all() == [ME]


def test_the_book_is_bounded() -> None:
    book = Book(ME)
    for pid in range(1, ADDRESSES_MAX + 9):
        book.learn(Address(pid, 1, "a", 1))
    assert len(book.all()) == ADDRESSES_MAX


def test_a_process_that_cannot_be_called_is_not_in_its_own_book() -> None:
    assert Book(Address(0, 1, "", 0)).all() == []


def test_entries_survive_the_wire_in_as_many_pieces_as_they_need() -> None:
    many = [Address(pid, pid + 1, "h." * (pid % 100) + "h", 65535) for pid in range(1000)]
    pieces = pack(many)
    assert [address for piece in pieces for address in unpack(piece)] == many
    assert max(map(len, pieces)) <= ADDRESSES_BYTES_MAX
    assert all(Addresses(piece, b"").is_valid() for piece in pieces)


@pytest.mark.parametrize(
    "packed",
    [b"\x00", pack([ME])[0][:-1], pack([Address(1, limits.INCARNATION_MAX + 1, "a", 1)])[0]],
)
def test_entries_that_are_cut_or_out_of_range_are_not_sound(packed: bytes) -> None:
    assert not Addresses(packed, b"").is_valid()


def test_a_question_names_pids() -> None:
    assert asking([3, limits.PEER_ID_MAX]).asks() == [3, limits.PEER_ID_MAX]
    assert asking(range(1000)).is_valid()
    assert not Addresses(b"", b"\x01").is_valid()


@pytest.mark.parametrize("host", ["b\u00fccher.example", "a..b", "\x1b[2J", "h" * 254, "a b"])
def test_what_is_no_host_name_is_never_learned_and_costs_nobody_who_passes_it_on_anything(host: str) -> None:
    packed = pack([Address(1, 1, "good", 5)])[0]
    name = host.encode()
    packed += _ENTRY.pack(2, 1, 5, len(name), 0) + name
    assert Addresses(packed, b"").is_valid()
    book = Book(ME)
    assert [address.pid for address in unpack(packed) if book.learn(address)] == [1]


def test_a_peers_own_word_replaces_what_others_said_of_it() -> None:
    book = Book(ME)
    book.learn(Address(1, limits.INCARNATION_MAX, "elsewhere", 5))
    assert book.learn(Address(1, 2, "here", 5), own=True)
    assert book.find(1) == Address(1, 2, "here", 5)
