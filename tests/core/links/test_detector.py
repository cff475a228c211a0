"""Silence becomes suspicion; a wrong suspicion makes the detector more patient."""

import pytest

from whence.core.links.detector import Detector, DetectorSettings
from whence.errors import SettingError

MS = 1_000_000
SETTINGS = DetectorSettings(heartbeat_ns=100 * MS, margin_ns=200 * MS, margin_ns_max=800 * MS)


def test_a_peer_that_stops_is_suspected_once_and_for_good() -> None:
    detector = Detector(SETTINGS)
    detector.heard(0)
    assert not detector.suspects(300 * MS)
    assert detector.suspects(301 * MS)
    assert not detector.suspects(900 * MS), "reported once"
    assert detector.suspected


def test_a_wrong_suspicion_doubles_the_margin_up_to_its_bound() -> None:
    detector = Detector(SETTINGS)
    now, patience = 0, []
    for _ in range(5):
        patience.append(detector.patience_ns())
        now += detector.patience_ns() + 1
        assert detector.suspects(now)
        detector.heard(now)
        assert not detector.suspected
    assert patience == [300 * MS, 500 * MS, 900 * MS, 900 * MS, 900 * MS]


def test_slow_and_uneven_answers_earn_patience() -> None:
    detector = Detector(SETTINGS)
    for number in range(50):
        sent = number * 100 * MS
        detector.answered(sent, sent + (20 if number % 2 else 60) * MS)
    usual = detector.rtt_ns
    assert usual is not None
    assert 30 * MS < usual < 50 * MS
    assert detector.patience_ns() > 300 * MS + usual + 40 * MS


def test_any_word_of_a_peer_postpones_suspicion_and_nonsense_does_not_count() -> None:
    detector = Detector(SETTINGS)
    detector.heard(250 * MS)
    assert not detector.suspects(500 * MS)
    detector.answered(10**15, 510 * MS)
    assert detector.rtt_ns is None
    assert detector.suspects(551 * MS)


def test_equal_pauses_are_suspected_only_until_the_margin_covers_them_though_each_suspicion_cuts_the_link() -> None:
    """Whoever suspects closes the connection; the paused one calls again in the same life."""
    detector = Detector(SETTINGS)
    now, suspicions = 0, 0
    for _ in range(5):
        detector.heard(now)
        now += 600 * MS
        if detector.suspects(now):
            suspicions += 1
            detector.lost()
    assert suspicions == 2, "300 and 500 ms of patience are too few, 900 are enough"


def test_round_trips_of_a_lost_connection_count_for_the_next_only_if_the_peer_was_wronged() -> None:
    detector = Detector(SETTINGS)
    detector.answered(0, 40 * MS)
    detector.lost()
    assert detector.rtt_ns is None
    detector.answered(0, 40 * MS)
    assert detector.suspects(10**12)
    detector.lost()
    assert detector.rtt_ns == 40 * MS


@pytest.mark.parametrize("name", ["heartbeat_ns", "margin_ns", "margin_ns_max"])
def test_times_below_a_millisecond_are_refused(name: str) -> None:
    with pytest.raises(SettingError, match=name):
        DetectorSettings(**{name: 999})
