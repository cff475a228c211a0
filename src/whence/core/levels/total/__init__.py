"""The level `total`: in strict order, on views (core/views), which is the default of live groups; or in timed order:
publishers, replicated mergers and subscribers around one merge order, which is what lies here."""
