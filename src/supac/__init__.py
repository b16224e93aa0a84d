"""Calibrate expensive simulators with PAC-Bayes guarantees.

Importing the package imports nothing else: NumPy and SciPy come with the first public name that is
asked for, all of which `public.py` lists.
"""

import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supac.families import *  # noqa: F403
    from supac.public import *  # noqa: F403
    from supac.public import __all__ as __all__

__version__ = "0.2.0"
_RENAMED = {"Snapshot": "Record", "Uniform": "FreshDraws"}


def __getattr__(name: str) -> Any:
    """Import the public names, or a rarely used one such as `plots`, on demand."""
    if name in _RENAMED:
        new = _RENAMED[name]
        warnings.warn(f"supac.{name} is now supac.{new}", DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[__name__], new)
    if name == "public" or (name.startswith("__") and name != "__all__"):
        raise AttributeError(f"module 'supac' has no attribute {name!r}")
    public = import_module("supac.public")
    if name in public.LATER:
        module = import_module(public.LATER[name])
        return getattr(module, name, module)
    present = globals()
    now = set(public.__all__) - set(public.LATER)
    present.update({"__all__": public.__all__, **{each: getattr(public, each) for each in now}})
    if name in present:  # subpackages too, which are there once one of their modules is imported
        return present[name]
    raise AttributeError(f"module 'supac' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
