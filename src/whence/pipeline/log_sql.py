"""SQL expressions for the rows of a log: values in the documented columns, sort keys, and reasons for rejecting rows.

A value is cast if nothing of it is lost. A row that has no place in any order is not dropped but gets a reason.
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from whence.pipeline.logs import (
    BITS_OF,
    FILE,
    GRP,
    HEARTBEAT,
    INC,
    INC_BITS,
    K_BITS,
    K_HI,
    K_LO,
    K_MID,
    KEY,
    KIND,
    PAYLOAD,
    PID,
    PID_BITS,
    PUBLISHER,
    RAW,
    REASON,
    ROW,
    SEQ,
    SEQ_BITS,
    K,
    L,
    R,
)

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

GIVEN: Final = "given_"
"""Prefix of the columns that hold the values as they were given."""
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""What Spark and Hive call the directory of rows without a value."""
_VALUE_SHOWN: Final = 100
GRP_BYTES_MAX: Final = 200
"""A group has a directory of its own; file systems take names of 255 bytes."""
GRP_BYTES_SURE: Final = GRP_BYTES_MAX // 3
"""A name of up to so many bytes fits however many of its characters are escaped."""
_ESCAPED: Final = r"""'"#%\'*/:=?\\{[]^'"""
_ESCAPED_BYTES: Final = f"octet_length({GRP}) + 2 * (length({GRP}) - length(translate({GRP}, {_ESCAPED}, '')))"
"""Characters for which Spark writes three in the name of a directory, and how long that is then."""
_EXACT: Final = 1 << 53
"""Whole numbers below this are exact as doubles."""
_UUID: Final = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

ValueKinds: TypeAlias = tuple[tuple[str, str], ...]
"""(column, kind of its values), sorted."""


# --- values ---

WHOLE, DECIMAL, DOUBLE, TEXT, BYTES, NESTED, OTHER, ABSENT = (
    "whole", "decimal", "double", "text", "bytes", "nested", "other", "absent"
)  # fmt: skip


