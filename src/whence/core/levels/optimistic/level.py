"""Level `optimistic`: its settings, and which parts make its members."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs

from whence.core.dissemination.direct import EVERYBODY_KNOWN, Direct, DirectSettings
from whence.core.dissemination.gossip import GossipSettings, PrCast
from whence.core.level import Surroundings
from whence.core.levels.optimistic.delivery import LayerSettings, Optimistic
from whence.core.levels.optimistic.member import ClusterNode
from whence.core.levels.optimistic.tickets.desk import Desk
from whence.core.levels.optimistic.tickets.settings import TicketSettings
from whence.core.membership.full_view import FullView
from whence.core.membership.partial_view import PartialView, ViewSettings
from whence.core.settings import parse
from whence.core.stages import Spread
from whence.errors import SettingError
from whence.limits import ROUNDS_MAX, Limits
from whence.types import Process


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

    def build(self, me: Process, settings: ClusterSettings, around: Surroundings) -> ClusterNode:
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
