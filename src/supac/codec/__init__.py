"""Convert values to plain JSON and back.

Only registered classes can be read back: a file cannot cause anything else to be called. Of any
other object only the name is kept, to detect a change; the user passes the object again.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from hashlib import sha256
from typing import Any, TypeVar, overload

Spec = Any
"""A JSON value."""

_DEPTH = 50
_TEXT = 10_000  # characters

Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class _Entry:
    """A registered class, and its constructor arguments, which are also attributes."""

    kind: type
    arguments: tuple[str, ...]
    later: frozenset[str]
    """Arguments that older files lack: left out of a spec if they are None."""
    dropped: frozenset[str] = frozenset()
    """Arguments of older files that mean nothing any more."""


_REGISTRY: dict[str, _Entry] = {}
_NAMES: dict[type, str] = {}
_FORMER: dict[str, str] = {}  # descriptions in older files, and the names that took their place


@overload
def register(kind: Class) -> Class: ...


@overload
def register(
    *,
    name: str | None = None,
    arguments: tuple[str, ...] | None = None,
    later: tuple[str, ...] = (),
    dropped: tuple[str, ...] = (),
    formerly: tuple[str, ...] = (),
) -> Callable[[Class], Class]: ...


def register(
    kind: Any = None,
    *,
    name: str | None = None,
    arguments: tuple[str, ...] | None = None,
    later: tuple[str, ...] = (),
    dropped: tuple[str, ...] = (),
    formerly: tuple[str, ...] = (),
) -> Any:
    """Register a class, so that stores and result files can hold its values; a decorator.

    `name` is its name in files, by default the class name. `arguments` are its constructor's, by
    default the fields of a dataclass; each must also be an attribute. Older files may have the
    arguments `dropped`, which are ignored, and one of the descriptions `formerly` in place of a
    class without arguments.
    """

    def add(each: type) -> type:
        word = name or each.__name__
        own = tuple(f.name for f in fields(each)) if is_dataclass(each) else ()
        if word in _REGISTRY:
            raise ValueError(f"{word} is registered already, as {_REGISTRY[word].kind}")
        own = own if arguments is None else arguments
        _REGISTRY[word] = _Entry(each, own, frozenset(later), frozenset(dropped))
        _NAMES[each] = word
        _FORMER.update(dict.fromkeys(formerly, word))
        return each

    return add if kind is None else add(kind)


@dataclass(frozen=True)
class Named:
    """A value of a class of the user's own, of which a file has only the name."""

    name: str

    def __str__(self) -> str:
        return self.name


class UnknownSpecError(ValueError):
    """A value that cannot be made from its spec alone."""


class TooLargeError(ValueError):
    """A value that would take more memory than a few kilobytes of a file may ask for."""


def to_spec(value: Any) -> Spec:
    """Convert a value to JSON; floats keep all their digits."""
    import numpy as np  # noqa: PLC0415 - slow to import, and `supac --help` needs none of it

    if isinstance(value, np.generic | np.ndarray):  # first: a NumPy float is a float as well
        return value.tolist()
    if value is None or isinstance(value, bool | int | str | float):
        return value
    if isinstance(value, list | tuple | range):
        return [to_spec(each) for each in value]
    if isinstance(value, Mapping):
        return {"items": [[str(key), to_spec(each)] for key, each in value.items()]}
    name = _NAMES.get(type(value))
    if name is None:
        return {"other": value.name if isinstance(value, Named) else describe(value)}
    entry = _REGISTRY[name]
    parts = {each: getattr(value, each) for each in entry.arguments}
    kept = {k: part for k, part in parts.items() if part is not None or k not in entry.later}
    return {"class": name, **{each: to_spec(part) for each, part in kept.items()}}


def from_spec(spec: Spec) -> Any:
    """Make the value of a spec.

    UnknownSpecError if it holds an unregistered class, TooLargeError if it is deeper or larger than
    anything that `to_spec` writes.
    """
    try:
        return _from_spec(spec, 0)
    except (UnknownSpecError, TooLargeError):
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise UnknownSpecError(f"{_short(spec)}, which cannot be made: {error!s:.200}") from error


