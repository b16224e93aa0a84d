"""What other tools find on a problem, with the same runs and as they are usually used."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy import optimize

import supac
from outside import peers
from outside.posteriors import laplace
from outside.problem import Gaussian, OutsideProblem
from supac.arrays import FloatArray

DRAWS = 100
"""Draws of each posterior by which it is judged; they are not counted as runs."""
_STEP = 0.02  # of a difference, in prior standard deviations: programs print few digits
_ENDS = (0.05, 0.5, 0.95)


class SpentError(Exception):
    """All runs are made."""


@dataclass(frozen=True, eq=False)
class Found:
    """Draws of the posterior of one tool, in the user's units: (n, dim)."""

    tool: str
    runs: int
    draws: FloatArray

    @property
    def ends(self) -> FloatArray:
        """5 %, 50 % and 95 % quantile of each parameter: (3, dim)."""
        return np.asarray(np.quantile(self.draws, _ENDS, axis=0))


def problem_of(
    name: str,
    parameters: supac.Parameters,
    simulate: Callable[[FloatArray], FloatArray],
    residuals: Callable[[FloatArray], FloatArray],
    count: int,
) -> OutsideProblem:
    """Make the problem that other tools are given: `count` residuals of known noise.

    Its Gibbs posterior is Bayes' with independent normal noise.
    """

    def loss(outputs: FloatArray) -> FloatArray:
        return np.asarray(np.mean(residuals(outputs) ** 2, axis=1))

    return OutsideProblem(
        name,
        "judgement",
        "",
        parameters,
        lambda x, _: np.asarray(simulate(x)),
        loss,
        2.0 / count,
        np.zeros(len(parameters)),
        residuals=lambda outputs: residuals(outputs[None])[0],
        failure_risk=100.0,
    )


def ours(record: supac.Record) -> Found:
    """Return the posterior of a finished search."""
    return Found("supac", record.queries, record.sample(DRAWS, 1))


def least_squares(problem: OutsideProblem, runs: int) -> Found:
    """Run SciPy's least squares from the prior's median, with differences for its Jacobian.

    The prior is among the residuals, and the covariance is that of Gauss and Newton.
    """
    white = peers.White(problem, 0)
    failed = white.failed
    assert failed is not None
    weight = np.sqrt(2.0 / (len(failed) * problem.square * problem.temperature))
    kept: dict[str, FloatArray] = {}

    def misfit(z: FloatArray) -> FloatArray:
        if len(white.z) >= runs:
            raise SpentError
        found = white.residuals(z)
        return np.concatenate([weight * (failed if found is None else found), z])

    def objective(z: FloatArray) -> FloatArray:
        rows = misfit(z)
        if not kept or rows @ rows < kept["rows"] @ kept["rows"]:
            kept.update(z=np.array(z), rows=rows)
        kept.update(at=np.array(z), now=rows)
        return rows

    def jacobian(z: FloatArray) -> FloatArray:
        now = kept["now"] if np.array_equal(kept["at"], z) else misfit(z)
        columns = [(misfit(z + _STEP * unit) - now) / _STEP for unit in np.eye(len(z))]
        kept["slopes"] = np.array(columns).T
        return kept["slopes"]

    with suppress(SpentError):
        optimize.least_squares(
            objective, np.zeros(problem.dim), jacobian, xtol=1e-3, ftol=1e-3, max_nfev=runs
        )
    slopes = kept["slopes"][: len(failed)] / weight @ np.linalg.inv(white.root)
    posterior = laplace(problem, problem.prior.mean + white.root @ kept["z"], slopes)
    return _drawn("SciPy least_squares", len(white.z), problem, posterior)


def peer(name: str, problem: OutsideProblem, runs: int) -> Found:
    """Run one of the peers of the benchmarks."""
    posterior = peers.PEERS[name](problem, 0, [runs])[runs]
    return _drawn(name, runs, problem, posterior)


def _drawn(tool: str, runs: int, problem: OutsideProblem, posterior: Gaussian) -> Found:
    normal = np.random.default_rng(1).standard_normal((DRAWS, problem.dim))
    latent = posterior.mean + normal @ posterior.root.T
    return Found(tool, runs, problem.parameters.from_latent(latent))
