"""Draws a story as a space-time diagram: a lifeline per process, time from left to right, an arrow per message.

Steps stand in their order at equal distances, because what matters is what came before what; their times are written
below. The step that breaks the promise is red. Under the picture stands the story in words, by the same numbers.
"""

from whence.check.diagrams.svg import COLOURS, FAINT, INK, PAPER, QUIET, WRONG, Canvas, along, fold, width_of
from whence.check.explain import NEVER, Story, StoryStep, when
from whence.trace.schema import Kind
from whence.types import EventId

_MARGIN, _LANE, _COLUMN = 28.0, 76.0, 104.0
_TITLE, _BODY, _SMALL = 17.0, 13.0, 11.0
_BAND = "#f5f7fa"


def space_time_diagram(story: Story) -> str:
    """Return a self-contained SVG of a story."""
    return _Picture(story).draw()


def short(event: EventId) -> str:
    """Name an event in few characters: publisher:number, with the publisher's incarnation after the first."""
    return f"{event.pid}:{event.seq}" if event.incarnation <= 1 else f"{event.pid}({event.incarnation}):{event.seq}"


class _Picture:
    def __init__(self, story: Story) -> None:
        self.story = story
        self.canvas = Canvas()
        lanes = sorted({(step.node, step.inc) for step in story.steps})
        self.names = {lane: _lane_name(lane) for lane in lanes}
        events = [step.event for step in story.steps if step.event is not None]
        self.colours = {event: COLOURS[place % len(COLOURS)] for place, event in enumerate(dict.fromkeys(events))}
        self.left = _MARGIN + width_of(list(self.names.values()), _BODY) + 16
        self.width = max(self.left + _COLUMN * len(story.steps) + _MARGIN, 720.0)
        self.right = self.width - _MARGIN
        self.title = fold(story.title[:1].upper() + story.title[1:], self.width - 2 * _MARGIN, _TITLE)
        self.top = _MARGIN + len(self.title) * _TITLE * 1.4 + 34
        self.lane_y = {lane: self.top + _LANE * (place + 0.5) for place, lane in enumerate(lanes)}
        self.bottom = self.top + _LANE * len(lanes)
        self.below = self._labels_below()

    def draw(self) -> str:
        for place, line in enumerate(self.title):
            self.canvas.text(_MARGIN, _MARGIN + _TITLE * (0.8 + 1.4 * place), line, _TITLE, bold=True)
        subtitle = f"promise broken: {self.story.promise.replace('_', ' ')}"
        self.canvas.text(_MARGIN, self.top - 24, subtitle, _BODY, WRONG)
        self._draw_lifelines()
        self._draw_arrows()
        for place, step in enumerate(self.story.steps):
            self._draw_step(place, step)
        self._draw_legend(self.bottom + 44)
        height = self._draw_words(self.bottom + 76)
        return self.canvas.render(self.width, height, self.story.title)

    def _x(self, place: int) -> float:
        return self.left + _COLUMN * (place + 0.5)

    def _at(self, place: int) -> tuple[float, float]:
        step = self.story.steps[place]
        return self._x(place), self.lane_y[step.node, step.inc]

    def _draw_lifelines(self) -> None:
        for y in list(self.lane_y.values())[::2]:
            self.canvas.box(_MARGIN / 2, y - _LANE / 2, self.width - _MARGIN, _LANE, _BAND)
        for lane, y in self.lane_y.items():
            begin, end = self._alive(lane)
            self.canvas.line(begin, y, end, y, FAINT, 2)
            self.canvas.text(self.left - 12, y + _BODY * 0.35, self.names[lane], _BODY, anchor="end", bold=True)

    def _alive(self, lane: tuple[int, int]) -> tuple[float, float]:
        """Return where a lifeline begins and ends: an incarnation begins with its restart and ends with its crash."""
        begin, end = self.left, self.right
        for place, step in enumerate(self.story.steps):
            if (step.node, step.inc) == lane:
                begin = self._x(place) if step.kind == Kind.RESTART else begin
                end = self._x(place) if step.kind == Kind.CRASH else end
        return begin, end

    def _arrows(self) -> list[tuple[int, int]]:
        """Return (place of publication, place of delivery) for every message, the wrong ones last, on top."""
        steps = self.story.steps
        origins = {step.event: place for place, step in enumerate(steps) if step.kind == Kind.PUBLISH}
        ends = [
            place
            for place, step in enumerate(steps)
            if step.kind in (Kind.DELIVER, NEVER)
            and step.event in origins
            and self._at(place)[1] != self._at(origins[step.event])[1]
        ]
        return [(origins[steps[end].event], end) for end in sorted(ends, key=lambda end: steps[end].wrong)]

    def _labels_below(self) -> list[bool]:
        """Tell for every step whether its label stands below it: where fewer arrows pass than above."""
        points = [point for start, end in self._arrows() for point in along(self._at(start), self._at(end), 0)]
        below = []
        for place in range(len(self.story.steps)):
            counts = [sum(self._on_label(point, place, is_below) for point in points) for is_below in (False, True)]
            below.append(counts[1] < counts[0])
        return below

    def _draw_arrows(self) -> None:
        for start, end in self._arrows():
            step = self.story.steps[end]
            dash, width = ("5 5" if step.kind == NEVER else ""), (2.4 if step.wrong else 1.6)
            bend = self._free_bend(start, end)
            self.canvas.arrow(self._at(start), self._at(end), self._colour(step), width, dash, gap=9, bend=bend)

    def _free_bend(self, start: int, end: int) -> float:
        """Return the bend, the smaller the better, that best keeps an arrow off the other steps and their labels."""
        others = [place for place in range(len(self.story.steps)) if place not in (start, end)]

        def touched(bend: float) -> int:
            curve = along(self._at(start), self._at(end), bend)
            return sum(self._touches(point, place) for point in curve for place in others)

        return min((0.0, 18.0, -18.0, 36.0, -36.0), key=touched)

    def _touches(self, point: tuple[float, float], place: int) -> bool:
        x, y = self._at(place)
        is_near = abs(point[0] - x) < 14 and abs(point[1] - y) < 14
        return is_near or self._on_label(point, place, self.below[place])

    def _on_label(self, point: tuple[float, float], place: int, is_below: bool) -> bool:
        x, y = self._at(place)
        return abs(point[0] - x) < 36 and abs(point[1] - (y + (19 if is_below else -18))) < 9

    def _colour(self, step: StoryStep) -> str:
        if step.wrong:
            return WRONG
        return self.colours[step.event] if step.event is not None else INK

    def _draw_step(self, place: int, step: StoryStep) -> None:
        x, y = self._at(place)
        colour = self._colour(step)
        if step.kind in (Kind.CRASH, NEVER):
            self.canvas.cross(x, y, 7, colour, 3)
        elif step.kind == Kind.PUBLISH:
            self.canvas.dot(x, y, 8, colour)
        elif step.kind == Kind.DELIVER:
            self.canvas.dot(x, y, 6.5, PAPER, colour, 3)
        else:
            self.canvas.triangle(x, y, 6, colour)
        label_y = y + 23 if self.below[place] else y - 14
        self.canvas.text(x, label_y, _label(step), _SMALL + 0.5, colour, "middle", bold=step.wrong)
        self.canvas.text(x, self.bottom + 16, str(place + 1), _BODY, anchor="middle", bold=True)

    def _draw_legend(self, y: float) -> None:
        x = self.left
        self.canvas.dot(x, y - 4, 7, INK)
        self.canvas.text(x + 13, y, "publishes", _SMALL)
        self.canvas.dot(x + 100, y - 4, 5.5, PAPER, INK, 3)
        self.canvas.text(x + 112, y, "delivers", _SMALL)
        self.canvas.cross(x + 192, y - 4, 5, INK)
        self.canvas.text(x + 204, y, "crashes, or never", _SMALL)
        self.canvas.line(x + 326, y - 4, x + 346, y - 4, WRONG, 3)
        self.canvas.text(x + 353, y, "breaks the promise", _SMALL, WRONG)

    def _draw_words(self, y: float) -> float:
        """Write the story below the picture; return where it ends."""
        times = [when(step.t) for step in self.story.steps]
        indent = _MARGIN + 30 + width_of(times, _BODY) + 14
        for place, (step, time) in enumerate(zip(self.story.steps, times, strict=True), start=1):
            colour = WRONG if step.wrong else INK
            self.canvas.text(_MARGIN + 20, y, f"{place}", _BODY, colour, "end", bold=True)
            self.canvas.text(indent - 14, y, time, _BODY, WRONG if step.wrong else QUIET, "end")
            for line in fold(step.sentence, self.width - indent - _MARGIN, _BODY):
                self.canvas.text(indent, y, line, _BODY, colour, bold=step.wrong)
                y += _BODY * 1.6
        return y + _MARGIN / 2


def _lane_name(lane: tuple[int, int]) -> str:
    node, inc = lane
    return f"process {node}" if inc <= 1 else f"process {node}, incarnation {inc}"


def _label(step: StoryStep) -> str:
    name = short(step.event) if step.event is not None else ""
    verbs = {Kind.PUBLISH.value: "publish", Kind.DELIVER.value: "deliver", NEVER: "never"}
    return f"{verbs.get(step.kind, step.kind.replace('_', ' '))} {name}".strip()
