"""Comparison of a Jacobian with differences of outputs: wrong units and wrong columns are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.problem import Composite, Parameters
from supac.problem.composite import parts_of
from supac.problem.jacobians import of_residuals
from supac.running.runner import simulator_of_risk
from supac.running.simulator import Simulator

_STEP = 1e-3  # of the differences, in standard deviations of the prior
_ALIKE = 0.05  # share of a column that may differ
_MOST = 20  # columns that are compared


@dataclass(frozen=True, eq=False)
class JacobianCheck:
    """Columns of a Jacobian beside differences of the outputs, in noises of the data."""

    names: tuple[str, ...]
    """Parameters that were compared."""
    factors: FloatArray
    """Differences over the column, by least squares: 1 where it is right."""
    left: FloatArray
    """Share of the differences that such a factor does not explain."""

    @property
    def wrong(self) -> tuple[str, ...]:
        """Parameters whose column differs from differences."""
        off = (np.abs(self.factors - 1.0) > _ALIKE) | (self.left > _ALIKE)
        return tuple(name for name, each in zip(self.names, off, strict=True) if each)

    def __str__(self) -> str:
        """Return the result in a sentence."""
        if not self.wrong:
            return f"agrees with differences of the outputs in {len(self.names)} parameters"
        told = []
        for name in self.wrong:
            factor, left = self.factors[self.names.index(name)], self.left[self.names.index(name)]
            scaled = f"differences are {factor:.4g} times the column of {name}"
            other = f"{100.0 * left:.0f} % of the differences in {name} are not as its column"
            told.append(scaled if left <= _ALIKE else other)
        return f"{'; '.join(told)}: units, logarithms, or the order of columns"


def check_jacobian(
    risk: Composite,
    parameters: Parameters,
    x: FloatArray | None = None,
    *,
    vectorized: bool = False,
) -> JacobianCheck:
    """Compare the Jacobian at x (dim,), by default the prior's median, with central differences.

    Makes two runs for each of the first 20 parameters, and one at x, in this process. ValueError
    if a run fails or has no Jacobian.
    """
    if parts_of(risk).jacobian_cost is None:
        raise ValueError("risk has no Jacobian: give a Composite with jacobian=")
    simulator = simulator_of_risk(risk, vectorized, parameters)
    simulator.set_up()
    names = parameters.names[: len(parameters) - risk.observation]
    u = np.zeros((1, len(parameters))) if x is None else parameters.to_latent(np.array([x]))
    at = parameters.from_latent(u)[0]
    outputs, jacobian = _run(simulator, at, jacobian=True)
    if jacobian is None:
        raise ValueError("simulate returned no Jacobian at this point")
    simulated = len(jacobian)
    data: Callable[[FloatArray], FloatArray] = (
        (lambda y: y) if risk.data is None else risk.data.residuals
    )
    slopes, found = of_residuals(risk.data, outputs[:simulated], jacobian), []
    for j in range(min(len(names), _MOST)):
        step = _STEP * np.eye(len(parameters))[j]
        ends = [parameters.from_latent(u + s)[0] for s in (step, -step)]
        above, below = (data(_run(simulator, each)[0][:simulated]) for each in ends)
        found.append((above - below) / (ends[0][j] - ends[1][j]))
    return _compared(names[: len(found)], np.array(found).T, slopes)


def _run(
    simulator: Simulator, x: FloatArray, *, jacobian: bool = False
) -> tuple[FloatArray, FloatArray | None]:
    """Return outputs and Jacobian at a point; ValueError if there is none."""
    answer = simulator.answer(x, jacobian=jacobian)
    if answer.values is None or answer.message:
        raise ValueError(f"the run at {x} failed: {answer.message}")
    if answer.wrong_jacobian:
        raise ValueError(answer.wrong_jacobian)
    return answer.values, answer.jacobian


def _compared(names: tuple[str, ...], found: FloatArray, slopes: FloatArray) -> JacobianCheck:
    """Compare differences (k, p) with the columns of a Jacobian."""
    own = slopes[:, : len(names)]
    size = np.maximum((own**2).sum(axis=0), 1e-300)
    nothing = (np.abs(own).max(axis=0) == 0.0) & (np.abs(found).max(axis=0) == 0.0)
    factors = np.where(nothing, 1.0, (found * own).sum(axis=0) / size)
    rest = np.linalg.norm(found - factors * own, axis=0)
    left = rest / np.maximum(np.linalg.norm(found, axis=0), 1e-300)
    return JacobianCheck(names, factors, np.where(nothing, 0.0, left))
