"""Every item that two members exchange: the table of contents of the protocol.

Each item is defined beside the code that uses it; its number here never changes. Numbers are only appended: a number
that was once on the wire never means anything else. 81 to 83 and 200 to 255 belong to rivals, which are only simulated;
84 and 85 were a mesh with fixed members.
"""

from typing import Annotated, Union

from msgspec import Meta, Struct

from whence import limits
from whence.core.dissemination.direct import Have, Push, Want
from whence.core.dissemination.gossip import Gossip
from whence.core.levels.causal.tree import items as tree
from whence.core.levels.optimistic.recovery import Recover, Recovered
from whence.core.levels.optimistic.tickets import items as tickets
from whence.core.levels.total.items import Ack, Alive, Batch, Bye, Follow, LateBundle, Mergers, Offer, Opened, Stream
from whence.core.links.addresses import Addresses
from whence.core.links.detector import Ping, Pong
from whence.core.links.greeting import Confirm, Hello, Refused
from whence.core.links.presence import Presence
from whence.core.links.reached import Reached
from whence.core.membership.items import Subscribe, Welcome
from whence.core.ready import Item
from whence.core.views import items as views
from whence.types import GroupId, Incarnation, PeerId

NUMBERS: dict[int, type[Item]] = {
    1: Gossip,
    2: Subscribe,
    3: Welcome,
    110: Hello,
    111: Confirm,
    112: Addresses,
    113: Ping,
    114: Pong,
    115: Presence,
    116: Push,
    117: Have,
    118: Want,
    119: Reached,
    20: Offer,
    21: Batch,
    22: Ack,
    23: Follow,
    24: Opened,
    25: Stream,
    26: LateBundle,
    27: Alive,
    28: Bye,
    70: tree.Copy,
    71: tree.Trail,
    72: tree.Ack,
    73: tree.Ask,
    74: tree.Probe,
    75: tree.Back,
    76: tree.Lookup,
    77: tree.Named,
    78: tree.FenceAsk,
    79: tree.FenceTell,
    80: tree.Lost,
    40: tickets.Renew,
    41: tickets.Alive,
    42: tickets.Fenced,
    43: tickets.Update,
    44: tickets.AckUpdate,
    45: tickets.NotCoordinator,
    46: tickets.Probe,
    47: tickets.Fresh,
    48: tickets.Exclude,
    49: tickets.AckExclude,
    50: tickets.RequestFence,
    51: tickets.AckFence,
    52: tickets.AcquireTicket,
    53: tickets.AckAcquireTicket,
    54: tickets.RejectAcquireTicket,
    55: tickets.ReleaseTicket,
    56: tickets.AckReleaseTicket,
    57: tickets.GenerationRead,
    58: tickets.GenerationValue,
    59: tickets.Genesis,
    60: tickets.GenesisAnswer,
    61: Recover,
    62: Recovered,
    63: tickets.Stale,
    64: tickets.Reserve,
    65: tickets.Reserved,
    120: Refused,
    29: Mergers,
    90: views.ViewMessage,
    91: views.ViewMark,
    92: views.ViewAck,
    93: views.Fetch,
    94: views.JoinRequest,
    95: views.Hint,
    96: views.Wish,
    97: views.Prepare,
    98: views.Promise,
    99: views.Freeze,
    100: views.Report,
    101: views.Target,
    102: views.Flushed,
    103: views.Accept,
    104: views.Accepted,
    105: views.Nak,
    106: views.Decree,
    107: views.Knows,
    108: views.Beat,
    109: views.Taken,
}

AnyItem = Union[  # noqa: UP007 - the decoder reads this at run time
    Gossip, Subscribe, Welcome,
    Hello, Confirm, Addresses, Ping, Pong, Presence, Push, Have, Want, Reached, Refused,
    Offer, Batch, Ack, Follow, Opened, Stream, LateBundle, Alive, Bye, Mergers,
    tree.Copy, tree.Trail, tree.Ack, tree.Ask, tree.Probe, tree.Back, tree.Lookup,
    tree.Named, tree.FenceAsk, tree.FenceTell, tree.Lost,
    views.ViewMessage, views.ViewMark, views.ViewAck, views.Fetch, views.JoinRequest, views.Hint, views.Wish,
    views.Prepare, views.Promise, views.Freeze, views.Report, views.Target, views.Flushed, views.Accept, views.Accepted,
    views.Nak, views.Decree, views.Knows, views.Beat, views.Taken,
    tickets.Renew, tickets.Alive, tickets.Fenced, tickets.Update, tickets.AckUpdate, tickets.NotCoordinator,
    tickets.Probe, tickets.Fresh, tickets.Exclude, tickets.AckExclude, tickets.RequestFence, tickets.AckFence,
    tickets.AcquireTicket, tickets.AckAcquireTicket, tickets.RejectAcquireTicket, tickets.ReleaseTicket,
    tickets.AckReleaseTicket, tickets.GenerationRead, tickets.GenerationValue, tickets.Genesis, tickets.GenesisAnswer,
    tickets.Stale, tickets.Reserve, tickets.Reserved, Recover,
    Recovered,
]  # fmt: skip


class Packet(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Items from one process to another, of one group."""

    group: GroupId
    pid: PeerId
    incarnation: Incarnation
    to_incarnation: Incarnation
    """The incarnation of the receiver that may read it, or ANY_INCARNATION."""
    items: Annotated[list[AnyItem], Meta(min_length=1, max_length=limits.PACKET_ITEMS_MAX)]
