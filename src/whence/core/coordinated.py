"""A member of a cluster: receives as any member does, and publishes only as a coordinator, under its ticket.

The node of level `optimistic`: gossip below, two-layer delivery above, and a desk for the cluster's tickets beside
them. Publishing asks the desk in the very moment; what it publishes carries its claim, so that receivers can drop what
comes after the claim was given to another. Source: tickets_twolayer 4.12, 5, 6.2, 6.7.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, structs

from whence.core.members.full import FullView
from whence.core.members.tickets.desk import Desk
from whence.core.members.tickets.items import ITEMS
from whence.core.members.tickets.joining import Status
from whence.core.members.tickets.settings import TicketSettings
from whence.core.members.views import PartialView, ViewSettings
from whence.core.node import Life, Node
from whence.core.order.optimistic import LayerSettings, Optimistic
from whence.core.order.recovery import Recover, Recovered
from whence.core.ready import Gauge, Item, Note, Ready
from whence.core.settings import parse
from whence.core.spread.direct import EVERYBODY_KNOWN, Direct, DirectSettings
from whence.core.spread.gossip import GossipSettings, PrCast
from whence.core.stages import Spread
from whence.errors import SettingError, UsageError, WhenceError
from whence.limits import BOOT_MAX, ROUNDS_MAX, Limits
from whence.types import Bundle, Instant, Process

if TYPE_CHECKING:
    from whence.core.levels import Surroundings

_RECOVERY = (Recover, Recovered)
BOOTS = BOOT_MAX + 1
"""The argument of `declare_dead` is pid × BOOTS + boot."""


def named(process: Process) -> int:
    """Return a process as the argument of `declare_dead`."""
    return process.pid * BOOTS + process.boot


class ClusterNode(Node):
    """One member of one cluster."""

    def __init__(
        self, me: Process, order: Optimistic, spread: Spread, members: PartialView, limits: Limits, desk: Desk
    ) -> None:
        super().__init__(me, order, spread, members, limits)
        self._layer = order
        self._desk = desk

    # --- the application's door ---

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        """Start as one of the first members: no cluster can have been founded yet."""
        self._desk.begin()
        for peer in peers:
            self._desk.neighbours.hear(peer, now)
        return super().found(peers, now)

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        """Take up what this peer promised as a seed in an earlier life."""
        self._desk.restore(list(records))
        return Ready()

    def checkpoint(self) -> list[bytes]:
        """Return what a new life needs of everything this one persisted: a seed's last word."""
        return self._desk.checkpoint()

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        """Publish events under the ticket. Raises NotCoordinatorError, LeaseSuspendedError, or what any member does."""
        if self.life is Life.MEMBER:
            claim = self._desk.authorize(now)
            seat = self._desk.seat
            self._layer.begin_epoch(claim, seat.base if seat is not None else 0)
        return super().publish(payloads, now)

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        """Do what only this level knows: cjoin, cleave, declare_dead, distrust_clock. Raises UsageError."""
        if name == "distrust_clock":
            ready = Ready()
            self._desk.drop_leases(now, ready)
            return self._wake_by(ready, now)
        if self.life is not Life.MEMBER:
            raise UsageError(f"only a member may {name}, and this process is {self.life.value}")
        ready = Ready()
        match name:
            case "cjoin":
                self._desk.cjoin(now)
                ready.notes.append(Note("note", "ticket_asked"))
            case "cleave":
                self._desk.cleave(now, ready)
            case "declare_dead":
                self._desk.declare_dead(Process(argument // BOOTS, argument % BOOTS), now)
            case _:
                raise UsageError(f"members of this level know cjoin, cleave and declare_dead, not {name!r}")
        return self._wake_by(ready, now)

    def leave(self, now: Instant) -> Ready:
        """Begin to leave: first the cluster's core, then the group."""
        ready = super().leave(now)
        self._desk.depart(now, ready)
        return self._wake_by(ready, now)

    def status(self, now: Instant) -> Status:
        """Return how this process stands in the cluster: its ticket, and how long its lease lasts."""
        return self._desk.status(now)

    def refusal(self, now: Instant) -> WhenceError | None:
        """Return the error that publishing now would raise for want of a ticket or a lease."""
        return self._desk.refusal(now) if self.life is Life.MEMBER else None

    # --- inputs ---

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        """Take an item: tickets' and recovery's here, all others as any member does."""
        if isinstance(item, ITEMS):
            ready = Ready()
            if self.life not in (Life.OUTSIDE, Life.LEFT):
                self._desk.receive(sender, item, now, ready)
                return self._wake_by(ready, now)
            return ready
        if isinstance(item, _RECOVERY):
            ready = Ready()
            if self.life in (Life.MEMBER, Life.LEAVING):
                self._layer.receive(sender, item, now, ready)
            else:
                ready.notes.append(Note("drop", "not_member", peer=sender.pid))
            return self._wake_by(ready, now)
        if self.life not in (Life.OUTSIDE, Life.LEFT):
            self._desk.neighbours.hear(sender, now)
        ready = super().receive(sender, item, now)
        # Nothing that a seat waits for comes sooner by it, and members with a seat are those who receive most.
        return ready if self._desk.seat is not None else self._wake_by(ready, now)

    def unreachable(self, peer: int, now: Instant) -> Ready:
        """Learn that something sent to a peer did not arrive."""
        self._layer.unreachable(peer)
        return self._wake_by(super().unreachable(peer, now), now)

    def tick(self, now: Instant) -> Ready:
        """Do what time asks for, the tickets' rounds too."""
        ready = super().tick(now)
        if self.life not in (Life.OUTSIDE, Life.LEFT):
            self._desk.tick(now, ready)
        return self._wake_by(ready, now)

    def gauges(self) -> list[Gauge]:
        """Return how full every buffer is."""
        return [*super().gauges(), *self._desk.gauges()]

    def _gone(self) -> bool:
        return super()._gone() and self._desk.idle()

    def _wake_by(self, ready: Ready, now: Instant) -> Ready:
        """Ask to be woken for the tickets too."""
        if self.life in (Life.OUTSIDE, Life.LEFT):
            return ready
        self._wake(ready)
        at = self._desk.wake_at(now)
        if at is not None and (ready.wake_at is None or at < ready.wake_at):
            ready.wake_at = at
        return ready


class ClusterSettings(Struct, frozen=True, kw_only=True):
    """Everything that can be set for a cluster. Names are unique across the parts."""

    gossip: GossipSettings = GossipSettings()
    views: ViewSettings = ViewSettings()
    layer: LayerSettings = LayerSettings()
    tickets: TicketSettings = TicketSettings(seeds="0,1,2,3")
    direct: DirectSettings = DirectSettings()
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.views.view == "partial" and self.views.view_size <= self.gossip.fanout:
            raise SettingError(f"view_size ({self.views.view_size}) must exceed fanout ({self.gossip.fanout})")


class ClusterParts(NamedTuple):
    """The recipe of level `optimistic`. A planted bug is one part replaced by a wrong one."""

    order: Callable[..., Optimistic] = Optimistic
    desk: Callable[..., Desk] = Desk
    node: Callable[..., ClusterNode] = ClusterNode
    spread: Callable[..., PrCast] = PrCast

    def settings_from(self, given: Mapping[str, Any]) -> ClusterSettings:
        """Make settings from values by name; what follows from rounds or k is derived. Raises SettingError."""
        basic = parse({"seeds": "0,1,2,3,4,5,6,7,8", **given}, ClusterSettings)
        rounds, round_ns = basic.gossip.rounds, basic.gossip.round_ns
        derived = {
            "seeds": ",".join(map(str, range(2 * basic.tickets.k + 2))),
            "ticket_round_ns": rounds * round_ns + 2 * basic.tickets.answer_ns,
            "hold_rounds": min(rounds, ROUNDS_MAX),
            "recover_rounds": min(rounds, ROUNDS_MAX),
            "farewell_rounds": min(2 * rounds, ROUNDS_MAX),
            "sub_rounds": min(max(2 * rounds, 12), ROUNDS_MAX),
        }
        return parse({**derived, **given}, ClusterSettings)

    def build(self, me: Process, settings: ClusterSettings, around: "Surroundings") -> ClusterNode:
        """Compose a member that has not joined yet."""
        round_ns, layer = settings.gossip.round_ns, settings.layer
        order = self.order(me, settings.tickets.tickets, layer, round_ns, settings.limits)
        basics = (me, settings.views, round_ns, around.dice, order.snapshot)
        members = PartialView(*basics) if settings.views.view == "partial" else FullView(*basics, around.directory)
        spread: Spread
        if settings.direct.spread == "direct":
            spread = Direct(members, settings.gossip, settings.direct, settings.limits, around.dice, around.now)
        else:
            spread = self.spread(members, settings.gossip, around.dice, around.now)
        handover_ns = (layer.hold_rounds + layer.recover_rounds) * round_ns
        desk = self.desk(me, settings.tickets, around.dice, lambda ticket: order.clock[ticket], handover_ns)
        desk.arbiter.floor = around.epoch_floor
        order.asking.targets = members.targets
        order.owner_of = desk.applicant.owner_of
        desk.on_seat = order.seek
        return self.node(me, order, spread, members, settings.limits, desk)

    def first_peers(self, settings: ClusterSettings) -> int:
        """Return how many others a founder is told of at most."""
        return settings.views.view_size

    def live_settings(self, founders: Sequence[int], given: Mapping[str, object]) -> dict[str, object]:
        """Return what a live group is opened with: everybody knows everybody, and founders are the seeds.

        Raises SettingError without any.
        """
        if "seeds" in given:
            return dict(EVERYBODY_KNOWN)
        if not founders:
            raise SettingError(
                "level optimistic must know on whose word tickets rest: name the processes that begin the group, three "
                "at least and the same ones at every member (founders=[0, 1, 2], --founders 0,1,2)"
            )
        return EVERYBODY_KNOWN | {"seeds": ",".join(map(str, sorted(founders)))}

    def shared(self, settings: ClusterSettings) -> dict[str, object]:
        """Return what all members must agree on: a cluster with other tickets, k or leases is another cluster.

        And how bundles travel: who awaits gossip gets nothing from who sends to all at once.
        """
        ways = {"spread": settings.direct.spread, "view": settings.views.view}
        return ways | structs.asdict(settings.tickets)

    def clock_slip_ns_max(self, settings: ClusterSettings) -> int:
        """Return how far the steady clock and the one on the wall may part before no lease is trusted any more.

        A stopped or restored virtual machine freezes the steady clock, and with it the leases.
        """
        return settings.tickets.lease_ns // 2

    def reads_wall_clock(self) -> bool:
        """Return False: leases are counted on the steady clock, which counts suspension and never jumps."""
        return False
