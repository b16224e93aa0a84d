"""Problems that may be looked at while the search is developed.

Oscillators, cliffs, failing regions, valleys, noise, outputs over decades; the data are synthetic.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.special import ndtri

import supac
from outside.ode import compiled, runge_kutta
from outside.problem import OutsideProblem
from outside.synthetic import log_normals, synthetic
from supac import marginals
from supac.arrays import FloatArray
from supac.simulators import adm1

ADM1_DATA = Path(__file__).parents[3] / "shared" / "reference" / "adm1_lf"
_PINTS = "equations as in the toy models of PINTS (Clerx et al., 2019); synthetic data"


@compiled
def _goodwin(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    out[0] = 1.0 / (1.0 + s[2] ** 10) - p[2] * s[0]
    out[1] = p[0] * s[0] - p[3] * s[1]
    out[2] = p[1] * s[1] - p[4] * s[2]


def goodwin() -> OutsideProblem:
    """Goodwin's oscillator of gene regulation (Goodwin, 1965)."""
    times, start = np.linspace(0.0, 80.0, 60)[1:], np.array([0.0054, 0.053, 1.93])
    truth = {"k2": 3.0, "k3": 2.0, "m1": 0.11, "m2": 0.11, "m3": 0.1}
    latent = np.array([1.0, -1.2, 1.0, 0.8, -1.1])
    return synthetic(
        "goodwin",
        _PINTS,
        log_normals(truth, latent, [0.4, 0.4, 0.25, 0.25, 0.25]),
        latent,
        lambda x, seed: runge_kutta(_goodwin, start, x, times, 1.0 / 12.0).ravel(),
        scale=0.4 * np.tile([0.02, 0.15, 1.0], len(times)),
        noise=0.3,
        loss=supac.CappedSquare(2.0),
        temperature=0.01,
    )


