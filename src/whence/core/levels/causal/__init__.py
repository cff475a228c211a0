"""Level `causal`: on a tree (LoCaMu, docs/papers/locamu.md), or in a mesh on views (core/views)."""
