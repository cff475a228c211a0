"""The thesis, sections 3.10 and 4.2: nodes that crash and return, how long they were down, and what that does.

The thesis's framework counts how long nodes are down, and its evaluation shows none of it. Here the two protocols that
tolerate crashes run with more and more of them, within the bound of at most f on every path of 2f+1 nodes.
"""

from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.sim.run import run
from whence.sim.summary import summarize
from whence_lab.experiments.downtime import crashing, delays, downtime, planned_ms
from whence_lab.figures.data import Data
from whence_lab.figures.figure import PERCENT, Check, Config, Figure, Finding, Panel, Plan, grid
from whence_lab.figures.shapes import listed, rises
from whence_lab.figures.tree_schemes import NEIGHBOURHOOD, OURS, RETAINING, curves, label, said, similar

ALL = (OURS, RETAINING, NEIGHBOURHOOD)
SETTINGS: dict[str, tuple[str, dict[str, bool]]] = {RETAINING: (OURS, {"retain": True})}
EVENTS = 100


def measure(config: Config, seed: int) -> dict[str, float]:
    """Let nodes crash; judge and count."""
    level, settings = SETTINGS.get(config["scheme"], (config["scheme"], {}))
    planned = crashing(level, config["nodes"], EVENTS, config["crashes"], seed, **settings)
    trace = run(planned).trace
    down, summary, seen = downtime(trace, planned.heal_at_ns), summarize(trace), delays(trace, planned.end_at_ns)
    return {
        "down_total_ms": down.total_ms, "down_longest_ms": down.longest_ms, "down_node_ms": down.busiest_ms,
        "planned_ms": planned_ms(planned), "never_percent": 100 * seen.never,
        "around_ms": seen.around_p50, "around_p99_ms": seen.around_p99, "everybody_p99_ms": seen.everybody_p99,
        "crashes_seen": down.crashes, "missing": summary["deliveries_expected"] - summary["owed_delivered"],
        "broken": sum(verdict.outcome is Outcome.BROKEN for verdict in judge(trace)),
    }  # fmt: skip


def _worst(data: Data, scheme: str, measured: str) -> float:
    return max(band.most for _, band in data.curve("crashes", measured, scheme=scheme))


def _were_down(data: Data) -> Finding:
    total, longest, node, plan = (
        data.means("crashes", name, scheme=OURS)
        for name in ("down_total_ms", "down_longest_ms", "down_node_ms", "planned_ms")
    )
    as_planned = all(abs(seen - meant) <= meant / 10 for (_, seen), (_, meant) in zip(total, plan, strict=True))
    ordered = all(a <= b <= c for (_, a), (_, b), (_, c) in zip(longest, node, total, strict=True))
    return Finding(
        as_planned and ordered and rises(total),
        f"ms by crashes: all nodes {listed(total)}; planned {listed(plan)}; longest without recovering "
        f"{listed(longest)}; the node that was down most {listed(node)}",
    )


def _none(measured: str, what: str, data: Data) -> Finding:
    most = max(_worst(data, scheme, measured) for scheme in (OURS, RETAINING))
    return Finding(most == 0, f"{what} in the worst run: {most:g}")


def _masked(scheme: str, data: Data) -> Finding:
    found = {name: curves(data, ALL, "crashes", name) for name in ("around_ms", "around_p99_ms")}
    told = [similar(each[scheme][0][1], each[scheme][-1][1]) for each in found.values()]
    seen = "; ".join(
        f"{what} ms by crashes: {said(each)}" for what, each in zip(("median", "p99"), found.values(), strict=True)
    )
    return Finding(all(told), seen)


QUICK, FULL = grid(scheme=ALL, nodes=[31], crashes=[0, 2, 4, 8]), grid(
    scheme=ALL, nodes=[127], crashes=[0, 4, 8, 16, 32, 64]
)  # fmt: skip

FIGURE = Figure(
    name="tree-downtime",
    title="Nodes that are down",
    source="the thesis, sections 3.10, 4.2",
    settings=(
        "Chosen here, because the thesis shows none of it: 127 nodes in a binary tree (quick: 31), links of 1 ms, 50 "
        "messages a second by anybody to all for two seconds, f = 1; crashes at random times for 0.2 to 1.5 s, at most "
        "f on every path of 2f+1 nodes. LoCaMu with our headers, in the simulated world with disks that lose what was "
        "not synced, and with `retain`, which keeps a message until all have it; Delta-Neighbourhood beside it. "
        "Downtime is counted until the last publication."
    ),
    measure=measure,
    quick=Plan(QUICK, 3),
    full=Plan(FULL, 20),
    panels=(
        Panel("a) time down, all nodes", "crashes", "down_total_ms", "crashes planned", "ms", "scheme", label),
        Panel("b) longest time down", "crashes", "down_longest_ms", "crashes planned", "ms", "scheme", label),
        Panel(
            "c) latency, 99th percentile, all nodes", "crashes", "everybody_p99_ms", "crashes planned", "ms", "scheme",
            label, log_y=True,
        ),
        Panel(
            "d) the same, nodes that did not crash", "crashes", "around_p99_ms", "crashes planned", "ms", "scheme",
            label, log_y=True,
        ),
        Panel("e) deliveries that never came", "crashes", "never_percent", "crashes planned", "%", "scheme", label,
              within=PERCENT),
    ),
    checks=(
        Check(
            "The framework counts how long nodes were down, and the longest time without recovering",
            "4.2", "all downtime rises with the crashes, and is within a tenth of what was planned; no longest time "
            "is above that of one node, nor that above all",
            _were_down,
        ),
        Check(
            "Every message is eventually delivered by all its destinations",
            "3.10.2, Theorem 8", "LoCaMu: no delivery is missing in any run, those of nodes that were down included",
            lambda data: _none("missing", "deliveries missing", data),
        ),
        Check(
            "Messages are delivered in causal order while nodes fail; ours, and once",
            "3.10.1, Theorem 4; guarantees", "LoCaMu: no promise is broken in any run",
            lambda data: _none("broken", "promises broken", data),
        ),
        Check(
            "When a node fails, redundant edges propagate messages around it",
            "3.2", "LoCaMu, at nodes that did not crash: the median and the 99th percentile of latency with most "
            "crashes are within a factor of two of those without; what never came counts with the time to the end",
            lambda data: _masked(OURS, data),
        ),
        Check(
            "When a node fails, redundant edges propagate messages around it; with messages kept until all have them",
            "3.2; 3.9", "the same for LoCaMu with `retain`",
            lambda data: _masked(RETAINING, data),
        ),
    ),
    same_draw=("scheme",),
)  # fmt: skip
