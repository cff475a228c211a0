"""Timing of merged groups (level total): how far clocks may differ, and how long merging and recovery take."""

from typing import Any

from whence.core.levels.total.roles import WARM_BEATS
from whence.core.levels.total.settings import TotalSettings
from whence.core.registry import LEVELS
from whence.sim.scenario import MS, Clocks

DRIFT_PPM = 20


def merge_settings(given: dict[str, Any]) -> TotalSettings:
    """Return the settings of a merged group. Raises SettingError."""
    settings = LEVELS["total"].settings_from(given)
    assert isinstance(settings, TotalSettings)
    return settings


def clocks_within_epsilon(settings: TotalSettings) -> Clocks:
    """Return clocks that differ by less than ε ticks for as long as a run lasts."""
    spare_ns = (settings.timing.epsilon - 1) * settings.merge.tick_ns * 9 // 10
    return Clocks(offset_ns=spare_ns // 2, drift_ppm=DRIFT_PPM if spare_ns > MS else 0)


def deadline_ns(settings: TotalSettings) -> int:
    """Return how long a delivery may take: the merge, the stream, and one change of mergers."""
    timing, merge = settings.timing, settings.merge
    merging = (timing.delta + 3 * timing.epsilon) * merge.tick_ns
    return merging + (merge.patience_beats + 6) * merge.beat_ns + 1000 * MS


def warm_ns(settings: TotalSettings) -> int:
    """Return how long a new merger warms up."""
    timing, merge = settings.timing, settings.merge
    return (timing.delta + 2 * timing.epsilon) * merge.tick_ns + WARM_BEATS * merge.beat_ns


def settle_ns(settings: TotalSettings) -> int:
    """Return the time from healing until all streams run again: 2δ+6ε, and a few changes of mergers."""
    timing, merge = settings.timing, settings.merge
    recovery = (2 * timing.delta + 6 * timing.epsilon) * merge.tick_ns
    return recovery + 3 * merge.patience_beats * merge.beat_ns + 1000 * MS
