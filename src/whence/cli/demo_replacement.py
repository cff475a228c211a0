"""What the live demo shows of a machine that died for good: when it was removed and replaced, and what others felt."""

from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from whence.epochs import number_of
from whence.trace.memory import Trace
from whence.trace.schema import Kind

MS = 1_000_000

LOST_MACHINE, FELT = "a machine that died for good", "what the others felt"
"""The names of the two facts."""


class Replacement(Struct, frozen=True):
    """When one machine died, was removed and was replaced, on the clock of all processes."""

    pid: int
    calm_ns: tuple[int, int]
    """A time before, in which nothing was broken: what others felt is compared with it."""
    died_ns: int
    removed_ns: int
    replaced_ns: int


def replacement_facts(trace: Trace, replaced: Replacement) -> dict[str, str]:
    """Return what a trace says of it, in words; nothing where it shows no others."""
    others = [node for node in trace.run.nodes if node != replaced.pid]
    calm = longest_pause_ns(trace, others, *replaced.calm_ns)
    meanwhile = longest_pause_ns(trace, others, replaced.died_ns, replaced.replaced_ns)
    if calm is None or meanwhile is None:
        return {}
    views = _views_between(trace, others, replaced.died_ns, replaced.replaced_ns)
    removed_ms, replaced_ms = ((time - replaced.died_ns) / MS for time in (replaced.removed_ns, replaced.replaced_ns))
    removed = f"removed after {removed_ms:,.0f} ms, " if views else ""
    by = f", by views {', '.join(map(str, views))}" if views else ""
    return {
        LOST_MACHINE: f"process {replaced.pid}: {removed}replaced by an empty machine of its name after "
        f"{replaced_ms:,.0f} ms{by}",
        FELT: f"their longest pause between two deliveries was {meanwhile / MS:,.0f} ms meanwhile, "
        f"and {calm / MS:,.0f} ms when nothing was broken",
    }


def longest_pause_ns(trace: Trace, nodes: Iterable[int], since: int, until: int) -> int | None:
    """Return the longest time between two deliveries, or an end of the interval, at any of these processes; None where
    one was handed nothing."""
    times: dict[int, list[int]] = {node: [since, until] for node in nodes}
    for row in trace.records(Kind.DELIVER):
        if row["node"] in times and since <= row["t_true"] <= until:
            times[row["node"]].append(row["t_true"])
    if not times or any(len(each) == 2 for each in times.values()):
        return None
    return max(later - earlier for each in times.values() for earlier, later in pairwise(sorted(each)))


def _views_between(trace: Trace, nodes: list[int], since: int, until: int) -> list[int]:
    """Return the views that these processes entered then."""
    return sorted(
        {
            number_of(row["epoch"])
            for row in trace.records(Kind.VIEW)
            if row["node"] in nodes and since <= row["t_true"] <= until and row["epoch"] is not None
        }
    )
