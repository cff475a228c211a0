"""A simulated disk: what was synced survives a crash, what was only written may not, or only in part.

Records are framed as in a journal only where frames matter: when a crash tears them.
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
        """The number of durable bytes."""

    def write(self, records: list[bytes]) -> None:
        """Append records; they are not durable yet."""
        self._written += records

    def append(self, records: list[bytes]) -> None:
        """Write records and sync at once, together with everything written before."""
        if self._written:
            self.sync(len(self._written))
        self._synced += records
        self.size += HEADER_BYTES * len(records) + sum(map(len, records))

    def rewrite(self, records: list[bytes]) -> None:
        """Replace all that is durable with records, atomically, as a file moved over another. Nothing may be
        unsynced."""
        assert not self._written
        self._synced, self.size = [], 0
        self.append(records)

    def unsynced(self) -> int:
        """Return the number of records written and not yet durable: a sync that begins now will cover them."""
        return len(self._written)

    def sync(self, count: int) -> None:
        """Make the first `count` unsynced records durable: those written before the sync began."""
        covered, later = self._written[:count], self._written[count:]
        self._written = []
        self.append(covered)
        self._written = later

    def crash(self, damage: str, rng: Random) -> bool:
        """Lose what a crash loses; return whether it lost anything.

        `lost`: everything not synced. `torn`: a part of it survives, cut anywhere. `wiped`: all is gone.
        """
        written, self._written = self._written, []
        if damage == "torn":
            frames = b"".join(map(sealed, written))
            whole, _ = recovered(frames[: rng.randrange(len(frames) + 1)])
            self.append(whole)
        if damage == "wiped":
            written += self._synced
            self._synced, self.size = [], 0
        return bool(written)

    def recover(self) -> list[bytes]:
        """Return the records that survived."""
        return self._synced.copy()
