"""Items of tickets and recovery for property tests: drawn by the fuzzer's makers from a drawn seed."""

from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.ticket_items import TICKET_MAKERS

TICKETS: dict[type, st.SearchStrategy[Any]] = {
    kind: st.integers(0, 2**32).map(lambda seed, make=make: make(Random(seed)))  # type: ignore[misc]
    for kind, make in TICKET_MAKERS.items()
}
"""Every item whose fields must agree with each other, and the others with them."""
