"""A least-squares problem with many parameters, and how good a Gaussian posterior of it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import supac
from outside.problem import Gaussian, Role, normal_draws
from supac.arrays import FloatArray

_DIFFERENCE = 1e-5


@dataclass(frozen=True, eq=False)
class WideProblem:
    """Minimise q[mean(r²)] + λ·KL(q, prior) over Gaussians q of the parameters, prior N(0, C)."""

    name: str
    role: Role
    source: str
    """Where the model and its numbers are from."""
    covariance: FloatArray
    """C, (d, d)."""
    residuals: Callable[[FloatArray], FloatArray]
    """r in units of the noise or of the problem's choice: (n, d) → (n, m)."""
    temperature: float
    """λ; 2/m makes the Gibbs posterior exp(−R/λ)·prior that of unit noise."""
    truth: FloatArray
    """The parameters that made the data, (d,)."""
    slopes: Callable[[FloatArray], FloatArray] | None = None
    """Derivatives of the residuals at a point, (d,) → (m, d), where there is a formula."""
    linear: bool = False
    """Whether the residuals are linear, so that objective and optimum are exact."""
    draws: int = 2048
    """Simulations behind an objective, a power of two."""

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.covariance)

    @cached_property
    def prior(self) -> Gaussian:
        """Return the prior."""
        return Gaussian(np.zeros(self.dim), self.covariance)

    @property
    def square(self) -> float:
        """The risk is mean(r²) itself."""
        return 1.0

    @property
    def independent(self) -> bool:
        """Whether the prior's parameters are independent."""
        return not np.any(self.covariance - np.diag(np.diag(self.covariance)))

    @property
    def bound(self) -> supac.Catoni:
        """Return the objective, for `minimize`."""
        return supac.Catoni(temperature=self.temperature)

    def jacobian(self, x: FloatArray) -> FloatArray:
        """Compute derivatives of the residuals at a point, (d,) → (m, d)."""
        if self.slopes is not None:
            return self.slopes(x)
        step = _DIFFERENCE * np.eye(self.dim)
        ahead, behind = self.residuals(x + step), self.residuals(x - step)
        return np.asarray((ahead - behind).T / (2.0 * _DIFFERENCE))

    def mean_risk(self, posterior: Gaussian) -> float:
        """Compute q[mean(r²)] from draws that are common to all posteriors.

        The residuals linearised at the mean, whose expected square is known, are the control
        variate; nothing else is left of a linear problem.
        """
        root = posterior.root
        at_mean, slopes = self.residuals(posterior.mean[None])[0], self.jacobian(posterior.mean)
        spread = slopes @ root
        exact = float((at_mean**2).mean() + (spread**2).sum() / len(at_mean))
        if self.linear:
            return exact
        half = normal_draws(self.draws // 2, self.dim)
        z = np.concatenate([half, -half])
        risk = (self.residuals(posterior.mean + z @ root.T) ** 2).mean(axis=1)
        linearised = ((at_mean + z @ spread.T) ** 2).mean(axis=1)
        shift = linearised - linearised.mean()
        share = float(shift @ risk) / max(float(shift @ shift), 1e-300)
        return float(risk.mean() + share * (exact - linearised.mean()))

    def objective(self, posterior: Gaussian) -> float:
        """Compute q[mean(r²)] + λ·KL(q, prior)."""
        return self.mean_risk(posterior) + self.temperature * posterior.kl(self.prior)


def observe(
    simulate: Callable[[FloatArray], FloatArray],
    truth: FloatArray,
    noise: FloatArray,
    *,
    scale: float,
    limit: float = np.inf,
) -> Callable[[FloatArray], FloatArray]:
    """Return the residuals of synthetic data: simulate(truth) + `noise`, in units of `scale`.

    `limit` bounds them on both sides: far from the data it does not matter how far.
    """
    data = simulate(truth[None])[0] + noise

    def residuals(x: FloatArray) -> FloatArray:
        return np.clip((simulate(np.atleast_2d(x)) - data) / scale, -limit, limit)

    return residuals
