"""A risk in parts: what the simulator says, what was measured, and how wrong that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray, whole
from supac.jacobian import split_answer
from supac.problem.coarse import Coarse, check_coarse
from supac.problem.data import Data
from supac.problem.observation import (
    ObservationLoss,
    ObservedSimulator,
    as_observation_loss,
    residuals_for,
)


@dataclass(frozen=True)
class Composite:
    """R(x) = loss(simulate(x)): far more is learnt from a run's outputs than from its risk alone.

    Parameters
    ----------
    simulate
        x (dim,) → outputs (m,), or (n, dim) → (n, m) with `Execution(vectorized=True)`. NaN marks
        a failed run. With `Observations` it may also return its columns by name, as
        {"A": [1.0, 0.8], "B": [0.0, 0.2]}.
    loss
        Residuals (n, k) → risks (n,), fast: it is called on thousands of emulated outputs a round.
        `MeanSquare()` and `RootMeanSquare()` are the fastest.
    data
        Measurements, such as `Observations`: its `residuals(outputs)` are what the loss takes.
        Without it, the outputs themselves are; best are then residuals, scaled so that all matter
        alike. Stores keep the outputs, so that their runs serve when data are added.
    held_out
        Measurements that the search does not see, for a certificate without a KL term; such as the
        second part of `Observations.split`.
    observation
        Number of parameters, the last ones, that enter after the simulator, such as scales,
        offsets and noise levels: `simulate` takes the others alone, `loss(residuals, z)` takes
        these, (n, k) and (n, observation). They cost no run. Searches of many parameters are far
        faster if the loss is an object with a method `slopes(residuals, z)`, which returns its
        derivatives in both, (n, k) and (n, observation).
    jacobian
        Derivatives of the outputs, which save runs where there are many parameters: a function
        x (dim,) → (m, dim) in the user's units, or (n, dim) → (n, m, dim); or True if `simulate`
        returns the pair (outputs, jacobian), with None for a Jacobian that it has not.
    jacobian_cost
        Cost of a Jacobian in runs, which the budget counts: by default 1 of a function, and 0 if
        `simulate` returns both. The function is called only where that pays.
    coarse
        A `Coarse` model of the same outputs, which a search runs first and beside this one.

    """

    simulate: Callable[[FloatArray], Any]
    loss: Callable[..., Any]
    data: Data | None = None
    held_out: Data | None = None
    observation: int = 0
    jacobian: Callable[[FloatArray], Any] | bool = field(default=False, kw_only=True)
    jacobian_cost: float | None = field(default=None, kw_only=True)
    coarse: Coarse | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.jacobian is False and getattr(self.simulate, "returns_jacobian", False):
            object.__setattr__(self, "jacobian", True)
        check_coarse(self.coarse, self.observation, has_jacobian=self.jacobian is not False)
        for name in ("simulate", "loss"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function, not {getattr(self, name)!r}")
        if not (callable(self.jacobian) or isinstance(self.jacobian, bool)):
            raise TypeError(
                "jacobian must be a function of a point, or True if simulate returns the pair "
                f"(outputs, jacobian), not {self.jacobian!r}"
            )
        cost = self.jacobian_cost
        if cost is not None and not (np.ndim(cost) == 0 and 0.0 <= cost < np.inf):
            raise ValueError(f"jacobian_cost must be a number of runs, 0 or more, not {cost!r}")
        if self.data is not None and not callable(getattr(self.data, "residuals", None)):
            raise TypeError(f"data must have a method residuals(outputs), not be {self.data!r}")
        count = whole(self.observation, "observation", least=0)
        if count and as_observation_loss(self.loss) is None:
            object.__setattr__(self, "simulate", ObservedSimulator(self.simulate, count))
            object.__setattr__(self, "loss", ObservationLoss(self.loss, count))

    @property
    def expected_cost(self) -> float | None:
        """Return the cost of a Jacobian in runs; None if none is to be expected."""
        if self.jacobian is False:
            return None
        usual = 0.0 if self.jacobian is True else 1.0
        return usual if self.jacobian_cost is None else float(self.jacobian_cost)

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Return what the loss takes: the outputs themselves where there are no data.

        Observation parameters follow them as they are.
        """
        if self.data is None:
            return outputs
        # In rows: sums over a row have the same bits however many rows there are.
        return np.ascontiguousarray(residuals_for(self.loss, self.data.residuals, outputs))

    def compared(self, outputs: FloatArray) -> FloatArray:
        """Return the residuals from the data, without observation parameters: (n, m) → (n, k)."""
        rows, loss = self.residuals(outputs), as_observation_loss(self.loss)
        return rows if loss is None else loss.compared(rows)

    def __call__(self, x: FloatArray) -> Any:
        """Return the risk of one point or of many, as `simulate` takes them."""
        outputs = self.vector(split_answer(self.simulate(x), many=np.ndim(x) > 1)[0])
        if outputs.ndim > 1:
            return self.loss(self.residuals(outputs))
        return self.loss(self.residuals(outputs[None]))[0]

    def vector(self, answer: Any) -> FloatArray:
        """Return the outputs as an array, those by name in the order of the data."""
        flat = getattr(self.data, "flat", None)
        if isinstance(answer, Mapping) and flat is not None:
            answer = flat(answer)
        return np.asarray(answer, dtype=np.float64)

    def in_residuals(self) -> Composite:
        """Return the same risk with residuals as outputs, as stores of version 0.1 hold them."""
        if self.held_out is not None:
            raise ValueError(
                "a store of version 0.1 keeps residuals, not outputs, so that held-out data cannot "
                "be compared with its runs: begin a new store"
            )
        if self.data is None or isinstance(self.data, ResidualData) or self.observation:
            return self
        return Composite(_Residuals(self), self.loss, ResidualData(self.data))

    @property
    def tested(self) -> Composite | None:
        """The risk on the held-out data; None if there are none."""
        if self.held_out is None:
            return None
        observed = as_observation_loss(self.loss)
        loss = self.loss if observed is None else observed.for_data(self.held_out)
        return replace(self, loss=loss, data=self.held_out, held_out=None)


