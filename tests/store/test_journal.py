"""The journal: what is read back is a prefix of what was written, and damage is never taken for a record."""

from hypothesis import given
from hypothesis import strategies as st

from whence.store.journal import framed, recovered

records = st.lists(st.binary(max_size=40), max_size=8)


def journal_of(written: list[bytes]) -> bytes:
    return b"".join(map(framed, written))


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
    assert recovered(journal) == (written[:damaged], len(journal_of(written[:damaged])))


@given(records, st.integers(1, 64))
def test_a_tail_of_zeros_holds_no_records(written: list[bytes], zeros: int) -> None:
    """File systems extend a file before its bytes arrive; eight zeros must not read as an empty record."""
    assert recovered(journal_of(written) + bytes(zeros)) == (written, len(journal_of(written)))


@given(records, st.binary(max_size=64))
def test_foreign_bytes_at_the_end_lose_nothing_that_was_written(written: list[bytes], noise: bytes) -> None:
    found, size = recovered(journal_of(written) + noise)
    assert found[: len(written)] == written
    assert size >= len(journal_of(written))
