"""What the figures of the thesis have in common: the protocols by name, and sentences about their curves."""

from collections.abc import Iterable

from whence_lab.figures.data import Data
from whence_lab.figures.shapes import Points, listed

OURS, RETAINING, LOCAMU, CBCAST, BARRIERS, NEIGHBOURHOOD = (
    "causal", "causal, retaining", "causal, thesis coding", "cbcast", "barriers", "neighbourhood",
)  # fmt: skip

LABELS = {
    OURS: "LoCaMu, our headers", RETAINING: "the same, retaining", LOCAMU: "LoCaMu, as in the thesis",
    CBCAST: "CBCAST", BARRIERS: "Causal Barriers", NEIGHBOURHOOD: "Delta-Neighbourhood",
}  # fmt: skip

MBPS = 1_000_000
SIMILAR = 2.0
"""Two values are similar if they differ by at most this factor."""
MUCH = 10.0
"""Much less is at most a tenth."""
ABOUT = 0.1
"""Two values are about the same if they differ by at most a tenth."""


def label(scheme: str) -> str:
    """Return what a protocol is called in a picture."""
    return LABELS[scheme]


def curves(data: Data, schemes: Iterable[str], x: str, measure: str, **only: object) -> dict[str, Points]:
    """Return a measure of several protocols against a value."""
    return {scheme: data.means(x, measure, scheme=scheme, **only) for scheme in schemes}


def said(found: dict[str, Points]) -> str:
    """Return curves as text, for what a check has seen."""
    return "; ".join(f"{LABELS[scheme]}: {listed(points)}" for scheme, points in found.items())


def about_constant(points: Points) -> bool:
    """Tell whether all values are about the same."""
    values = [y for _, y in points]
    return max(values) <= min(values) * (1 + ABOUT)


def similar(one: float, other: float) -> bool:
    """Tell whether two values differ by at most a factor of two."""
    return max(one, other) <= SIMILAR * min(one, other)
