"""A simulated disk: what was synced survives a crash, what was only written may not, or only in part."""

from random import Random

from whence.store.journal import framed, recovered


class Disk:
    """One process's journal on stable storage."""

    def __init__(self) -> None:
        self._synced = bytearray()
        self._written = bytearray()

    def write(self, records: list[bytes]) -> None:
        """Append records; they are not durable yet."""
        for record in records:
            self._written += framed(record)

    def append(self, records: list[bytes]) -> None:
        """Write records and sync at once, with all that was written before."""
        if self._written:
            self._synced += self._written
            self._written.clear()
        for record in records:
            self._synced += framed(record)

    @property
    def size(self) -> int:
        """Return how many bytes are durable."""
        return len(self._synced)

    def rewrite(self, records: list[bytes]) -> None:
        """Put records in the place of all that is durable, in one step, as a file moved over another. Nothing may be
        unsynced."""
        assert not self._written
        self._synced = bytearray(b"".join(map(framed, records)))

    def unsynced(self) -> int:
        """Return how many bytes were written and are not durable: what a sync that begins now will cover."""
        return len(self._written)

    def sync(self, size: int) -> None:
        """Make the first `size` unsynced bytes durable: those written before the sync began."""
        self._synced += self._written[:size]
        del self._written[:size]

    def crash(self, damage: str, dice: Random) -> bool:
        """Lose what a crash loses; return whether it lost anything.

        `lost`: everything not synced. `torn`: a part of it survives, cut anywhere. `wiped`: all is gone.
        """
        unsynced = len(self._written)
        if damage == "torn":
            self._synced += self._written[: dice.randrange(unsynced + 1)]
        self._written.clear()
        if damage == "wiped":
            unsynced += len(self._synced)
            self._synced.clear()
        return unsynced > 0

    def recover(self) -> list[bytes]:
        """Return the records that survived, and cut off a torn tail."""
        records, size = recovered(self._synced)
        del self._synced[size:]
        return records
