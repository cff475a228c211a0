"""The levels of the dial, a folder each. Levels do not import levels; what they share lies beside this folder."""
