"""Classes that a problem file selects by name: bounds, losses and priors."""

from __future__ import annotations

import math
from typing import Any, ClassVar


class Selectable:
    """Base of the classes that `kind = "…"` in a problem file can name.

    `class Huber(ResidualLoss, kind="huber")` is available to problem files once it is defined, its
    dataclass fields as keys of its table; without `kind` a class is available in Python only.
    """

    kinds: ClassVar[dict[str, type[Any]]]
    """Available classes by name; one table per direct subclass of `Selectable`."""

    def __init_subclass__(cls, *, kind: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if Selectable in cls.__bases__:
            cls.kinds = {}
        if kind and cls.kinds.setdefault(kind, cls) is not cls:
            raise ValueError(f"{kind!r} is already the name of {cls.kinds[kind]}: choose another")


def option(
    meaning: str, *, below: float = math.inf, word: str = "", default: str = ""
) -> dict[str, Any]:
    """Return the metadata of a dataclass field that problem files may set.

    Its value is a number between 0 and `below`, or `word`; `default` is for the documentation.
    """
    return {"meaning": meaning, "below": below, "word": word, "default": default}
