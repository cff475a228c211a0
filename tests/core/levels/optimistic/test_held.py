"""Bundles that came too early: bounded, and forgotten by their timers once they are released (6.4; traps C5, C13)."""

from msgspec import structs

from whence.core.clocks.cct import Stamp, entry_of
from whence.core.levels.optimistic.held import HeldBundle, HeldBundles
from whence.limits import Limits
from whence.types import Process, packed


def held(number: int, since: int = 0) -> HeldBundle:
    """Return a bundle of one event of ticket 0 that came too early."""
    bundle = packed(Process(1, 1), number, [b"12345"], b"")
    return HeldBundle(bundle, Stamp(0, entry_of(1, number - 1), 0, (entry_of(1, number),)), since, [])


def test_a_timer_of_a_bundle_that_was_released_does_nothing() -> None:
    bundles, one = HeldBundles(Limits()), held(1)
    key = (0, entry_of(1, 1))
    bundles.wait(key, one)
    bundles.to_ask.append((10, key, one))
    assert bundles.wake_at() == 10
    bundles.release(key)
    assert bundles.wake_at() is None
    assert list(bundles.due(bundles.to_ask, 99)) == []


def test_a_timer_does_not_fire_for_a_bundle_that_came_again() -> None:
    bundles, first, again = HeldBundles(Limits()), held(1), held(1, since=5)
    key = (0, entry_of(1, 1))
    bundles.wait(key, first)
    bundles.to_skip.append((10, key, first))
    bundles.release(key)
    bundles.wait(key, again)
    assert list(bundles.due(bundles.to_skip, 10)) == []


def test_timers_fire_in_their_order_once_they_are_due() -> None:
    bundles = HeldBundles(Limits())
    for number in (1, 2, 3):
        one = held(number)
        bundles.wait((0, one.stamp.entry), one)
        bundles.to_ask.append((10 * number, (0, one.stamp.entry), one))
    assert [one.bundle.first for _, one in bundles.due(bundles.to_ask, 20)] == [1, 2]
    assert bundles.wake_at() == 30


def test_it_is_overfull_by_bundles_or_by_bytes_of_both_kinds() -> None:
    by_count = HeldBundles(structs.replace(Limits(), held_bundles_max=1))
    by_count.wait((0, 1), held(1))
    assert not by_count.is_overfull()
    by_count.keep_recovered((0, 2), held(2))
    assert by_count.is_overfull()
    by_bytes = HeldBundles(structs.replace(Limits(), held_bytes_max=9))
    by_bytes.wait((0, 1), held(1))
    by_bytes.keep_recovered((0, 2), held(2))
    assert by_bytes.is_overfull()
    by_bytes.release((0, 2))
    assert by_bytes.bytes == 5
    assert not by_bytes.is_overfull()


def test_the_oldest_that_waits_goes_first_and_recovered_ones_last() -> None:
    bundles = HeldBundles(Limits())
    bundles.keep_recovered((0, 9), held(9))
    assert bundles.oldest().bundle.first == 9
    bundles.wait((0, 3), held(3))
    bundles.wait((0, 1), held(1))
    assert bundles.oldest().bundle.first == 3
    assert [one.bundle.first for one in bundles.all()] == [3, 1, 9]


def test_an_event_inside_a_held_bundle_is_held() -> None:
    bundles = HeldBundles(Limits())
    bundle = packed(Process(1, 1), 4, [b"x"] * 3, b"")
    stamp = Stamp(2, entry_of(1, 3), 0, (0, 0, entry_of(1, 6)))
    bundles.wait((2, stamp.entry), HeldBundle(bundle, stamp, 0, []))
    assert [bundles.holds((2, entry_of(1, number))) for number in (3, 4, 6, 7)] == [False, True, True, False]
    assert not bundles.holds((1, entry_of(1, 4)))
