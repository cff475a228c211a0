"""The demo's report: one self-contained page with every number, verdict and picture of the demo."""

from html import escape
from pathlib import Path
from typing import Any

from msgspec import Struct

from whence import __version__
from whence.check.verdict import Verdict

_STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #616e7c; --line: #d9e2ec; --good: #18794e; --bad: #c81e2f; }
body { font: 16px/1.55 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); margin: 0 auto; max-width: 68rem;
       padding: 2.5rem 1.5rem 5rem; background: #fff; }
h1 { font-size: 2rem; margin: 0 0 .25rem; } h2 { margin: 3rem 0 .5rem; border-top: 1px solid var(--line);
     padding-top: 2rem; } p { margin: .4rem 0 1rem; } .soft { color: var(--soft); }
table { border-collapse: collapse; margin: 1rem 0 1.5rem; width: 100%; }
th, td { text-align: left; padding: .4rem .9rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; } td.number { font-variant-numeric: tabular-nums; }
.holds { color: var(--good); font-weight: 600; } .broken { color: var(--bad); font-weight: 700; }
.unknown { color: #946200; font-weight: 600; } .vacuous { color: var(--soft); }
figure { margin: 1.5rem 0; } figure svg { max-width: 100%; height: auto; }
.matrix { overflow-x: auto; } .matrix table { width: auto; font-size: .85rem; } .matrix td { padding-right: .6rem; }
.matrix tr:first-child th { vertical-align: bottom; padding-right: .2rem; }
.matrix tr:first-child th span { writing-mode: vertical-rl; transform: rotate(180deg); display: inline-block; }
a { color: inherit; } figcaption { color: var(--soft); font-size: .9rem; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: .1rem 2rem; margin: 1rem 0; }
dl div { border-bottom: 1px solid var(--line); padding: .3rem 0; } dt { color: var(--soft); font-size: .85rem; }
dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; } dl .wide { grid-column: 1 / -1; }
"""


class Section(Struct, frozen=True):
    """The results of one run."""

    title: str
    lead: str
    """What happened, in a sentence or two."""
    caption: str
    """How to read the picture."""
    facts: dict[str, Any]
    verdicts: list[Verdict]
    picture: Path


def write_demo_report(path: Path, sections: list[Section], nodes: int, seed: int) -> Path:
    """Write the report and return where it is."""
    body = "".join(map(_section, sections))
    path.write_text(
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Whence demo</title><style>{_STYLE}</style>"
        f"<h1>Whence demo</h1><p class='soft'>{nodes} members, seed {seed}, version {escape(__version__)}. The same "
        f"seed gives the same runs, to the byte.</p>{_overview(sections)}{body}</html>\n",
        encoding="utf-8",
    )
    return path


def _overview(sections: list[Section]) -> str:
    """Return one table of all verdicts: a row per promise, a column per run, with vertical headings."""
    promises = list(dict.fromkeys(verdict.promise for section in sections for verdict in section.verdicts))
    outcomes = [{verdict.promise: verdict.outcome for verdict in section.verdicts} for section in sections]
    heads = "".join(
        f"<th><span><a href='#{_anchor(section)}'>{escape(section.title)}</a></span></th>" for section in sections
    )
    rows = []
    for name in promises:
        cells = "".join(f"<td class='{each.get(name, '')}'>{each.get(name, '·')}</td>" for each in outcomes)
        rows.append(f"<tr><th>{escape(_as_words(name))}</th>{cells}</tr>")
    return f"<div class='matrix'><table><tr><th></th>{heads}</tr>{''.join(rows)}</table></div>"


def _anchor(section: Section) -> str:
    return escape(section.title.replace(" ", "-"))


def _as_words(name: str) -> str:
    return name.replace("_", " ")


def _section(section: Section) -> str:
    verdicts = "".join(
        f"<tr><td>{escape(_as_words(verdict.promise))}</td><td class='{verdict.outcome}'>{verdict.outcome}</td>"
        f"<td>{escape(verdict.sentence)}</td></tr>"
        for verdict in section.verdicts
    )
    facts = "".join(
        f"<div{' class=wide' if isinstance(value, dict | str) else ''}><dt>{escape(_as_words(name))}</dt>"
        f"<dd>{escape(_shown(value))}</dd></div>"
        for name, value in section.facts.items()
    )
    picture = section.picture.read_text(encoding="utf-8") if section.picture.exists() else ""
    return (
        f"<h2 id='{_anchor(section)}'>{escape(section.title)}</h2><p>{escape(section.lead)}</p>"
        f"<table><tr><th>promise</th><th>verdict</th><th>because</th></tr>{verdicts}</table>"
        f"<figure>{picture}<figcaption>{escape(section.caption)}</figcaption></figure><dl>{facts}</dl>"
    )


def _shown(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{_as_words(name)} {_shown(each)}" for name, each in value.items())
    if isinstance(value, Struct):
        return ", ".join(f"{name} {getattr(value, name):,}" for name in value.__struct_fields__)
    return str(value)
