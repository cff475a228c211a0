"""A trace in memory: what the simulator fills and the oracles read."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Annotated, Any, TypeAlias

import msgspec

from whence.trace.schema import COLUMNS_OF, Kind

Row: TypeAlias = tuple[Any, ...]

Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Time: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**61), le=2**61)]
Part: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""What columns have room for, and sums of two of them: run.json is refused where it says more."""


class Phases(msgspec.Struct, frozen=True):
    """When the run's faults stopped and what the liveness promises are measured on, in true time, ns."""

    heal_at: Time
    """From here on no fault is injected and every link works."""
    live_from: Time
    """Events published from here …"""
    live_until: Time
    """… to here are owed to every member that stays up from live_from to the end."""
    deadline_ns: Time
    """They are owed within this time after their publication."""


class Run(msgspec.Struct, kw_only=True):
    """run.json: what was run, so that a reader can judge it and anyone can run it again."""

    run_id: str
    version: str
    level: str
    seed: int
    nodes: list[Int]
    groups: dict[str, list[Int]]
    """Group to the members it was founded with; join and leave rows give the rest."""
    parameters: dict[str, Any] = {}
    durable: bool = False
    """A process remembers across crashes: its program order spans its incarnations, and it is owed what it missed."""
    forgetful: list[tuple[Int, Int]] = []
    """The incarnations (node, inc) that had no data directory, where others remember: each is a process of its own."""
    reach_min: Part = 1.0
    """The part of owed deliveries that must happen: below 1 for levels that promise with high probability."""
    phases: Phases | None = None
    tick_ns: Count | None = None
    epsilon: Count | None = None
    delta: int | None = None
    f: int | None = None
    k: int | None = None
    started: str | None = None
    digest: str | None = None
    rows: Count | None = None
    """How many rows its writer wrote: where fewer are there, some were lost since. None in traces of older writers."""
    names: dict[int, str] | None = None
    """The names of the processes that have one; None where none has."""


class Trace:
    """Rows by kind, in the order they happened, and the run they describe."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rows: dict[Kind, list[Row]] = {kind: [] for kind in Kind}
        self.missing: str | None = None
        """What its reader found missing, whatever the rows show."""

    def records(self, kind: Kind) -> Iterator[dict[str, Any]]:
        """Yield the rows of a kind as dictionaries; for readers that need not be fast."""
        columns = COLUMNS_OF[kind]
        return (dict(zip(columns, row, strict=True)) for row in self.rows[kind])

    def count(self) -> int:
        """Return the number of rows."""
        return sum(map(len, self.rows.values()))


class Digest:
    """A fingerprint of the rows: equal exactly when every row of every kind is, in order."""

    def __init__(self) -> None:
        self._of = {kind: blake2b(digest_size=16) for kind in Kind}
        self._encode = msgspec.msgpack.Encoder().encode

    def add(self, kind: Kind, rows: Iterable[Row]) -> None:
        """Add further rows of a kind."""
        self._of[kind].update(b"".join(map(self._encode, rows)))

    def hex(self) -> str:
        """Return the fingerprint of everything added so far."""
        return blake2b(b"".join(self._of[kind].digest() for kind in Kind), digest_size=16).hexdigest()


def digest_of(trace: Trace) -> str:
    """Return the fingerprint of a whole trace."""
    digest = Digest()
    for kind, rows in trace.rows.items():
        digest.add(kind, rows)
    return digest.hex()
