"""What commands print: results on standard output, everything else on standard error."""

import sys
from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from whence import __version__
from whence.check.verdict import Outcome, Verdict
from whence.errors import UsageError, printable
from whence.places import local

VIOLATIONS_SHOWN = 1000

_COLOURS = {
    Outcome.HOLDS: "green",
    Outcome.BROKEN: "bold red",
    Outcome.UNKNOWN: "yellow",
    Outcome.VACUOUS: "bright_black",
}


def stdout() -> Console:
    """Return the console for results; a new one each time, so that redirection works."""
    return Console(file=sys.stdout, soft_wrap=False)


def stderr() -> Console:
    """Return where progress and messages go."""
    return Console(file=sys.stderr)


def print_message(sentence: str) -> None:
    """Print one line on standard error."""
    print(f"whence: {printable(' '.join(sentence.split()))}", file=sys.stderr)


def print_json(seed: int | None, **fields: Any) -> None:
    """Print exactly one JSON object."""
    document = {"seed": seed, "version": __version__} | fields
    print(msgspec.json.encode(document, order="deterministic").decode())


def progress(*, quiet: bool) -> Progress:
    """Return a progress display on standard error, silent where nobody watches it."""
    console = stderr()
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console, disable=quiet or not console.is_terminal, transient=True,
    )  # fmt: skip


PACE_S = 10.0


class Paced:
    """Progress for who reads standard error later: a line now and then, where no display shows it."""

    def __init__(self, what: str, every_s: float = PACE_S) -> None:
        self._what, self._every_s, self._last_at, self._told = what, every_s, -inf, -1

    def __call__(self, done: int, of: int) -> None:
        """Print how far it is: at first, at the end, and in between if the last line is long ago."""
        is_due = monotonic() - self._last_at >= self._every_s or done == of
        if is_due and done != self._told and not stderr().is_terminal:
            self._last_at, self._told = monotonic(), done
            print_message(f"{self._what}: {done:,} of {of:,} runs")


class Interrupted(Exception):
    """The user ended a command that can go on; says how."""


def colour_of(outcome: Outcome) -> str:
    """Return the colour that a verdict is shown in."""
    return _COLOURS[outcome]


def verdict_table(verdicts: Iterable[Verdict], title: str | None = None) -> Table:
    """Return a table of verdicts."""
    table = Table("promise", "verdict", "because", title=title, title_justify="left", expand=False)
    for verdict in verdicts:
        colour = colour_of(verdict.outcome)
        table.add_row(verdict.promise, f"[{colour}]{verdict.outcome}[/]", verdict.sentence)
    return table


def fact_table(facts: Mapping[str, object], title: str | None = None) -> Table:
    """Return a table of named values."""
    table = Table(show_header=False, title=title, title_justify="left")
    for name, value in facts.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    return table


def verdicts_by_name(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """Return the outcome of each promise, as in JSON."""
    return {verdict.promise: verdict.outcome.value for verdict in verdicts}


def witnesses(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """Return the violations as in JSON, at most VIOLATIONS_SHOWN."""
    found = [violation for verdict in verdicts for violation in verdict.violations]
    return [
        {
            "promise": violation.promise,
            "process": [violation.node, violation.inc],
            "events": [list(event) for event in violation.ids],
            "sentence": violation.sentence,
        }
        for violation in found[:VIOLATIONS_SHOWN]
    ]


def directory(path: Path, option: str) -> Path:
    """Create a directory to write to and return it. Raises UsageError that names the option."""
    local(path, option)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{option}: cannot make the directory {path}: {error.strerror}") from None
    return path


def parse_settings(pairs: list[str], option: str = "--set") -> dict[str, str]:
    """Split key=value pairs. Raises UsageError for what is none, and for a key that is there twice."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            such_as = "spark.driver.memory=4g" if option == "--conf" else "fanout=4"
            raise UsageError(f"{option} takes key=value, such as {such_as}, not {pair!r}")
        if name.strip() in settings:
            raise UsageError(f"{option} {name.strip()} is given twice; give it once")
        settings[name.strip()] = value.strip()
    return settings
