"""Level `optimistic`: which parts make its members, and what a driver asks of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from whence.core.dissemination.direct import EVERYBODY_KNOWN, DirectSpread
from whence.core.dissemination.gossip import PrCast
from whence.core.level import BuildContext
from whence.core.levels.optimistic.delivery import TwoLayerDelivery
from whence.core.levels.optimistic.member import OptimisticMember
from whence.core.levels.optimistic.settings import OptimisticSettings
from whence.core.levels.optimistic.tickets.manager import TicketManager
from whence.core.membership.full_view import FullView
from whence.core.membership.partial_view import PartialView
from whence.core.settings import parse
from whence.core.stages import Spread
from whence.errors import SettingError
from whence.limits import ROUNDS_MAX
from whence.types import Process


class OptimisticLevel(NamedTuple):
    """The parts of level `optimistic`. A planted bug is one part replaced by a wrong one."""

    delivery: Callable[..., TwoLayerDelivery] = TwoLayerDelivery
    tickets: Callable[..., TicketManager] = TicketManager
    member: Callable[..., OptimisticMember] = OptimisticMember
    spread: Callable[..., PrCast] = PrCast

    def settings_from(self, given: Mapping[str, Any]) -> OptimisticSettings:
        """Make settings from values by name; what follows from rounds or k is derived. Raises SettingError."""
        basic = parse({"seeds": "0,1,2,3,4,5,6,7,8", **given}, OptimisticSettings)
        rounds, round_ns = basic.gossip.rounds, basic.gossip.round_ns
        derived = {
            "seeds": ",".join(map(str, range(2 * basic.tickets.k + 2))),
            "ticket_round_ns": rounds * round_ns + 2 * basic.tickets.answer_ns,
            "hold_rounds": min(rounds, ROUNDS_MAX),
            "recover_rounds": min(rounds, ROUNDS_MAX),
            "farewell_rounds": min(2 * rounds, ROUNDS_MAX),
            "sub_rounds": min(max(2 * rounds, 12), ROUNDS_MAX),
        }
        return parse({**derived, **given}, OptimisticSettings)

    def build(self, me: Process, settings: OptimisticSettings, around: BuildContext) -> OptimisticMember:
        """Compose a member that has not joined yet."""
        round_ns, layer = settings.gossip.round_ns, settings.layer
        delivery = self.delivery(me, settings.tickets.tickets, layer, round_ns, settings.limits)
        basics = (me, settings.views, round_ns, around.rng, delivery.snapshot)
        members = PartialView(*basics) if settings.views.view == "partial" else FullView(*basics, around.directory)
        spread: Spread
        if settings.direct.spread == "direct":
            spread = DirectSpread(members, settings.gossip, settings.direct, settings.limits, around.rng, around.now)
        else:
            spread = self.spread(members, settings.gossip, around.rng, around.now)
        handover_ns = (layer.hold_rounds + layer.recover_rounds) * round_ns
        tickets = self.tickets(me, settings.tickets, around.rng, delivery.clock.__getitem__, handover_ns)
        tickets.acceptor.floor = around.epoch_floor
        tickets.coordinator.on_session = delivery.handover.begin
        delivery.requests.targets = members.targets
        delivery.publishers.owner_of = tickets.coordinators.owner_of
        return self.member(me, delivery, spread, members, settings.limits, tickets)

    def first_peers(self, settings: OptimisticSettings) -> int:
        """Return how many others a founder is told of at most."""
        return settings.views.view_size

    def live_settings(self, founders: Sequence[int], given: Mapping[str, object], *, data: bool) -> dict[str, object]:
        """Return what a live group is opened with: everybody knows everybody, and founders are the seeds.

        Raises SettingError without any.
        """
        if "seeds" in given:
            return dict(EVERYBODY_KNOWN)
        if not founders:
            raise SettingError(
                "level optimistic must know on whose acknowledgements tickets rest: name the processes that begin the "
                "group, three at least and the same ones at every member (founders=[0, 1, 2], --founders 0,1,2)"
            )
        return EVERYBODY_KNOWN | {"seeds": ",".join(map(str, sorted(founders)))}

    def shared(self, settings: OptimisticSettings) -> dict[str, object]:
        """Return what all members must agree on: a cluster with other tickets, k or leases is another cluster.

        Likewise how bundles travel: a member that awaits gossip gets nothing from one that sends to all at once.
        """
        ways = {"spread": settings.direct.spread, "view": settings.views.view}
        return ways | structs.asdict(settings.tickets)

    def clock_slip_ns_max(self, settings: OptimisticSettings) -> int:
        """Return how far the steady clock and the wall clock may drift apart before no lease is trusted any more.

        A stopped or restored virtual machine freezes the steady clock, and with it the leases.
        """
        return settings.tickets.lease_ns // 2

    def reads_wall_clock(self, settings: object) -> bool:
        """Return False: leases are counted on the steady clock, which counts suspension and never jumps."""
        return False
