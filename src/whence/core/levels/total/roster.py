"""Who merges and who relays: chosen among those who are there or named, told to whoever asks, replaced when gone.

Law: a member acts by the newest roster it has heard of; of two with one version the greater list counts: all end with
the same. Founders have the same first one: the lowest of them merge. While a place is free, or a merger has been
silent for long, the first merger that is not silent gives its place to its lowest follower. Mergers that were named by
the settings are never replaced.
Order does not rest on it: whoever merges releases by key and never below its last one. What publishers who have not
heard of a change do not send to a new merger, it leaves out, and tells.
Costs: one item per merger, follower and beat.
"""

from collections.abc import Sequence
from struct import Struct as Layout
from typing import NamedTuple

_HEAD = Layout(">cIBB")


class Roster(NamedTuple):
    """One version of who does what."""

    version: int
    mergers: tuple[int, ...]
    relays: tuple[int, ...] = ()

    def sends_to(self, pid: int, fanout: int) -> tuple[int, ...]:
        """Return who takes a peer's publications: some relays, or where there are none, or for them, all mergers."""
        if not self.relays or pid in self.mergers or pid in self.relays:
            return self.mergers
        count = len(self.relays)
        chosen = {self.relays[(pid + at) % count]: None for at in range(min(fanout, count))}
        return tuple(sorted(chosen))

    def mended(self, silent: Sequence[int], free: Sequence[int], mergers: int, relays: int) -> "Roster":
        """Return the roster with silent mergers replaced and places that are not taken given away, as far as can be."""
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
        return Roster(self.version + 1, tuple(merging), tuple(relaying))


UNKNOWN = Roster(0, ())
"""What a newcomer has."""


def to_record(roster: Roster) -> bytes:
    """Return a roster as a journal has it: of an odd length, which no other record of the level has."""
    pids = (*roster.mergers, *roster.relays)
    head = _HEAD.pack(b"R", roster.version, len(roster.mergers), len(roster.relays))
    return head + b"".join([pid.to_bytes(2, "big") for pid in pids])


def from_record(record: bytes) -> Roster | None:
    """Return the roster that was written down; None if this is no such record."""
    if len(record) % 2 == 0 or record[:1] != b"R":
        return None
    _, version, mergers, relays = _HEAD.unpack_from(record)
    pids = [int.from_bytes(record[at : at + 2], "big") for at in range(_HEAD.size, len(record), 2)]
    return Roster(version, tuple(pids[:mergers]), tuple(pids[mergers : mergers + relays]))
