"""A name has one number, a number at most one name, and every machine derives the same candidates."""

import pytest

from whence.core.links.process_names import (
    DERIVED_MIN,
    NAME_CHARS_MAX,
    NameBook,
    called,
    candidate,
    is_name,
)
from whence.limits import MERGED_PEER_ID_MAX


@pytest.mark.parametrize("name", ["a", "billing-1", "web.example", "a_b", "7up", "x" * NAME_CHARS_MAX, "pod-7f9c-x2"])
def test_names_of_machines_and_pods_are_names_of_processes(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["", "17", "-a", "a-", "a b", "a/b", "x" * (NAME_CHARS_MAX + 1), "\u00e9", "a\n", "a:1"]
)
def test_what_could_be_a_number_or_an_address_or_a_path_is_no_name(name: str) -> None:
    assert not is_name(name)


def test_candidates_never_change_and_stay_within_what_every_level_can_use() -> None:
    assert [candidate("billing-1", attempt) for attempt in range(3)] == CANDIDATES
    drawn = {candidate(f"p{number}", 0) for number in range(5000)}
    assert min(drawn) >= DERIVED_MIN
    assert max(drawn) <= MERGED_PEER_ID_MAX
    assert len(drawn) > 4000, "they are spread"


CANDIDATES = [6271, 27424, 10680]
"""Journals and groups know processes by these: they are the same in every version."""


def test_a_name_that_moves_frees_its_number_and_a_number_has_one_name() -> None:
    book = NameBook()
    assert book.learn("a", 17)
    assert not book.learn("a", 17), "no news"
    assert not book.learn("", 18), "a process without a name owns nothing"
    assert book.learn("a", 18)
    assert (book.name(17), book.name(18), book.number("a")) == ("", "a", 18)
    assert book.learn("b", 18)
    assert (book.number("a"), book.all()) == (None, {"b": 18})


def test_a_full_book_forgets_the_name_that_it_learned_first() -> None:
    book = NameBook({f"p{number}": number for number in range(NameBook.NAMES_MAX)})
    assert book.learn("new", 60_000)
    assert (book.number("p0"), book.name(0), book.number("p1")) == (None, "", 1)
    assert len(book.all()) == NameBook.NAMES_MAX


def test_messages_call_a_process_by_its_name_and_number() -> None:
    named = NameBook({"billing-1": 17}).named
    assert (str(named(17)), f"{named(17)}", repr(named(3))) == ("billing-1 (17)", "billing-1 (17)", "3")
    assert named(17) == 17
    assert hash(named(17)) == hash(17)
    assert (called(17, "billing-1"), called(17, "")) == ("billing-1 (17)", "process 17")
