"""The few shapes our pictures need, as SVG text: self-contained, escaped, with one look."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from textwrap import wrap
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]

INK, QUIET, FAINT, PAPER, WRONG = "#1f2933", "#616e7c", "#9aa5b1", "#ffffff", "#d11f2f"
COLOURS = ("#1b6ca8", "#2f855a", "#8a4fbe", "#b7791f", "#0e7c86", "#c05299", "#5a67d8", "#7b5e3b")
"""For events or hops: distinct on screen and in print, and none near the red of violations."""

LEVEL_COLOURS = dict(
    zip(
        ("eventual", "fifo", "optimistic", "causal", "total", "cbcast", "barriers", "neighbourhood"),
        COLOURS,
        strict=True,
    )
)
"""A level has one colour wherever something of it is drawn."""

_FONT = "font-family=\"'Inter','Segoe UI','Helvetica Neue','DejaVu Sans',Arial,sans-serif\""
CHARACTER_WIDTH = 0.6
"""Width of a character, as a part of the font size: a little more than the average, so that texts have room."""


class Canvas:
    """Shapes in the order they are drawn."""

    def __init__(self) -> None:
        self._shapes: list[str] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0, dash: str = "") -> None:
        """Draw a straight line."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._shapes.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}" stroke-width="{width:g}"{dashed}/>'
        )

    def path(self, points: Sequence[Point], colour: str, width: float = 1.0, dash: str = "") -> None:
        """Draw straight lines from each point to the next; dashes run on through all of them."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._shapes.append(
            f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'
        )

    def arrow(
        self, start: Point, end: Point, colour: str, width: float = 1.6, dash: str = "", gap: float = 0, bend: float = 0
    ) -> None:
        """Draw a line with a head that stops short of its end by the gap; a bend bows it out to its side."""
        (x1, y1), (x2, y2), (cx, cy) = start, end, control_point(start, end, bend)
        length = ((x2 - cx) ** 2 + (y2 - cy) ** 2) ** 0.5 or 1.0
        ux, uy = (x2 - cx) / length, (y2 - cy) / length
        tip_x, tip_y, head = x2 - ux * gap, y2 - uy * gap, 3.2 + 2 * width
        back_x, back_y, half = tip_x - ux * head, tip_y - uy * head, head * 0.42
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._shapes.append(
            f'<path d="M{x1:.1f},{y1:.1f} Q{cx:.1f},{cy:.1f} {back_x:.1f},{back_y:.1f}" fill="none" '
            f'stroke="{colour}" stroke-width="{width:g}"{dashed}/>'
        )
        points = (
            f"{tip_x:.1f},{tip_y:.1f} {back_x - uy * half:.1f},{back_y + ux * half:.1f} "
            f"{back_x + uy * half:.1f},{back_y - ux * half:.1f}"
        )
        self._shapes.append(f'<polygon points="{points}" fill="{colour}"/>')

    def dot(self, x: float, y: float, radius: float, fill: str, stroke: str = PAPER, width: float = 1.5) -> None:
        """Draw a filled circle."""
        self._shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}" '
            f'stroke="{stroke}" stroke-width="{width:g}"/>'
        )

    def cross(self, x: float, y: float, size: float, colour: str, width: float = 2.5) -> None:
        """Draw an ×."""
        self.line(x - size, y - size, x + size, y + size, colour, width)
        self.line(x - size, y + size, x + size, y - size, colour, width)

    def triangle(self, x: float, y: float, size: float, fill: str) -> None:
        """Draw a triangle that points up."""
        points = f"{x:.1f},{y - size:.1f} {x - size:.1f},{y + size:.1f} {x + size:.1f},{y + size:.1f}"
        self._shapes.append(f'<polygon points="{points}" fill="{fill}"/>')

    def box(self, x: float, y: float, width: float, height: float, fill: str, radius: float = 4) -> None:
        """Draw a filled rectangle."""
        self._shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}" fill="{fill}"/>'
        )

    def text(
        self, x: float, y: float, words: str, size: float = 12, colour: str = INK, anchor: str = "start",
        bold: bool = False, halo: bool = True,
    ) -> None:  # fmt: skip
        """Write words on a halo of paper, so that lines behind do not hide them; in a box of a colour, without."""
        weight = ' font-weight="600"' if bold else ""
        around = f' stroke="{PAPER}" stroke-width="3" stroke-linejoin="round" paint-order="stroke"' if halo else ""
        self._shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}" text-anchor="{anchor}"'
            f"{weight}{around}>{escape(words)}</text>"
        )

    @contextmanager
    def about(self, run: str) -> Iterator[None]:
        """Say of what is drawn meanwhile that it is of a run, for pages that show one run alone."""
        self._shapes.append(f'<g data-run="{escape(run, quote=True)}">')
        yield
        self._shapes.append("</g>")

    def render(self, width: float, height: float, title: str) -> str:
        """Return the whole picture."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
                f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" {_FONT}>',
                f"<title>{escape(title)}</title>",
                f'<rect width="{width:.0f}" height="{height:.0f}" fill="{PAPER}"/>',
                *self._shapes,
                "</svg>\n",
            ]
        )


def control_point(start: Point, end: Point, bend: float) -> Point:
    """Return where a curve that bows out by the bend is pulled to."""
    (x1, y1), (x2, y2) = start, end
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1.0
    return (x1 + x2) / 2 + (y2 - y1) / length * bend * 2, (y1 + y2) / 2 - (x2 - x1) / length * bend * 2


def along(start: Point, end: Point, bend: float, samples: int = 32) -> list[Point]:
    """Return points of such a curve between its ends."""
    (x1, y1), (x2, y2), (cx, cy) = start, end, control_point(start, end, bend)
    parts = [step / samples for step in range(1, samples)]
    return [
        ((1 - t) ** 2 * x1 + 2 * t * (1 - t) * cx + t * t * x2, (1 - t) ** 2 * y1 + 2 * t * (1 - t) * cy + t * t * y2)
        for t in parts
    ]


def colour_of_level(level: str) -> str:
    """Return the colour of a level; those that are not known share one."""
    return LEVEL_COLOURS.get(level, QUIET)


def fold(words: str, width: float, size: float) -> list[str]:
    """Break words into lines that fit a width."""
    return wrap(words, max(20, int(width / (size * CHARACTER_WIDTH)))) or [""]


def width_of(words: Sequence[str], size: float) -> float:
    """Return the room that the longest of some texts takes."""
    return max((len(text) for text in words), default=0) * size * CHARACTER_WIDTH
