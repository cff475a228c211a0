"""Segments of live nodes for tests: restarts, events handed out twice, files that follow each other, and losses."""

from pathlib import Path
from random import Random

from whence.trace.schema import COLUMNS_OF, Kind
from whence.trace.segments import TraceSegmentWriter

GROUP = "alps"


class LiveNode:
    """One node that writes rows as a live one does."""

    def __init__(
        self, directory: Path, node: int, inc: int = 1, segments_max: int = 64, taken: int | None = None,
        level: str = "fifo",
    ) -> None:  # fmt: skip
        about = {"durable": True, "founders": [0, 1, 2] if inc == 1 else [], "name": f"n{node}", "settings": {}}
        self._writer = TraceSegmentWriter(
            directory, GROUP, level, node, inc, segment_bytes=600, segments_max=segments_max,
            about=about | {"previous": inc - 1 if inc > 1 else None},
        )  # fmt: skip
        self._who, self._ev, self._pos = (node, inc), 0, 0
        if taken is None:
            self.add(Kind.JOIN)
        else:
            self.add(Kind.RESTART, value=taken, reason="killed")

    def add(self, kind: Kind, **values: object) -> None:
        """Write a row."""
        node, inc = self._who
        given = {"node": node, "inc": inc, "ev": self._ev, "t_clk": 1000 * inc + self._ev, "grp": GROUP, **values}
        self._writer.add(kind, tuple(given.get(name) for name in COLUMNS_OF[kind]))
        self._writer.flush()
        self._ev += 1

    def publish(self, seq: int, inc: int | None = None) -> None:
        """Publish an event of its own."""
        node, now = self._who
        payload = b"%d-%d" % (node, seq)
        self.add(Kind.PUBLISH, m_pid=node, m_inc=inc or now, m_seq=seq, dests=(0, 1, 2), payload=payload)

    def deliver(self, pid: int, inc: int, seq: int) -> None:
        """Hand an event out."""
        self.add(Kind.DELIVER, m_pid=pid, m_inc=inc, m_seq=seq, pos=self._pos)
        self._pos += 1

    def leave(self) -> None:
        """Leave the group."""
        self.add(Kind.LEAVE, reason="left")
        self.close()

    def close(self) -> None:
        """Write no more; it may have been killed."""
        self._writer.close()


def live_world(directory: Path, seed: int, events: int = 40) -> None:
    """Three nodes, each with a directory of its own. One is killed in the middle and comes back, one loses its oldest
    segments, and one may end in a torn record."""
    rng = Random(seed)
    first = LiveNode(directory / "a", 0)
    second = LiveNode(directory / "b", 1, segments_max=4 if seed % 2 else 64)
    third = LiveNode(directory / "c", 2)
    kill_at = rng.randrange(5, events - 5)
    for seq in range(1, events + 1):
        first.publish(seq)
        for node in (first, second, third):
            node.deliver(0, 1, seq)
        if rng.random() < 0.3:
            second.add(Kind.GAP, ids=((2, 1, seq),))
        if seq == kill_at:
            third.close()
            third = LiveNode(directory / "c", 2, 2, taken=seq - rng.randrange(2))
            third.deliver(0, 1, seq)
    first.leave()
    second.close()
    if seed % 3:
        third.leave()
    third.close()
    if seed % 4 == 0:
        last = max((directory / "b").iterdir())
        last.write_bytes(last.read_bytes() + b"\x05\x00\x00\x00torn")
