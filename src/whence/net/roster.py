"""Where connected peers stand to the groups that are open here, as they say themselves.

Law: only groups that are open here are remembered, and only what peers say that are connected now; so what a peer can
make a node remember is bounded by what the node itself has open. Whoever opens a group says so to everybody, and those
in it answer.
"""

from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from whence.core.level import Shared
from whence.core.links.presence import Place, Presence
from whence.errors import printable
from whence.net.role import Role
from whence.types import Process


class Said(NamedTuple):
    """A peer's last word on a group."""

    presence: Presence
    process: Process
    """What the peer is called in this group."""


class Roster:
    """What peers said, group by group."""

    def __init__(self) -> None:
        self._said: dict[str, dict[int, Said]] = {}
        self._marks: dict[str, str] = {}
        """Level and mark of the settings with which each group is open here."""

    def open(self, role: Role) -> None:
        """Begin to listen for a group."""
        self._said[role.group] = {}
        self._marks[role.group] = configuration(role)[0]

    def close(self, group: str) -> None:
        """Forget a group."""
        self._said.pop(group, None)

    def hear(self, group: str, peer: Process, presence: Presence) -> bool:
        """Remember a peer's word on an open group; return whether it is the first since it is connected."""
        said = self._said[group]
        first = peer.pid not in said
        said[peer.pid] = Said(presence, peer)
        return first

    def forget(self, group: str, pid: int) -> None:
        """Forget a peer that has left a group, or never came."""
        self._said[group].pop(pid, None)

    def disconnected(self, pid: int) -> None:
        """Forget a peer in every group."""
        for said in self._said.values():
            said.pop(pid, None)

    def here(self, group: str) -> list[int]:
        """Return the peers that are members or want to be."""
        return list(self._said.get(group, ()))

    def members(self, group: str) -> list[Said]:
        """Return what members said."""
        return [said for said in self._said.get(group, {}).values() if said.presence.place == Place.MEMBER]

    def alike(self, group: str) -> list[int]:
        """Return the members that run the group as it is run here."""
        return [said.process.pid for said in self.members(group) if said.presence.level == self._marks[group]]

    def wanting(self, group: str) -> list[int]:
        """Return who wants to be a member."""
        return [pid for pid, said in self._said.get(group, {}).items() if said.presence.place == Place.WANTS]

    def member(self, group: str, pid: int) -> Process | None:
        """Return what a peer is called in a group that it is a member of."""
        said = self._said.get(group, {}).get(pid)
        return said.process if said is not None and said.presence.place == Place.MEMBER else None

    def boot(self, group: str, pid: int) -> int:
        """Return the life of a peer in a group; 0 if it has said nothing."""
        said = self._said.get(group, {}).get(pid)
        return said.process.boot if said is not None else 0


def shared(role: Role) -> dict[str, object]:
    """Return the settings that all members must share, at levels that have such."""
    tell = role.recipe.shared if isinstance(role.recipe, Shared) else None
    return tell(role.settings) if tell is not None else {}


def configuration(role: Role) -> tuple[str, bytes]:
    """Return a level with a mark of the settings that all its members must share, and these settings as JSON."""
    settings = shared(role)
    text = msgspec.json.encode(settings)
    return f"{role.level}#{crc32(text):08x}" if settings else role.level, text if settings else b""


def disagreement(role: Role, said: Said) -> str | None:
    """Return the sentence that says how a peer runs a group otherwise than this process; None if it does not."""
    mark, _ = configuration(role)
    if said.presence.level == mark:
        return None
    who, group = f"process {said.process.pid}", f"group {role.group!r}"
    level = printable(said.presence.level.partition("#")[0])
    if level != role.level:
        return f"{group} runs at level {level} at {who}, not {role.level}"
    here, there = msgspec.to_builtins(shared(role)), _settings_of(said.presence)
    for name, value in here.items():
        if name in there and there[name] != value:
            return (
                f"{group} runs with {name}={printable(str(there[name]))} at {who}, and with {name}={value} here; all "
                "members must have the same: give the same settings everywhere"
            )
    return f"{group} runs with other settings at {who} than given here; members share {', '.join(here)}"


def _settings_of(presence: Presence) -> dict[str, Any]:
    try:
        return msgspec.json.decode(presence.settings, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
