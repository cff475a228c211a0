"""Level `causal`, two variants: mesh (one vector clock) and tree (LoCaMu). See docs/papers/locamu.md."""
