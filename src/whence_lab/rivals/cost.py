"""What a rival's stamps cost: by the formula of the paper that measured it, and as they are written here."""

from whence.core.levels.causal.tree.coding import Cost


class RivalCost(Cost):
    """Bytes by the paper's formula, as in Cost, and bytes that were written to order and name a message."""

    __slots__ = ("written",)

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def count(self, formula: int, written: int) -> None:
        """Count a copy."""
        self.add(formula)
        self.written += written
