"""The greeting: both ends of a new connection say who they are, and prove that they speak to each other now.

Promises: a connection counts only after the peer has named itself (pid, incarnation, name), speaks our version, belongs
to our cluster and has repeated the nonce we drew for this connection. Bytes recorded elsewhere or earlier carry another
nonce, and a connection that reached the wrong process is meant for another pid: both are refused.
Assumes: nothing of the network. Who may claim which pid or name is decided by TLS (net/tls.py), not by this file.
The sentence that decides: a link is up when the peer has confirmed the nonce of our own hello.
Of two processes with one name, or one number without a name, the earlier incarnation stays. Of two names with one
number, the process that cannot take another number stays; if both can, or neither, the earlier incarnation does.
Costs: one and a half round trips and some 120 bytes for each connection.
"""

import re
from enum import Enum, IntEnum
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from whence import limits
from whence.core.links.process_names import NAME_CHARS_MAX, called, is_name
from whence.core.ready import Item
from whence.errors import RemoteProtocolError
from whence.types import Incarnation, PeerId, Process

VERSION = 5
"""Of everything below the groups. Two versions do not talk to each other."""

NONCE_BYTES = 16
INSTANCE_BYTES_MAX = 8
HOST_CHARS_MAX = 253
"""As long as a host name may be."""
CLUSTER_CHARS_MAX = 64

Host = Annotated[str, Meta(max_length=HOST_CHARS_MAX)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Nonce = Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
Name = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]


_HOST = re.compile(r"[\w-]{1,63}(\.[\w-]{1,63})*\.?|(?=.*:.*:)[0-9a-fA-F:.]{2,45}(%[\w.-]{1,15})?", re.ASCII)
"""Labels with dots between, as in names and IPv4 addresses; or an IPv6 address, with a zone if need be."""


def is_host(name: str) -> bool:
    """Tell whether a text has the form of a host name or an address: nothing else ever reaches a resolver."""
    return len(name) <= HOST_CHARS_MAX and _HOST.fullmatch(name) is not None


