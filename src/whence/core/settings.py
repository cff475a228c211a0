"""Settings by name: a level's settings are a struct of its parts' settings, and names are unique across the parts."""

import math
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from whence.errors import SettingError
from whence.limits import FORMER_NAMES

Kind = TypeVar("Kind", bound=Struct)

SECONDS_MAX = 10**9
"""The longest time allowed: some thirty years."""

SECONDS_MIN = 1e-6
"""The shortest: no timer of a process is finer, and whoever writes less has most likely mistaken the unit."""

_EXPECTED = {"Expected `int`": "a whole number", "Expected `float`": "a number", "Expected `bool`": "true or false"}
"""What is wrong with a value, as a caller would say it: msgspec names its types."""

_KINDS: dict[object, str] = {int: "a whole number", bool: "True or False", str: "a text"}


def names_in(kind: type[Struct]) -> dict[str, str]:
    """Return the name of every setting, with the part it belongs to."""
    return {inner.name: outer.name for outer in structs.fields(kind) for inner in structs.fields(outer.type)}


def parse(given: Mapping[str, Any], kind: type[Kind]) -> Kind:
    """Make settings from values by name, as text or typed; a time may be given in seconds, as remove_after_s for
    remove_after_ns. Raises SettingError that names the setting."""
    names = names_in(kind)
    by_part: dict[str, dict[str, Any]] = {}
    given = {FORMER_NAMES.get(name, name): value for name, value in given.items()}
    for name, value in sorted(given.items(), key=lambda item: item[0] not in names):  # seconds replace nanoseconds
        if name in names:
            by_part.setdefault(names[name], {})[name] = value
        elif is_seconds(name) and f"{name[:-1]}ns" in names:
            by_part.setdefault(names[f"{name[:-1]}ns"], {})[f"{name[:-1]}ns"] = _nanoseconds(name, value)
        else:
            raise SettingError(unknown(name, names))
    try:
        return msgspec.convert(by_part, kind, strict=False)
    except msgspec.ValidationError as error:
        raise SettingError(_plain(error, given, kind)) from None


def is_seconds(name: str) -> bool:
    """Tell whether a setting with this name is a time in seconds."""
    return name.endswith("_s")


def unknown(name: str, names: Collection[str]) -> str:
    """Say that no setting has a name: with those that are written almost like it, or else all there are."""
    also = [f"{each[:-2]}s" for each in names if each.endswith("_ns")]
    if alike := get_close_matches(name, sorted([*names, *also]), n=3, cutoff=0.75):
        return f"no setting is called {name!r}; did you mean {' or '.join(alike)}?"
    return f"no setting is called {name!r}; there are: {', '.join(sorted(names))}"


def _nanoseconds(name: str, value: object) -> int:
    """Return a time given in seconds; infinity, which stands for never, is 0. Raises SettingError."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
    except (ValueError, OverflowError):
        seconds = 0.0
    if seconds == math.inf:
        return 0
    if not 0 < seconds <= SECONDS_MAX:
        too_many = isinstance(value, int) and value > SECONDS_MAX  # it may have more digits than Python prints
        given = "more than 10**9" if too_many else repr(value)
        raise SettingError(f"{name} is a number of seconds above 0, or inf for never, not {given}")
    if seconds < SECONDS_MIN:
        raise SettingError(f"{name} is at least a microsecond ({SECONDS_MIN:g}), or inf for never, not {value!r}")
    return int(seconds * 1e9)


def seconds(ns: int) -> str:
    """Return a time as it is given in settings; 0 stands for never."""
    return f"{ns / 1e9:g}" if ns else "inf"


def check_types(settings: Struct) -> None:
    """Raise SettingError where a number, flag or text is something else: constructors do not check their types."""
    for field in structs.fields(settings):
        value = getattr(settings, field.name)
        if field.type in _KINDS and type(value) is not field.type:
            raise SettingError(f"{field.name} is {_KINDS[field.type]}, not {value!r}")


def by_name(settings: Struct) -> dict[str, Any]:
    """Return all values by name."""
    return {name: value for part in structs.asdict(settings).values() for name, value in structs.asdict(part).items()}


def _plain(error: msgspec.ValidationError, given: Mapping[str, Any], kind: type[Struct]) -> str:
    """Say which setting was wrong instead of where in the structure it was, and what it could be."""
    what, _, where = str(error).partition(" - at `$.")
    name = where.rstrip("`").rpartition(".")[2]
    if choices := _choices(name, kind):
        listed = f"{', '.join(choices[:-1])} or {choices[-1]}" if choices[1:] else choices[0]
        return f"{name} must be {listed}, not {given[name]!r}"
    if name in given and (meant := _EXPECTED.get(what.partition(",")[0])):
        return f"{name} must be {meant}, not {given[name]!r}"
    return f"{name}: {what}" if name else what


def _choices(name: str, kind: type[Struct]) -> list[str]:
    """Return the values that a setting can have, where they are listed."""
    kinds = [inner.type for outer in structs.fields(kind) for inner in structs.fields(outer.type) if inner.name == name]
    return [str(choice) for each in kinds if get_origin(each) is Literal for choice in get_args(each)]
