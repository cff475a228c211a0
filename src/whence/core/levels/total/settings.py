"""The settings of level `total` in timed order, and the roles of a group's founders."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from whence.core.clocks.hlc import Hlc
from whence.core.clocks.kn import Kn
from whence.core.clocks.stamp import StampClock, Timing
from whence.core.levels.total.merge_buffer import ReleaseRule
from whence.core.levels.total.role_table import FIRST_TERM, RoleTable
from whence.errors import SettingError
from whence.limits import MERGE_WAIT_NS_MAX, MERGED_PEER_ID_MAX, MERGERS_MAX, MergeLimits

TOPICS_MAX = 63
"""Topics that one merger can serve separately: a subscriber selects the ones it wants in one 63-bit number."""

ALL_TOPICS = (1 << TOPICS_MAX) - 1

RC_REFUSAL = (
    "stamp 'rc' cannot merge: its order has cycles, and its stamps may fall along a chain of causes, "
    "so an effect could be released before its cause; choose 'hlc' or 'kn'"
)


class MergeSettings(Struct, frozen=True, kw_only=True):
    """How the group merges."""

    mergers: int = 2
    """Replicated mergers, chosen by the group. All release the same order; more of them survive more crashes. One that
    leaves, or is silent for `patience_beats`, is replaced by the member that has heard its merger steadily for longest;
    if all are silent, deputies take over."""
    merger_pids: str = ""
    """The mergers by name (5,6), in place of `mergers`: these and no others, present or not; never replaced."""
    relays: int = 0
    """Peers after the mergers that pass publications on to them unchanged; 0 lets publishers reach mergers directly."""
    relay_fanout: int = 2
    """Relays each publisher sends to. A relay that crashes before it passes something on loses what only it had."""
    stamp: Literal["hlc", "kn", "rc"] = "hlc"
    """hlc orders causes under any clocks. kn only while clocks keep epsilon. rc is refused: it has no order."""
    release: ReleaseRule = "paper"
    """paper waits l + δ + ε. tight waits past l + δ. frontier also releases what all publishers have passed."""
    late: Literal["side", "drop"] = "side"
    """side hands late events to the application beside the stream; drop only counts them."""
    tick_ns: int = 1_000_000
    """τ: the grain of clocks, stamps and waits. Larger than the clocks' differences, epsilon is 2; see whence tune."""
    beat_ns: int = 50_000_000
    """How often mergers report how far their stream is, and followers that they are still there."""
    patience_beats: int = 6
    """Beats of silence after which a follower switches to another merger, or a merger forgets a follower."""
    resends: int = 2
    """Times a publication is sent again, evenly within δ, to a merger that did not acknowledge it."""
    log_ticks: int = 10_000
    """How long a merger retains what it released, for followers that join or fall behind."""
    journal: bool = True
    """Mergers write their last key to disk before they release, so that a new incarnation continues after it."""

    def __post_init__(self) -> None:
        if self.stamp == "rc":
            raise SettingError(RC_REFUSAL)
        least = {"relays": 0, "resends": 0, "tick_ns": 1000, "beat_ns": 1000}
        for name in ("mergers", "relays", "relay_fanout", "tick_ns", "beat_ns", "patience_beats", "resends",
                     "log_ticks"):  # fmt: skip
            if getattr(self, name) < least.get(name, 1):
                raise SettingError(f"{name} must be at least {least.get(name, 1)}, not {getattr(self, name)}")
        if max(self.mergers, self.relays, len(self.named())) > MERGERS_MAX:
            raise SettingError(f"mergers and relays must be at most {MERGERS_MAX} each")

    def named(self) -> tuple[int, ...]:
        """Return the named mergers, in their order; nothing where they are chosen. Raises SettingError."""
        words = [word.strip() for word in self.merger_pids.split(",")] if self.merger_pids.strip() else []
        pids = tuple(int(word) for word in words if word.isascii() and word.isdecimal())
        if len(set(pids)) < len(words) or any(pid > MERGED_PEER_ID_MAX for pid in pids):
            raise SettingError(f"merger_pids are different pids such as 5,6, not {self.merger_pids!r}")
        return tuple(sorted(pids))


class TotalSettings(Struct, frozen=True, kw_only=True):
    """Everything that can be set for a group at level `total`. Names are unique across the parts."""

    merge: MergeSettings = MergeSettings()
    timing: Timing = Timing()
    limits: MergeLimits = MergeLimits()

    def __post_init__(self) -> None:
        self.stamp_clock()  # a kn that does not fit the key is refused here
        ticks, tick_ns = self.timing.delta + self.timing.epsilon, self.merge.tick_ns
        if ticks * tick_ns > MERGE_WAIT_NS_MAX:
            raise SettingError(
                f"delta + epsilon must be at most {MERGE_WAIT_NS_MAX // tick_ns:,} ticks of {tick_ns:,} ns, not "
                f"{ticks:,}: every event waits that long for its turn, and an hour is the limit"
            )
        if self.timing.bounded:
            raise SettingError(
                "bounded must be 0 in a group: a stream is resumed from stamps older than any bound of clocks"
            )

    def stamp_clock(self) -> "StampClock[object]":
        """Make the stamps this group uses."""
        made: object = Hlc(self.timing) if self.merge.stamp == "hlc" else Kn(self.timing)
        return made  # type: ignore[return-value]

    @property
    def resend_ns(self) -> int:
        """Return the time between two copies of the same publication."""
        return max(self.merge.tick_ns, self.timing.delta * self.merge.tick_ns // (self.merge.resends + 1))

    @property
    def patience_ns(self) -> int:
        """Return how long a member may be silent before others act on it."""
        return self.merge.patience_beats * self.merge.beat_ns

    def first_roles(self, founders: Sequence[int]) -> RoleTable:
        """Return who merges and relays in a group that begins with these members: the lowest, because they have
        measured nothing of each other yet."""
        pids = sorted(dict.fromkeys(founders))
        mergers = self.merge.named() or tuple(pids[: self.merge.mergers])
        others = [pid for pid in pids if pid not in mergers]
        return RoleTable(FIRST_TERM, mergers, tuple(others[: self.merge.relays]))
