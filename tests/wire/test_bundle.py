"""Bundles stay packed from publish to deliver, and lose nothing by it (decision 0003)."""

from hypothesis import given
from hypothesis import strategies as st

from tests.wire import strategies as wire
from whence.types import Bundle, EventId, Process, packed

ME = Process(3, 1)


@given(wire.payload_lists(), st.integers(1, 1000), st.binary(max_size=5))
def test_payloads_come_out_as_they_went_in(payloads: list[bytes], first: int, stamp: bytes) -> None:
    bundle = packed(ME, first, payloads, stamp)
    assert bundle.payloads() == payloads
    assert list(bundle.each_size()) == list(map(len, payloads))
    assert (bundle.count, bundle.first, bundle.last) == (len(payloads), first, first + len(payloads) - 1)
    assert (bundle.process, bundle.stamp) == (ME, stamp)


@given(wire.payload_lists())
def test_what_was_packed_is_sound(payloads: list[bytes]) -> None:
    assert packed(ME, 1, payloads).is_valid()


@given(wire.payload_lists(), st.integers(1, 50), st.data())
def test_a_cut_bundle_is_the_bundle_of_the_payloads_that_are_left(
    payloads: list[bytes], first: int, data: st.DataObject
) -> None:
    gone = data.draw(st.integers(0, len(payloads) - 1))
    cut = packed(ME, first, payloads, b"stamp").cut_before(first + gone)
    assert cut == packed(ME, first + gone, payloads[gone:], b"stamp")
    assert cut.is_valid()


@given(st.binary(min_size=4, max_size=20), st.binary(max_size=60))
def test_a_bundle_is_sound_exactly_if_its_sizes_add_up_to_its_body(sizes: bytes, body: bytes) -> None:
    whole = len(sizes) % 4 == 0
    total = sum(int.from_bytes(sizes[at : at + 4], "little") for at in range(0, len(sizes), 4))
    assert Bundle(1, 1, 1, sizes, body).is_valid() == (whole and total == len(body))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(-1, 1))
def test_one_byte_too_many_or_too_few_is_not_sound(lengths: list[int], off: int) -> None:
    sizes = b"".join(length.to_bytes(4, "little") for length in lengths)
    body = bytes(max(0, sum(lengths) + off))
    assert Bundle(1, 1, 1, sizes, body).is_valid() == (len(body) == sum(lengths))


def test_a_process_and_an_event_are_named_by_plain_tuples() -> None:
    assert Process(1, 2) == (1, 2)
    assert EventId(1, 2, 3) == (1, 2, 3)
