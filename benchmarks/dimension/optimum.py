"""The best Gaussian posterior when derivatives cost nothing."""

from __future__ import annotations

import numpy as np

from dimension.problem import WideProblem
from outside.posteriors import laplace
from outside.problem import Gaussian
from supac.arrays import FloatArray

FIRST_SPREAD = 0.05
"""Share of the prior's covariance at the start."""
LEAST_PRECISION = 0.5
"""Of the posterior in units of the prior's, below which curvature is taken as noise."""


def linear_optimum(problem: WideProblem) -> Gaussian:
    """Return the optimum of a linear problem: the Gibbs posterior exp(−R/λ)·prior itself."""
    origin = np.zeros(problem.dim)
    slopes, at_origin = problem.jacobian(origin), problem.residuals(origin[None])[0]
    covariance = laplace(problem, origin, slopes).covariance
    weight = 2.0 / (len(slopes) * problem.temperature)
    return Gaussian(-weight * covariance @ slopes.T @ at_origin, covariance)


class Ascent:
    """Natural gradients of the objective, from derivatives of the residuals at draws.

    In white parameters, of which the prior is standard normal. At the optimum the precision is
    1 + q[∇²R]/λ, and the mean has −q[∇R]/λ. The Hessian is that of Gauss–Newton, and what it
    leaves out comes from the gradients by Stein's identity, q[∇²R] = q[∇R zᵀ] L⁻¹.
    """

    def __init__(self, problem: WideProblem, start: Gaussian, seed: int):
        self.problem, self.root = problem, problem.prior.root
        over = np.linalg.inv(self.root)
        self.mean = over @ start.mean
        self.precision = np.linalg.inv(over @ start.covariance @ over.T)
        self._rng = np.random.default_rng(seed)

    @property
    def posterior(self) -> Gaussian:
        """Return where it has come."""
        covariance = self.root @ np.linalg.inv(self.precision) @ self.root.T
        return Gaussian(self.root @ self.mean, 0.5 * (covariance + covariance.T))

    def step(self, share: float, pairs: int, *, exact: bool) -> None:
        """Go a share of the way to the next fixed point, seen from antithetic pairs of draws."""
        gradient, hessian = self._derivatives(pairs, exact=exact)
        aim = np.eye(self.problem.dim) + hessian / self.problem.temperature
        self.precision = _floored((1.0 - share) * self.precision + share * aim)
        uphill = self.mean + gradient / self.problem.temperature
        self.mean = self.mean - share * np.linalg.solve(self.precision, uphill)

    def _derivatives(self, pairs: int, *, exact: bool) -> tuple[FloatArray, FloatArray]:
        """Estimate q[∇R] (d,) and q[∇²R] (d, d) in white parameters."""
        lower = np.linalg.cholesky(self.precision)
        half = self._rng.standard_normal((pairs, self.problem.dim))
        z = np.concatenate([half, -half])
        # Draws with covariance (L Lᵀ)⁻¹ are L⁻ᵀ z.
        shifts = np.linalg.solve(lower.T, z.T).T
        x = (self.mean + shifts) @ self.root.T
        gradients, hessian = [], np.zeros((self.problem.dim, self.problem.dim))
        for each, residuals in zip(x, self.problem.residuals(x), strict=True):
            slopes = self.problem.jacobian(each) @ self.root
            gradients.append(2.0 / len(residuals) * slopes.T @ residuals)
            hessian += 2.0 / len(residuals) * slopes.T @ slopes / len(x)
        gradient = np.mean(gradients, axis=0)
        if exact:
            surprise = np.array(gradients) - gradient - shifts @ hessian
            missing = (surprise.T @ z / len(z)) @ lower.T
            hessian = hessian + 0.5 * (missing + missing.T)
        return gradient, hessian


def _floored(precision: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(precision)
    return np.asarray((vectors * np.maximum(values, LEAST_PRECISION)) @ vectors.T)


def find_optimum(problem: WideProblem) -> tuple[float, Gaussian, str]:
    """Return the best objective found, its posterior, and how it was found."""
    if problem.linear:
        exact = linear_optimum(problem)
        return problem.objective(exact), exact, "closed form"
    # Differences cost many more simulations than formulas.
    many = 32 if problem.slopes is None else 256
    found = []
    for mean, where in ((np.zeros(problem.dim), "the prior's mean"), (problem.truth, "the truth")):
        start = Gaussian(mean, FIRST_SPREAD * problem.covariance)
        posterior = improved(problem, start, steps=40, pairs=8, exact=False)
        found.append((problem.objective(posterior), posterior, f"natural gradients from {where}"))
    _, posterior, how = min(found, key=lambda each: each[0])
    posterior = improved(problem, posterior, steps=8, pairs=many // 2, exact=False)
    posterior = improved(problem, posterior, steps=12, pairs=many, exact=True)
    return problem.objective(posterior), posterior, how


def good_gaussian(problem: WideProblem) -> Gaussian:
    """Return a posterior near the best: natural gradients from the prior's mean, few draws."""
    start = Gaussian(problem.prior.mean, FIRST_SPREAD * problem.covariance)
    posterior = improved(problem, start, steps=40, pairs=8, exact=False)
    return improved(problem, posterior, steps=8, pairs=64, exact=False)


def improved(
    problem: WideProblem, start: Gaussian, *, steps: int, pairs: int, exact: bool
) -> Gaussian:
    """Return the best posterior on a path of natural gradients whose steps become shorter."""
    ascent = Ascent(problem, start, seed=3)
    best = (problem.objective(start), start)
    for step in range(steps):
        share = 1.0 / (step + 5.0) if exact else min(0.5, 5.0 / (step + 1.0))
        ascent.step(share, pairs, exact=exact)
        if step % 4 == 3:
            now = ascent.posterior
            best = min(best, (problem.objective(now), now), key=lambda each: each[0])
    return best[1]
