"""What all processes of a simulated run share."""

from collections import Counter
from collections.abc import Callable

from whence.core.offsets import Offsets
from whence.sim.loop import Loop
from whence.sim.network import Network
from whence.trace.memory import Row
from whence.trace.schema import Kind
from whence.types import Bundle
from whence.wire.codec import decode
from whence.wire.items import Packet


class World:
    """One run: its time, its network, its trace."""

    __slots__ = (
        "decode",
        "destinations",
        "effective",
        "group",
        "heard",
        "loop",
        "network",
        "offsets",
        "payloads",
        "rows",
        "sync_ns",
        "take_ns",
        "wall_clock",
    )

    def __init__(
        self,
        loop: Loop,
        network: Network,
        rows: dict[Kind, list[Row]],
        group: str,
        effective: Counter[str],
        sync_ns: int,
        take_ns: int = 0,
    ) -> None:
        self.loop = loop
        self.network = network
        self.rows = rows
        self.group = group
        self.effective = effective
        """Faults that did something, by kind."""
        self.sync_ns = sync_ns
        """How long a disk takes to sync; readies that wait for it queue behind each other."""
        self.take_ns = take_ns
        """How long an application that remembers takes to ask for the next event, until the run heals."""
        self.offsets: type[Offsets] | None = None
        """The type that counts what an application has taken, where members remember."""
        self.decode: Callable[[bytes], Packet] = decode
        """How frames are read; a level that is only simulated may have items of its own."""
        self.payloads = False
        """Payloads are part of the trace."""
        self.wall_clock = False
        """Members are given the wall clock instead of the steady one."""
        self.destinations: Callable[[int], tuple[int, ...]] | None = None
        """The members of a group, where one overlay has several."""
        self.heard: Callable[[int, Bundle], None] | None = None
        """Called with every delivery: the process, and the bundle."""
