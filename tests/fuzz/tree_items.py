"""Items of the levels on a tree, made from what their types say: any fields will do for them."""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import inspect

from whence.core.levels.causal.tree import items
from whence.core.ready import Item
from whence.types import Bundle, Process, packed

KINDS: tuple[type[Item], ...] = (
    items.Copy, items.Trail, items.Ack, items.Ask, items.Probe, items.Back, items.Lookup, items.Named,
    items.FenceAsk, items.FenceTell, items.Lost,
)  # fmt: skip


def some_bundle(random: Random) -> Bundle:
    payloads = [random.randbytes(random.randrange(20)) for _ in range(random.randint(1, 4))]
    return packed(Process(random.randrange(100), random.randint(1, 5)), random.randint(1, 1000), payloads)


def some_value(kind: inspect.Type, random: Random) -> Any:
    """Draw a value that a field of this type takes."""
    match kind:
        case inspect.IntType():
            return random.randint(kind.ge or 0, min(kind.le or 1000, random.choice((3, 300, 10**9))))
        case inspect.BytesType():
            return random.randbytes(random.randint(kind.min_length or 0, max(kind.min_length or 0, 24)))
        case inspect.DictType():
            pairs = range(random.randint(0, 6))
            return {some_value(kind.key_type, random): some_value(kind.value_type, random) for _ in pairs}
        case inspect.StructType():
            return some_bundle(random)
        case inspect.BoolType():
            return random.random() < 0.5
    raise AssertionError(f"say here how to draw {kind}")


def maker(kind: type[Item]) -> Callable[[Random], Item]:
    """Return a function that makes items of a kind."""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    fields = described.fields
    return lambda random: kind(*(some_value(field.type, random) for field in fields))


TREE_MAKERS = {kind: maker(kind) for kind in KINDS}
