"""The one executor of Ready: it does what an input caused, in the simulator and in the network alike.

Laws. What a Ready persists is durable before anything else of it happens, and no Ready overtakes one that still waits
for the disk. Then, in this order: a publication is reported to the application, items are sent, deliveries are made,
notes are written, and the next tick is planned. What an application does while it is handed something comes after the
rest of the Ready that handed it over. A later incarnation begins with what is owed to the application, and continues
with what its member persisted.

Pure: time, disk, network, application and trace are ports. Each world brings its own, and its faults.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, cast

import msgspec

from whence.core.member import Checkpointed, Grouped, Member
from whence.core.offsets import Offsets
from whence.core.ready import NEVER, Delivery, Gap, Item, Late, Mark, Note, Ready, Returned, Unheard
from whence.errors import NotMemberError, StorageError, UsageError, WhenceError
from whence.types import Bundle, Instant, Process

OF_MEMBER, OF_DRIVER, OF_OFFSETS, OF_UNTAKEN, OF_UNTOLD = b"M", b"P", b"S", b"D", b"R"
"""The first byte of a journal record: the member's own, or a bundle that is stored for the member. In a rewritten
journal also: how far the application was, what it had not taken, and publications that were not reported to it."""

Done: TypeAlias = Callable[[WhenceError | None], None]
"""Called once something is durable, or never will be."""

Marked: TypeAlias = tuple[bytes, bytes]
"""A record and the mark before it."""

_encode_bundle = msgspec.msgpack.Encoder().encode
_decode_bundle = msgspec.msgpack.Decoder(Bundle).decode
_decode_offsets = msgspec.msgpack.Decoder(tuple[int, int]).decode


class Storage(Protocol):
    """Where records become durable."""

    def write(self, records: Sequence[bytes], done: Done, mark: bytes = b"") -> None:
        """Append records, each after the mark; call `done` once they are durable, in the order of the writes."""


class Transport(Protocol):
    """How items leave."""

    def send(self, to: tuple[int, ...], item: Item, incarnation: int, /) -> object:
        """Send an item to some peers, to one incarnation of them or any, and record the copies that leave."""


class Application(Protocol):
    """The receiver of deliveries."""

    def accepted(self, bundle: Bundle, count: int, /) -> None:
        """Learn that the member publishes a bundle of `count` events; nothing of that has happened yet."""

    def retained(self, bundle: Bundle, /) -> None:
        """Learn that the bundle is being stored for the member."""

    def published(self, step: Returned, mark: Mark | None) -> None:
        """Learn that a publication is as durable as it will be, before anybody else does, once in all incarnations."""

    def deliver(self, step: Delivery) -> None:
        """Take a bundle."""

    def skip(self, step: Gap) -> None:
        """Learn of events that will never be delivered."""

    def late(self, step: Late) -> None:
        """Take a bundle that came after its place."""

    def unheard(self, step: Unheard) -> None:
        """Learn of a publication that possibly no member has."""

    def noted(self, note: Note) -> None:
        """Take a note that the member wrote about itself."""

    def refused(self, refusal: WhenceError) -> None:
        """Learn of an input that the member refuses."""


class Timer(Protocol):
    """The process's clock."""

    def now(self) -> Instant:
        """Return the time that members of this level go by."""

    def plan(self, wake_at: Instant) -> None:
        """Wake the runner at this time or earlier. Replaces the time planned before."""


class Ports(NamedTuple):
    """A world, as a runner sees it."""

    transport: Transport
    application: Application
    timer: Timer
    storage: Storage | None = None
    """None: nothing is stored, and nothing waits."""
    offsets: Offsets | None = None
    """How far the application is; None: no later incarnation needs it."""
    failed: Callable[[Exception], object] | None = None
    """Called with a bug: the member's state is unknown, and it must stop. None: the error is raised to the caller."""


