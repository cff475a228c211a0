"""A simulated disk: what was synced survives a crash, what was only written may not, or only in part.

Records are kept as they came, and framed as in a journal only where frames matter: when a crash tears them.
"""

from random import Random

from whence.store.journal import recovered
from whence.wire.frame import HEADER_BYTES, sealed


class Disk:
    """One process's journal on stable storage."""

    def __init__(self) -> None:
        self._synced: list[bytes] = []
        self._written: list[bytes] = []
        self.size = 0
        """How many bytes are durable."""

    def write(self, records: list[bytes]) -> None:
        """Append records; they are not durable yet."""
        self._written += records

    def append(self, records: list[bytes]) -> None:
        """Write records and sync at once, with all that was written before."""
        if self._written:
            self.sync(len(self._written))
        self._synced += records
        self.size += HEADER_BYTES * len(records) + sum(map(len, records))

    def rewrite(self, records: list[bytes]) -> None:
        """Put records in the place of all that is durable, in one step, as a file moved over another. Nothing may be
        unsynced."""
        assert not self._written
        self._synced, self.size = [], 0
        self.append(records)

    def unsynced(self) -> int:
        """Return how many records were written and are not durable: what a sync that begins now will cover."""
        return len(self._written)

    def sync(self, count: int) -> None:
        """Make the first `count` unsynced records durable: those written before the sync began."""
        covered, later = self._written[:count], self._written[count:]
        self._written = []
        self.append(covered)
        self._written = later

    def crash(self, damage: str, dice: Random) -> bool:
        """Lose what a crash loses; return whether it lost anything.

        `lost`: everything not synced. `torn`: a part of it survives, cut anywhere. `wiped`: all is gone.
        """
        written, self._written = self._written, []
        if damage == "torn":
            frames = b"".join(map(sealed, written))
            whole, _ = recovered(frames[: dice.randrange(len(frames) + 1)])
            self.append(whole)
        if damage == "wiped":
            written += self._synced
            self._synced, self.size = [], 0
        return bool(written)

    def recover(self) -> list[bytes]:
        """Return the records that survived."""
        return self._synced.copy()
