"""The papers' figures, reproduced: one module each, with the paper's settings as data. See docs/figures.md."""
