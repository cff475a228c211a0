"""A run as data: who takes part, what the network is like, what is published when, and what goes wrong when.

A scenario and its seed decide a run to the byte. Scenarios are what the swarm draws, what shrinking cuts, and what a
fault file is read into.
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from whence.sim.network import NetworkModel, Ns
from whence.types import PeerId

FaultKind: TypeAlias = Literal[
    "crash", "pause", "cut", "partition", "slow", "burst", "clock_jump", "join", "leave",
]  # fmt: skip

MS = 1_000_000
SECOND_NS = 1_000 * MS


class Fault(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One thing that goes wrong, from `at_ns` to `until_ns` (0: until the run heals, or for good).

    crash: `nodes` stop; they restart at until_ns, never if it is 0; `disk` says what survives;
    `between_effects` stops them halfway through what they do next; they restart with `settings` changed;
    `mergers`: and so many of those that merge at that time.
    pause: `nodes` stop running while time goes on, or, `between_effects`, once they have published something and before
    they send it. cut: copies from `nodes` to `others` are lost, one way.
    partition: `nodes` and the rest do not hear each other. slow: links of `nodes` are `amount` times slower,
    or only those to `others`.
    burst: `amount` of all copies are lost. clock_jump: the wall clock of `nodes` jumps by `amount` ns.
    join: `nodes`, not seen before, join. leave: `nodes` leave.
    """

    kind: FaultKind
    at_ns: Ns
    until_ns: Ns = 0
    nodes: list[PeerId] = []
    others: list[PeerId] = []
    amount: float = 0.0
    disk: Literal["lost", "torn", "wiped"] = "lost"
    between_effects: bool = False
    lasting: bool = False
    """A cut that continues, or begins, after the run has healed; or a crash or a leave after that."""
    mergers: Annotated[int, Meta(ge=0)] = 0
    settings: dict[str, Any] = {}
    """Settings that crashed processes change when they restart."""


class Publish(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One bundle, published by a node at a time: the number of events, and the bytes of each."""

    at_ns: int
    node: int
    events: int = 1
    size: int = 16
    group: int | None = None
    """The group it is published to, where one overlay has several."""


class Reaction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node that publishes to a group when it delivers an event of another, at most `times` times."""

    node: int
    group: int
    after_ns: int = 0
    times: int = 1


class Act(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action that only one level knows, by a node at a time, such as asking for a ticket."""

    at_ns: int
    node: int
    name: str
    argument: int = 0


class Clocks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far the processes' clocks may be from true time."""

    offset_ns: Ns = 0
    """Offsets are drawn up to this, either way."""
    drift_ppm: Annotated[int, Meta(ge=0, lt=1_000_000)] = 0
    """Rates are drawn up to this many millionths, either way."""


class Scenario(Struct, frozen=True, kw_only=True):
    """Everything that decides a run. Its names are those of scenario files; a run's id is a checksum of them."""

    level: str
    seed: int
    nodes: int
    numbers: list[int] = []
    """The process ids of nodes 0, 1, … of this scenario; empty: the same numbers. See sim/process_ids.py."""
    shape: str = ""
    """The kind of group it was drawn from, for the coverage table."""
    group: str = "alps"
    settings: dict[str, Any] = {}
    forgetful: list[int] = []
    """The nodes without a disk, where members of the group may have one: nothing outlives a crash there."""
    network: NetworkModel = NetworkModel()
    clocks: Clocks = Clocks()
    sync_ns: int = 0
    take_ns: int = 0
    """About how long an application takes to ask for its next event, until the run heals; only where members remember
    what it took. 0: it takes everything at once."""
    publishes: list[Publish] = []
    acts: list[Act] = []
    reactions: list[Reaction] = []
    faults: list[Fault] = []
    heal_at_ns: int = 0
    """All faults end here, and every link works from now on. 0: never."""
    live_from_ns: int = 0
    """What is published from here to live_until_ns must reach every member that stays."""
    live_until_ns: int = 0
    deadline_ns: int = 0
    """The time within which it must arrive."""
    rest_at_ns: int = 0
    """When every buffer must be empty, because nothing was published for a while. 0: never."""
    end_at_ns: int = 10 * SECOND_NS
    reach_min: float = 1.0
