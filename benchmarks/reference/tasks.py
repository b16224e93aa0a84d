"""Tasks of sbibm whose likelihood is known, with its observations and reference posteriors.

Lueckmann, Boelts, Greenberg, Gonçalves & Macke (2021), "Benchmarking simulation-based inference".
The package's files are read where it is installed; it is not imported, since it needs Julia and
PyTorch. The simulators are written anew, and `run.py --check` compares them with its draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.special import gammaln, xlogy

import supac
from reference.target import Target
from supac import marginals
from supac.arrays import FloatArray
from supac.problem.marginals import Marginal

OBSERVATIONS = range(1, 11)
_STEPS_A_DAY = 20  # of Runge and Kutta's method, of predators
_TINY = 1e-10


def _read(task: str, observation: int, name: str) -> FloatArray:
    found = find_spec("sbibm")
    if found is None or found.origin is None:
        raise SystemExit("sbibm is not installed here: use `make bench-reference`")
    folder = Path(found.origin).parent / "tasks" / task / "files"
    path = folder / f"num_observation_{observation}" / name
    return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)


def _observed(task: str, observation: int) -> FloatArray:
    return _read(task, observation, "observation.csv")[0]


def _draws(task: str, observation: int) -> FloatArray:
    return _read(task, observation, "reference_posterior_samples.csv.bz2")


def truth(task: str, observation: int) -> FloatArray:
    """Return the parameters from which an observation was simulated."""
    return _read(task, observation, "true_parameters.csv")[0]


def _named(dim: int, marginal: Marginal) -> Mapping[str, Marginal]:
    return {f"x{i}": marginal for i in range(dim)}


def _squares(
    task: str,
    observation: int,
    parameters: supac.Parameters,
    residuals: Callable[[FloatArray], FloatArray],
    count: int,
) -> Target:
    return Target(
        f"{task}/{observation}",
        parameters,
        residuals,
        supac.MeanSquare(),
        2.0 / count,
        known=partial(_draws, task, observation),
    )


def predators(x: FloatArray) -> FloatArray:
    """Return logarithms of prey, then predators, at ten times 2.1 days apart: (k, 20).

    The first is the known beginning.
    """
    step = 1.0 / _STEPS_A_DAY
    a, b, c, d = x.T

    def slope(z: FloatArray) -> FloatArray:
        prey, hunters = np.exp(np.clip(z, -50.0, 50.0)).T
        return np.column_stack([a - b * hunters, d * prey - c])

    z, rows = np.tile(np.log([30.0, 1.0]), (len(x), 1)), []
    for i in range(189 * _STEPS_A_DAY // 10 + 1):
        if i % (21 * _STEPS_A_DAY // 10) == 0:
            rows.append(z)
        first = slope(z)
        second = slope(z + 0.5 * step * first)
        third = slope(z + 0.5 * step * second)
        fourth = slope(z + step * third)
        z = z + step / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)
    logs = np.transpose(rows, (1, 2, 0)).reshape(len(x), 20)
    return np.clip(logs, np.log(_TINY), np.log(10_000.0))


def lotka_volterra(observation: int) -> Target:
    """Predators and prey: four log-normal parameters, noise of 0.1 in twenty logarithms."""
    data, medians = np.log(_observed("lotka_volterra", observation)), np.exp([-0.125, -3.0])
    priors = [marginals.LogNormal(float(m), 0.5) for m in (*medians, *medians)]
    parameters = supac.Parameters(dict(zip("abcd", priors, strict=True)))
    residuals = lambda x: (predators(x) - data) / 0.1  # noqa: E731
    return _squares("lotka_volterra", observation, parameters, residuals, len(data))


def gaussian_linear(observation: int) -> Target:
    """Ten parameters, measured as they are: prior and noise have a variance of 0.1."""
    data, sd = _observed("gaussian_linear", observation), float(np.sqrt(0.1))
    parameters = supac.Parameters(_named(10, marginals.Normal(0.0, sd)))
    residuals = lambda x: (x - data) / sd  # noqa: E731
    return _squares("gaussian_linear", observation, parameters, residuals, 10)


def gaussian_linear_uniform(observation: int) -> Target:
    """The same with uniform priors on (−1, 1)."""
    task, sd = "gaussian_linear_uniform", float(np.sqrt(0.1))
    data = _observed(task, observation)
    parameters = supac.Parameters(_named(10, marginals.Uniform(-1.0, 1.0)))
    return _squares(task, observation, parameters, lambda x: (x - data) / sd, 10)


def sir(observation: int) -> Target:
    """An epidemic: contact and recovery, ten counts of infected among 1,000 that were drawn."""
    seen, drawn = _observed("sir", observation), 1_000.0
    priors = {"beta": marginals.LogNormal(0.4, 0.5), "gamma": marginals.LogNormal(0.125, 0.2)}
    choices = gammaln(drawn + 1.0) - gammaln(seen + 1.0) - gammaln(drawn - seen + 1.0)

    def loss(logits: FloatArray) -> FloatArray:
        share = 1.0 / (1.0 + np.exp(-logits))
        log = xlogy(seen, share) + xlogy(drawn - seen, 1.0 - share)
        return -np.asarray((log + choices).sum(axis=1))

    known = partial(_draws, "sir", observation)
    return Target(f"sir/{observation}", supac.Parameters(priors), epidemic, loss, known=known)


def epidemic(x: FloatArray) -> FloatArray:
    """Return logits of the shares infected at ten times 17 days apart: (k, 10)."""
    step, rows = 0.1, []
    beta, gamma = x.T
    susceptible, infected = np.full(len(x), 1.0 - 1e-6), np.full(len(x), 1e-6)

    def slope(s: FloatArray, log_i: FloatArray) -> tuple[FloatArray, FloatArray]:
        return -beta * s * np.exp(log_i), beta * s - gamma

    log_i = np.log(infected)
    for i in range(1531):
        if i % 170 == 0:
            rows.append(log_i)
        a = slope(susceptible, log_i)
        b = slope(susceptible + 0.5 * step * a[0], log_i + 0.5 * step * a[1])
        c = slope(susceptible + 0.5 * step * b[0], log_i + 0.5 * step * b[1])
        d = slope(susceptible + step * c[0], log_i + step * c[1])
        susceptible = susceptible + step / 6.0 * (a[0] + 2.0 * b[0] + 2.0 * c[0] + d[0])
        log_i = log_i + step / 6.0 * (a[1] + 2.0 * b[1] + 2.0 * c[1] + d[1])
    logs = np.column_stack(rows)
    return logs - np.log1p(-np.minimum(np.exp(logs), 1.0 - _TINY))


def bernoulli_glm(observation: int) -> Target:
    """Spikes after a stimulus: an offset and nine weights, a hundred yes or no."""
    task, count = "bernoulli_glm", 9
    spikes = _read(task, observation, "observation_raw.csv")[0]
    stimulus = np.random.RandomState(42).randn(100).astype(np.float32).astype(np.float64)
    design = np.ones((100, count + 1))
    for i in range(count):
        design[:, i + 1] = np.concatenate([np.zeros(i), stimulus[: 100 - i]])
    step = np.eye(count) - np.eye(count, k=-1)
    root = step @ step + np.diag(np.sqrt(np.arange(count) / count))
    precision = np.zeros((count + 1, count + 1))
    precision[0, 0], precision[1:, 1:] = 0.5, root.T @ root
    prior = supac.gaussian(np.zeros(count + 1), np.linalg.inv(precision))
    names = _named(count + 1, marginals.Normal(0.0, 1.0))
    return Target(
        f"{task}/{observation}",
        supac.Parameters(names, latent=prior),
        lambda x: x @ design.T,
        lambda psi: np.asarray((np.logaddexp(0.0, psi) - spikes * psi).sum(axis=1)),
        known=partial(_draws, task, observation),
    )


def two_moons(observation: int) -> Target:
    """Two crescents, by their likelihood alone."""
    data = _observed("two_moons", observation)
    turn = float(np.sqrt(0.5))

    def energy(x: FloatArray) -> FloatArray:
        u = data[0] + turn * np.abs(x[:, 0] + x[:, 1]) - 0.25
        v = data[1] - turn * (x[:, 1] - x[:, 0])
        far = ((np.hypot(u, v) - 0.1) / 0.01) ** 2
        # As sbibm has it, without the Jacobian of polar coordinates.
        return np.where(u < 0.0, np.nan, 0.5 * far)[:, None]

    parameters = supac.Parameters(_named(2, marginals.Uniform(-1.0, 1.0)))
    known = partial(_draws, "two_moons", observation)
    return Target(f"two_moons/{observation}", parameters, energy, None, known=known)


def slcp(observation: int) -> Target:
    """Mean and covariance of four points in the plane, by their likelihood alone."""
    points = _observed("slcp", observation).reshape(4, 2)

    def energy(x: FloatArray) -> FloatArray:
        one, other, rho = x[:, 2] ** 2, x[:, 3] ** 2, np.tanh(x[:, 4])
        a, b, c = one**2 + 1e-6, other**2 + 1e-6, rho * one * other
        det = a * b - c**2
        away = points - x[:, None, :2]
        u, v = away[..., 0], away[..., 1]
        square = b[:, None] * u**2 - 2.0 * c[:, None] * u * v + a[:, None] * v**2
        total = 0.5 * square.sum(axis=1) / det
        return np.asarray(total + 2.0 * np.log(det) + 4.0 * np.log(2.0 * np.pi))[:, None]

    parameters = supac.Parameters(_named(5, marginals.Uniform(-3.0, 3.0)))
    known = partial(_draws, "slcp", observation)
    return Target(f"slcp/{observation}", parameters, energy, None, known=known)


TASKS = {
    "lotka_volterra": lotka_volterra,
    "gaussian_linear": gaussian_linear,
    "gaussian_linear_uniform": gaussian_linear_uniform,
    "bernoulli_glm": bernoulli_glm,
    "sir": sir,
    "two_moons": two_moons,
    "slcp": slcp,
}
