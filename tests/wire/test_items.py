"""The table of items: numbers for good."""

from typing import get_args

import pytest
from msgspec import inspect

from whence.core.ready import BundleItem, Item
from whence.wire.items import NUMBERS, AnyItem
from whence_lab.rivals.level import RIVAL_ITEMS

EVER_GIVEN = [
    (1, "Gossip"),
    (2, "Subscribe"),
    (3, "Welcome"),
    (110, "Hello"),
    (111, "Confirm"),
    (112, "Addresses"),
    (113, "Ping"),
    (114, "Pong"),
    (115, "Presence"),
    (116, "Push"),
    (117, "Have"),
    (118, "Want"),
    (119, "Reached"),
    (20, "Offer"),
    (21, "Batch"),
    (22, "Ack"),
    (23, "Follow"),
    (24, "Opened"),
    (25, "Stream"),
    (26, "LateBundle"),
    (27, "Alive"),
    (28, "Bye"),
    (70, "Copy"),
    (71, "Trail"),
    (72, "Ack"),
    (73, "Ask"),
    (74, "Probe"),
    (75, "Back"),
    (76, "Lookup"),
    (77, "Named"),
    (78, "FenceAsk"),
    (79, "FenceTell"),
    (80, "Lost"),
    (81, "TreeCopy"),
    (82, "NearCopy"),
    (83, "NearAck"),
    (84, "CausalMessage"),
    (85, "Has"),
    (40, "Renew"),
    (41, "Alive"),
    (42, "Fenced"),
    (43, "Update"),
    (44, "AckUpdate"),
    (45, "NotCoordinator"),
    (46, "Probe"),
    (47, "Fresh"),
    (48, "Exclude"),
    (49, "AckExclude"),
    (50, "RequestFence"),
    (51, "AckFence"),
    (52, "AcquireTicket"),
    (53, "AckAcquireTicket"),
    (54, "RejectAcquireTicket"),
    (55, "ReleaseTicket"),
    (56, "AckReleaseTicket"),
    (57, "GenerationRead"),
    (58, "GenerationValue"),
    (59, "Genesis"),
    (60, "GenesisAnswer"),
    (61, "Recover"),
    (62, "Recovered"),
    (63, "Stale"),
    (64, "Reserve"),
    (65, "Reserved"),
    (120, "Refused"),
    (29, "Mergers"),
    (90, "ViewMessage"),
    (91, "ViewMark"),
    (92, "ViewAck"),
    (93, "Fetch"),
    (94, "JoinRequest"),
    (95, "Hint"),
    (96, "Wish"),
    (97, "Prepare"),
    (98, "Promise"),
    (99, "Freeze"),
    (100, "Report"),
    (101, "Target"),
    (102, "Flushed"),
    (103, "Accept"),
    (104, "Accepted"),
    (105, "Nak"),
    (106, "Decree"),
    (107, "Knows"),
    (108, "Beat"),
    (109, "Taken"),
    (200, "NearPing"),
    (201, "CubeCopy"),
    (202, "CubeAck"),
    (210, "HyJoin"),
    (211, "HyForwardJoin"),
    (212, "HyNeighbour"),
    (213, "HyAnswer"),
    (214, "HyDisconnect"),
    (215, "HyShuffle"),
    (216, "HyShuffleReply"),
    (220, "PlumCopy"),
    (221, "PlumHave"),
    (222, "PlumGraft"),
    (223, "PlumPrune"),
    (225, "ThicketCopy"),
    (226, "ThicketSummary"),
    (227, "ThicketGraft"),
    (228, "ThicketPrune"),
    (230, "ScribeSubscribe"),
    (231, "ScribeUnsubscribe"),
    (232, "ScribePublish"),
    (233, "ScribeCopy"),
    (234, "ScribeRoot"),
    (235, "ScribeHeartbeat"),
    (236, "ScribeReplica"),
    (237, "PastryHello"),
    (238, "PastryLeafAsk"),
    (239, "PastryLeafTell"),
    (240, "GryphonData"),
    (241, "GryphonSilence"),
    (242, "GryphonNack"),
    (243, "GryphonAck"),
    (244, "GryphonExpect"),
    (245, "GryphonTable"),
    (246, "ScribeAdopt"),
]
"""Every number that was ever on a wire. Append; never change a line, never remove one."""

RETIRED = [(84, "CausalMessage"), (85, "Has")]
"""Items of protocols that are gone: their numbers are not given again."""


def test_numbers_are_only_ever_appended() -> None:
    given = [(number, kind.__name__) for number, kind in NUMBERS.items()]
    rivals = [(inspect.type_info(kind).tag, kind.__name__) for kind in RIVAL_ITEMS]  # type: ignore[attr-defined]
    live = [line for line in EVER_GIVEN if line not in (*rivals, *RETIRED)]
    assert given[: len(live)] == live
    assert not dict(RETIRED).keys() & NUMBERS.keys()
    assert sorted(given + rivals + RETIRED) == sorted(EVER_GIVEN), "a new item: append it to EVER_GIVEN in this test"


def test_every_number_is_the_tag_that_travels() -> None:
    for number, kind in NUMBERS.items():
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        assert info.tag == number


def test_the_decoder_reads_exactly_the_items_of_the_table() -> None:
    assert set(get_args(AnyItem)) == set(NUMBERS.values())


def _subclasses(kind: type[Item]) -> list[type[Item]]:
    return [each for direct in kind.__subclasses__() for each in (direct, *_subclasses(direct))]


def test_no_item_of_the_core_is_missing_in_the_table() -> None:
    own = {kind for kind in _subclasses(Item) if kind.__module__.startswith("whence.")}
    defined = {kind for kind in own if kind is not BundleItem}  # which is no kind itself
    assert defined == set(NUMBERS.values())


@pytest.mark.parametrize("kind", NUMBERS.values())
def test_every_field_that_can_be_long_has_an_upper_bound(kind: type[Item]) -> None:
    """Otherwise an announced length could not be refused before the rest is read."""
    unbounded = []

    def visit(info: inspect.Type, path: str) -> None:
        if isinstance(info, inspect.BytesType | inspect.StrType | inspect.ListType) and info.max_length is None:
            unbounded.append(path)
        if isinstance(info, inspect.IntType) and (info.ge is None or info.le is None):
            unbounded.append(path)
        if isinstance(info, inspect.ListType):
            visit(info.item_type, f"{path}[]")
        if isinstance(info, inspect.StructType):
            for field in info.fields:
                visit(field.type, f"{path}.{field.name}")

    visit(inspect.type_info(kind), kind.__name__)
    assert unbounded == []


def test_only_asking_for_a_ticket_needs_the_right_to_write_by_itself() -> None:
    assert [kind.__name__ for kind in NUMBERS.values() if kind.asks_to_write] == ["AcquireTicket"]
