"""Silence becomes suspicion; a wrong suspicion makes the detector more patient."""

import pytest

from whence.core.links.detector import GONE_MAX, Detector, DetectorSettings
from whence.errors import SettingError

MS = 1_000_000
SETTINGS = DetectorSettings(heartbeat_ns=100 * MS, margin_ns=200 * MS, margin_ns_max=800 * MS)


def test_a_peer_that_stops_is_suspected_once_and_for_good() -> None:
    detector = Detector(SETTINGS)
    detector.watch(1, 0, 1)
    assert detector.suspects(300 * MS) == []
    assert detector.suspects(301 * MS) == [1]
    assert detector.suspects(900 * MS) == [], "reported once"
    assert detector.suspected(1)


def test_a_wrong_suspicion_doubles_the_margin_up_to_its_bound() -> None:
    detector = Detector(SETTINGS)
    detector.watch(1, 0, 1)
    now, patience = 0, []
    for _ in range(5):
        patience.append(detector.patience_ns(1))
        now += detector.patience_ns(1) + 1
        assert detector.suspects(now) == [1]
        detector.heard(1, now)
        assert not detector.suspected(1)
    assert patience == [300 * MS, 500 * MS, 900 * MS, 900 * MS, 900 * MS]


def test_slow_and_uneven_answers_earn_patience() -> None:
    detector = Detector(SETTINGS)
    detector.watch(1, 0, 1)
    for number in range(50):
        sent = number * 100 * MS
        detector.answered(1, sent, sent + (20 if number % 2 else 60) * MS)
    usual = detector.rtt_ns(1)
    assert usual is not None
    assert 30 * MS < usual < 50 * MS
    assert detector.patience_ns(1) > 300 * MS + usual + 40 * MS


def test_any_word_of_a_peer_postpones_suspicion_and_nonsense_does_not_count() -> None:
    detector = Detector(SETTINGS)
    detector.watch(1, 0, 1)
    detector.heard(1, 250 * MS)
    detector.heard(2, 250 * MS)
    assert detector.suspects(500 * MS) == []
    detector.answered(1, 10**15, 510 * MS)
    detector.answered(2, 0, 0)
    assert detector.rtt_ns(1) is None is detector.rtt_ns(2)
    assert detector.suspects(551 * MS) == [1]


def test_watching_anew_trusts_and_forgetting_ends_it() -> None:
    detector = Detector(SETTINGS)
    detector.watch(1, 0, 1)
    assert detector.suspects(10**12) == [1]
    detector.watch(1, 10**12, 1)
    assert not detector.suspected(1)
    detector.forget(1)
    assert detector.suspects(10**15) == []
    assert not detector.suspected(1)


def test_equal_pauses_are_suspected_only_until_the_margin_covers_them_though_each_suspicion_cuts_the_link() -> None:
    """Whoever suspects closes the connection and forgets the peer; the paused one calls again in the same life."""
    detector = Detector(SETTINGS)
    now, suspicions = 0, 0
    for _ in range(5):
        detector.watch(1, now, 7)
        now += 600 * MS
        for pid in detector.suspects(now):
            suspicions += 1
            detector.forget(pid)
    assert suspicions == 2, "300 and 500 ms of patience are too few, 900 are enough"


def test_who_was_rightly_suspected_begins_anew_in_its_next_life() -> None:
    detector = Detector(SETTINGS)
    for boot in (7, 8, 9):
        detector.watch(1, boot * 10**12, boot)
        assert detector.patience_ns(1) == 300 * MS
        assert detector.suspects((boot + 1) * 10**12) == [1]
        detector.forget(1)


def test_of_the_margins_of_those_that_are_gone_only_so_many_are_remembered() -> None:
    detector = Detector(SETTINGS)
    for pid in range(GONE_MAX + 1):
        detector.watch(pid, 0, 1)
    for pid in detector.suspects(10**12):
        detector.forget(pid)
    detector.watch(0, 0, 1)
    detector.watch(1, 0, 1)
    assert (detector.patience_ns(0), detector.patience_ns(1)) == (300 * MS, 500 * MS)


@pytest.mark.parametrize("name", ["heartbeat_ns", "margin_ns", "margin_ns_max"])
def test_times_below_a_millisecond_are_refused(name: str) -> None:
    with pytest.raises(SettingError, match=name):
        DetectorSettings(**{name: 999})
