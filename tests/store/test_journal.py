"""The journal: what is read back is a prefix of what was written, and damage is never taken for a record."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.store.journal import FORMAT, HEAD_BYTES, Damage, OtherFormat, head, read, recovered
from whence.wire.frame import sealed

records = st.lists(st.binary(min_size=1, max_size=40), max_size=8)


def journal_of(written: list[bytes]) -> bytes:
    return b"".join(map(sealed, written))


@given(records)
def test_a_whole_journal_is_read_back_whole(written: list[bytes]) -> None:
    journal = journal_of(written)
    assert recovered(journal) == (written, len(journal))


@given(records, st.data())
def test_a_journal_cut_anywhere_gives_the_records_that_are_whole(written: list[bytes], data: st.DataObject) -> None:
    journal = journal_of(written)
    cut = data.draw(st.integers(0, len(journal)))
    whole = 0
    while whole < len(written) and len(journal_of(written[: whole + 1])) <= cut:
        whole += 1
    assert recovered(journal[:cut]) == (written[:whole], len(journal_of(written[:whole])))


@given(records, st.data())
def test_one_wrong_bit_ends_the_journal_at_the_record_it_is_in(written: list[bytes], data: st.DataObject) -> None:
    """Nothing from the damaged record on is believed, and everything before it is."""
    journal = bytearray(journal_of([*written, b"last"]))
    bit = data.draw(st.integers(0, len(journal) * 8 - 1))
    journal[bit >> 3] ^= 1 << (bit & 7)
    damaged = next(at for at in range(len(written) + 1) if len(journal_of([*written, b"last"][: at + 1])) > bit >> 3)
    assert recovered(bytes(journal)) == (written[:damaged], len(journal_of(written[:damaged])))


@given(records, st.integers(1, 64))
def test_a_tail_of_zeros_holds_no_records(written: list[bytes], zeros: int) -> None:
    """File systems extend a file before its bytes arrive; eight zeros must not read as an empty record."""
    assert recovered(journal_of(written) + bytes(zeros)) == (written, len(journal_of(written)))


@given(records, st.binary(max_size=64))
def test_foreign_bytes_at_the_end_lose_nothing_that_was_written(written: list[bytes], noise: bytes) -> None:
    found, size = recovered(journal_of(written) + noise)
    assert found[: len(written)] == written
    assert size >= len(journal_of(written))


# --- with its head ---


def whole_journal(written: list[bytes], synced: int) -> bytes:
    """Return a journal of which the first `synced` records are known to be durable."""
    return head(HEAD_BYTES + len(journal_of(written[:synced]))) + journal_of(written)


@given(records, st.data())
def test_a_tail_torn_after_what_was_durable_is_cut_and_nothing_before_it(
    written: list[bytes], data: st.DataObject
) -> None:
    synced = data.draw(st.integers(0, len(written)))
    journal = whole_journal(written, synced)
    least = HEAD_BYTES + len(journal_of(written[:synced]))
    found = read(journal[: data.draw(st.integers(least, len(journal)))])
    assert found.records[:synced] == written[:synced]
    assert found.records == written[: len(found.records)]
    assert found.synced == least


@given(records, st.data())
def test_a_journal_shorter_than_it_was_durable_is_damaged(written: list[bytes], data: st.DataObject) -> None:
    journal = whole_journal(written, len(written))
    cut = data.draw(st.integers(0, len(journal) - 1))
    with pytest.raises(Damage) as told:
        read(journal[:cut])
    assert told.value.at == cut


@given(records, st.data())
def test_no_wrong_bit_in_what_was_durable_goes_unnoticed(written: list[bytes], data: st.DataObject) -> None:
    """Wherever it is, in the head, in a length, a checksum or a record: the last record too."""
    journal = bytearray(whole_journal(written, len(written)))
    bit = data.draw(st.integers(0, len(journal) * 8 - 1))
    journal[bit >> 3] ^= 1 << (bit & 7)
    with pytest.raises(Damage) as told:
        read(bytes(journal))
    assert told.value.at <= bit >> 3


@given(records, st.data())
def test_a_wrong_bit_in_what_was_not_durable_loses_nothing_else(written: list[bytes], data: st.DataObject) -> None:
    synced = data.draw(st.integers(0, len(written)))
    journal = bytearray(whole_journal([*written, b"last"], synced))
    least = HEAD_BYTES + len(journal_of(written[:synced]))
    bit = data.draw(st.integers(least * 8, len(journal) * 8 - 1))
    journal[bit >> 3] ^= 1 << (bit & 7)
    found = read(bytes(journal)).records
    assert found[:synced] == written[:synced]
    assert found == [*written, b"last"][: len(found)]


@given(records, st.data())
def test_zeros_in_the_place_of_what_was_durable_are_damage(written: list[bytes], data: st.DataObject) -> None:
    """A block that the disk lost reads as zeros."""
    journal = bytearray(whole_journal([*written, b"last"], len(written) + 1))
    start = data.draw(st.integers(0, len(journal) - 1))
    journal[start:] = bytes(len(journal) - start)
    if journal != whole_journal([*written, b"last"], len(written) + 1):
        with pytest.raises(Damage):
            read(bytes(journal))


# --- of other formats ---


@pytest.mark.parametrize("number", [1, 2, FORMAT + 1, 255])
def test_an_intact_journal_of_another_format_is_told_from_a_damaged_one(number: int) -> None:
    named = b"whence\x00" + bytes([number]) + HEAD_BYTES.to_bytes(8, "little")
    other = named + crc32(named).to_bytes(4, "little") + bytes(4) + b"records as they were framed then"
    with pytest.raises(OtherFormat, match=f"has format {number}, and this version knows {FORMAT}"):
        read(other)


def test_a_later_format_may_have_another_head() -> None:
    later = bytearray(head(HEAD_BYTES))
    later[7:20] = bytes([FORMAT + 1, *range(12)])
    with pytest.raises(Damage, match="later version"):
        read(bytes(later))


@given(records)
def test_a_journal_without_a_head_is_refused_by_name(written: list[bytes]) -> None:
    """The first format had none."""
    with pytest.raises(Damage, match="the first format, which had none"):
        read(journal_of([*written, b"at least as long as a head"]))


@given(st.binary(max_size=200))
def test_whatever_bytes_a_journal_has_are_records_or_one_error(noise: bytes) -> None:
    """With a head before them that calls them durable, and without."""
    for data in (noise, head(HEAD_BYTES) + noise, head(HEAD_BYTES + len(noise)) + noise):
        try:
            found = read(data)
        except (Damage, OtherFormat):
            continue
        assert found.size == HEAD_BYTES + len(journal_of(found.records)) <= len(data)
