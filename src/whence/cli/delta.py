"""What a merger at level total measured of δ, in one sentence for operators."""

from typing import Any


def delta_sentence(metrics: dict[str, Any]) -> str:
    """Return in words the δ that is set and the one that a merger proposes, by the metrics in its status."""
    words = f"δ is {metrics['delta_ticks']:,} ticks"
    proposed = metrics.get("delta_proposed_ticks")
    if not proposed:
        return f"{words}; nothing measured yet"
    ((one_in, ticks),) = proposed.items()
    (delta_ns,), (buffering_ns,) = metrics["delta_proposed_ns"].values(), metrics["buffering_proposed_ns"].values()
    return (
        f"{words}; proposed {ticks:,} ({delta_ns / 1e6:,.1f} ms): at most 1 in {int(one_in):,} late of "
        f"{metrics['delays_observed_total']:,} seen, and nothing waits longer than {buffering_ns / 1e6:,.1f} ms; "
        f"clocks seen allow ε = {metrics['epsilon_seen_ticks']:,} or more"
    )
