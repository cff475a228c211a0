"""Values for tests of the wire, derived from the items' own types: a new item is tested without a line here.

Only what a type cannot say, that some fields must agree with each other, is spelled out.
"""

from struct import Struct as Layout
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

from tests.wire.ticket_strategies import TICKETS
from tests.wire.view_strategies import of_views
from whence import limits
from whence.core.dissemination.direct import HAVE, WANT, Have, Want
from whence.core.dissemination.gossip import Gossip
from whence.core.levels.total.items import Ack, Follow, Mergers, Opened, Stream, ids_of
from whence.core.links.addresses import Address, Addresses, pack
from whence.core.links.greeting import Refused
from whence.core.links.presence import Place, Presence, presence
from whence.core.membership.items import NEWS, Welcome
from whence.core.ready import Item
from whence.types import Bundle, Process, packed
from whence.wire.items import NUMBERS

SMALL = 48
"""No list or byte string is drawn longer than this, or than its type's minimum."""


def of_type(info: inspect.Type) -> st.SearchStrategy[Any]:
    """Derive a strategy from a type as the decoder sees it."""
    match info:
        case inspect.IntType():
            return st.integers(info.ge, info.le)
        case inspect.BoolType():
            return st.booleans()
        case inspect.BytesType():
            return st.binary(min_size=info.min_length or 0, max_size=min(info.max_length or SMALL, SMALL))
        case inspect.StrType():
            return st.text(max_size=min(info.max_length or SMALL, SMALL))
        case inspect.ListType():
            return st.lists(of_type(info.item_type), min_size=info.min_length or 0, max_size=4)
        case inspect.DictType():
            return st.dictionaries(of_type(info.key_type), of_type(info.value_type), max_size=4)
        case inspect.TupleType():
            return st.tuples(*map(of_type, info.item_types))
        case inspect.NamedTupleType():
            return st.builds(info.cls, *[of_type(field.type) for field in info.fields])
        case inspect.StructType():
            return of_struct(info)
    raise NotImplementedError(f"no strategy for {info}; say here how to draw one")


def of_struct(info: inspect.StructType) -> st.SearchStrategy[Any]:
    if info.cls in AGREEING:
        return AGREEING[info.cls]
    return st.builds(info.cls, **{field.name: of_type(field.type) for field in info.fields})


def news() -> st.SearchStrategy[bytes]:
    peer = st.builds(
        NEWS.pack,
        st.integers(0, limits.PEER_ID_MAX),
        st.integers(0, limits.INCARNATION_MAX),
        st.integers(0, limits.ROUNDS_MAX),
    )
    return st.lists(peer, max_size=4).map(b"".join)


def processes() -> st.SearchStrategy[Process]:
    return st.builds(Process, st.integers(0, limits.PEER_ID_MAX), st.integers(0, limits.INCARNATION_MAX))


def payload_lists() -> st.SearchStrategy[list[bytes]]:
    return st.lists(st.binary(max_size=12), min_size=1, max_size=6)


def bundles() -> st.SearchStrategy[Bundle]:
    first = st.integers(1, limits.SEQ_MAX - 6)
    return st.builds(packed, processes(), first, payload_lists(), st.binary(max_size=8))


def _gossip() -> st.SearchStrategy[Gossip]:
    aged = st.lists(st.tuples(st.integers(0, 255), bundles()), max_size=4)
    return st.builds(
        lambda pairs, subs, unsubs: Gossip(bytes(a for a, _ in pairs), [b for _, b in pairs], subs, unsubs),
        aged,
        news(),
        news(),
    )


def addresses() -> st.SearchStrategy[bytes]:
    one = st.builds(
        lambda process, host, port, name: Address(process.pid, process.incarnation, host, port, name),
        processes(),
        st.text(st.characters(codec="ascii"), max_size=8),
        st.integers(0, 65535),
        st.text(st.characters(codec="ascii"), max_size=8),
    )
    return st.lists(one, max_size=4).map(lambda some: b"".join(pack(some)))


def digests(entry: Layout, numbers: int) -> st.SearchStrategy[bytes]:
    number = st.integers(0, 2**64 - 1)
    one = st.builds(
        lambda process, seqs: entry.pack(*process, *seqs),
        processes(),
        st.lists(number, min_size=numbers, max_size=numbers),
    )
    return st.lists(one, max_size=4).map(b"".join)


AGREEING: dict[type, st.SearchStrategy[Any]] = {
    **TICKETS,
    **of_views(bundles()),
    Bundle: bundles(),
    Gossip: _gossip(),
    Welcome: st.builds(Welcome, news(), st.binary(max_size=SMALL)),
    Addresses: st.builds(
        Addresses,
        addresses(),
        st.lists(st.integers(0, limits.PEER_ID_MAX).map(lambda pid: pid.to_bytes(2, "little")), max_size=4).map(
            b"".join
        ),
    ),
    Refused: st.builds(
        Refused,
        st.integers(0, 255),
        st.integers(0, limits.INCARNATION_MAX),
        st.sampled_from(("", "billing-1")),
        st.sampled_from(("", "host", "::1")),
        st.integers(0, 65535),
    ),
    Presence: st.builds(presence, st.text(max_size=8), st.sampled_from(Place), st.lists(processes(), max_size=4)),
    Have: st.builds(Have, digests(HAVE, 3), news(), news()),
    Want: st.builds(Want, digests(WANT, 1)),
    Ack: st.builds(Ack, st.lists(bundles(), max_size=4).map(ids_of)),
    Mergers: st.one_of(
        st.just(Mergers(0, [], [])),
        st.builds(
            lambda term, pids, cut, steady: Mergers(
                term,
                pids[:cut],
                pids[cut + 4 :],
                tuple(pids[cut : cut + 4]),
                tuple([(pid, steady) for pid in pids[:5]]),
            ),
            st.integers(1, 2**62),
            st.lists(st.integers(0, limits.PEER_ID_MAX), min_size=8, max_size=20, unique=True),
            st.integers(1, 8),
            st.integers(0, 2**62),
        ),
    ),
    Follow: st.builds(
        Follow,
        st.integers(0, 9),
        st.one_of(st.just(b""), st.binary(min_size=24, max_size=24)),
        st.integers(0, 2**63 - 1),
        st.integers(0, 99),
        st.integers(0, 99),
        st.integers(0, 2**62),
        st.integers(0, 2**62),
    ),
    Opened: st.builds(
        Opened, st.integers(0, 9), st.integers(0, 99), st.booleans(), st.binary(min_size=24, max_size=24)
    ),
    Stream: st.builds(
        lambda topics, start, more, some: Stream(topics, start, start + more + len(some), some),
        st.integers(0, 2**63 - 1),
        st.integers(0, 99),
        st.integers(0, 9),
        st.lists(bundles(), max_size=4),
    ),
}


def items_of(kind: type[Item]) -> st.SearchStrategy[Item]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return of_struct(info)


def items() -> st.SearchStrategy[Item]:
    return st.one_of([items_of(kind) for kind in NUMBERS.values()])


def groups() -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8"), max_size=limits.GROUP_NAME_CHARS_MAX)