def host_port(host: str, port: int) -> str:
    """Return an address as text; the colons of an IPv6 address are set apart from the port's."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Hello(Item, frozen=True, tag=110):
    """This is who I am, where others reach me, and the nonce you must repeat."""

    version: Annotated[int, Meta(ge=0, le=255)]
    cluster: Annotated[str, Meta(max_length=CLUSTER_CHARS_MAX)]
    nonce: Nonce
    host: Host
    """Empty: the address the connection came from."""
    port: Port
    """0: nobody can call me."""
    instance: Annotated[bytes, Meta(max_length=INSTANCE_BYTES_MAX)] = b""
    """Drawn when the process started: two processes with the same name differ in it. Empty: unknown."""
    name: Name = ""
    """Empty: the process goes by its number alone."""
    fixed: bool = True
    """It cannot take another number: this one was given to it, or groups know it by this one."""


class Confirm(Item, frozen=True, tag=111):
    """I received your hello, and you are the process I meant."""

    echo: Nonce
    pid: PeerId
    incarnation: Incarnation


class Why(IntEnum):
    """Why a process is refused under the name and number it gives."""

    TAKEN = 1
    """Another process of that name, or of that number without a name, is connected, and has answered."""
    CALL_AGAIN = 2
    """Another one is connected, and is being asked whether it still runs."""
    SUPERSEDED = 3
    """A later incarnation of it is known."""
    REUSED = 4
    """Another process had that name in the same incarnation."""
    NUMBER_USED = 5
    """The number is that of a process with another name."""


class Refused(Item, frozen=True, tag=120):
    """You cannot be who you say you are; `incarnation` is the one that is known here."""

    why: Annotated[int, Meta(ge=0, le=255)]
    incarnation: Incarnation
    name: Name = ""
    host: Host = ""
    port: Port = 0
    """The name of the process that is known here, and where it is reached; empty where that is unknown."""

    def is_valid(self) -> bool:
        """Tell whether the name and the host have the form of such."""
        return (not self.name or is_name(self.name)) and (not self.host or is_host(self.host))

    def sentence(self, me: Process, name: str, peer: str) -> str:
        """Return it as a sentence for the operator of the process that was refused; `peer` says who refuses it."""
        at = f" at {host_port(self.host, self.port)}" if self.host and self.port else ""
        this, mine = called(me.pid, name), f"named {name}" if name else f"{me.pid}"
        match self.why:
            case Why.TAKEN:
                what = "a name; give this one another name" if name else "a number; give this one another pid"
                return (
                    f"another process {mine} runs{at}, in incarnation {self.incarnation}, and answers {peer}: two "
                    f"cannot share {what}, or end the other one"
                )
            case Why.CALL_AGAIN:
                return f"{peer} is connected to another process {mine}{at}, and asks whether it still runs"
            case Why.SUPERSEDED:
                return (
                    f"{peer} knows incarnation {self.incarnation} of {this}{at}, later than this one "
                    f"({me.incarnation}): it was started again elsewhere, or the clock here was set back; end this "
                    "process, or set the clock right and start it again"
                )
            case Why.REUSED:
                return (
                    f"{peer} knows another process {mine} with the same incarnation {self.incarnation}: start this one "
                    f"again, or give it another {'name' if name else 'pid'}"
                )
            case Why.NUMBER_USED:
                what = (
                    "start this one again while a contact is up, and it takes another number; if its data directory "
                    "has groups, which know it by this number, it needs another name and another directory"
                    if name
                    else "give this one another pid"
                )
                other = self.name or "of a process without a name"
                return f"{peer} knows number {me.pid}, which {this} uses too, as {other}{at}: {what}"
            case _:
                return f"{peer} refuses {this} for a reason that a later version knows"

    @property
    def is_final(self) -> bool:
        """Tell whether calling again does not help."""
        return self.why != Why.CALL_AGAIN


class Stage(Enum):
    """How far a greeting has come."""

    SILENT = "silent"
    NAMED = "named"
    UP = "up"
    REFUSED = "refused"


STEPS: dict[Stage, tuple[Stage, ...]] = {
    Stage.SILENT: (Stage.NAMED, Stage.REFUSED),
    Stage.NAMED: (Stage.UP, Stage.REFUSED),
    Stage.UP: (),
    Stage.REFUSED: (),
}


class Greeting:
    """One end of one connection until it is up."""

    def __init__(
        self, me: Process, cluster: str, nonce: bytes, expected: int | None, host: str, port: int,
        instance: bytes = b"", name: str = "", *, fixed: bool = True,
    ) -> None:  # fmt: skip
        """Begin to greet; `expected` is the pid that was called, or None if anyone may answer. `fixed`: this process
        cannot take another number."""
        self.me, self.name = me, name
        self.seen_host = ""
        """The address that the connection comes from or leads to."""
        self.peer: Process | None = None
        self.peer_hello: Hello | None = None
        self.refusal: Refused | None = None
        """What the peer said instead of confirming, or would say."""
        self.retort: Refused | None = None
        """What to send the peer before the connection is closed."""
        self.stage = Stage.SILENT
        self.nonce = nonce
        self.is_own = False
        """The connection leads back to the process that made it."""
        self._cluster = cluster
        self._expected = expected
        self._endpoint, self._instance, self._fixed = (host, port), instance, fixed

    def hello(self) -> Hello:
        """Return the first item to send."""
        return Hello(VERSION, self._cluster, self.nonce, *self._endpoint, self._instance, self.name, self._fixed)

    def receive(self, sender: Process, item: Item) -> list[Item]:
        """Take the peer's next item; return what to answer. Raises RemoteProtocolError: close the connection."""
        try:
            if isinstance(item, Refused) and self.stage in (Stage.SILENT, Stage.NAMED):
                name = self.peer_hello.name if self.peer_hello is not None else ""
                is_holder = sender.pid == self.me.pid or (name and name == self.name)
                self.refusal = replace(item, host=self.seen_host) if is_holder and not item.host else item
                raise RemoteProtocolError(self.refusal.sentence(self.me, self.name, called(sender.pid, name)))
            if self.stage is Stage.SILENT:
                return self._named(sender, item)
            self._confirmed(sender, item)
        except RemoteProtocolError:
            self.stage = Stage.REFUSED
            raise
        return []

    def _named(self, sender: Process, item: Item) -> list[Item]:
        if not isinstance(item, Hello):
            raise RemoteProtocolError(f"a connection begins with a Hello, not with a {type(item).__name__}")
        if item.version != VERSION:
            raise RemoteProtocolError(f"the peer speaks version {item.version}, and we speak {VERSION}")
        if item.cluster != self._cluster:
            raise RemoteProtocolError(f"the peer belongs to cluster {item.cluster!r}, and we to {self._cluster!r}")
        if sender.pid == self.me.pid and self._instance and item.instance == self._instance:
            self.peer_hello, self.is_own = item, True
            raise RemoteProtocolError("this process has called itself")
        if item.name and not is_name(item.name):
            raise RemoteProtocolError(f"the peer calls itself {item.name!r}, which is no name of a process")
        if item.host and not is_host(item.host):
            raise RemoteProtocolError(f"the peer says that it is reached at {item.host!r}, which is no host name")
        if not 1 <= sender.incarnation <= limits.INCARNATION_MAX:
            raise RemoteProtocolError("the peer has no incarnation: real ones begin at 1")
        if sender.pid == self.me.pid or (self.name and item.name == self.name):
            self._share(sender, item)
        if self._expected is not None and sender.pid != self._expected:
            raise RemoteProtocolError(f"{self._expected} was called, and {sender.pid} answered")
        self.peer, self.peer_hello, self.stage = sender, item, Stage.NAMED
        return [Confirm(item.nonce, *sender)]

    def _share(self, sender: Process, item: Hello) -> None:
        """Decide which of two processes with one name or number stays. Raises RemoteProtocolError."""
        mine, theirs = (self.me.incarnation, self._instance), (sender.incarnation, item.instance)
        it_stays, why = theirs <= mine, Why.TAKEN
        if item.name != self.name:
            it_stays, why = (not item.fixed, *theirs) <= (not self._fixed, *mine), Why.NUMBER_USED
        if it_stays:
            self.refusal = Refused(why, sender.incarnation, item.name, item.host or self.seen_host, item.port)
            raise RemoteProtocolError(self.refusal.sentence(self.me, self.name, called(sender.pid, item.name)))
        self.retort = Refused(why, self.me.incarnation, self.name, *self._endpoint)
        ours = "pid" if sender.pid == self.me.pid else "name"
        raise RemoteProtocolError(f"the peer calls itself {called(sender.pid, item.name)}, which is our own {ours}")

    def _confirmed(self, sender: Process, item: Item) -> None:
        if self.stage is not Stage.NAMED or not isinstance(item, Confirm):
            raise RemoteProtocolError(f"a {type(item).__name__} is out of place in a greeting")
        if sender != self.peer:
            raise RemoteProtocolError("the peer changed its name in the middle of the greeting")
        if item.echo != self.nonce:
            raise RemoteProtocolError("the peer confirmed another connection's hello: a replay")
        if (item.pid, item.incarnation) != self.me:
            raise RemoteProtocolError(
                f"the peer meant process {item.pid} in incarnation {item.incarnation}: misdirected"
            )
        self.stage = Stage.UP
