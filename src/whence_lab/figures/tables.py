"""The verdict on a figure as a table in Markdown, and its place in docs/figures.md.

`whence reproduce` writes it beside verdict.json, from the same values; scripts/figures_page.py puts it into the page.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from whence_lab.figures.verdicts import Sentence

HEAD = "| the paper says | must be seen | seen here | verdict |\n| --- | --- | --- | --- |\n"


def table(sentences: Sequence[Sentence]) -> str:
    """Return a table of sentences; what does not hold is bold."""
    return HEAD + "".join(f"| {' | '.join(map(_cell, _row(sentence)))} |\n" for sentence in sentences)


def _row(sentence: Sentence) -> tuple[str, str, str, str]:
    seen = f"{sentence.seen}. {sentence.because}" if sentence.because else sentence.seen
    outcome = sentence.outcome if sentence.outcome == "holds" else f"**{sentence.outcome}**"
    return f"{sentence.says} ({sentence.where})", sentence.threshold, seen, outcome


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def with_verdict(page: str, name: str, verdict: str) -> str:
    """Return the page with a verdict in the place of the one that a figure has there: from its picture to its table's
    end. What is written below the table stays. Raises ValueError if the page has no such place."""
    before, heading, rest = page.partition(f"\n### `{name}`: ")
    title, picture, old = rest.partition(f"](figures/{name}.png)\n")
    own, table_head, after = old.partition(HEAD)
    if not (heading and picture and table_head) or "\n#" in title + own:
        raise ValueError(f"the page has no heading, picture and table for {name}")
    lines = after.splitlines(keepends=True)
    end = next((at for at, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return "".join((before, heading, title, picture, "\n", verdict, *lines[end:]))


def update(page: Path, out: Path) -> list[str]:
    """Take over the verdict and the picture of every figure that was reproduced below a directory; return the names of
    those with a verdict on the page: of `ordering-cost` it has none, because docs/cost.md shows it.

    Raises ValueError, and leaves all as it was, where one is not of quick runs with seed 0, as the page says.
    """
    text, found, taken = page.read_text(encoding="utf-8"), {}, []
    for file in sorted(out.glob("*/verdict.json")):
        result = json.loads(file.read_bytes())
        if (result["kind"], result["seed"]) != ("quick", 0):
            raise ValueError(f"{file}: the page is of quick runs with seed 0, and these are not")
        found[name := result["name"]] = file.parent
        if f"\n### `{name}`" in text:
            text = with_verdict(text, name, file.with_suffix(".md").read_text(encoding="utf-8"))
            taken.append(name)
    page.write_text(text, encoding="utf-8")
    for name, where in found.items():
        shutil.copyfile(where / f"{name}.png", page.parent / "figures" / f"{name}.png")
    return taken
