"""How the page of a report looks, by day and by night, and the script that shows one run or promise alone.

Pictures have the colours of daylight in them; by night the style gives each of these its other shade.
"""

from typing import Final

from whence.check.diagrams.svg import COLOURS, FAINT, INK, PAPER, QUIET, WRONG
from whence.check.verdict import Outcome
from whence.pipeline.charts import GRID

MARKS: Final = {Outcome.BROKEN: "✗", Outcome.UNKNOWN: "?", Outcome.HOLDS: "✓", Outcome.VACUOUS: "·"}
"""How a verdict is shown in a cell; by its shape as well as by its colour."""

_LIGHTER = ("#63b3ed", "#68d391", "#c4a1f5", "#ecc94b", "#4fd1c5", "#f191c6", "#a3b0ff", "#cdaa7d")
NIGHT: Final = {
    INK: "#e3e8ef", QUIET: "#a3afbf", FAINT: "#75828f", PAPER: "#14181d", GRID: "#2a323c", WRONG: "#ff6b76",
    **dict(zip(COLOURS, _LIGHTER, strict=True)),
}  # fmt: skip
"""The shade by night of every colour that pictures are drawn in."""

_BY_NIGHT: Final = "\n".join(
    f'  svg [{part}="{day}"] {{ {part}: {night}; }}' for day, night in NIGHT.items() for part in ("fill", "stroke")
)

STYLE: Final = f"""
:root {{ color-scheme: light dark; --ink: {INK}; --soft: {QUIET}; --line: #d9e2ec; --paper: {PAPER};
  --good: #18794e; --bad: #c81e2f; --doubt: #946200; --mark: #fff6d6; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: {NIGHT[INK]}; --soft: {NIGHT[QUIET]}; --line: {NIGHT[GRID]}; --paper: {NIGHT[PAPER]};
    --good: #5fd39a; --bad: #ff7b86; --doubt: #e5b454; --mark: #3a3315; }}
{_BY_NIGHT}
}}
body {{ font: 16px/1.55 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); margin: 0 auto; max-width: 70rem;
  padding: 2.5rem 1.5rem 5rem; background: var(--paper); }}
h1 {{ font-size: 2rem; margin: 0 0 .25rem; }}
h2 {{ margin: 2.5rem 0 .5rem; border-top: 1px solid var(--line); padding-top: 1.5rem; }}
.soft {{ color: var(--soft); }} .lead {{ font-size: 1.15rem; }} a {{ color: inherit; }}
table {{ border-collapse: collapse; margin: 1rem 0 1.5rem; width: 100%; font-size: .92rem; }}
th, td {{ text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }}
th {{ color: var(--soft); font-weight: 600; }}
th.n, td.n {{ text-align: right; font-variant-numeric: tabular-nums; }}
.holds {{ color: var(--good); font-weight: 600; }} .broken {{ color: var(--bad); font-weight: 700; }}
.unknown {{ color: var(--doubt); font-weight: 600; }} .vacuous {{ color: var(--soft); }}
figure {{ margin: 1.2rem 0; }} figure svg {{ max-width: 100%; height: auto; }}
.dot {{ width: .7em; height: .7em; margin-right: .4em; }}
.level {{ white-space: nowrap; }}
.wide, .matrix {{ overflow-x: auto; }} .wide table {{ font-size: .8rem; }}
.wide {{ width: min(94vw, 88rem); margin-left: 50%; transform: translateX(-50%); }}
.wide td, .wide th {{ padding-right: .5rem; }} .wide td:first-child {{ min-width: 8rem; overflow-wrap: anywhere; }}
.matrix table {{ width: auto; }} .matrix td, .matrix th {{ padding: .25rem .8rem .25rem 0; }}
.matrix [data-promise] {{ text-align: center; padding: .25rem .35rem; }}
.matrix th {{ vertical-align: bottom; }} .matrix th span {{ writing-mode: vertical-rl; transform: rotate(180deg); }}
.matrix td a, .matrix td span {{ display: inline-block; min-width: 1.4em; text-decoration: none; }}
.matrix td.broken a, .matrix td.broken span {{ background: var(--bad); color: var(--paper); border-radius: 4px; }}
.matrix td a:hover, .matrix td a:focus {{ outline: 2px solid var(--soft); border-radius: 4px; }}
#filters {{ position: sticky; top: 0; background: var(--paper); padding: .6rem 0;
  border-bottom: 1px solid var(--line); }}
#filters + h2 {{ border-top: 0; margin-top: 0; }}
#filters label {{ margin-right: 1.5rem; color: var(--soft); }}
select {{ font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--line); border-radius: 4px;
  max-width: 24rem; padding: .1rem .3rem; }}
[hidden] {{ display: none !important; }}
:target {{ background: var(--mark); }} [id] {{ scroll-margin-top: 4rem; }}
@media print {{ #filters {{ display: none; }} }}
"""

SCRIPT: Final = """
const form = document.getElementById("filters");
const chosen = (name) => document.getElementById("of-" + name).value;
function show() {
  const run = chosen("run"), promise = chosen("promise");
  for (const each of document.querySelectorAll("[data-run], [data-promise]")) {
    const {run: ofRun, promise: ofPromise} = each.dataset;
    const isOther = (run && ofRun && ofRun !== run) || (promise && ofPromise && ofPromise !== promise);
    each.toggleAttribute("hidden", Boolean(isOther));  // lines of plots are no HTML: they have no property for it
  }
}
form.hidden = false;
form.addEventListener("input", show);
form.addEventListener("submit", (event) => event.preventDefault());
show();
"""
