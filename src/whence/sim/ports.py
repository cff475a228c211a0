"""A simulated world as a runner sees it: the network, clock, application and trace of one process."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from whence.core.ready import Delivery, Gap, Item, Late, Mark, Note, Ready, Returned, Send, Unheard
from whence.core.runner import Done, Runner
from whence.core.stale_journal import OWN_LOST, TAKEN_LOST
from whence.errors import WhenceError
from whence.sim.recorder import Recorder
from whence.sim.world import World
from whence.trace.schema import Kind
from whence.types import Bundle, EventId, Process
from whence.wire.codec import encode

if TYPE_CHECKING:
    from whence.sim.process import SimProcess


class SimPorts:
    """The ports of one incarnation of a process."""

    __slots__ = ("_heard", "_me", "_process", "_record", "_world", "deliver", "now", "plan")

    def __init__(
        self, process: "SimProcess", me: Process, world: World, record: Recorder, heard: Callable[[Bundle], None]
    ) -> None:
        self._process, self._me, self._world, self._record, self._heard = process, me, world, record, heard
        application = process.application
        self.deliver: Callable[[Delivery], None] = self._hand_out if application is None else application.deliver
        """Hands a bundle to the application; where there is none, it counts as handed out at once."""
        self.now, self.plan = process.now, process.plan_wake
        """Return the time on the clock that members of this level are given, and plan the next tick on it."""

    # --- the network ---

    def send(self, to: tuple[int, ...], item: Item, incarnation: int) -> None:
        """Send an item, and record its copies."""
        world, me = self._world, self._me
        frame, payload_bytes = encode(world.group, me, [item], incarnation), item.payload_bytes()
        self._record.sent(to, len(frame) - payload_bytes, payload_bytes)
        world.network.send(me.pid, to, frame, payload_bytes)

    # --- the application ---

    def accepted(self, bundle: Bundle, count: int, /) -> None:
        """Learn that the member publishes."""

    def retained(self, bundle: Bundle, /) -> None:
        """Learn that it is persisted for the member."""

    def published(self, step: Returned, mark: Mark | None) -> None:
        """Record a publication."""
        destinations = self._world.destinations
        self._record.published(step.bundle, mark, None if destinations is None else destinations(step.group))

    def _hand_out(self, step: Delivery) -> None:
        self._record.delivered(step)
        self._heard(step.bundle)

    def skip(self, step: Gap) -> None:
        """Record what will never come."""
        self._record.skipped(step)

    def late(self, step: Late) -> None:
        """Record what came after its place."""
        self._record.late(step)

    def unheard(self, step: Unheard) -> None:
        """Count a publication that perhaps nobody has."""
        self._world.effective["unheard"] += 1

    # --- the trace ---

    def refused(self, refusal: WhenceError) -> None:
        """Record an input that the member refuses."""
        self._record.write(Kind.REJECT, reason=type(refusal).__name__)

    def noted(self, note: Note) -> None:
        """Record what the member notes about itself."""
        assert note.reason not in (OWN_LOST, TAKEN_LOST), "no simulated disk is older than what was told from it"
        bundle = note.bundle
        event = note.event
        if bundle is not None:
            event = EventId(bundle.pid, bundle.incarnation, bundle.first)
        kind = Kind(note.kind)
        if kind is Kind.LEAVE and self._process.application is not None:
            self._process.application.drain()  # that it is out is the last thing an application hears
        self._record.write(
            kind, event=event, peer=note.peer, reason=note.reason, ticket=note.ticket, epoch=note.epoch,
            value=note.value, late_ns=note.late_ns, view=note.view, ids=note.ids,
        )  # fmt: skip
        if kind is Kind.JOIN:
            self._process.joined = True
        elif kind is Kind.LEAVE:
            self._process.record_gauges()
            self._process.stop()
        elif kind is Kind.NOTE and note.reason is not None:
            self._world.effective[note.reason] += 1


class SimRunner(Runner):
    """The runner of both worlds, with two faults: it stops before it sends what it published, or between effects."""

    process: "SimProcess"

    def publish(
        self, payloads: Sequence[bytes], stored: Done | None = None, *, group: int | None = None, keep: bool = False
    ) -> Bundle:
        """Publish a bundle; a process that stalls pauses once the bundle is reported as published."""
        if not self.process.stalls:
            return super().publish(payloads, stored, group=group, keep=keep)
        before, self._carry_out = self._carry_out, self._stand_still
        try:
            return super().publish(payloads, stored, group=group, keep=keep)
        finally:
            self._carry_out = before

    def _stand_still(self, ready: Ready) -> None:
        if ready.published is None:
            self.effects(ready)
            return
        self.tell(ready)
        self._waiting.append((ready, None, None))
        self.process.stall_now(self.committed)

    def doom(self) -> None:
        """Crash the process in the middle of the next Ready that has something to do."""
        self._carry_out = self._do_in_part

    def spare(self) -> None:
        """Call off the crash that `doom` planned."""
        self._carry_out = self.effects

    def _do_in_part(self, ready: Ready) -> None:
        self.tell(ready)
        if ready.send or ready.deliver:
            self.effects(self._part_of(ready))
            self.process.crash_between_effects()
        else:
            self.effects(ready)

    def _part_of(self, ready: Ready) -> Ready:
        """Return the first effects, in their order: a process may crash between any two."""
        sends = [Send((target,), send.item, send.incarnation) for send in ready.send for target in send.to]
        done = self.process.rng.randrange(len(sends) + len(ready.deliver))
        return Ready(send=sends[:done], deliver=ready.deliver[: max(0, done - len(sends))])
