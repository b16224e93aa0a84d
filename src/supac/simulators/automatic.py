"""Simulators in JAX, with the Jacobians of their outputs by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


class DifferentiatedSimulator:
    """Return the outputs of a JAX function and their Jacobian, in double precision.

    `jax.jacfwd` goes through the function once for each parameter; where there are fewer outputs,
    `jax.jacrev` goes once for each of these.
    """

    returns_jacobian = True

    def __init__(self, function: Callable[..., Any]):
        if not callable(function):
            raise TypeError(f"function must be a function of a point, not {function!r}")
        self.function = function
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.__qualname__ = name
        self.__module__ = getattr(function, "__module__", __name__)

    def __repr__(self) -> str:
        return f"with_jacobian({self.__qualname__})"

    def __reduce__(self) -> tuple[Any, ...]:
        return DifferentiatedSimulator, (self.function,)  # without what was compiled

    def set_up(self) -> None:
        """Import JAX."""
        _jax()

    @cached_property
    def _compiled(self) -> Callable[[Any], Any]:
        jax = _jax()

        def both(x: Any) -> Any:
            def twice(point: Any) -> Any:
                outputs = self.function(point)
                return outputs, outputs

            sizes = jax.tree.leaves(jax.eval_shape(self.function, x))
            outputs = sum(int(np.prod(each.shape)) for each in sizes)
            transform = jax.jacfwd if len(x) <= outputs else jax.jacrev
            return transform(twice, has_aux=True)(x)

        return jax.jit(both)

    def __call__(self, x: FloatArray) -> tuple[Any, Any]:
        """Return outputs and Jacobian of one point (dim,) or of many (n, dim)."""
        jax = _jax()
        with jax.enable_x64(True):
            points = jax.numpy.asarray(np.asarray(x, dtype=np.float64))
            compute = self._compiled if points.ndim == 1 else jax.vmap(self._compiled)
            jacobian, outputs = compute(points)
            return _numbers(outputs), _numbers(jacobian)


def with_jacobian(function: Callable[..., Any]) -> DifferentiatedSimulator:
    """Return a simulator that returns the outputs of a JAX function and their Jacobian.

    `Composite(supac.with_jacobian(f), loss, data)` needs no `jacobian=` besides.
    """
    _jax()
    return DifferentiatedSimulator(function)


def _numbers(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: np.asarray(each, dtype=np.float64) for name, each in found.items()}
    return np.asarray(found, dtype=np.float64)


def _jax() -> Any:
    """Import JAX; ImportError names the extra."""
    try:
        import jax  # noqa: PLC0415 - it is large, and optional
    except ImportError as error:
        raise ImportError("with_jacobian needs JAX: pip install 'supac[jax]'") from error
    return jax
