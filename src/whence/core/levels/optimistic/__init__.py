"""Level `optimistic`: tickets, bounded vector clocks, recovery. See docs/papers/optimistic.md."""
