"""A simulator that is expensive to load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class PerWorker:
    """Make a function once in each process: `PerWorker(load)` with load() → function.

    What `load` returns never travels between processes, so it may hold open files, compiled code
    or a licence.
    """

    def __init__(self, load: Callable[[], Callable[[Any], Any]]):
        if not callable(load):
            raise TypeError(f"load must be a function that returns the simulator, not {load!r}")
        self.load = load
        self._function: Callable[[Any], Any] | None = None
        self.__qualname__ = f"PerWorker({getattr(load, '__qualname__', load)})"

    def set_up(self) -> None:
        """Load the simulator, unless it is there."""
        if self._function is None:
            function = self.load()
            if not callable(function):
                raise TypeError(f"load() must return a function of x, not {function!r}")
            self._function = function

    def __call__(self, x: Any) -> Any:
        """Call the simulator, loaded if it is not yet."""
        self.set_up()
        return self._function(x)  # type: ignore[misc]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_function": None}
