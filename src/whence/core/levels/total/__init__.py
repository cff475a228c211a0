"""The level `total`: publishers, replicated mergers and subscribers around one merge order."""