@dataclass(frozen=True, eq=False)
class RiskParts:
    """Parts of a risk; a plain function of a point is all simulator."""

    simulate: Any
    loss: Any = None
    data: Any = None
    held_out: Any = None
    coarse: Coarse | None = None
    tested: Composite | None = None
    """The risk on the held-out data."""
    jacobian_cost: float | None = None
    """In runs, if a Jacobian is to be expected."""


def as_composite(risk: object) -> Composite | None:
    """Return a risk in parts; None for a plain function of a point."""
    return risk if isinstance(risk, Composite) else None


def parts_of(risk: object) -> RiskParts:
    """Return the parts of a risk, with None for those that it has not."""
    own = as_composite(risk)
    if own is None:
        return RiskParts(risk)
    parts = (own.simulate, own.loss, own.data, own.held_out, own.coarse, own.tested)
    return RiskParts(*parts, own.expected_cost)


def coarse_ones(risks: Sequence[object]) -> list[Composite | None]:
    """Return each risk by its coarse model; None for those that have none."""
    return [_by_coarse(as_composite(each)) for each in risks]


def _by_coarse(risk: Composite | None) -> Composite | None:
    if risk is None or risk.coarse is None:
        return None
    return replace(risk, simulate=risk.coarse.simulate, coarse=None)


def loss_and_data(risk: object) -> dict[str, Any]:
    """Return the loss and the data of a `Composite` as settings; None of each for a plain risk."""
    parts = parts_of(risk)
    return {"loss": parts.loss, "data": parts.data}


@dataclass(frozen=True, eq=False)
class ResidualData:
    """Data whose residuals are the outputs, as in stores of version 0.1.

    For certificates it has what the data know of their number, blocks and units.
    """

    data: Data

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Return the outputs: (n, measured) → (n, measured)."""
        return outputs

    def __getattr__(self, name: str) -> Any:
        known = ("measured", "blocks", "blocks_of_measured", "sequential", "series", "in_units")
        if name not in known:
            raise AttributeError(f"residuals have no attribute {name!r}")
        return getattr(self.data, name)

    def __repr__(self) -> str:
        return RESIDUALS  # its name in stores


RESIDUALS = "residuals"
"""Name of the data of a store of version 0.1: its outputs are what the loss takes."""


@dataclass(frozen=True)
class _Residuals:
    """Simulate, then compare with the data."""

    composite: Composite

    def set_up(self) -> None:
        """Load the simulator, where it has something to load."""
        load = getattr(self.composite.simulate, "set_up", None)
        if load is not None:
            load()

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the residuals of one point or of many."""
        outputs, _ = split_answer(self.composite.simulate(x), many=np.ndim(x) > 1)
        return self.composite.residuals(self.composite.vector(outputs))
