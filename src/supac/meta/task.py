"""One of several related problems: a task of meta-learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from supac.arrays import FloatArray, frozen, vector
from supac.problem.bounds import Bound
from supac.running.execution import Execution


@dataclass(frozen=True, eq=False)
class Task:
    """A risk and the bound to minimise, with the same parameters as other tasks.

    Parameters
    ----------
    risk
        As in `minimize`: x (dim,) → float, or (n, dim) → (n,) with `vectorized=True`, or a
        `Composite`.
    bound
        Bound of this task: tasks may have different n and λ.
    vectorized
        True if `risk` takes many points at a time.
    features
        φ, known properties of the task, for a prior θ_p = A·φ that depends on them; include a
        constant, such as `[1.0, size]`.
    name
        Identifies the task in a store; by default the name of the risk function.

    """

    risk: Callable[[FloatArray], Any]
    bound: Bound
    vectorized: bool = False
    features: Sequence[float] | FloatArray | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not callable(self.risk):
            raise TypeError(f"risk must be a function of x, not {self.risk!r}")
        if not isinstance(self.bound, Bound):
            raise TypeError(
                f"bound must be a bound such as Catoni(temperature=0.01), not {self.bound!r}"
            )
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"name must be a text, not {self.name!r}")
        if self.features is not None:
            object.__setattr__(self, "features", frozen(vector(self.features, "features")))

    def execution(self, given: Execution) -> Execution:
        """Return the execution of this task's runs."""
        return replace(given, vectorized=self.vectorized)
