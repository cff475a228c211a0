"""The entry point: join a cluster, open a group at a level, publish, iterate deliveries, close.

async with whence.join("billing-1", listen="127.0.0.1:0", contacts=["127.0.0.1:4000"]) as node:
    group = await node.open("alps", level="fifo")
    await group.publish(b"hello")
    async for delivery in group:
        ...
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec import structs

from whence.api.arguments import (
    check_callable,
    check_count,
    check_directory,
    check_flag,
    check_path,
    check_seconds,
    check_settings,
    check_socket,
    check_timeout,
    processes_of,
    texts_of,
)
from whence.api.delivery import Batch
from whence.api.group import Group
from whence.api.inbox import Ack, Inbox, Overflow
from whence.api.numbering import Numbering
from whence.api.publisher import FLUSH_S_MAX
from whence.core.links.greeting import HOST_CHARS_MAX, host_port, is_host
from whence.errors import (
    ClosedError,
    EventsLostError,
    JoinError,
    NameTakenError,
    RemovedError,
    SettingError,
    UsageError,
    WhenceError,
)
from whence.net.driver import Driver
from whence.net.founders import check_founders, numbers_of
from whence.net.names import NumberUsedError
from whence.net.node import LiveNode
from whence.net.permits import Permits
from whence.net.settings import NetSettings
from whence.net.status_client import status_path
from whence.net.status_server import Served, serve_metrics, serve_status
from whence.net.tls import Safety

log = logging.getLogger("whence.net")

PUBLISH_WAIT_S = OPEN_S = 30.0
"""How long a publish waits for room, and `open` for a group. A dead member of a living group without a data directory
is removed much sooner (REMOVE_AFTER_NS in core/views/settings.py): whoever waits for it goes on, and does not give up.
"""


class Node:
    """A process of a cluster; an async context manager. Made by `join`."""

    def __init__(
        self,
        make: Callable[[int, bool], LiveNode],
        numbering: Numbering,
        listen: tuple[str, int],
        contacts: list[tuple[str, int]],
        advertise: tuple[str, int] | None = None,
        *,
        status: Path | str | bool = False,
        metrics: tuple[str, int] | None = None,
    ) -> None:
        """`make` makes a running node with a pid, given whether it may still take another."""
        self._make, self._numbering = make, numbering
        self._listen, self._contacts, self._advertise = listen, contacts, advertise
        self._status, self._metrics = status, metrics
        self._servers: list[Served] = []
        self._live: LiveNode | None = None
        self._moving: asyncio.Task[None] | None = None
        """Set while this process takes another pid."""
        self._started = False
        self.groups: dict[str, Group] = {}

    @property
    def live(self) -> LiveNode:
        """Return the running node. Raises ClosedError before it starts and after it is closed."""
        if self._live is None:
            raise ClosedError("the node is not running; use it inside `async with whence.join(...)`")
        return self._live

    @property
    def pid(self) -> int:
        """Return the pid of this process: its number on the wire and in traces."""
        return self.live.me.pid

    @property
    def name(self) -> str:
        """Return the name of this process; empty if it was given a pid alone."""
        return self.live.name

    @property
    def address(self) -> str:
        """Return host:port where others can reach this node."""
        host, port = self.live.connections.endpoint
        return host_port(host or self._listen[0], port)

    async def __aenter__(self) -> "Node":
        """Listen and reach a contact. Raises JoinError, StorageError, UsageError."""
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def _start(self) -> None:
        """Start with the first number that is no other name's, as far as the contacts know."""
        self._started = False
        while True:
            number = self._numbering.current()
            self._live = live = self._make(number, self._numbering.may_move)
            live.on_number_used = self._number_used
            try:
                await live.start(*self._listen, self._contacts, self._advertise)
                break
            except NumberUsedError:
                self._keep_port(live)
                await live.close()
                if not self._numbering.advance():
                    raise
        await self._serve(live)
        self._started = True

    def _number_used(self) -> None:
        """Take another number: the one that this process has started with turned out to be another name's."""
        if self._started:
            self._moving = asyncio.ensure_future(self._move())

    def _keep_port(self, live: LiveNode) -> None:
        """Listen at the same port again: others may have been told the address."""
        self._listen = (self._listen[0], live.connections.port)

    async def _move(self) -> None:
        self._stop_serving()
        self._keep_port(self.live)
        await self.live.close()
        try:
            if self._numbering.advance():
                await self._start()
        except WhenceError as error:
            log.error("this node stops: %s", error)
            if self._live is not None:
                await self._live.close()
                self._live.failure = self._live.failure or NameTakenError(str(error))
        finally:
            self._moving = None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every group and connection.

        After an error, do so without waiting for what the members do not take, and without taking what the application
        was handed.
        """
        try:
            await self._close(patiently=kind is None)
        except EventsLostError:
            if kind is None:
                raise

    async def _serve(self, live: LiveNode) -> None:
        """Serve status and metrics where asked for; at the usual place unless another process has it."""
        if self._metrics is not None:
            self._servers.append(await serve_metrics(live, *self._metrics))
        if isinstance(self._status, Path | str):
            self._servers.append(await serve_status(live, Path(self._status)))
        elif self._status:
            try:
                self._servers.append(await serve_status(live, status_path(live.name or live.me.pid)))
            except JoinError as error:
                log.warning("%s; whence top cannot look at this process", error)

    async def close(self) -> None:
        """Close every group and connection; iterators end. What the application was handed is taken.

        What a member has not taken after its group's `publish_wait_s` is lost: EventsLostError is raised at the end.
        """
        await self._close(patiently=True)

    def _stop_serving(self) -> None:
        for served in self._servers:
            served.close()
        self._servers.clear()

    async def _close(self, *, patiently: bool) -> None:
        self._stop_serving()
        if self._moving is not None:
            self._moving.cancel()
            await asyncio.wait([self._moving])
        live, self._live = self._live, None
        if live is not None:
            await asyncio.gather(*[group.stop_leaving() for group in self.groups.values()])
            publishers = [group.publisher for group in self.groups.values()]
            for group in self.groups.values() if patiently else ():
                group.take_in_hand()
            self.groups.clear()
            await asyncio.gather(*[publisher.drain(patiently=patiently) for publisher in publishers])
            try:
                if patiently:
                    await live.part()
            finally:
                await live.close()
            for publisher in publishers:
                publisher.tell_lost()

    async def open(
        self,
        name: str,
        level: str = "fifo",
        *,
        settings: Mapping[str, Any] | None = None,
        founders: Sequence[int | str] = (),
        membership: str | None = None,
        order: str | None = None,
        create: bool | None = None,
        remove_after_s: float | None = None,
        lag_max_s: float | None = None,
        durable: bool = False,
        write: bool = False,
        receive: bool = True,
        inbox_events_max: int = 1 << 16,
        overflow: str = "pause",
        on_batch: Callable[[Batch], None] | None = None,
        ack: str = "next",
        flush_s: float = 0.0,
        publish_wait_s: float = PUBLISH_WAIT_S,
        on_lost: Callable[[EventsLostError], None] | None = None,
        timeout_s: float | None = OPEN_S,
    ) -> Group:
        """Become a member of a group at a level.

        `founders`, by name or pid, begin the group together, the same list at each of them: it begins when all of
        them are here, and waits for them at most `timeout_s` (None: without limit). Level `optimistic` needs at least
        three, whose acknowledgements tickets rest on; a tree at level `causal` has them as its only members; elsewhere
        a group that names none is begun by the first process that opens it, once its contacts have answered.
        At levels `causal` and `total` members join, leave and are removed (Group.leave, Group.remove, Group.view,
        Group.events), and `open` returns when the member is live. With a data directory a member is the same one after
        a restart, and founders need not be named again; without, one that is silent for `remove_after_s` (10 s; with a
        data directory never, unless given; inf: never) is removed; with `lag_max_s`, also one whose application lags
        for so long. Without founders, `create=True` begins such a group even if a contact does not answer, and False
        never does. Level `causal` has fixed members on a tree (`spread=tree` or another setting of trees, or more than
        16 founders), level `total` with `order="timed"` a merge that bounds its wait and may leave events out.
        `write` obtains a ticket at level `optimistic` and waits for it: without one a member only receives, until it
        calls `acquire_ticket`. With `order="timed"` it waits until a restarted process may publish. Elsewhere every
        member may.
        `durable` retains what is published here in the data directory until every member has it, so that `stored` can
        be awaited; at level `optimistic` and with `order="timed"`, which deliver in time or not at all, it is refused.
        `overflow` says what happens when the application does not take its deliveries: `pause` (publishers of this
        group wait: those here at `inbox_events_max`, until it takes some; the other members once 4 MiB are in flight to
        it, for 5 s: after that they go on without it until it takes something), `drop` (the oldest are dropped, and the
        next delivery reports the gap), `close` (the iterator raises SlowConsumerError).
        `on_batch` is called with every batch as soon as its turn has come, a little sooner than an iterator gets it. It
        must not take long: it blocks the loop. It may call `publish_nowait`. What it raises goes to the loop's
        exception handler, and deliveries go on. A batch is taken when the call returns.
        `ack` says when an event counts as taken: `next`, when the application asks for the next one, or `manual`, when
        it calls `ack`. Where members remember (`causal` and `total` with a data directory), their next incarnation
        begins with the first event that was not taken; elsewhere it only decides how long publishers wait. At most
        `inbox_events_max` events may wait to be acknowledged; asking for more raises LimitError.
        `on_lost` is called at once with the published events that are lost; the next publish raises the same.
        Where the member that this process was has been removed meanwhile, a new one joins, and `removed_while_away`
        of the group is the verdict on the former; with a data directory the next `open` that succeeds tells it.
        Raises UsageError, SettingError, JoinError, StorageError; RemovedError if it is removed again before it is in,
        or another of its name took its place; with `write`, what `acquire_ticket` raises: then the group is left again.
        """
        check_timeout(timeout_s)
        check_count("inbox_events_max", inbox_events_max)
        check_settings(settings)
        _check_lengths_of_time(flush_s, publish_wait_s)
        _check_each(check_callable, on_batch=on_batch, on_lost=on_lost)
        flags = {} if create is None else {"create": create}
        _check_each(check_flag, write=write, receive=receive, durable=durable, **flags)
        chosen = _merged(settings or {}, _living(membership, order, remove_after_s, lag_max_s))
        _check_create(name, create, begun_together=bool(given := processes_of("founders", founders)))
        new_inbox = partial(
            Inbox, str(level), inbox_events_max, Overflow.parse(overflow), receive=receive, on_batch=on_batch,
            ack=Ack.parse(ack),
        )  # fmt: skip
        new_inbox()  # what it refuses is refused before anything is waited for
        live, begin, timeout_s = await self._with_founders(name, level, given, chosen, timeout_s)
        driver, inbox, verdict = await _opened(
            live, new_inbox, name, chosen, founders=begin, create=create, durable=durable, timeout_s=timeout_s
        )
        group = Group(self, driver, inbox, flush_s=flush_s, wait_s=publish_wait_s, on_lost=on_lost, verdict=verdict)
        self.groups[name] = group
        return await _ready(group, timeout_s) if write else group

    async def _with_founders(
        self, group: str, level: str, founders: Sequence[int | str], settings: dict[str, Any], timeout_s: float | None
    ) -> tuple[LiveNode, list[int], float | None]:
        """Return the running node and the pids of a group's founders, once they are known, and the time that is left.

        Raises JoinError, SettingError.
        """
        now = asyncio.get_running_loop().time
        began = now()
        while True:
            if self._moving is not None:
                await asyncio.wait([self._moving], timeout=timeout_s)
            live = self.live
            try:
                if live.failure is not None:
                    raise live.failure
                check_founders(live, group, level, founders, settings)
                numbers = await numbers_of(live, group, founders, timeout_s)
                if timeout_s is None or all(isinstance(each, int) for each in founders):
                    return live, numbers, timeout_s  # nobody was waited for
                return live, numbers, max(0.0, timeout_s - (now() - began))
            except NumberUsedError:
                if self._moving is None:
                    raise


async def _opened(
    live: LiveNode, new_inbox: Callable[[], Inbox], name: str, chosen: dict[str, Any], **options: Any
) -> tuple[Driver, Inbox, RemovedError | None]:
    """Open a group; once more if it turns out that the member that this process was has been removed, as a new one.

    Returns also the verdict on the former member then, or that of an earlier attempt, which its journal keeps.
    """
    verdict: RemovedError | None = None
    while True:
        inbox = new_inbox()
        inbox.on_pause, inbox.rtt_ns = live.pause_for, live.peers.rtt_ns
        try:
            driver = await live.open(name, inbox.level, inbox, chosen, **options)
            return driver, inbox, verdict or driver.former
        except RemovedError as removed:
            if verdict is not None or removed.is_replaced:
                raise
            verdict = removed.while_away()
            log.warning("%s was removed from group %r while it was away, and joins anew: %s", live.name or live.me.pid,
                        name, verdict)  # fmt: skip


async def _ready(group: Group, timeout_s: float | None) -> Group:
    """Wait until a group may be published to; leave it again where it may not."""
    try:
        await group.ready_to_publish(timeout_s)
    except BaseException:
        await group.close()
        raise
    return group


def _check_create(group: str, create: bool | None, *, begun_together: bool) -> None:
    """Refuse to say who begins a group that its founders begin. Raises UsageError."""
    if create is not None and begun_together:
        raise UsageError(
            f"group {group!r} is begun by its founders together, and create says whether one process begins it: "
            "leave create out, or the founders"
        )


def _check_lengths_of_time(flush_s: float, publish_wait_s: float) -> None:
    """Raise UsageError for what is none, or too long."""
    check_seconds("flush_s", flush_s, FLUSH_S_MAX)
    check_seconds("publish_wait_s", publish_wait_s)


def _check_each(check: Callable[[str, Any], None], **given: Any) -> None:
    """Check arguments of one kind by name. Raises UsageError."""
    for name, value in given.items():
        check(name, value)


def _living(
    membership: str | None, order: str | None, remove_after_s: float | None, lag_max_s: float | None
) -> dict[str, Any]:
    """Return the settings that concern how the members change, as far as they are given. Raises SettingError for a time
    given as text, which only settings by name may be."""
    for name, value in (("remove_after_s", remove_after_s), ("lag_max_s", lag_max_s)):
        if isinstance(value, str):
            raise SettingError(f"{name} is a number of seconds above 0, or inf for never, not the text {value!r}")
    given = {"membership": membership, "order": order, "remove_after_s": remove_after_s, "lag_max_s": lag_max_s}
    return {name: value for name, value in given.items() if value is not None}


def _merged(settings: Mapping[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """Return settings with those that have arguments of their own. Raises UsageError where both are given and
    differ."""
    for name, value in named.items():
        if name in settings and settings[name] != value:
            raise UsageError(f"{name} is given twice, as {value!r} and in settings as {settings[name]!r}: give it once")
    return {**settings, **named}


def join(
    name: str | int | None = None,
    *,
    pid: int | None = None,
    listen: str = "127.0.0.1:0",
    contacts: Sequence[str] = (),
    advertise: str | None = None,
    data: Path | str | None = None,
    trace: Path | str | None = None,
    cluster: str | None = None,
    certificate: Path | str | None = None,
    key: Path | str | None = None,
    authority: Path | str | None = None,
    permits: Mapping[str, Mapping[Any, str]] | None = None,
    insecure: bool = False,
    settings: NetSettings | None = None,
    status: Path | str | bool = True,
    metrics: str | None = None,
) -> Node:
    """Return a node to enter with `async with`: it listens and reaches any of the contacts.

    `name` is the lasting name of this process, such as "billing-1": no two running processes share one, and the second
    is refused. Its number (pid) follows from it. `pid` is that number, where people choose it: `join(3)` and
    `join(pid=3)` are a process without a name, `join("billing-1", pid=3)` one with both.
    A contact is host:port; a host name may have several addresses, and is resolved again while this process looks.
    Contacts that are not up yet are called again and again, with the reason logged; a contact that refuses this process
    is an error. `status` is the local socket for `whence top`: True is the usual path, False none. `metrics` is
    host:port to serve metrics for Prometheus at. Run the program with `whence.run` for the fastest event loop
    available.

    Behind a proxy or a translated address, `advertise` is the address that others should call.
    Raises UsageError where an argument is wrong; beyond loopback, certificates are needed (see `whence certs`).
    """
    files = {"certificate": certificate, "key": key, "authority": authority}
    for argument, path in files.items():
        check_path(argument, path)
    if any(files.values()) and not all(files.values()):
        raise UsageError("certificate, key and authority belong together; give all three or none")
    net = checked_settings(settings)
    if cluster is not None:
        net = structs.replace(net, cluster=cluster)
    for argument, path in (("data", data), ("trace", trace)):
        check_directory(argument, path)
    check_socket("status", status)
    check_flag("insecure", insecure)
    table = Permits(permits)
    numbering = Numbering(name, pid, Path(data) if data is not None else None)
    safety = Safety(Path(certificate), Path(key), Path(authority)) if certificate and key and authority else None

    def make(number: int, may_move: bool) -> LiveNode:
        return LiveNode(
            number, net, data=Path(data) if data is not None else None,
            trace=Path(trace) if trace is not None else None, safety=safety, permits=table, insecure=insecure,
            name=numbering.name, may_move=may_move,
        )  # fmt: skip

    reached_at = called_at("advertise", advertise) if advertise is not None else None
    served_at = endpoint(metrics) if metrics is not None else None
    calls = [called_at("a contact", contact) for contact in texts_of("contacts", contacts, "127.0.0.1:4000")]
    return Node(make, numbering, endpoint(listen), calls, reached_at, status=status, metrics=served_at)


def checked_settings(settings: object) -> NetSettings:
    """Return a node's settings, the defaults for None. Raises UsageError."""
    if settings is None:
        return NetSettings()
    if not isinstance(settings, NetSettings):
        raise UsageError(f"settings are whence.NetSettings(…), not {settings!r}")
    return settings


def endpoint(text: object) -> tuple[str, int]:
    """Split host:port. Raises UsageError."""
    host, colon, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise UsageError(f"an address is host:port, such as 127.0.0.1:4000, not {text!r}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise UsageError(f"an IPv6 address stands in brackets before its port, such as [::1]:4000, not {text!r}")
    return _ascii_host(host.strip("[]") or "0.0.0.0"), int(port)


def called_at(what: str, text: object) -> tuple[str, int]:
    """Split an address that processes call: it has a host and a port. Raises UsageError."""
    host, port = endpoint(text)
    if not isinstance(text, str) or not text.rpartition(":")[0].strip("[]") or not port:
        raise UsageError(f"{what} is host:port, such as 127.0.0.1:4000, with a host and a port from 1 on, not {text!r}")
    return host, port


def _ascii_host(host: str) -> str:
    """Return a host name in ASCII, as resolvers and peers accept it; other letters in IDNA form. Raises UsageError."""
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        name = ""
    if not is_host(name):
        raise UsageError(f"{host!r} is no host name: labels of up to 63 letters and digits, {HOST_CHARS_MAX} in all")
    return name
