"""The settings of a live node, with what each bound costs and what happens when it is reached."""

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec
from msgspec import structs

from whence.core.dissemination.direct import EVERYBODY_KNOWN
from whence.core.level import ByViews, Live
from whence.core.links.detector import DetectorSettings
from whence.core.registry import LEVELS
from whence.core.settings import is_seconds, names_in
from whence.errors import SettingError
from whence.trace.segments import SEGMENT_BYTES, SEGMENTS_MAX


class NetSettings(DetectorSettings, frozen=True, kw_only=True):
    """How a node talks to its peers and watches them. Raises SettingError where a value cannot work."""

    cluster: str = "whence"
    """Nodes of another cluster are refused: a test that finds a production port must not join it."""
    outbox_bytes_max: int = 32 << 20
    """Bytes waiting for one connected peer. Full: action `cut`, the link is closed and what waited is dropped; the peer
    recovers by its level's own means."""
    outbox_high_bytes: int = 1 << 20
    """Over it, publishers of all groups wait (back-pressure) until the peer has caught up or is cut off."""
    pending_bytes_max: int = 4 << 20
    """Bytes waiting for a peer that is not connected yet. Full: action `drop`, the oldest frames are dropped first."""
    stall_ns: int = 10_000_000_000
    """A connected peer that takes nothing for this long while something waits is cut off."""
    greeting_ns: int = 5_000_000_000
    """A connection that has not greeted by then is closed: half-open and slow peers occupy nothing for longer."""
    call_ns: int = 5_000_000_000
    """A call (TCP, TLS) that is not established by then has failed."""
    alone: bool = False
    """Start before any contact has answered, and go on calling them: for nodes whose groups name them as founders."""
    retry_ns: int = 50_000_000
    """First pause before a failed call is tried again; doubled at each failure."""
    retry_ns_max: int = 5_000_000_000
    """Longest pause between two calls."""
    strangers_max: int = 64
    """Connections that have not greeted yet. Full: further ones are closed at once."""
    links_max: int = 1024
    """Connections in all. Full: further ones are closed at once."""
    linger_ns: int = 2_000_000_000
    """Of two connections between two processes one is idle; it is closed after this time."""
    udp: bool = False
    """Send gossip that fits a datagram over UDP: groups at levels that can gossip are then opened with spread=gossip,
    and the others still use connections. Not with TLS: datagrams are not encrypted."""
    otel: bool = False
    """Count what groups publish and deliver with OpenTelemetry. Needs the extra `otel`; costs a few µs per bundle."""
    trace_segment_bytes: int = SEGMENT_BYTES
    trace_segments_max: int = SEGMENTS_MAX
    """Trace files of each group, each of `trace_segment_bytes` bytes. Full: action `drop`, the oldest file is removed,
    and `whence gather` reports that rows are lost."""
    trace_payloads: bool = False
    """Write payloads into traces too, so that what a group says can be processed and merged later. They are as readable
    there as any file of this user's."""
    detector: DetectorSettings | None = None
    """The settings of the failure detector in one object, for programs that give them so: they replace those above."""

    def __post_init__(self) -> None:
        if self.detector is not None:
            if not isinstance(self.detector, DetectorSettings):
                raise SettingError(f"detector is whence.DetectorSettings(…), not {self.detector!r}")
            for name in DetectorSettings.__struct_fields__:
                structs.force_setattr(self, name, getattr(self.detector, name))
            structs.force_setattr(self, "detector", None)
        super().__post_init__()
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise SettingError(f"{name} must be at least 1, not {value}")
        if not 1 <= len(self.cluster) <= 64:
            raise SettingError(f"cluster must have 1 to 64 characters, not {len(self.cluster)}")
        if self.outbox_high_bytes >= self.outbox_bytes_max:
            raise SettingError("outbox_high_bytes must be below outbox_bytes_max, or publishers never wait")


def net_settings_from(given: Mapping[str, object]) -> NetSettings:
    """Make settings from values by name, as text or typed. Raises SettingError that names the setting."""
    known = set(NetSettings.__struct_fields__) - {"detector"}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SettingError(f"no network setting is called {unknown[0]!r}; there are: {', '.join(sorted(known))}")
    try:
        return msgspec.convert(given, NetSettings, strict=False)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        raise SettingError(f"{where.rstrip('`').rpartition('.')[2] or 'network settings'}: {what}") from None


SIMULATED = {
    "view": ("full", "only a simulator can tell everybody of everybody: leave view out, and set view_size"),
    "groups": (None, "a live group is one group of all its founders: leave groups out, and open a group for each"),
    "journal": (None, "a member has a journal if its node has a data directory (data=…): leave journal out"),
    "processes": (None, "who the members are is said by founders: leave processes out"),
}
"""Settings that a live group cannot have: the value, or any but the default, and what to do instead."""


def settings_of(
    level: str, founders: Sequence[int], given: Mapping[str, object], *, data: bool = False, udp: bool = False
) -> dict[str, object]:
    """Return what a live group is opened with: what the caller says, defaults, and what follows from its founders and
    from whether this node has a data directory.

    Raises SettingError where the level cannot do without founders, and for what only a simulator can do.
    """
    spec: object = LEVELS.get(level)
    _check_live(given)
    _check_level(level, given)
    chosen: dict[str, object] = spec.live_settings(founders, given, data=data) if isinstance(spec, Live) else {}
    if udp and EVERYBODY_KNOWN.items() <= chosen.items():
        chosen["spread"] = "gossip"
        if given.get("spread", "gossip") != "gossip":
            raise SettingError(
                "spread: this node is set to send over UDP, and only gossip goes there; leave "
                f"spread={given['spread']} out, or turn udp off"
            )
    return chosen | dict(given)


def _check_level(level: str, given: Mapping[str, object]) -> None:
    """Raise SettingError for a setting that another level has, and this one has not."""
    if level not in LEVELS or set(given) <= (here := _known_to(level)):
        return
    for name in given:
        others = [other for other in LEVELS if name in _known_to(other)]
        if name not in here and others:
            listed = f"level {others[0]}" if len(others) == 1 else f"levels {', '.join(others)}"
            raise SettingError(f"{name} is a setting of {listed}, and this group is at level {level}: leave it out")


@cache
def _known_to(level: str) -> frozenset[str]:
    """Return the names of a level's settings; a time in seconds may be given for one in ns."""
    spec = LEVELS[level]
    choices: list[dict[str, object]] = [{}, spec.with_views] if isinstance(spec, ByViews) else [{}]
    names = {name for given in choices for name in names_in(type(spec.settings_from(given)))}
    return frozenset(names | {f"{name[:-2]}s" for name in names if name.endswith("_ns")})


def _check_live(given: Mapping[str, object]) -> None:
    for name in given:
        if is_seconds(name) and (other := f"{name[:-1]}ns") in given:
            raise SettingError(f"{name} and {other} are one setting, in two units: give one of them")
    for name, (value, what) in SIMULATED.items():
        if name in given and (given[name] == value or (value is None and given[name] != "all")):
            raise SettingError(f"{name}={given[name]}: {what}")