def from_spec_or_name(spec: Spec) -> Any:
    """Make the value of a spec; return it `Named` if the class is not registered."""
    try:
        return from_spec(spec)
    except UnknownSpecError as error:
        return Named(str(error))


def check_size(spec: Spec) -> None:
    """Raise TooLargeError if `from_spec` would; a spec of an unknown class is fine."""
    with suppress(UnknownSpecError):
        from_spec(spec)


def _from_spec(spec: Spec, depth: int) -> Any:
    if depth > _DEPTH or (isinstance(spec, str) and len(spec) > _TEXT):
        raise TooLargeError(f"more than {_DEPTH} levels, or a text of over {_TEXT:,} characters")
    if isinstance(spec, list):
        return [_from_spec(each, depth + 1) for each in spec]
    if not isinstance(spec, dict):
        return spec
    if "items" in spec:
        return dict(_from_spec(spec["items"], depth))
    entry = _REGISTRY.get(spec.get("class", ""))
    if entry is None:
        raise UnknownSpecError(_short(spec, 200))
    given = set(spec) - {"class"} - entry.later - entry.dropped
    if given != set(entry.arguments) - entry.later:
        raise UnknownSpecError(f"{spec['class']} with {reprlib.repr(sorted(spec))}")
    values = {name: _from_spec(spec[name], depth + 1) for name in entry.arguments if name in spec}
    return entry.kind(**{name: _tuple_like(entry.kind, v) for name, v in values.items()})


def _tuple_like(kind: type, value: Any) -> Any:
    """Convert lists to tuples for dataclasses, which must be hashable: JSON has no tuples."""
    return tuple(value) if is_dataclass(kind) and isinstance(value, list) else value


def describe(value: Any) -> str:
    """Return a name of any object that is the same in another process."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if callable(value) and module and name:
        return f"{module}.{name}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def fingerprint(*values: Any) -> str:
    """Compute a hash that identifies values; "" if a class is not registered."""
    specs = [to_spec(value) for value in values]
    try:
        from_spec(specs)
    except UnknownSpecError:
        return ""
    return sha256(json.dumps(specs, sort_keys=True).encode()).hexdigest()[:16]


def function_identity(function: Any) -> str:
    """Return a checksum of a function's code, or else its name: the same in the next process."""
    code = getattr(function, "__code__", None)
    if code is None:
        return describe(function)
    text = "\n".join([code.co_code.hex(), repr(code.co_consts), repr(code.co_names)])
    text = re.sub(r" at 0x[0-9a-fA-F]+|, file .*?, line \d+", "", text)
    return f"{code.co_name} with code {sha256(text.encode()).hexdigest()[:8]}"


def differences(old: Spec, new: Spec, where: str = "") -> list[str]:
    """List the differences between two specs, one sentence each."""
    old, new = _renamed(old), _renamed(new)
    if isinstance(old, dict) and isinstance(new, dict):
        if "items" in old and "items" in new:
            mine, yours = dict(old["items"]), dict(new["items"])
            if set(mine) == set(yours):
                pairs_by_name = [(f"{where}[{key}]", mine[key], yours[key]) for key in mine]
                return [line for key, a, b in pairs_by_name for line in differences(a, b, key)]
        if old.get("class") == new.get("class") and set(old) == set(new):
            parts = [(f"{where}.{key}" if where else key, old[key], new[key]) for key in old]
            return [line for key, a, b in parts for line in differences(a, b, key)]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = zip(old, new, strict=True)
        return [
            line for i, (a, b) in enumerate(pairs) for line in differences(a, b, f"{where}[{i}]")
        ]
    if old == new or repr(old) == repr(new):  # NaN does not equal itself
        return []
    return [f"{where}: {_short(old)} in the store, {_short(new)} now"]


def _renamed(spec: Spec) -> Spec:
    """Return the spec of a class where an older file has a description in its place."""
    other = spec.get("other") if isinstance(spec, dict) else None
    return {"class": _FORMER[other]} if isinstance(other, str) and other in _FORMER else spec


def _short(spec: Spec, most: int = 60) -> str:
    name = spec.get("class") or spec.get("other") if isinstance(spec, dict) else None
    text = name if isinstance(name, str) else reprlib.repr(spec)
    return text if len(text) <= most else text[: most - 3] + "..."
