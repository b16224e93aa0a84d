"""Ensemble smoothers and Gauss–Newton on the same objective; ESMDA is in the peers' environment.

Where a peer leaves a choice open, such as how to make a full covariance of a few members, the
choice that the true objective likes best is taken: what a user of it could hope for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from dimension.answer import EXTRA_RUNS, Answer, Method
from dimension.problem import WideProblem
from outside.posteriors import SkippedError, laplace
from outside.problem import Gaussian
from supac.arrays import FloatArray

SHRINKAGES = (0.05, 0.2)
"""Shares of the prior in the covariance of an ensemble."""
MODES = (10, 20, 30, 45, 90, 180)
"""Numbers of the prior's principal components that Gauss–Newton is tried in."""
_DIFFERENCE = 1e-4
_SHORTEST_STEP = 1e-2


def esmda(
    problem: WideProblem, seed: int, checkpoints: Sequence[int], *, members: int, kind: str
) -> Answer:
    """Run ESMDA once for each number of runs, with as many assimilations as it allows."""
    smoother = getattr(import_module("iterative_ensemble_smoother"), kind)
    answer = Answer()
    for at in checkpoints:
        if at >= members:
            answer.posteriors[at] = _esmda(smoother, problem, seed, members, at // members)
            answer.runs[at] = members * (at // members)
    return answer


def _esmda(
    smoother: Any, problem: WideProblem, seed: int, members: int, assimilations: int
) -> Gaussian:
    z = np.random.default_rng(seed).standard_normal((members, problem.dim))
    x = (z @ problem.prior.root.T).T
    outputs = problem.residuals(x.T).T
    assimilation = smoother(
        # The variances that make its target the same Gibbs posterior.
        covariance=np.full(len(outputs), len(outputs) * problem.temperature / 2.0),
        observations=np.zeros(len(outputs)),
        alpha=assimilations,
        seed=seed,
    )
    for number in range(assimilations):
        outputs = problem.residuals(x.T).T if number else outputs
        before = x
        assimilation.prepare_assimilation(Y=outputs)
        x = assimilation.assimilate_batch(X=x)
    mean, sample = x.mean(axis=1), np.cov(x)
    candidates = [
        Gaussian(mean, share * problem.covariance + (1.0 - share) * sample) for share in SHRINKAGES
    ]
    candidates.append(laplace(problem, mean, _regression(before, outputs)))
    return min(candidates, key=problem.objective)


def _regression(x: FloatArray, outputs: FloatArray) -> FloatArray:
    """Return the slopes of outputs (m, n) in parameters (d, n) by truncated least squares."""
    shift, change = (each - each.mean(axis=1, keepdims=True) for each in (x, outputs))
    left, values, right = np.linalg.svd(shift, full_matrices=False)
    kept = max(1, int((np.cumsum(values**2) < 0.999 * (values**2).sum()).sum()))
    slopes = (change @ right[:kept].T / values[:kept]) @ left[:, :kept].T
    return np.asarray(slopes)


def gauss_newton(problem: WideProblem, seed: int, checkpoints: Sequence[int]) -> Answer:
    """Run Gauss–Newton with finite differences, then Laplace's approximation."""
    if seed:
        raise SkippedError("Gauss–Newton has no seed")
    if problem.dim > max(checkpoints):
        raise SkippedError("it needs a run for each parameter")
    answer = Answer()
    for at in checkpoints:
        if at >= problem.dim:
            found = _gauss_newton(problem, problem.prior.root, at + EXTRA_RUNS)
            answer.posteriors[at], answer.runs[at] = found
    return answer


def gauss_newton_modes(problem: WideProblem, seed: int, checkpoints: Sequence[int]) -> Answer:
    """Run it in leading principal components of a correlated prior, whose number is the best."""
    if seed:
        raise SkippedError("Gauss–Newton has no seed")
    if problem.independent:
        raise SkippedError("independent parameters have no leading components")
    values, vectors = np.linalg.eigh(problem.covariance)
    modes = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    answer = Answer()
    for at in checkpoints:
        numbers = [each for each in MODES if each < min(at, problem.dim)]
        found = [_gauss_newton(problem, modes[:, :each], at) for each in numbers]
        best = min(found, key=lambda each: problem.objective(each[0]))
        answer.posteriors[at], answer.runs[at] = best
    return answer


def _gauss_newton(problem: WideProblem, basis: FloatArray, budget: int) -> tuple[Gaussian, int]:
    """Return the posterior in x = basis·a, a standard normal, and the runs made; (d, r) basis."""
    at, made = np.zeros(basis.shape[1]), 1
    residuals = problem.residuals(np.zeros((1, problem.dim)))[0]
    weight = 2.0 / (len(residuals) * problem.temperature)
    hessian = np.eye(len(at))
    while made + len(at) <= budget:
        ahead = problem.residuals(basis @ at + _DIFFERENCE * basis.T)
        made += len(at)
        slopes = (ahead - residuals).T / _DIFFERENCE
        hessian = np.eye(len(at)) + weight * slopes.T @ slopes
        step = -np.linalg.solve(hessian, at + weight * slopes.T @ residuals)
        energy, length, moved = _energy(weight, residuals, at), 1.0, False
        while not moved and length > _SHORTEST_STEP and made < budget:
            there = at + length * step
            found = problem.residuals((basis @ there)[None])[0]
            made += 1
            if _energy(weight, found, there) < energy:
                at, residuals, moved = there, found, True
            length /= 2.0
        if not moved:
            break
    shrinkage = np.linalg.inv(hessian) - np.eye(len(at))
    covariance = problem.covariance + basis @ shrinkage @ basis.T
    return Gaussian(basis @ at, 0.5 * (covariance + covariance.T)), made


def _energy(weight: float, residuals: FloatArray, at: FloatArray) -> float:
    return float(weight * residuals @ residuals + at @ at)


PEERS: dict[str, Method] = {
    "ESMDA 50": partial(esmda, members=50, kind="ESMDA"),
    "ESMDA 100": partial(esmda, members=100, kind="ESMDA"),
    "adaptive ESMDA 100": partial(esmda, members=100, kind="AdaptiveESMDA"),
    "Gauss–Newton": gauss_newton,
    "Gauss–Newton in modes": gauss_newton_modes,
}
