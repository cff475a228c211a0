"""Who may read, write or administer which group.

A group without an entry is open to every member of the cluster; one with an entry is closed to all that it does not
name. Reading: items of the group are sent to the peer and accepted from it. Writing: bundles that the peer published
are accepted, whichever peer relays them, and a process without the right publishes nothing itself; a ticket, which
writing needs at level `optimistic`, is requested and granted only with it. Administering: an operator's statement
through this process (declare_dead, remove, force) is accepted. A peer that has a name has the rights of its name, one
that has none those of its pid. Either is worth as much as what proves it: with TLS its certificate, without TLS its
mere claim.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from whence.core.links.process_names import called, is_name
from whence.core.ready import Item
from whence.errors import UsageError
from whence.types import Bundle
from whence.wire.items import Packet

RIGHTS = {"r": "read", "w": "write", "a": "administer"}

ACTS = {
    "publish": "write", "acquire_ticket": "write", "release_ticket": None, "declare_dead": "administer",
    "remove": "administer", "force": "administer", "switch": None,
    "topic": None, "subscribe": None,
}  # fmt: skip
"""All acts of a process in a live group, with the right that each needs, if any. Members know more acts: faults that
the simulator injects. Those cannot be reached here."""


class Permits:
    """The table of rights: group to name or pid to rights."""

    def __init__(self, table: Mapping[str, Mapping[Any, str]] | None = None) -> None:
        """Read a table such as {"alps": {"billing-1": "rw", 2: "r"}}. Raises UsageError for unknown rights."""
        self.name_of: Callable[[int], str] = lambda pid: ""
        """Returns the name of a process, empty where it has none: set by the node."""
        self._rights: dict[str, dict[int | str, frozenset[str]]] = {}
        _check_table(table)
        for group, rights in (table or {}).items():
            for who, letters in rights.items():
                unknown = [letter for letter in letters if letter not in RIGHTS]
                if unknown:
                    raise UsageError(f"rights are r, w and a, not {unknown[0]!r} (group {group!r}, process {who})")
            self._rights[group] = {
                int(who) if str(who).isdecimal() else who: frozenset(RIGHTS[letter] for letter in letters)
                for who, letters in rights.items()
            }
        self.closed = frozenset(self._rights)
        """The groups that have an entry, and so are closed to all that it does not name."""

    def may(self, pid: int, group: str, right: str) -> bool:
        """Tell whether a peer has a right in a group."""
        rights = self._rights.get(group)
        return rights is None or right in rights.get(self.name_of(pid) or pid, frozenset())

    def check_act(self, pid: int, group: str, act: str) -> None:
        """Raise UsageError if a process may not perform an act in a group."""
        if act not in ACTS:
            raise UsageError(f"a live group knows no act {act!r}; there are {', '.join(ACTS)}")
        needed = ACTS[act]
        if needed is not None and not self.may(pid, group, needed):
            who = called(pid, self.name_of(pid))
            raise UsageError(f"{who} may not {act} in group {group!r}: it has no right to {needed}")

    def admits(self, packet: Packet) -> bool:
        """Tell whether the sender may read the group, and the publisher of everything it brings may write."""
        if not self.may(packet.pid, packet.group, "read"):
            return False
        authors = {bundle.pid for item in packet.items for bundle in bundles_in(item)}
        if any(item.asks_to_write for item in packet.items):
            authors.add(packet.pid)
        return all(self.may(pid, packet.group, "write") for pid in authors)


def bundles_in(item: Item) -> Iterator[Bundle]:
    """Yield the bundles an item carries, whatever its kind."""
    for name in item.__struct_fields__:
        value = getattr(item, name)
        if isinstance(value, Bundle):
            yield value
        elif isinstance(value, list | tuple):
            yield from (each for each in value if isinstance(each, Bundle))


def _check_table(table: object) -> None:
    """Raise UsageError for a value that is not a table of rights."""
    if table is None:
        return
    if not isinstance(table, Mapping) or not all(
        isinstance(group, str)
        and isinstance(rights, Mapping)
        and all(
            (str(who).isdecimal() or (isinstance(who, str) and is_name(who))) and isinstance(letters, str)
            for who, letters in rights.items()
        )
        for group, rights in table.items()
    ):
        raise UsageError(f"permits are a table such as {{'alps': {{'billing-1': 'rw', 2: 'r'}}}}, not {table!r}")
