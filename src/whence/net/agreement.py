"""Whether members run a group alike: at the same level, with the same values of the settings that all must share."""

import math
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from whence.core.level import Shared
from whence.core.links.presence import Presence
from whence.core.member import Living
from whence.core.settings import SECONDS_MAX, seconds
from whence.epochs import NUMBER_BITS, is_foreign
from whence.errors import printable
from whence.net.context import GroupContext
from whence.net.peers import PeerPresence, PeerTable

if TYPE_CHECKING:
    from whence.net.driver import Driver


REMOVE_AFTER, MEMBERS = "remove_after_s", "members"


def shared(context: GroupContext) -> dict[str, object]:
    """Return the settings that all members must share; none at levels without such settings."""
    tell = context.spec.shared if isinstance(context.spec, Shared) else None
    return tell(context.settings) if tell is not None else {}


def configuration(context: GroupContext) -> tuple[str, bytes]:
    """Return a level with a fingerprint of the settings that all its members must share, and these settings as JSON."""
    settings = shared(context)
    text = msgspec.json.encode(settings)
    return f"{context.level}#{crc32(text):08x}" if settings else context.level, text if settings else b""


def announced(driver: "Driver") -> tuple[str, bytes]:
    """Return the same of a member; in a living group, also who is in its view, and after how long it has a silent one
    removed, though nobody need have said that. One that has come back and was not told yet does not know."""
    mark, text = configuration(driver.context)
    if not isinstance(driver.member, Living):
        return mark, text
    told: dict[str, object] = {MEMBERS: driver.view_pids} if driver.view_pids else {}
    if driver.knows_removal:
        told[REMOVE_AFTER] = seconds(driver.member.remove_after_ns)
    return mark, msgspec.json.encode(shared(driver.context) | told)


def agree(driver: "Driver", presence: Presence) -> None:
    """Do as another member does about silent ones, unless this one began the group, was told already, or was given
    something itself."""
    after_ns = removal_in(presence)
    if isinstance(driver.member, Living) and not driver.knows_removal and after_ns is not None:
        driver.member.agree(after_ns)
        driver.knows_removal = True


def stand_by_removal(driver: "Driver", peers: PeerTable) -> None:
    """Let a member that nobody told go on doing what it does about silent ones, unless a connected one is about to tell
    it."""
    linked = [pid for pid in driver.others() if peers.is_connected(pid)]
    driver.knows_removal |= all(peers.presence(driver.group, pid) is not None for pid in linked)


def others_in(presence: Presence, me: int) -> int:
    """Return how many members a member of a living group has in its view, beside the one whose place a process of this
    number would take; 0 if it does not say."""
    told = _settings_of(presence).get(MEMBERS)
    return len([pid for pid in told if pid != me]) if isinstance(told, list) else 0


def removal_in(presence: Presence) -> int | None:
    """Return after how many ns a member of a living group has a silent one removed, 0 for never; None if it does not
    say."""
    told = _settings_of(presence).get(REMOVE_AFTER)
    try:
        after_s = float(told) if isinstance(told, str) else -1.0
    except ValueError:
        return None
    if math.isinf(after_s):
        return 0
    return int(after_s * 1e9) if 0 < after_s <= SECONDS_MAX else None


def disagreement(context: GroupContext, said: PeerPresence, who: str) -> str | None:
    """Return a sentence that says how a peer's configuration of a group differs from ours; None if it does not. `who`
    is how messages call the peer. What only one of them says something about does not differ."""
    mark, _ = configuration(context)
    if said.presence.level == mark and not said.presence.settings:
        return None
    group = f"group {context.group!r}"
    level = printable(said.presence.level.partition("#")[0])
    if level != context.level:
        return f"{group} runs at level {level} at {who}, not {context.level}"
    here, there = msgspec.to_builtins(shared(context)), _settings_of(said.presence)
    for name, value in here.items():
        if name in there and there[name] != value:
            return (
                f"{group} runs with {name}={printable(str(there[name]))} at {who}, and with {name}={value} here; all "
                "members must have the same: give the same settings everywhere"
            )
    if there or said.presence.level == mark:
        return None
    return f"{group} runs with other settings at {who} than given here; members share {', '.join(here)}"


def separation(driver: "Driver", said: PeerPresence) -> str | None:
    """Return a sentence that says that a peer is in another group of the same name; None if it is in the same."""
    member = driver.member
    if not isinstance(member, Living) or not are_separate(member.line, said.presence.line):
        return None
    here = ", ".join(str(driver.named(pid)) for pid in driver.view_pids or (driver.context.me.pid,))
    return two_groups(driver.group, here, str(driver.named(said.process.pid)))


def are_separate(line: int, other: int) -> bool:
    """Tell whether members are in different groups of one name; 0: not known."""
    return bool(line and other) and is_foreign(line << NUMBER_BITS, other << NUMBER_BITS)


def two_groups(group: str, here: str, there: str) -> str:
    """Say that two groups have one name, and what to do."""
    return (
        f"there are two groups named {group!r}, begun or forced separately: process {here} in one, {there} in the "
        "other. They never become one: choose which is to stay, close the group at all members of the other, delete "
        "their data directories if they have any, and open it there again with contacts in the one that stays"
    )


def _settings_of(presence: Presence) -> dict[str, Any]:
    try:
        return msgspec.json.decode(presence.settings, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
