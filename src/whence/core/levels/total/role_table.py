"""Who merges, who relays and who would take over: a table with a term, which members pass on.

Law: a member acts by the newest table it knows; of two with the same term, the greater one counts. So all members end
with the same table. A term is the tick at which its table was made, and more than that of the table before: like the
clock value of a stamp, one from the future is impossible. A corrupt term is found by everybody, and no garbage can
stand above all that is made later.
Founders begin with the same table, by number, because nothing is measured yet. From then on a place is given by merit
(candidates.py): while one is free, or its merger is silent or leaves, the first merger that is not silent gives it to
the best member that follows. Deputies are the next best: if all mergers are silent, the first deputy that is not takes
over. Mergers that the settings name are never replaced.
The order does not depend on the table: every merger releases by key, and never at or below its last one. What
publishers that do not know of a change do not send to a new merger, it leaves out and reports as a gap.
Source: docs/papers/merge.md: merge 11 and merge M3.
"""

from collections.abc import Sequence
from struct import Struct as Layout
from typing import NamedTuple

_HEAD = Layout(">cQBBBx")

DEPUTIES_MAX = 8
"""Members that may take over when all mergers are silent: so many can fail with them, and the group still mends
itself."""

FIRST_TERM = 1
"""The term of founders: below the tick of any table that is made later."""


class RoleTable(NamedTuple):
    """The roles in one term."""

    term: int
    mergers: tuple[int, ...]
    relays: tuple[int, ...] = ()
    deputies: tuple[int, ...] = ()

    def sends_to(self, pid: int, fanout: int) -> tuple[int, ...]:
        """Return where a peer sends publications: some relays; without relays, or as one of them, all mergers."""
        if not self.relays or pid in self.mergers or pid in self.relays:
            return self.mergers
        count = len(self.relays)
        chosen = {self.relays[(pid + at) % count]: None for at in range(min(fanout, count))}
        return tuple(sorted(chosen))

    def is_consistent(self) -> bool:
        """Tell whether a known table has mergers, and nobody has two roles."""
        pids = [*self.mergers, *self.relays, *self.deputies]
        return bool(self.term) == bool(self.mergers) and len(set(pids)) == len(pids) and min(pids, default=0) >= 0

    def mended(
        self,
        rt: int,
        silent: Sequence[int],
        free: Sequence[int],
        mergers: int,
        relays: int,
        demoted: Sequence[int] = (),
    ) -> "RoleTable":
        """Return the table with silent members replaced and free places filled by `free` members, the best first, as
        far as there are any. Whoever has a place and is not silent keeps it, because every change may cost events; but
        `demoted` deputies have to compete for theirs."""
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
        taken = {*merging, *relaying, *silent}
        staying = [pid for pid in self.deputies if pid not in taken and pid not in demoted]
        deputies = [*staying, *[pid for pid in left if pid not in staying]][:DEPUTIES_MAX]
        return self._next(rt, merging, relaying, deputies)

    def without(self, rt: int, pid: int) -> "RoleTable":
        """Return the table without a merger that leaves."""
        return self._next(rt, [merger for merger in self.mergers if merger != pid], self.relays, self.deputies)

    def taken_over(self, rt: int, pid: int) -> "RoleTable":
        """Return the table of a deputy that takes over alone. Who relays and who merges beside it is decided once it
        knows who is there."""
        return self._next(rt, [pid], (), [deputy for deputy in self.deputies if deputy != pid])

    def _next(self, rt: int, mergers: Sequence[int], relays: Sequence[int], deputies: Sequence[int]) -> "RoleTable":
        roles = (tuple(mergers), tuple(relays), tuple(deputies))
        return self if roles == self[1:] else RoleTable(max(self.term + 1, rt), *roles)


UNKNOWN = RoleTable(0, ())
"""What a newcomer knows."""


def to_record(table: RoleTable) -> bytes:
    """Return a table as a journal record: of an odd length, which no other record of the level has."""
    pids = (*table.mergers, *table.relays, *table.deputies)
    head = _HEAD.pack(b"T", table.term, len(table.mergers), len(table.relays), len(table.deputies))
    return head + b"".join([pid.to_bytes(2, "big") for pid in pids])


def from_record(record: bytes) -> RoleTable | None:
    """Return the table in a record; None if the record is of another kind."""
    if len(record) % 2 == 0 or len(record) < _HEAD.size or record[:1] != b"T":
        return None
    _, term, mergers, relays, _ = _HEAD.unpack_from(record)
    pids = [int.from_bytes(record[at : at + 2], "big") for at in range(_HEAD.size, len(record), 2)]
    return RoleTable(
        term, tuple(pids[:mergers]), tuple(pids[mergers : mergers + relays]), tuple(pids[mergers + relays :])
    )