@compiled
def _repressilator(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    for gene in range(3):
        repressor = max(s[3 + (gene + 2) % 3], 0.0)
        out[gene] = -s[gene] + p[1] / (1.0 + repressor ** p[3]) + p[0]
        out[3 + gene] = -p[2] * (s[3 + gene] - s[gene])


def repressilator() -> OutsideProblem:
    """Three genes that repress each other in a circle (Elowitz and Leibler, 2000)."""
    times, start = np.linspace(0.0, 40.0, 61)[1:], np.array([0.0, 0.0, 0.0, 2.0, 1.0, 3.0])
    truth = {"alpha0": 1.0, "alpha": 1000.0, "beta": 5.0, "n": 2.0}
    latent = np.array([0.8, -1.2, 1.2, 1.0])
    return synthetic(
        "repress",
        _PINTS,
        log_normals(truth, latent, [0.5, 0.5, 0.4, 0.15]),
        latent,
        lambda x, seed: runge_kutta(_repressilator, start, x, times, 0.05)[:, :3].ravel(),
        scale=30.0,
        noise=0.3,
        loss=supac.CappedSquare(2.0),
        temperature=0.01,
    )


@compiled
def _fitzhugh_nagumo(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    out[0] = (s[0] - s[0] ** 3 / 3.0 + s[1]) * p[2]
    out[1] = (s[0] - p[0] + p[1] * s[1]) / -p[2]


def fitzhugh_nagumo() -> OutsideProblem:
    """An excitable cell (FitzHugh, 1961)."""
    times, start = np.linspace(0.0, 20.0, 51)[1:], np.array([-1.0, 1.0])
    parameters = supac.Parameters(
        {
            "a": marginals.Uniform(-0.2, 0.35),
            "b": marginals.Uniform(0.15, 1.0),
            "c": marginals.LogNormal(median=3.0 * np.exp(-0.3), log_sd=0.25),
        }
    )
    return synthetic(
        "fhn",
        _PINTS,
        parameters,
        np.array([ndtri(0.4 / 0.55), ndtri(0.15 / 0.85), 1.2]),
        lambda x, seed: runge_kutta(_fitzhugh_nagumo, start, x, times, 0.04).ravel(),
        scale=np.tile([0.5, 0.25], len(times)),
        noise=0.2,
        loss=supac.CappedSquare(2.0),
        temperature=0.005,
    )


@compiled
def _lotka_volterra(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    out[0] = p[0] * s[0] - p[1] * s[0] * s[1]
    out[1] = -p[2] * s[1] + p[3] * s[0] * s[1]


def lotka_volterra() -> OutsideProblem:
    """Predators and prey (Lotka, 1925); runs whose populations leave a range fail."""
    times, start = np.linspace(0.0, 12.0, 31)[1:], np.array([30.0, 4.0])
    truth, latent = {"a": 0.55, "b": 0.028, "c": 0.84, "d": 0.026}, np.array([1.0, -1.2, 1.2, -0.7])

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        populations = runge_kutta(_lotka_volterra, start, x, times, 0.05)
        if not (populations.min() >= 0.6 and populations.max() <= 160.0):
            raise RuntimeError("a population left the range of the table")
        return np.log(populations).ravel()

    return synthetic(
        "lv_fail",
        _PINTS,
        log_normals(truth, latent, [0.35] * 4),
        latent,
        simulate,
        scale=0.3,
        noise=0.3,
        loss=supac.CappedSquare(2.0),
        temperature=0.01,
        fails=True,
    )


@compiled
def _chemostat(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    substrate = max(s[1], 0.0)
    growth = p[0] * substrate / (p[1] + substrate + substrate**2 / p[2])
    out[0] = (growth - p[3]) * s[0]
    out[1] = p[3] * (p[5] - substrate) - growth * s[0] / p[4]
    out[2] = 0.5 * growth * s[0] - p[3] * s[2]


def chemostat() -> OutsideProblem:
    """A chemostat that is inhibited by its substrate (Andrews, 1968), with a cliff: washout."""
    times, start = np.linspace(0.0, 40.0, 41)[1:], np.array([0.6, 6.0, 0.1])
    truth = {"mu": 0.55, "Ks": 0.4, "Ki": 6.0, "D": 0.28, "Y": 0.5, "S_in": 9.0}
    latent = np.array([-1.2, 0.8, -0.6, 1.0, 1.2, 1.0])
    return synthetic(
        "chemostat",
        "Haldane kinetics; synthetic data",
        log_normals(truth, latent, [0.2, 0.4, 0.4, 0.2, 0.2, 0.25]),
        latent,
        lambda x, seed: runge_kutta(_chemostat, start, x, times, 0.1).ravel(),
        scale=2.0 * np.tile([0.4, 0.5, 0.2], len(times)),
        noise=0.3,
        loss=supac.CappedSquare(2.5),
        temperature=0.005,
    )


@compiled
def _ring(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    n = len(s)
    for i in range(n):
        before = (i - 1) % n
        inflow = p[before] * s[before] / (1.0 + 0.2 * s[before])
        outflow = p[i] * s[i] / (1.0 + 0.2 * s[i])
        out[i] = inflow - outflow - p[n + i] * s[i]


def ring() -> OutsideProblem:
    """Ten compartments in a ring with saturable exchange and a loss each: 20 parameters."""
    times, start = np.linspace(0.0, 15.0, 16)[1:], np.append(10.0, np.zeros(9))
    latent = np.clip(1.1 * np.random.default_rng(7).standard_normal(20), -1.8, 1.8)
    exchange = {f"k{i}": marginals.LogNormal(median=1.0, log_sd=0.5) for i in range(10)}
    losses = {f"e{i}": marginals.LogNormal(median=0.05, log_sd=0.6) for i in range(10)}
    return synthetic(
        "ring20",
        "saturable exchange between compartments; synthetic data",
        supac.Parameters(exchange | losses),
        latent,
        lambda x, seed: runge_kutta(_ring, start, x, times, 1.0 / 12.0).ravel(),
        scale=0.15,
        noise=0.2,
        loss=supac.CappedSquare(3.0),
        temperature=0.002,
    )


def closed_failure() -> OutsideProblem:
    """A simulator that works inside an ellipsoid only: 45 % of the prior's runs fail."""
    times = np.linspace(0.0, 4.0, 20)

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        if x[0] ** 2 + x[1] ** 2 + 0.7 * (x[2] ** 2 + x[3] ** 2) > 3.4:
            raise RuntimeError("the solver diverged")
        decay = np.exp(0.4 * x[0] - times * np.exp(0.5 * x[1]))
        return decay + 0.4 * x[2] * np.sin(times) + 0.3 * x[3] * np.tanh(times - 1.5)

    return synthetic(
        "closedfail",
        "a formula; synthetic data",
        supac.Parameters({name: marginals.Normal(0.0, 1.0) for name in "abcd"}),
        np.array([0.9, -0.9, 0.5, 0.6]),
        simulate,
        scale=0.12,
        noise=0.5,
        loss=supac.CappedSquare(3.0),
        temperature=0.01,
        fails=True,
    )


def ringing() -> OutsideProblem:
    """A damped oscillation of ten cycles: many local minima in its frequency."""
    times = np.linspace(0.0, 10.0, 60)
    parameters = supac.Parameters(
        {
            "amplitude": marginals.LogNormal(median=1.0, log_sd=0.4),
            "frequency": marginals.LogNormal(median=1.0, log_sd=0.15),
            "damping": marginals.LogNormal(median=0.1, log_sd=0.5),
            "phase": marginals.Normal(0.0, 0.6),
        }
    )

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        envelope = x[0] * np.exp(-x[2] * times)
        return np.asarray(envelope * np.sin(2.0 * np.pi * x[1] * times + x[3]))

    return synthetic(
        "ringing",
        "a formula; synthetic data",
        parameters,
        np.array([1.0, 1.2, -1.0, 0.8]),
        simulate,
        scale=1.0,
        noise=0.1,
        loss=supac.CappedSquare(1.0),
        temperature=0.01,
    )


def banana() -> OutsideProblem:
    """Rates of which mainly products are identified: curved narrow valleys at a small λ."""
    times = np.linspace(0.1, 5.0, 20)

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        decay = (x[0] + 0.5 * x[1]) * np.exp(-x[2] * x[3] * times)
        return np.asarray(decay + 0.06 * np.log1p(x[0] * x[2]) * times)

    return synthetic(
        "banana",
        "a formula; synthetic data",
        supac.Parameters({f"k{i}": marginals.LogNormal(1.0, 0.7) for i in range(1, 5)}),
        np.array([1.2, -0.4, 1.0, -1.0]),
        simulate,
        scale=0.1,
        noise=0.2,
        loss=supac.CappedSquare(3.0),
        temperature=5e-4,
    )


def growth() -> OutsideProblem:
    """Exponential growth: outputs over decades."""
    times = np.linspace(0.0, 20.0, 11)
    return synthetic(
        "growth",
        "a formula; synthetic data",
        supac.Parameters(
            {"y0": marginals.LogNormal(1.0, 0.5), "rate": marginals.LogNormal(0.3, 0.7)}
        ),
        np.array([0.5, -0.7]),
        lambda x, seed: np.asarray(x[0] * np.exp(x[1] * times)),
        scale=0.5,
        noise=1.0,
        loss=supac.Welsch(3.0),
        temperature=0.02,
    )


def counts() -> OutsideProblem:
    """Counts of two decaying species over a background: a stochastic simulator."""
    times = np.linspace(0.0, 10.0, 24)
    parameters = supac.Parameters(
        {
            "fast": marginals.LogNormal(median=60.0, log_sd=0.5),
            "slow": marginals.LogNormal(median=30.0, log_sd=0.5),
            "rate": marginals.LogNormal(median=1.0, log_sd=0.5),
            "ratio": marginals.LogNormal(median=5.0, log_sd=0.4),
            "background": marginals.LogNormal(median=4.0, log_sd=0.5),
        }
    )

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        expected = x[0] * np.exp(-x[2] * times) + x[1] * np.exp(-x[2] / x[3] * times) + x[4]
        return np.asarray(np.sqrt(np.random.default_rng(seed).poisson(expected)))

    return synthetic(
        "counts",
        "Poisson counts of a formula; synthetic data",
        parameters,
        np.array([0.8, -0.9, 1.0, -0.8, 0.9]),
        simulate,
        scale=0.5,
        noise=0.0,
        loss=supac.CappedSquare(4.0),
        temperature=0.005,
        noisy=True,
    )


def adm1_raw() -> OutsideProblem:
    """ADM1 on the LF data, each output in its own unit, and a loss that the user wrote."""
    if not ADM1_DATA.is_dir():
        raise FileNotFoundError(f"the LF data are not at {ADM1_DATA}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adm1.UnitsWarning)
        digester = adm1.load(ADM1_DATA, variant="split")
    problem = OutsideProblem(
        name="adm1_raw",
        role="development",
        source="ADM1 (Batstone et al., 2002), LF data of the paper's reference code",
        parameters=digester.parameters,
        simulate=lambda x, seed: digester.simulate(x[None])[0],
        simulate_many=digester.simulate,
        loss=digester.loss,
        temperature=0.002,
        reference=np.asarray(digester.prior.mean),
        residuals=lambda outputs: digester.data.residuals(outputs[None])[0],
        square=0.2,  # the root of a mean square of 0.01, linearised
        failure_risk=3.0,
    )
    easier = replace(
        problem,
        simulate=lambda x, seed: digester.residuals(x[None])[0],
        simulate_many=digester.residuals,
        residuals=lambda residuals: residuals,
        loss=digester.composite.loss,
    )
    return replace(problem, easier=easier)


PROBLEMS: dict[str, Callable[[], OutsideProblem]] = {
    "goodwin": goodwin,
    "repress": repressilator,
    "fhn": fitzhugh_nagumo,
    "lv_fail": lotka_volterra,
    "chemostat": chemostat,
    "ring20": ring,
    "closedfail": closed_failure,
    "ringing": ringing,
    "banana": banana,
    "growth": growth,
    "counts": counts,
    "adm1_raw": adm1_raw,
}
