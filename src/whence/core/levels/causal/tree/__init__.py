"""LoCaMu: localized reliable causal multicast along a tree, whose metadata does not grow with the system."""
