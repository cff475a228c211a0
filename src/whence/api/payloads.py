"""What an application may publish: bytes, one payload or several."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TypeAlias

from whence.errors import LimitError, PayloadError

Payload: TypeAlias = bytes | bytearray | memoryview
"""What may be published; a mutable payload is copied."""


def checked(payload: Payload) -> bytes:
    """Return a payload as immutable bytes. Raises PayloadError for anything else."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    raise PayloadError(
        f"a payload is bytes, bytearray or memoryview, not {type(payload).__name__}; encode it first, or use typed()"
    )


def all_checked(payloads: Iterable[Payload], events_max: int) -> Sequence[bytes]:
    """Return payloads to publish together as bytes; of a longer iterable, one more than may be published.

    Raises PayloadError, and LimitError for none.
    """
    if isinstance(payloads, str | bytes | bytearray | memoryview):
        raise PayloadError(
            f"publish_many takes several payloads, not one {type(payloads).__name__}; use publish for it"
        )
    if not isinstance(payloads, list | tuple):
        try:
            payloads = list(islice(payloads, events_max + 1))
        except TypeError:
            raise PayloadError(f"publish_many takes several payloads, not {type(payloads).__name__}") from None
    if not payloads:
        raise LimitError("the least number of events to publish", 1, 0)
    if list(map(type, payloads)).count(bytes) != len(payloads):
        return list(map(checked, payloads[: events_max + 1]))
    return payloads  # type: ignore[return-value]
