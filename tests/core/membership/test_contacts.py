"""The search for a group to join: whom it asks, when it asks again, and when it gives up."""

from whence.core.membership.contacts import ContactSearch
from whence.core.membership.items import Subscribe
from whence.core.membership.settings import ViewSettings
from whence.core.ready import Ready

ROUND_NS = 10


def search_of(*contacts: int) -> ContactSearch:
    search = ContactSearch(ViewSettings(join_retry_rounds=3, join_tries_max=2), ROUND_NS)
    search.contacts, search.active = contacts, True
    return search


def asked(search: ContactSearch, times: int) -> list[tuple[int, ...]]:
    ready = Ready()
    for _ in range(times):
        search.ask_next(0, ready)
    assert all(send.item == Subscribe(joining=True) for send in ready.send)
    return [send.to for send in ready.send]


def test_contacts_are_asked_in_turn_and_from_the_first_again() -> None:
    assert asked(search_of(4, 5), 3) == [(4,), (5,), (4,)]


def test_a_contact_that_shows_up_is_asked_too_and_once() -> None:
    search = search_of(4)
    search.add(5)
    search.add(4)
    assert asked(search, 2) == [(4,), (5,)]


def test_a_contact_has_some_rounds_to_answer() -> None:
    search = search_of(4)
    search.ask_next(7, Ready())
    assert search.retry_at == 7 + 3 * ROUND_NS


def test_a_search_that_stops_plans_no_further_question() -> None:
    search = search_of(4)
    search.ask_next(7, Ready())
    search.stop()
    assert search.retry_at is None
    assert not search.active


def test_a_search_has_failed_when_every_try_was_in_vain_contacts_or_none() -> None:
    for search in (search_of(4), search_of()):
        asked(search, 2)
        assert not search.failed()
        asked(search, 1)
        assert search.failed()
        search.stop()
        assert not search.failed()