class Runner:
    """Runs one member for one incarnation."""

    def __init__(self, member: Member, ports: Ports) -> None:
        self.member = member
        self.stopped = False
        self.member_persists = False
        """The member has persisted something itself."""
        self._ports = ports
        self._transport, self._application, self._timer = ports.transport, ports.application, ports.timer
        self._now = ports.timer.now
        self._storage = ports.storage
        self._offsets = ports.offsets if ports.offsets is not None else Offsets(None)
        self._waiting: deque[tuple[Ready, Done | None, Bundle | None]] = deque()
        """Readies that wait for the disk, each with the callback for when it is durable, and what was published."""
        self._performing = False
        self._next: deque[Ready] = deque()
        """Readies of what an application did while it was handed something."""
        self._wake_at = NEVER
        self._carry_out = self.effects
        """Does what a Ready asks for; an injected fault may replace it."""

    @property
    def waits(self) -> bool:
        """Tell whether something waits for the disk."""
        return bool(self._waiting)

    # --- inputs ---

    def receive(self, sender: Process, items: Sequence[Item], now: Instant | None = None) -> None:
        """Give the member what a peer sent, item by item, until the member stops; see `feed`. `now`: the time, if the
        caller has read it."""
        for item in items:
            if self.stopped:
                return
            try:
                ready = self.member.receive(sender, item, self._now() if now is None else now)
            except Exception as error:  # noqa: BLE001 - a refusal, or a bug
                self._refused(error)
                continue
            if self._storage is None or not (ready.persist or self._waiting):
                self.perform(ready)
            else:
                self.apply(ready)

    def feed(self, step: Callable[..., Ready], *given: object) -> None:
        """Give the member an input that nobody waits for. A refused input is counted; any other error is a bug, except
        StorageError. Raises StorageError if what earlier incarnations stored must not be used: it goes to the caller
        that opens the group."""
        try:
            ready = step(*given, self._now())
        except Exception as error:  # noqa: BLE001 - a refusal, or a bug
            self._refused(error)
            return
        self.apply(ready)

    def ask(self, step: Callable[..., Ready], *given: object) -> None:
        """Give the member an input whose caller learns of a refusal. Raises what the member raises."""
        self.apply(step(*given, self._now()))

    def publish(
        self, payloads: Sequence[bytes], stored: Done | None = None, *, group: int | None = None, keep: bool = False
    ) -> Bundle:
        """Publish a bundle and return it; call `stored` once it is durable. `keep` stores it if the member does not.

        Raises what the member raises.
        """
        now = self._now()
        if group is None:
            bundle, ready = self.member.publish(payloads, now)
        else:
            bundle, ready = cast(Grouped, self.member).publish_to(group, payloads, now)
        retained = keep and not ready.persist  # a member that stores its own events needs no second copy of them
        self._application.accepted(bundle, len(payloads))
        if retained:
            self._application.retained(bundle)
            self.tell(ready)  # a later incarnation offers it again: its publication must be known by then
        self.apply(ready, stored, bundle, retained=retained)
        return bundle

    def wake(self) -> None:
        """Give the member the tick that was planned."""
        self._wake_at = NEVER
        self.feed(self.member.tick)

    def plan(self, wake_at: Instant) -> None:
        """Plan a tick, whatever was planned before."""
        self._wake_at = wake_at
        self._timer.plan(wake_at)

    def stop(self, error: WhenceError | None = None, *, at_once: bool = False) -> list[Bundle]:
        """Stop; return the publications that still wait for the disk: nothing of them was sent. Callers that wait for
        it get the error, if there is one. What the application did while it was handed something is still done, unless
        the process died (`at_once`)."""
        self.stopped = True
        waiting, self._waiting = self._waiting, deque()
        if at_once:
            self._next.clear()
        for _, stored, _ in waiting:
            if stored is not None and error is not None:
                stored(error)
        return [bundle for _, _, bundle in waiting if bundle is not None]

    # --- a later incarnation ---

    def restore(self, records: Sequence[bytes]) -> list[Bundle]:
        """Resume from what earlier incarnations persisted: first what the application is owed, then the member's own.

        Return the bundles that were stored for the member. Raises StorageError.
        """
        own = [record[1:] for record in records if record[:1] == OF_MEMBER]
        self.member_persists = bool(own)
        rewritten = [_decode_offsets(record[1:]) for record in records if record[:1] == OF_OFFSETS]
        self._offsets.resume(*(rewritten[-1] if rewritten else (0, 0)))
        for record in records:
            if record[:1] == OF_UNTAKEN:
                self._application.deliver(Delivery(_decode_bundle(record[1:])))
            elif record[:1] == OF_UNTOLD:
                self._tell(Returned(_decode_bundle(record[1:])), None)
        self.feed(self.member.restore, own)
        self._offsets.resumed()
        return [_decode_bundle(record[1:]) for record in records if record[:1] == OF_DRIVER]

    def unfinished(self) -> list[tuple[bytes, Bundle]]:
        """Return what the application is still owed by steps the member has made, if a later incarnation resumes."""
        owed = self._offsets.owed()
        if owed is None:
            return []
        unfinished = [(OF_UNTAKEN, bundle) for bundle in owed.bundles]
        for ready, _, _ in self._waiting:
            if ready.published is not None:
                unfinished.append((OF_UNTOLD, ready.published.bundle))
            unfinished += [
                (OF_UNTAKEN if isinstance(step, Delivery) else OF_UNTOLD, step.bundle)
                for step in ready.deliver
                if isinstance(step, Delivery | Returned)
            ]
        return unfinished

    def checkpoint(self, retained: Sequence[Bundle] = ()) -> list[Marked] | None:
        """Return records that replace the whole journal and all that waits for the disk, with the bundles that are
        stored for the member; None if only the member knows which of its records still count."""
        member = self.member
        if not isinstance(member, Checkpointed):
            if self.member_persists:
                return None
            records: list[Marked] = []
        else:
            records = [(OF_MEMBER, record) for record in member.checkpoint()]
        owed = self._offsets.owed()
        if owed is not None:
            records.append((OF_OFFSETS, msgspec.msgpack.encode((owed.taken, owed.reported))))
        bundles = [*((OF_DRIVER, bundle) for bundle in retained), *self.unfinished()]
        return records + [(mark, _encode_bundle(bundle)) for mark, bundle in bundles]

    # --- the contract ---

    def apply(
        self, ready: Ready, stored: Done | None = None, bundle: Bundle | None = None, *, retained: bool = False
    ) -> None:
        """Persist, then do the rest. `bundle` is what was published; `retained`: it is stored for the member."""
        storage = self._storage
        if storage is None or not (ready.persist or retained or self._waiting):
            self.perform(ready)
            if stored is not None:
                stored(None)
            return
        self.member_persists = self.member_persists or bool(ready.persist)
        self._waiting.append((ready, stored, bundle))
        if bundle is not None and retained:
            storage.write([_encode_bundle(bundle)], self.committed, OF_DRIVER)
        else:
            storage.write(ready.persist, self.committed, OF_MEMBER)

    def committed(self, error: WhenceError | None) -> None:
        """Perform the first Ready that waits, now that it is durable; fail if it never will be."""
        if not self._waiting:
            return  # stopped meanwhile
        if error is not None:
            self._fail(error)
            return
        ready, stored, _ = self._waiting.popleft()
        self.perform(ready)
        if stored is not None:
            stored(None)

    def perform(self, ready: Ready) -> None:
        """Do what a durable Ready asks for; what the application does meanwhile comes after it."""
        if self._performing:
            self._next.append(ready)
            return
        self._performing = True
        try:
            while True:
                self._carry_out(ready)
                if not self._next:
                    break
                ready = self._next.popleft()
        except Exception as error:  # noqa: BLE001 - half of a Ready is done: the rest must not follow
            self._next.clear()
            self._fail(error)
        finally:
            self._performing = False

    def tell(self, ready: Ready) -> None:
        """Report a publication to the application, once."""
        published = ready.published
        if published is not None:
            ready.published = None
            self._tell(published, ready.mark)

    def _tell(self, published: Returned, mark: Mark | None) -> None:
        """Report a publication to the application, unless an earlier incarnation did."""
        offsets = self._offsets
        if offsets.survives and offsets.was_reported():
            return
        self._application.published(published, mark)
        if offsets.survives:
            offsets.tell()

    def effects(self, ready: Ready) -> None:
        """Do what a durable Ready asks for, in the order of the contract."""
        if ready.published is not None:
            self.tell(ready)
        for send in ready.send:
            self._transport.send(send.to, send.item, send.incarnation)
        for step in ready.deliver:
            if isinstance(step, Delivery):
                self._application.deliver(step)
            else:
                self._tell_of(step)
        for note in ready.notes:
            self._application.noted(note)
        wake_at = ready.wake_at
        if wake_at is not None and wake_at < self._wake_at and not self.stopped:
            self._wake_at = wake_at  # waking too early is harmless, so a later time replaces nothing
            self._timer.plan(wake_at)

    def _tell_of(self, step: Returned | Gap | Unheard | Late) -> None:
        if isinstance(step, Returned):
            self._tell(step, step.mark)
        elif isinstance(step, Gap):
            self._application.skip(step)
        elif isinstance(step, Unheard):
            self._application.unheard(step)
        else:
            self._application.late(step)

    def _refused(self, error: Exception) -> None:
        """Count an input that the member refuses. After any other error its state is unknown: it must not go on."""
        if isinstance(error, UsageError | NotMemberError):
            self._application.refused(error)
        elif isinstance(error, StorageError):
            raise error
        else:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._ports.failed is None:
            raise error
        self._ports.failed(error)
