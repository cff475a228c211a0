"""Which events are missing: within an epoch, across a known base, and never more than are asked for (6.3, 6.6)."""

from whence.core.clocks.cct import Stamp, entry_of
from whence.core.levels.optimistic.missing import entries_in, ids_between, newest_missing


def unknown(ticket: int, epoch: int) -> int:
    """No base is known."""
    return 0


def stamp(ticket: int, before: int, *others: int, base: int = 0) -> Stamp:
    """Return the stamp of a bundle of one event of ticket 0, which follows these entries of the others."""
    return Stamp(ticket, before, base, (before + 1, *others))


def test_a_bundle_has_an_entry_for_each_of_its_events() -> None:
    assert list(entries_in(Stamp(0, entry_of(1, 2), 0, (entry_of(1, 5),)))) == [
        entry_of(1, number) for number in (3, 4, 5)
    ]


def test_within_an_epoch_everything_between_is_missing() -> None:
    assert list(ids_between(3, entry_of(2, 4), entry_of(2, 6), 0)) == [(3, entry_of(2, 5)), (3, entry_of(2, 6))]


def test_nothing_is_missing_up_to_what_was_delivered() -> None:
    assert list(ids_between(3, entry_of(2, 4), entry_of(2, 4), 0)) == []
    assert list(ids_between(3, entry_of(3, 1), entry_of(2, 9), 0)) == []


def test_a_new_epoch_is_missing_from_its_first_event_and_the_one_before_up_to_its_base() -> None:
    ids = [entry for _, entry in ids_between(0, entry_of(1, 1), entry_of(3, 2), entry_of(1, 3))]
    assert ids == [entry_of(1, 2), entry_of(1, 3), entry_of(3, 1), entry_of(3, 2)]


def test_of_epochs_in_between_only_that_of_the_base_is_asked_for() -> None:
    ids = [entry for _, entry in ids_between(0, entry_of(1, 7), entry_of(5, 1), entry_of(3, 2))]
    assert ids == [entry_of(3, 1), entry_of(3, 2), entry_of(5, 1)]


def test_what_a_bundle_follows_is_missing_and_the_bundle_itself_is_not() -> None:
    clock = [entry_of(1, 1), entry_of(1, 0)]
    missing = newest_missing(stamp(0, entry_of(1, 3), entry_of(1, 2)), clock, unknown, 64)
    assert missing == [(0, entry_of(1, 2)), (0, entry_of(1, 3)), (1, entry_of(1, 1)), (1, entry_of(1, 2))]


def test_a_gap_of_years_is_never_written_out() -> None:
    far = entry_of(4, 2**31)
    missing = newest_missing(stamp(0, far), [entry_of(4, 1)], unknown, 8)
    assert missing == [(0, far - 8 + at) for at in range(9)]
    assert newest_missing(stamp(0, far), [entry_of(2, 1)], unknown, 8) == missing
