"""The data of a figure as panels and checks read it: means with bands, by configuration and measure."""

import json
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, NamedTuple


class Band(NamedTuple):
    """A measure over all seeds of one configuration."""

    mean: float
    low: float
    """The ends of the confidence band of 95 %."""
    high: float
    least: float
    """The smallest and largest value of a single run."""
    most: float
    runs: int

    def overlaps(self, other: "Band") -> bool:
        """Tell whether two bands have values in common: then the difference may be chance."""
        return self.low <= other.high and other.low <= self.high


class Data:
    """All measures of a figure. It notes which configurations it was asked for, so that a check can be held to them."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], missing: Mapping[str, int] | None = None) -> None:
        """Take rows of points.parquet, and how many planned runs of a configuration have no result, where any."""
        self._missing = dict(missing or {})
        self._bands: dict[str, dict[str, Band]] = {text: {} for text in self._missing}
        for row in rows:
            band = Band(*(row[name] for name in ("mean", "low", "high", "least", "most", "runs")))
            self._bands.setdefault(row["config"], {})[row["measure"]] = band
        self._configs = {text: json.loads(text) for text in sorted(self._bands)}
        self._read = dict[str, None]()
        self._questions = self._answers = 0

    def unread(self) -> "Data":
        """Return the same data, of which nothing has been read yet."""
        fresh = copy(self)
        fresh._read, fresh._questions, fresh._answers = {}, 0, 0
        return fresh

    def lacks(self) -> str:
        """Return what is missing of what was read, in some words; nothing where it was whole."""
        if self._questions and not self._answers:
            return "no run has what it asks for"
        short = [self._missing[text] for text in self._read if text in self._missing]
        return f"{sum(short)} runs that it is judged by have no result" if short else ""

    def values(self, name: str, **only: Any) -> list[Any]:
        """Return the different values of a name in all configurations with these values, smallest first."""
        return sorted({config[name] for config in self._matching(only).values() if name in config})

    def band(self, measure: str, **only: Any) -> Band:
        """Return a measure of the one configuration with these values. Raises LookupError if there is not just one."""
        found = [text for text in self._matching(only) if measure in self._bands[text]]
        if len(found) != 1:
            raise LookupError(f"{len(found)} configurations with {only} have {measure}, and not one")
        return self._bands[found[0]][measure]

    def mean(self, measure: str, **only: Any) -> float:
        """Return the mean of a measure of one configuration. Raises LookupError."""
        return self.band(measure, **only).mean

    def curve(self, x: str, measure: str, **only: Any) -> list[tuple[float, Band]]:
        """Return a measure against a value, by rising value, for all configurations with these values."""
        found = [
            (config[x], self._bands[text][measure])
            for text, config in self._matching(only).items()
            if x in config and measure in self._bands[text]
        ]
        return sorted(found, key=lambda point: point[0])

    def means(self, x: str, measure: str, **only: Any) -> list[tuple[float, float]]:
        """Return a curve without its bands."""
        return [(at, band.mean) for at, band in self.curve(x, measure, **only)]

    def _matching(self, only: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        found = {
            text: config
            for text, config in self._configs.items()
            if all(name in config and config[name] == value for name, value in only.items())
        }
        self._read |= dict.fromkeys(found)
        self._questions += 1
        self._answers += any(self._bands[text] for text in found)
        return found
