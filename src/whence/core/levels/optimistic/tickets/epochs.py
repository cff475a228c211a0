"""Epochs are fencing tokens for resources outside, so none is ever given twice, whatever else is forgotten.

Promises: every epoch that was ever given lies in a block that a majority of the seeds wrote down before.
Assumes: seeds keep their journals; one that lost its own asks the others before it says anything (founding).
The sentence that decides: whoever founds anew begins above every block that a majority of the seeds knows of, and none
of them accepts a founder within a block it wrote down.
Reading the records of those who were closed is not enough: where an operator's word stands for a witness, what only
that witness knew is gone. Epochs are reserved in blocks, as timestamp servers do, so seeds write once for many grants.
Source: docs/papers/optimistic.md 4.10 (Corollary), 4.12, X3.
"""

from collections.abc import Mapping

from whence.core.levels.optimistic.tickets.items import Reserve, Reserved
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.types import Instant, Process

BLOCK = 64
"""Epochs that seeds write down at once, and that a founder skips at most. A power of two."""


def block_end(epoch: int) -> int:
    """Return the last epoch of the block that an epoch is in."""
    return epoch | (BLOCK - 1)


class Reservation:
    """Up to which epoch one coordinator may grant: its own epoch's block, and those it asked the seeds for."""

    def __init__(self, seeds: tuple[int, ...], epoch: int, dead: Mapping[Process, Instant]) -> None:
        self.end = block_end(epoch)
        self.floor = 0
        """Epochs up to here may have been given by others whose records are lost."""
        self._unsure = False
        self._seeds = seeds
        self._dead = dead
        self._wanted = 0
        self._written: dict[int, int] = {}
        """Seeds that wrote down the block that is wanted, and the floor each had before."""

    def covers(self, epoch: int) -> bool:
        """Tell whether a majority of the seeds wrote this epoch's block down, and no other can have used it."""
        return epoch <= self.end and not self._unsure

    def ask(self, epoch: int, turn: Turn) -> None:
        """Ask all seeds that have not answered yet to write this epoch's block down."""
        if block_end(epoch) != self._wanted:
            self._wanted, self._written = block_end(epoch), {}
        for seed in self._seeds:
            if seed not in self._written:
                turn.post_pid(seed, Reserve(self._wanted))

    def on_reserved(self, seed: int, item: Reserved) -> None:
        """Count a seed; a majority is enough, and knows every block that was ever written down."""
        if item.epoch != self._wanted or seed not in self._seeds:
            return
        self._written[seed] = item.floor
        if not self._is_written():
            return
        if self._unsure:
            self._unsure, self.floor = False, max(self._written.values())
        self.end = max(self.end, item.epoch)
        if self.floor >= self.end:
            self._wanted = 0

    def _is_written(self) -> bool:
        """Tell whether a majority wrote it down, or all that are not declared dead: no dead one is asked later."""
        gone = [process.pid for process in self._dead]
        return len(self._written) > len(self._seeds) // 2 or all(
            seed in self._written or seed in gone for seed in self._seeds
        )

    def distrust(self, top: int, turn: Turn) -> None:
        """Give nothing until the seeds have answered which blocks are written down: others may have given of them."""
        self._unsure, self._wanted = True, 0
        self.ask(top + 1, turn)

    def reserve_ahead(self, top: int, turn: Turn) -> None:
        """Ask in time, so that no grant has to wait for the seeds."""
        if self._unsure:
            self.ask(top + 1, turn)
        elif max(top, self.floor) + BLOCK // 2 > self.end:
            self.ask(max(self.end, self.floor) + 1, turn)
