"""Parameters that enter after the simulator: scales, offsets, noise levels.

No run is needed to know what they do. A run simulates with the other parameters alone, and its
outputs are followed by the values of these; the emulator learns how the simulated outputs depend on
the others, and the loss is averaged over these exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.codec import register
from supac.jacobian import split_answer
from supac.problem.leading import LeadingSimulator
from supac.problem.losses import ResidualLoss, as_residual_loss, reason_of_no_ceiling
from supac.problem.marginals import Marginal
from supac.problem.problem import Parameters


@dataclass(frozen=True, eq=False)
class ObservedSimulator(LeadingSimulator):
    """Simulate with all parameters but the last ones, and append their values to the outputs."""

    def __call__(self, x: FloatArray) -> Any:
        """Return the outputs of one point or of many, with their Jacobian if there is one."""
        points = np.asarray(x)
        outputs, jacobian = split_answer(self.simulate(self.leading(points)), many=points.ndim > 1)
        if isinstance(outputs, Mapping):
            raise TypeError(
                "a simulator with observation parameters must return an array of outputs, not "
                "one for each name"
            )
        simulated = np.asarray(outputs, dtype=np.float64)
        if simulated.ndim == points.ndim - 1:  # one output a point
            simulated = simulated[..., None]
        if simulated.ndim != points.ndim or simulated.shape[:-1] != points.shape[:-1]:
            raise ValueError(
                f"simulate must return a 1-D array of numbers a point, not shape {simulated.shape}"
                f" for points of shape {points.shape}"
            )
        every = np.concatenate([simulated, points[..., -self.trailing :]], axis=-1)
        return every if jacobian is None else (every, jacobian)


def as_observation_loss(loss: object) -> ObservationLoss | None:
    """Return a loss of parameters that enter after the simulator; None for any other."""
    return loss if isinstance(loss, ObservationLoss) else None


def loss_of_outputs(loss: Any) -> Any:
    """Return the loss itself, without the parameters that enter after the simulator."""
    own = as_observation_loss(loss)
    return loss if own is None else own.loss


def residual_loss_of(loss: object) -> ResidualLoss | None:
    """Return the loss of residuals that a loss is, or that it has of what was observed."""
    observed = as_observation_loss(loss)
    own = loss if observed is None else observed.residual_loss
    return as_residual_loss(own)


def residuals_for(
    loss: Any, residuals: Callable[[FloatArray], FloatArray], outputs: FloatArray
) -> FloatArray:
    """Return residuals of outputs as a loss takes them, with observation parameters if it does."""
    own = as_observation_loss(loss)
    return np.asarray(residuals(outputs)) if own is None else own.residuals(residuals, outputs)


def observation_count(loss: object) -> int:
    """Return the number of parameters that enter after the simulator."""
    own = as_observation_loss(loss)
    return 0 if own is None else own.count


@register(arguments=("loss", "count"))
@dataclass(frozen=True, eq=False)
class ObservationLoss:
    """A loss of outputs and of the last `count` parameters, which follow the outputs."""

    loss: Callable[[FloatArray, FloatArray], Any]
    count: int
    parameters: Parameters | None = None
    """Of all the parameters, if points are latent."""

    def __repr__(self) -> str:
        return f"{self.loss!r} with {self.count} observation parameters"

    @property
    def in_words(self) -> str:
        """The loss as it is told in reports."""
        own = getattr(self.loss, "in_words", None) or repr(self.loss)
        few = "1 parameter that costs" if self.count == 1 else f"{self.count} parameters that cost"
        return f"{own}; {few} no run"

    @property
    def unbounded(self) -> str:
        """Reason why there is no certificate, if the loss is a likelihood."""
        return reason_of_no_ceiling(self.loss)

    @property
    def residual_loss(self) -> object:
        """Loss of the residuals that `compared` returns, if there is one; else None."""
        return getattr(self.loss, "loss", None) if hasattr(self.loss, "residuals") else None

    @property
    def ceiling(self) -> float | None:
        """Largest possible risk, if that loss has one."""
        return getattr(self.residual_loss, "ceiling", None)

    def compared(self, rows: FloatArray) -> FloatArray:
        """Return residuals from the data, (n, m + count) → (n, m), of what was observed if known.

        These are the simulated ones, unless the loss has a method `residuals(simulated, z)`.
        """
        simulated, own = rows[:, : -self.count], rows[:, -self.count :]
        observed = getattr(self.loss, "residuals", None)
        return simulated if observed is None else np.asarray(observed(simulated, own))

    def for_data(self, data: object) -> ObservationLoss:
        """Return the loss of other data of the same design."""
        other = getattr(self.loss, "for_data", None)
        return self if other is None else replace(self, loss=other(data))

    def __call__(self, rows: FloatArray) -> FloatArray:
        """(n, m + count) → (n,)."""
        return np.asarray(self.loss(rows[:, : -self.count], rows[:, -self.count :]))

    def residuals(
        self, residuals: Callable[[FloatArray], FloatArray], outputs: FloatArray
    ) -> FloatArray:
        """Return residuals of the simulated outputs, followed by the observation parameters."""
        simulated, own = outputs[..., : -self.count], outputs[..., -self.count :]
        return np.concatenate([residuals(simulated), own], axis=-1)

    def within(self, parameters: Parameters | None) -> ObservationLoss:
        """Return the loss for points that are latent."""
        return replace(self, parameters=parameters)

    def rows(self, outputs: FloatArray, x: FloatArray) -> FloatArray:
        """Return outputs (n, m) followed by the observation parameters of points x (n, dim)."""
        return np.concatenate([outputs, self.own(x)], axis=1)

    def own(self, x: FloatArray) -> FloatArray:
        """Return the observation parameters of points x (n, dim), in the user's units."""
        own = x[:, -self.count :]
        columns = zip(self._marginals, own.T, strict=False)
        if self.parameters is None:
            return own
        return np.column_stack([marginal.from_latent(column) for marginal, column in columns])

    def slopes_of_own(self, by_z: FloatArray, x: FloatArray) -> FloatArray:
        """Convert derivatives in the observation parameters to those in coordinates of x."""
        slopes = np.array(by_z, dtype=np.float64)
        for i, marginal in enumerate(self._marginals):
            slopes[:, i] *= np.exp(marginal.log_slope(x[:, i - self.count]))
        return slopes

    def slopes(self, outputs: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Compute the derivatives in outputs (n, m) and in the last `count` coordinates of x.

        None if the loss has no method `slopes`, which returns those in outputs and in z.
        """
        slopes = getattr(self.loss, "slopes", None)
        if slopes is None:
            return None
        rows = self.rows(outputs, x)
        found = slopes(rows[:, : -self.count], rows[:, -self.count :])
        if found is None:
            return None
        return np.asarray(found[0], dtype=np.float64), self.slopes_of_own(found[1], x)

    @property
    def _marginals(self) -> list[Marginal]:
        """Priors of the observation parameters, from which latent points are converted."""
        if self.parameters is None:
            return []
        return list(self.parameters.transforms.values())[-self.count :]
