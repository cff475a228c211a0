"""Types as Spark spells them (`array<struct<pid:int>>`), for DuckDB and for Arrow."""

from typing import Any, Final

import pyarrow as pa

from whence.pipeline.local.errors import NotLocal

_PLAIN: Final[dict[str, tuple[str, Any]]] = {
    "string": ("VARCHAR", pa.string()), "int": ("INTEGER", pa.int32()), "bigint": ("BIGINT", pa.int64()),
    "boolean": ("BOOLEAN", pa.bool_()), "double": ("DOUBLE", pa.float64()), "binary": ("BLOB", pa.binary()),
}  # fmt: skip


def duckdb_type(name: str) -> str:
    """Return how DuckDB spells a type. Raises NotLocal."""
    kind, inner = _taken_apart(name)
    if kind == "array":
        return f"{duckdb_type(inner)}[]"
    if kind == "struct":
        return f"STRUCT({', '.join(f'{quoted(field)} {duckdb_type(of)}' for field, of in fields(inner, ':'))})"
    return _plain(kind)[0]


def arrow_type(name: str) -> Any:
    """Return a type of Arrow. Raises NotLocal."""
    kind, inner = _taken_apart(name)
    if kind == "array":
        return pa.list_(arrow_type(inner))
    if kind == "struct":
        return pa.struct([(field, arrow_type(of)) for field, of in fields(inner, ":")])
    return _plain(kind)[1]


def arrow_schema(ddl: str) -> Any:
    """Return the columns that `name type, name type` lists. Raises NotLocal."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in fields(ddl, " ")])


def fields(text: str, between: str) -> list[tuple[str, str]]:
    """Split `name:type, name:type` at the commas that are not within a type."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    pairs = [part.strip().split(between, 1) for part in parts if part.strip()]
    return [(name.strip().strip("`"), kind.strip()) for name, kind in pairs]


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _taken_apart(name: str) -> tuple[str, str]:
    kind, _, inner = name.strip().partition("<")
    return kind.lower(), inner.rstrip()[:-1]


def _plain(kind: str) -> tuple[str, Any]:
    if kind not in _PLAIN:
        raise NotLocal(f"the type {kind}")
    return _PLAIN[kind]
