"""Targets of our own, and one of posteriordb, whose draws are read where they lie."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from scipy.integrate import solve_ivp

import supac
from reference.target import Target
from shapes import banana as bent
from supac import marginals
from supac.arrays import FloatArray

POSTERIORDB = Path(__file__).parents[3] / "shared" / "reference" / "posteriordb"
_ELIMINATION = "one_comp_mm_elim_abs"


def banana() -> Target:
    """Four parameters on a parabola, with 120 outputs."""
    task = bent()
    return Target("banana", task.parameters, task.residuals, supac.MeanSquare(), 2.0 / task.count)


def two_valleys() -> Target:
    """Three parameters of which one enters as its square, and a little as it is: two modes."""
    t, sd = np.linspace(0.0, 1.0, 20), 0.3

    def outputs(x: FloatArray) -> FloatArray:
        a, b, c = (each[:, None] for each in x.T)
        return np.asarray(a**2 * np.exp(-t) + 0.05 * a + b * t + c * np.sin(5.0 * t))

    noise = np.random.default_rng(3).standard_normal(20)
    data = outputs(np.array([[1.2, 0.5, -0.4]]))[0] + sd * noise
    parameters = supac.Parameters({name: marginals.Normal(0.0, 1.0) for name in "abc"})
    residuals = lambda x: (outputs(x) - data) / sd  # noqa: E731
    return Target("two valleys", parameters, residuals, supac.MeanSquare(), 2.0 / 20)


def elimination() -> Target:
    """A drug that is taken up, and eliminated by an enzyme; half-Cauchy priors, unknown noise."""
    if not POSTERIORDB.is_dir():
        raise FileNotFoundError(f"{POSTERIORDB} is not there")
    given = json.loads((POSTERIORDB / f"{_ELIMINATION}.json").read_text())
    dose, volume = float(given["D"]), float(given["V"])
    times, data = np.array(given["times"]), np.log(given["C_hat"])
    names = ("k_a", "K_m", "V_m", "sigma")

    def simulate(x: FloatArray) -> FloatArray:
        uptake, half, most = x

        def slope(t: float, c: FloatArray) -> FloatArray:
            c = np.maximum(c, 0.0)
            return dose * uptake / volume * np.exp(-uptake * t) - most / volume * c / (half + c)

        with np.errstate(all="ignore"):
            found = solve_ivp(
                slope, (0.0, times[-1]), [0.0], t_eval=times, method="LSODA", rtol=1e-7, atol=1e-9
            )
        if found.y.shape[1] != len(times):
            return np.full(len(times), np.nan)
        return np.log(np.maximum(found.y[0], 1e-10)) - data

    def loss(residuals: FloatArray, noise: FloatArray) -> FloatArray:
        return np.asarray((residuals**2).mean(axis=1) / noise[:, 0] ** 2 + 2 * np.log(noise[:, 0]))

    def draws() -> FloatArray:
        with ZipFile(POSTERIORDB / "draws.json.zip") as file:
            chains = json.loads(file.read(file.namelist()[0]))
        return np.array([np.concatenate([chain[name] for chain in chains]) for name in names]).T

    return Target(
        "elimination",
        supac.Parameters({name: marginals.HalfCauchy(1.0) for name in names}),
        lambda x: np.array([simulate(each) for each in x]),
        loss,
        2.0 / len(times),
        observation=1,
        known=draws,
        in_latent=True,
    )


def own() -> Iterator[Target]:
    """Yield the targets whose data are there."""
    yield banana()
    yield two_valleys()
    if POSTERIORDB.is_dir():
        yield elimination()
