"""Runs whose outcome is written down: a trace's digest for each, so that whoever moves code sees what it changed.

`python -m tests.recorded.runs` writes the table anew. A change that must alter a digest does only that, and says why.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from whence.sim.run import run
from whence.sim.scenario import Scenario
from whence.sim.scenarios import simulation
from whence.sim.swarm import draw
from whence.sim.workload import Workload
from whence.trace.gathering import gather
from whence.trace.memory import Trace, digest_of
from whence.trace.schema import EV, INC, NODE, WHO
from whence.trace.segments import TraceSegmentWriter

TABLE = Path(__file__).with_name("digests.json")

SWARM = {
    "eventual": 36, "fifo": 36, "optimistic": 24, "causal": 48, "total": 24, "cbcast": 8, "barriers": 8,
    "neighbourhood": 8, "vcube": 4, "scribe": 4, "gryphon": 4, "plumtree": 4, "thicket": 4,
}  # fmt: skip
"""How many schedules of each level's swarm, from seed 1 on: any faults, spreads, views, numbers and timing."""

CALM: dict[str, list[dict[str, Any]]] = {
    "eventual": [{}, {"spread": "direct"}],
    "fifo": [{}, {"spread": "direct"}, {"view": "partial"}],
    "optimistic": [{}, {"spread": "direct"}],
    "causal": [{}, {"spread": "direct"}],
    "total": [{}, {"release": "frontier"}],
    "cbcast": [{}],
    "barriers": [{}],
    "neighbourhood": [{}],
}
"""Settings that each level also runs with where nothing goes wrong."""

CALM_SEEDS = (3, 44)
GATHERED = ("eventual", "fifo", "optimistic", "causal", "total")
GATHERED_SEEDS = (7, 70)
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def scenarios() -> Iterator[tuple[str, Scenario]]:
    """Yield every scenario with its name."""
    for level, count in SWARM.items():
        for seed in range(1, count + 1):
            yield f"{level}, swarm, seed {seed}", draw(level, seed)
    for level, choices in CALM.items():
        for settings in choices:
            for seed in CALM_SEEDS:
                said = "".join(f", {name}={value}" for name, value in settings.items())
                yield (
                    f"{level}, calm{said}, seed {seed}",
                    simulation(level, 7, 20, seed, "none", dict(settings), Workload()),
                )


def digests() -> Iterator[tuple[str, str]]:
    """Run everything; yield names and digests."""
    for name, scenario in scenarios():
        yield name, digest_of(run(scenario).trace)
    for level in GATHERED:
        for seed in GATHERED_SEEDS:
            yield f"{level}, gathered, seed {seed}", digest_of(gathered(run(draw(level, seed)).trace))


def gathered(trace: Trace) -> Trace:
    """Return a trace as `gather` makes it of the segments that live processes would have left of it."""
    grp = next(iter(trace.run.groups))
    about = {"durable": trace.run.durable, "founders": trace.run.groups[grp], "settings": trace.run.parameters}
    at = {name: WHO.index(name) for name in (NODE, INC, EV)}
    lives: dict[tuple[int, int], list[Any]] = {}
    for kind, rows in trace.rows.items():
        for row in rows:
            lives.setdefault((row[at[NODE]], row[at[INC]]), []).append((row[at[EV]], kind, row))
    with TemporaryDirectory() as place:
        for (node, inc), told in sorted(lives.items()):
            spool = TraceSegmentWriter(
                Path(place) / str(node), grp, trace.run.level, node, inc, segment_bytes=4096, about=about
            )
            for number, (_, kind, row) in enumerate(sorted(told, key=lambda each: each[0])):
                spool.add(kind, row)
                if number % 16 == 0:
                    spool.flush()
            spool.close()
        return gather(sorted(Path(place).iterdir()), grp, "recorded", "0")


def recorded() -> dict[str, str]:
    """Return the table, or nothing where it was recorded with another Python, whose dice may fall otherwise."""
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    digests_: dict[str, str] = table["digests"]
    return digests_ if table["python"] == _PYTHON else {}


if __name__ == "__main__":
    made = {"python": _PYTHON, "digests": dict(digests())}
    TABLE.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