def value_kind(kind: "DataType") -> str:
    """Return how values of a type are cast."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        DecimalType,
        FractionalType,
        IntegralType,
        MapType,
        NullType,
        StringType,
        StructType,
    )

    if isinstance(kind, NullType):
        return ABSENT
    if isinstance(kind, IntegralType):
        return WHOLE
    if isinstance(kind, DecimalType):
        return DECIMAL
    if isinstance(kind, FractionalType):
        return DOUBLE
    if isinstance(kind, StructType | ArrayType | MapType):
        return NESTED
    return TEXT if isinstance(kind, StringType) else BYTES if isinstance(kind, BinaryType) else OTHER


class Known(IntEnum):
    """What is known of all rows of a file before they are read."""

    NOTHING = 0
    NUMBERS = 1
    """Every column of numbers that is there has a number in every row, in its range."""
    ALL = 2
    """Every row has a place in the order, besides."""


@lru_cache(maxsize=256)
def row_sql(kinds: ValueKinds, known: Known = Known.NOTHING) -> tuple[list[str], list[str]]:
    """Return two lists of SQL columns: values and reasons from given values, then rows with keys from these."""
    of = dict(kinds)
    values, has_names = _values(of)
    parsed = [
        *values,
        f"{_text(KIND, of)} <=> '{HEARTBEAT}' as {HEARTBEAT}" if KIND in of else f"false as {HEARTBEAT}",
        *(f"{_shown(name)} as {GIVEN}{name}" for name in of if name not in (GRP, PUBLISHER, PAYLOAD, KIND)),
        FILE, ROW, RAW, "bad",
    ]  # fmt: skip
    reason = "bad" if known is Known.ALL else _reason(of, known)
    keyed = [*_keyed_columns(of, known, has_names=has_names), HEARTBEAT, FILE, ROW, RAW, f"{reason} as {REASON}"]
    return parsed, keyed


@lru_cache(maxsize=256)
def event_sql(kinds: ValueKinds) -> tuple[list[str], list[str]]:
    """Return two lists of SQL columns for rows that are all events with a place in the order: values from given values,
    then the columns of LOG from these."""
    values, has_names = _values(dict(kinds))
    return values, _keyed_columns(dict(kinds), Known.ALL, has_names=has_names)


def _values(of: Mapping[str, str]) -> tuple[list[str], bool]:
    """Return SQL columns for the values of a row, and whether publishers may have names."""
    numbers = {name: _number(name, of.get(name, ABSENT)) for name in (INC, SEQ, R, L, K, *KEY)}
    word, digits = _publisher_number(of.get(PID, ABSENT))
    names = [f"nullif({_text(PUBLISHER, of)}, '')"] if PUBLISHER in of else []
    uuids = [f"if({_text(PID, of)} rlike '{_UUID}', lower({_text(PID, of)}), null)"] if _may_be_text(of) else []
    has_pid = f"{GIVEN}{PID} is not null" if PID in of else "false"
    spoken = f"if({has_pid}, {uuids[0] if uuids else 'cast(null as string)'}, {names[0] if names else 'null'})"
    values = [
        f"coalesce({_text(GRP, of)}, 'all') as {GRP}" if GRP in of else f"'all' as {GRP}",
        f"{word} as word", f"{digits} as digits", f"cast({spoken} as string) as named",
        *(f"{number} as {name}" for name, number in numbers.items()),
        f"{_payload(of.get(PAYLOAD, ABSENT))} as {PAYLOAD}",
    ]  # fmt: skip
    return values, bool(names or uuids)


def _text(name: str, of: Mapping[str, str]) -> str:
    return "cast(null as string)" if of[name] == ABSENT else f"cast({GIVEN}{name} as string)"


def _shown(name: str) -> str:
    return f"{GIVEN}{name}"


def _may_be_text(of: Mapping[str, str]) -> bool:
    return of.get(PID) in (TEXT, BYTES)


def _number(name: str, kind: str) -> str:
    """Return SQL for a value as a whole number, or null where that would lose anything of it."""
    given = f"{GIVEN}{name}"
    whole = f"try_cast({given} as bigint)"
    if kind == WHOLE:
        return whole
    if kind == DECIMAL:
        return f"if({given} = floor({given}), {whole}, null)"
    if kind == DOUBLE:
        return f"if({given} = floor({given}) and abs({given}) < {_EXACT}, {whole}, null)"
    if kind in (TEXT, BYTES):
        text = given if kind == TEXT else f"cast({given} as string)"
        exact = _decimal(text)
        is_whole = f"{exact} = floor({exact}) and abs({exact}) < {_EXACT}"
        return f"coalesce({_long(text)}, if({is_whole}, try_cast({exact} as bigint), null))"
    return "cast(null as bigint)"


def _long(text: str) -> str:
    """Return SQL for digits as a number. A text with a fraction may have been a double, and is exact only below _EXACT:
    for 9007199254740993.0 in a line of JSON the parser returns 9.007199254740992E15."""
    return f"if({text} rlike '[.eE]', null, try_cast({text} as bigint))"


def _decimal(text: str) -> str:
    return f"try_cast({text} as decimal(38, 9))"


def _publisher_number(kind: str) -> tuple[str, str]:
    """Return SQL for a publisher's number as 64 bits, and for its digits where it needs more than a long's 63 bits."""
    number = _number(PID, kind)
    if kind not in (DECIMAL, TEXT, BYTES):
        return number, "cast(null as string)"
    given = f"{GIVEN}{PID}"
    exact = given if kind == DECIMAL else _decimal(f"cast({given} as string)")
    is_big = f"{exact} = floor({exact}) and {exact} > {2**63 - 1}BD and {exact} < {2**64}BD"
    if kind != DECIMAL:
        is_big = f"{is_big} and not cast({given} as string) rlike '[.eE]'"
    word = f"coalesce({number}, if({is_big}, try_cast({exact} - {2**64}BD as bigint), null))"
    return word, f"if({is_big}, cast(cast({exact} as decimal(20, 0)) as string), null)"


def _payload(kind: str) -> str:
    given = f"{GIVEN}{PAYLOAD}"
    if kind == ABSENT:
        return "cast(null as binary)"
    if kind == BYTES:
        return given
    return f"cast({f'to_json({given})' if kind == NESTED else f'cast({given} as string)'} as binary)"


# --- reasons and keys ---


def _keyed_columns(of: Mapping[str, str], known: Known, *, has_names: bool) -> list[str]:
    def given_or(name: str, otherwise: str) -> str:
        """Return SQL for a number, or for another where it is missing: a column that is not needed is not read."""
        if known is Known.NOTHING:
            return f"coalesce({name}, {otherwise})"
        return name if name in of else otherwise

    inc, k, r = given_or(INC, "1L"), given_or(K, "0L"), given_or(R, L)
    tail = f"shiftleft({inc} & {(1 << INC_BITS) - 1}, {SEQ_BITS}) | {SEQ}"
    is_small = f"digits is null and word between 0 and {(1 << PID_BITS) - 1}"
    mid, low = "shiftrightunsigned(word, 2)", f"shiftleft(word & 3, {INC_BITS + SEQ_BITS}) | {tail}"
    if has_names:
        mid = f"if(named is null, {mid}, {1 << 62}L | shiftleft({_letters(1)}, 6))"
        low = f"if(named is null, {low}, {_letters(8)})"
    made_mid = f"if({is_small}, 0L, {mid})"
    made_low = f"if({is_small}, shiftleft(word, {INC_BITS + SEQ_BITS}) | {tail}, {low})"
    return [
        GRP, f"if(digits is null, word, null) as {PID}", f"coalesce(digits, named) as {PUBLISHER}",
        f"try_cast({inc} as int) as {INC}", SEQ, f"{r} as {R}", L,
        f"{given_or(K_HI, f'shiftleft({L}, {K_BITS}) | {k}')} as {K_HI}",
        f"{given_or(K_MID, f'if({K_HI} is null, {made_mid}, 0L)')} as {K_MID}",
        f"{given_or(K_LO, made_low)} as {K_LO}",
        PAYLOAD,
    ]  # fmt: skip


def _letters(first: int) -> str:
    """Return SQL for seven bytes of a name as a number, so that names compare as their bytes do."""
    return f"cast(conv(rpad(hex(substr(cast(named as binary), {first}, 7)), 14, '0'), 16, 10) as bigint)"


Wrong: TypeAlias = tuple[str, str]
"""SQL for when something is wrong with a row, and for what is said of it then."""


def _reason(of: Mapping[str, str], known: Known) -> str:
    """Return SQL for the reason to reject a row: the first thing that is wrong with it.

    Whether there is one is asked first: so Spark need not make any sentence to know which rows have none, and the code
    of a plan over such rows stays below what Java compiles.
    """
    is_made = f"({K_HI} is null or {K_LO} is null)"
    escaped = f"octet_length({GRP}) > {GRP_BYTES_SURE} and {_ESCAPED_BYTES} > {GRP_BYTES_MAX}"
    wrong_numbers = [
        *_wrong_publisher(of),
        *_wrong_number(of, SEQ, BITS_OF[SEQ], is_made, f"not {HEARTBEAT}"),
        *_wrong_number(of, L, BITS_OF[L], is_made, "true"),
        *_wrong_number(of, INC, BITS_OF[INC], "true", None),
        *_wrong_number(of, K, BITS_OF[K], is_made, None),
        *(each for name in (R, *KEY) for each in _wrong_number(of, name, 63, "true", None)),
        (f"({K_HI} is null) <> ({K_LO} is null)", f"'one of {K_HI} and {K_LO} is missing'"),
    ]
    wrong = [
        ("bad is not null", "bad"),
        (f"{GRP} = ''", "'grp is empty'"),
        (f"instr({GRP}, char(0)) > 0", "'grp has a NUL, which no name of a directory may have'"),
        (escaped, f"'grp has more than {GRP_BYTES_MAX} bytes as the name of a directory'"),
        (f"{GRP} = '{NO_PARTITION}'", f"'grp is {NO_PARTITION}, which stands for none in directories'"),
        *(wrong_numbers if known is Known.NOTHING else []),
    ]
    is_wrong = " or ".join(f"coalesce({condition}, false)" for condition, _ in wrong)
    said = " ".join(f"when {condition} then {sentence}" for condition, sentence in wrong)
    return f"if({is_wrong}, coalesce(case {said} end, 'wrong'), null)"


def _wrong_publisher(of: Mapping[str, str]) -> list[Wrong]:
    given = f"{GIVEN}{PID}" if PID in of else "cast(null as string)"
    wrong = [(f"word is null and named is null and {given} is null", "'pid is missing'")]
    if PID in of:
        shown = _shown_value(PID)
        hint = "no whole number and no UUID; names of publishers belong into the column publisher"
        wrong.append(("word is null and named is null", f"concat('pid is ', {shown}, ', {hint}')"))
        wrong.append(("word < 0 and digits is null", f"concat('pid is ', {shown}, ', out of its range')"))
    return wrong


def _wrong_number(of: Mapping[str, str], name: str, bits: int, is_made: str, needed: str | None) -> list[Wrong]:
    wrong = []
    if name in of:
        shown = _shown_value(name)
        if of[name] != WHOLE:
            cannot = f"{name} is null and {GIVEN}{name} is not null"
            wrong.append((cannot, f"concat('{name} is ', {shown}, ', no whole number')"))
        over = f"({name} > {(1 << bits) - 1}L and {is_made})" if bits < 63 else "false"
        beyond = f"', out of its range, 0 to {(1 << bits) - 1:,}'"
        wrong.append((f"{name} < 0 or {over}", f"concat('{name} is ', {shown}, {beyond})"))
    if needed:
        wrong.append((f"{name} is null and {needed}", f"'{name} is missing'"))
    return wrong


def _shown_value(name: str) -> str:
    return f"substr(cast({GIVEN}{name} as string), 1, {_VALUE_SHOWN})"
