"""Settings by name: a level's settings are a struct of its parts' settings, and names are unique across the parts."""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from whence.errors import SettingError

Kind = TypeVar("Kind", bound=Struct)

_KINDS: dict[object, str] = {int: "a whole number", bool: "True or False", str: "a text"}


def names_in(kind: type[Struct]) -> dict[str, str]:
    """Return the name of every setting, with the part it belongs to."""
    return {inner.name: outer.name for outer in structs.fields(kind) for inner in structs.fields(outer.type)}


def parse(given: Mapping[str, Any], kind: type[Kind]) -> Kind:
    """Make settings from values by name, as text or typed. Raises SettingError that names the setting."""
    names = names_in(kind)
    by_part: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        if name not in names:
            raise SettingError(f"no setting is called {name!r}; there are: {', '.join(sorted(names))}")
        by_part.setdefault(names[name], {})[name] = value
    try:
        return msgspec.convert(by_part, kind, strict=False)
    except msgspec.ValidationError as error:
        raise SettingError(_plain(error, given, kind)) from None


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
        return f"{name} must be {', '.join(choices[:-1])} or {choices[-1]}, not {given[name]!r}"
    return f"{name}: {what}" if name else what


def _choices(name: str, kind: type[Struct]) -> list[str]:
    """Return the values that a setting can have, where they are listed."""
    kinds = [inner.type for outer in structs.fields(kind) for inner in structs.fields(outer.type) if inner.name == name]
    return [str(choice) for each in kinds if get_origin(each) is Literal for choice in get_args(each)]
