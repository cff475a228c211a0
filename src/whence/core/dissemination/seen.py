"""The numbers of a process that were seen: they tell a first arrival from a duplicate, in bounded memory."""

from bisect import bisect_right


class Seen:
    """The numbers seen from one process, as disjoint runs in increasing order that do not touch."""

    __slots__ = ("firsts", "lasts")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []

    def add(self, first: int, last: int, runs_max: int) -> bool:
        """Add first … last; return False, and change nothing, if any of them was seen before.

        Over `runs_max`, the lowest hole is closed: what was missing there counts as seen.
        """
        firsts, lasts = self.firsts, self.lasts
        at = bisect_right(firsts, first)
        if (at and lasts[at - 1] >= first) or (at < len(firsts) and firsts[at] <= last):
            return False
        joins_left = at > 0 and lasts[at - 1] == first - 1
        joins_right = at < len(firsts) and firsts[at] == last + 1
        if joins_left and joins_right:
            lasts[at - 1] = lasts.pop(at)
            del firsts[at]
        elif joins_left:
            lasts[at - 1] = last
        elif joins_right:
            firsts[at] = first
        else:
            firsts.insert(at, first)
            lasts.insert(at, last)
            if len(firsts) > runs_max:
                del firsts[1], lasts[0]
                firsts[0] = 1
        return True
