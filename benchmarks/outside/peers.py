"""Other tools on the same objective, with the same runs; from the environment of the peers.

All work with white parameters z, of which the prior is standard normal, and are given what they
can use: residuals for least squares and ensembles, the log-density of the Gibbs posterior
exp(−R/λ)·prior for the others.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from outside.posteriors import Posteriors, SkippedError, laplace
from outside.problem import Gaussian, OutsideProblem
from supac.arrays import FloatArray

PYVBMC_MOST = 8
"""Parameters up to which PyVBMC is run."""
_FAILED = 3.0  # residuals of a failed run, where √square is that of a risk of 1


class White:
    """A problem in white parameters, with a log of its runs."""

    def __init__(self, problem: OutsideProblem, seed: int):
        self.problem, self.seed = problem, seed
        self.prior, self.root = problem.prior, problem.prior.root
        self.z: list[FloatArray] = []
        self.energy: list[float] = []

    def residuals(self, z: FloatArray) -> FloatArray | None:
        """Return the residuals of a run; None if it failed."""
        outputs = self._run(z)
        return None if outputs is None else self.problem.residuals(outputs)

    def risk(self, z: FloatArray) -> float:
        """Return the risk of a run."""
        outputs = self._run(z)
        return self.problem.failure_risk if outputs is None else self._loss(outputs)

    def _run(self, z: FloatArray) -> FloatArray | None:
        u = self.prior.mean + self.root @ z
        outputs = self.problem.outputs(u, zlib.crc32(u.tobytes(), self.seed))
        risk = self.problem.failure_risk if outputs is None else self._loss(outputs)
        self.z.append(np.array(z))
        self.energy.append(risk / self.problem.temperature + 0.5 * float(z @ z))
        return outputs

    def _loss(self, outputs: FloatArray) -> float:
        return float(self.problem.loss(outputs[None])[0])

    def posterior(self, mean: FloatArray, covariance: FloatArray) -> Gaussian:
        """Return a Gaussian of z as one of the latent parameters."""
        return Gaussian(self.prior.mean + self.root @ mean, self.root @ covariance @ self.root.T)

    @property
    def failed(self) -> FloatArray | None:
        """Residuals that stand for a failed run; None before any run has shown their number."""
        for scale in (1.0, 0.5, 0.2, 0.0):
            outputs = self.problem.outputs(scale * self.problem.reference, 0)
            if outputs is not None:
                each = _FAILED * np.sqrt(self.problem.square * self.problem.failure_risk)
                return np.full(len(self.problem.residuals(outputs)), each)
        return None


def dfols(problem: OutsideProblem, seed: int, checkpoints: Sequence[int]) -> Posteriors:
    """Run DFO-LS on residuals and prior, with the Gauss–Newton covariance of its last Jacobian.

    One solve for each number of runs, from the prior's mean, or near it for seeds other than 0.
    """
    solver = import_module("dfols")
    rng = np.random.default_rng(100 + seed)
    start = 0.5 * rng.standard_normal(problem.dim) if seed else np.zeros(problem.dim)
    return {at: _dfols(solver, problem, seed, start, at) for at in checkpoints}


def _dfols(
    solver: Any, problem: OutsideProblem, seed: int, start: FloatArray, runs: int
) -> Gaussian:
    if runs < problem.dim + 2:
        return problem.prior
    white = White(problem, seed)
    failed = white.failed
    assert failed is not None
    weight = np.sqrt(2.0 / (len(failed) * problem.square * problem.temperature))

    def objective(z: FloatArray) -> FloatArray:
        residuals = white.residuals(z)
        return np.concatenate([weight * (failed if residuals is None else residuals), z])

    solution = solver.solve(
        objective,
        start,
        maxfun=runs,
        bounds=(np.full(problem.dim, -5.0), np.full(problem.dim, 5.0)),
        rhobeg=0.3,
        rhoend=1e-4,
        objfun_has_noise=problem.noisy,
        do_logging=False,
    )
    mean = problem.prior.mean + white.root @ np.asarray(solution.x)
    slopes = np.full((1, problem.dim), np.nan)
    if solution.jacobian is not None:
        slopes = np.asarray(solution.jacobian)[: len(failed)] / weight @ np.linalg.inv(white.root)
    return laplace(problem, mean, slopes)


def esmda(problem: OutsideProblem, seed: int, checkpoints: Sequence[int]) -> Posteriors:
    """Run ESMDA, one ensemble for each number of runs, with a shrunk covariance of its members.

    The observations' variances make its target the same Gibbs posterior.
    """
    smoother = import_module("iterative_ensemble_smoother")
    return {at: _esmda(smoother, problem, seed, at) for at in checkpoints}


def _esmda(smoother: Any, problem: OutsideProblem, seed: int, runs: int) -> Gaussian:
    white = White(problem, seed)
    rounds = 4 if runs >= 100 else 3 if runs >= 60 else 2
    members = np.random.default_rng(seed).standard_normal((problem.dim, runs // rounds))
    assimilation: Any = None
    for _ in range(rounds):
        answers = [white.residuals(z) for z in members.T]
        ok = [i for i, each in enumerate(answers) if each is not None]
        if len(ok) < 3:
            return problem.prior
        found = np.array([answers[i] for i in ok]).T
        if assimilation is None:
            variance = len(found) * problem.square * problem.temperature / 2.0
            assimilation = smoother.ESMDA(
                covariance=np.full(len(found), variance),
                observations=np.zeros(len(found)),
                alpha=rounds,
                seed=seed,
            )
        members = members[:, ok]
        assimilation.prepare_assimilation(Y=found, truncation=0.999)
        members = assimilation.assimilate_batch(X=members)
    return white.posterior(members.mean(axis=1), shrunk(members.T))


def shrunk(members: FloatArray) -> FloatArray:
    """Return the oracle-approximating shrinkage of Chen et al. (2010) of a covariance: (n, d)."""
    n, d = members.shape
    sample = np.atleast_2d(np.cov(members.T, bias=True))
    mean, square = float(np.trace(sample)) / d, float((sample**2).sum())
    if d == 1:
        return sample
    numerator = (1.0 - 2.0 / d) * square + (d * mean) ** 2
    denominator = (n + 1.0 - 2.0 / d) * (square - d * mean**2)
    share = min(1.0, numerator / denominator) if denominator > 0.0 else 1.0
    return (1.0 - share) * sample + share * mean * np.eye(d)


def pyvbmc(problem: OutsideProblem, seed: int, checkpoints: Sequence[int]) -> Posteriors:
    """Run PyVBMC without an early stop; the moments of its posterior after at most so many runs."""
    if problem.dim > PYVBMC_MOST:
        raise SkippedError(f"PyVBMC is run up to {PYVBMC_MOST} parameters")
    if problem.noisy:
        raise SkippedError("PyVBMC needs the standard deviation of a stochastic risk")
    package = import_module("pyvbmc")
    white, budget = White(problem, seed), max(checkpoints)

    def log_joint(z: FloatArray) -> float:
        white.risk(np.ravel(z))
        return -white.energy[-1]

    dim = problem.dim
    vbmc = package.VBMC(
        log_joint,
        np.zeros((1, dim)),
        plausible_lower_bounds=np.full((1, dim), -1.0),
        plausible_upper_bounds=np.full((1, dim), 1.0),
        options={"min_fun_evals": budget, "max_fun_evals": budget, "display": "off"},
        seed=seed,
    )
    vbmc.optimize()
    counts = [int(count) for count in vbmc.iteration_history["func_count"]]
    found: Posteriors = {}
    for at in checkpoints:
        last = [i for i, count in enumerate(counts) if count <= at]
        if not last:
            found[at] = problem.prior
            continue
        mixture = vbmc.iteration_history["vp"][last[-1]]
        mixture.rng = 0
        mean, covariance = mixture.moments(2**16, cov_flag=True)
        found[at] = white.posterior(np.ravel(mean), np.atleast_2d(covariance))
    return found


def cma(problem: OutsideProblem, seed: int, checkpoints: Sequence[int]) -> Posteriors:
    """Run CMA-ES on the energy R/λ − log prior; its mode, with its covariance in the right scale.

    CMA's covariance is that of the posterior but for a factor, found by least squares of the
    energies of the latest runs.
    """
    package = import_module("cma")
    white = White(problem, seed)
    options = {"seed": seed + 1, "verbose": -9, "maxfevals": max(checkpoints)}
    search = package.CMAEvolutionStrategy(np.zeros(problem.dim), 0.8, options)
    found: Posteriors = {}
    now = problem.prior
    while len(white.z) < max(checkpoints) and not search.stop():
        candidates = search.ask()
        for at in checkpoints:
            if len(white.z) <= at < len(white.z) + len(candidates):
                found[at] = now
        for each in candidates:
            white.risk(np.asarray(each))
        search.tell(candidates, white.energy[-len(candidates) :])
        now = _quadratic(white, search)
    return {at: found.get(at, now) for at in checkpoints}


def _quadratic(white: White, search: Any) -> Gaussian:
    """Return the Gaussian at the best run that fits the energies of the latest four batches."""
    best = int(np.argmin(white.energy))
    shape = np.asarray(search.C) * search.sigma**2
    latest = slice(-4 * search.popsize, None)
    shift = np.array(white.z)[latest] - white.z[best]
    distance = 0.5 * np.einsum("ij,ij->i", shift, np.linalg.solve(shape, shift.T).T)
    rise = np.array(white.energy)[latest] - white.energy[best]
    slope = float(distance @ rise) / max(float(distance @ distance), 1e-300)
    values, vectors = np.linalg.eigh(shape / max(slope, 1e-300))
    # The posterior is nowhere wider than the prior.
    covariance = (vectors * np.clip(values, 1e-12, 1.0)) @ vectors.T
    return white.posterior(white.z[best], covariance)


PEERS: dict[str, Callable[[OutsideProblem, int, Sequence[int]], Posteriors]] = {
    "DFO-LS": dfols,
    "ESMDA": esmda,
    "CMA-ES": cma,
    "PyVBMC": pyvbmc,
}
