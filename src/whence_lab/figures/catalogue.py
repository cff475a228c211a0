"""All figures by name: the only place that lists them."""

from whence.errors import UsageError
from whence_lab.figures import (
    cluster_buffers,
    cluster_recovery,
    cluster_rounds,
    cluster_scale,
    cluster_tickets,
    gossip_scale,
    merge_buffering,
    merge_counter,
    merge_delta,
    merge_modulo,
    merge_recovery,
    merge_stamps,
    ordering_cost,
    tree_causal,
    tree_downtime,
    tree_groups,
    tree_localized,
    tree_metadata,
)
from whence_lab.figures.figure import Figure

FIGURES: dict[str, Figure] = {
    module.FIGURE.name: module.FIGURE
    for module in (
        cluster_scale,
        cluster_recovery,
        cluster_tickets,
        cluster_buffers,
        cluster_rounds,
        gossip_scale,
        merge_recovery,
        merge_buffering,
        merge_stamps,
        merge_counter,
        merge_delta,
        merge_modulo,
        tree_localized,
        tree_causal,
        tree_groups,
        tree_metadata,
        tree_downtime,
        ordering_cost,
    )
}
"""In the order in which `all` runs them."""

ALL = "all"


def chosen(names: list[str]) -> list[Figure]:
    """Return the figures with these names, each once; `all` names every one. Raises UsageError."""
    unknown = [name for name in names if name not in FIGURES and name != ALL]
    if unknown or not names:
        what = f"no figure is called {unknown[0]!r}" if unknown else "FIGURE names what to reproduce"
        raise UsageError(f"{what}; there are: {', '.join(FIGURES)}, or {ALL}")
    return list(FIGURES.values()) if ALL in names else [FIGURES[name] for name in dict.fromkeys(names)]
