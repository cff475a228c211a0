"""Who merges and who relays: a table with a version, which members pass on and the mergers keep up to date.

Law: a member acts by the newest table it knows; of two with the same version, the greater one counts. So all members
end with the same table. Founders start with the same one: the lowest of them merge. While a place is free, or a merger
has been silent for too long, the first merger that is not silent gives the place to its lowest follower. Mergers that
the settings name are never replaced.
The order does not depend on the table: every merger releases by key, and never at or below its last one. What
publishers that do not know of the change do not send to a new merger, it leaves out and reports as a gap.
Cost: one item per merger, follower and beat.
Source: docs/papers/merge.md: merge 11 and merge M3.
"""

from collections.abc import Sequence
from struct import Struct as Layout
from typing import NamedTuple

_HEAD = Layout(">cIBB")


class RoleTable(NamedTuple):
    """One version of the roles."""

    version: int
    mergers: tuple[int, ...]
    relays: tuple[int, ...] = ()

    def sends_to(self, pid: int, fanout: int) -> tuple[int, ...]:
        """Return where a peer sends publications: some relays; without relays, or as one of them, all mergers."""
        if not self.relays or pid in self.mergers or pid in self.relays:
            return self.mergers
        count = len(self.relays)
        chosen = {self.relays[(pid + at) % count]: None for at in range(min(fanout, count))}
        return tuple(sorted(chosen))

    def mended(self, silent: Sequence[int], free: Sequence[int], mergers: int, relays: int) -> "RoleTable":
        """Return the table with silent mergers replaced and free places filled, as far as there are free members."""
        left = [pid for pid in free if pid not in self.mergers and pid not in self.relays]
        merging = list(self.mergers)
        for at, pid in enumerate(merging):
            if pid in silent and left:
                merging[at] = left.pop(0)
        while len(merging) < mergers and left:
            merging.append(left.pop(0))
        relaying = list(self.relays)
        while len(relaying) < relays and left:
            relaying.append(left.pop(0))
        if (tuple(merging), tuple(relaying)) == self[1:]:
            return self
        return RoleTable(self.version + 1, tuple(merging), tuple(relaying))


UNKNOWN = RoleTable(0, ())
"""What a newcomer knows."""


def to_record(table: RoleTable) -> bytes:
    """Return a table as a journal record: of an odd length, which no other record of the level has."""
    pids = (*table.mergers, *table.relays)
    head = _HEAD.pack(b"R", table.version, len(table.mergers), len(table.relays))
    return head + b"".join([pid.to_bytes(2, "big") for pid in pids])


def from_record(record: bytes) -> RoleTable | None:
    """Return the table in a record; None if the record is of another kind."""
    if len(record) % 2 == 0 or record[:1] != b"R":
        return None
    _, version, mergers, relays = _HEAD.unpack_from(record)
    pids = [int.from_bytes(record[at : at + 2], "big") for at in range(_HEAD.size, len(record), 2)]
    return RoleTable(version, tuple(pids[:mergers]), tuple(pids[mergers : mergers + relays]))
