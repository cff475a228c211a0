"""Draws a tree and what happened on it: which nodes crashed, how much each delivered, over which links.

It needs the trace and the parents of the nodes. Copies along the tree are straight lines, those around a node that was
down are curves.
"""

from collections import Counter

from whence.check.diagrams.svg import COLOURS, FAINT, INK, PAPER, QUIET, WRONG, Canvas
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, PAYLOAD_BYTES, PEER, Kind

WIDTH, ROW, TOP, MARGIN = 1060.0, 96.0, 92.0, 40.0
_PEER, _PAYLOAD = COLUMNS_OF[Kind.SEND].index(PEER), COLUMNS_OF[Kind.SEND].index(PAYLOAD_BYTES)


def tree_diagram(trace: Trace, parents: list[int]) -> str:
    """Return an SVG of the tree of a run."""
    places, depth = _places(parents)
    canvas = Canvas()
    canvas.text(MARGIN, 34, "A tree of groups: what each node went through", 19, INK, bold=True)
    canvas.text(
        MARGIN, 58, "number in a circle: events delivered; × times it crashed, each time it came back and caught up; "
        "bowed: copies that went around a node", 12, QUIET,
    )  # fmt: skip
    sent = Counter((row[0], row[_PEER]) for row in trace.rows[Kind.SEND] if row[_PAYLOAD])
    for node, parent in enumerate(parents):
        if parent >= 0:
            canvas.line(*places[parent], *places[node], FAINT, 2.0)
    edges = [link for node, parent in enumerate(parents) for link in ((node, parent), (parent, node))]
    around = {link: copies for link, copies in sent.items() if link not in edges}
    most = max(around.values(), default=1)
    for (source, target), copies in sorted(around.items()):
        width = 0.8 + 2.2 * copies / most
        canvas.arrow(places[source], places[target], COLOURS[3], width, gap=17, bend=14)
    delivered = Counter(row[0] for row in trace.rows[Kind.DELIVER])
    crashed = Counter(row[0] for row in trace.rows[Kind.CRASH])
    for node, (x, y) in enumerate(places):
        canvas.dot(x, y, 15, PAPER, WRONG if node in crashed else COLOURS[0], 2.5)
        canvas.text(x, y + 4, str(delivered[node]), 11, INK, "middle", bold=True)
        canvas.text(x, y + 30, f"node {node}", 10, QUIET, "middle")
        if node in crashed:
            canvas.text(x + 16, y - 12, f"×{crashed[node]}", 12, WRONG, bold=True)
    return canvas.render(WIDTH, TOP + ROW * (depth + 1), "A tree of groups and what happened on it")


def _places(parents: list[int]) -> tuple[list[tuple[float, float]], int]:
    """Return where each node is drawn: leaves side by side, every other node above the middle of its children."""
    depth, children = [0] * len(parents), [[] for _ in parents]  # type: tuple[list[int], list[list[int]]]
    for node in range(1, len(parents)):
        depth[node] = depth[parents[node]] + 1
        children[parents[node]].append(node)
    across = [0.0] * len(parents)
    leaves = _leaves(children)
    for at, leaf in enumerate(leaves):
        across[leaf] = MARGIN + 20 + (WIDTH - 2 * MARGIN - 40) * (at + 0.5) / len(leaves)
    for node in reversed(range(len(parents))):
        if children[node]:
            across[node] = sum(across[child] for child in children[node]) / len(children[node])
    return [(across[node], TOP + ROW * depth[node]) for node in range(len(parents))], max(depth)


def _leaves(children: list[list[int]]) -> list[int]:
    """Return the leaves from left to right."""
    leaves, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        if children[node]:
            waiting += reversed(children[node])
        else:
            leaves.append(node)
    return leaves
