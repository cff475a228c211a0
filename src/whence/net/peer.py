"""What this node keeps for one other peer: its connection, what waits to be sent to it, when to call it again."""

from collections import deque
from itertools import chain

from whence.net.link import WRITE_HIGH_BYTES, Link
from whence.net.settings import NetSettings
from whence.wire.codec import Frame

JOINED_BYTES = 16 << 10
"""Frames up to this size together are written as one piece: uvloop writes one piece with far less ado than several."""


class Peer:
    """One peer, connected or not."""

    __slots__ = (
        "bytes", "calling", "dirty", "dropped", "echoed_ns", "failures", "frames", "groups", "link", "pid", "retry_at",
        "settings", "shunned_until", "stalled_since",
    )  # fmt: skip

    def __init__(self, pid: int, settings: NetSettings) -> None:
        self.pid = pid
        self.settings = settings
        self.link: Link | None = None
        self.frames: deque[Frame] = deque()
        self.bytes = 0
        self.groups: dict[str, None] = {}
        """Groups with something among the frames: whom to tell when they are dropped."""
        self.dirty = False
        """A flush is planned."""
        self.calling = False
        self.failures = 0
        self.retry_at = 0.0
        self.stalled_since: float | None = None
        self.echoed_ns = 0
        """When the last question was asked, on this connection, that it has answered: it has read all before that."""
        self.shunned_until = 0.0
        """It was cut for taking nothing; until then nobody waits for it."""
        self.dropped = 0

    def post(self, group: str, frame: Frame, size: int) -> bool:
        """Queue a frame of some size; return False if the outbox of a connected peer is over its bound."""
        self.frames.append(frame)
        self.bytes += size
        self.groups[group] = None
        if self.link is None:
            while self.bytes > self.settings.pending_bytes_max:
                self.bytes -= sum(map(len, self.frames.popleft()))
                self.dropped += 1
            return True
        bound = self.settings.outbox_bytes_max
        if not self.link.paused and self.bytes + WRITE_HIGH_BYTES <= bound:
            return True  # what the transport has is less than that
        return self.waiting_bytes() <= bound

    def waiting_bytes(self) -> int:
        """Return what has not gone out yet, here and in the transport."""
        return self.bytes + (self.link.waiting_bytes() if self.link is not None else 0)

    def flush(self) -> None:
        """Hand everything to the transport, unless it asked to wait."""
        self.dirty = False
        link = self.link
        frames = self.frames
        if link is None or link.paused or not frames:
            return
        if link.transport is not None:
            pieces = frames[0] if len(frames) == 1 else list(chain.from_iterable(frames))
            if len(pieces) == 1:
                link.transport.write(pieces[0])
            elif self.bytes <= JOINED_BYTES:
                link.transport.write(b"".join(pieces))
            else:
                link.transport.writelines(pieces)
        frames.clear()
        self.groups.clear()
        self.bytes = 0

    def drop(self) -> list[str]:
        """Throw away what waits; return the groups it was of."""
        groups = list(self.groups)
        self.dropped += len(self.frames)
        self.frames.clear()
        self.groups.clear()
        self.bytes = 0
        return groups
