"""Problems for judgement from physics, engineering, hydrology and climate; synthetic data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import supac
from outside.ode import compiled, runge_kutta
from outside.problem import OutsideProblem
from outside.synthetic import log_normals, synthetic
from supac import marginals
from supac.arrays import FloatArray


@compiled
def _lorenz(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    out[0] = p[0] * (s[1] - s[0])
    out[1] = s[0] * (p[1] - s[2]) - s[1]
    out[2] = s[0] * s[1] - p[2] * s[2]


def lorenz() -> OutsideProblem:
    """Convection that is chaotic, with its initial state.

    Lorenz (1963), Journal of the Atmospheric Sciences 20, 130: σ = 10, ρ = 28, β = 8/3. Errors
    grow by e^0.9 in each unit of time, of which there are five.
    """
    times = np.linspace(0.0, 5.0, 41)[1:]
    latent = np.array([0.8, -0.9, 1.0, -0.7, 0.9, -0.8])
    truth = np.array([10.0, 28.0, 8.0 / 3.0, -6.0, -8.0, 22.0])
    sd = np.array([0.15, 0.08, 0.15, 1.0, 1.0, 1.0])
    rates: dict[str, marginals.Marginal] = {
        name: marginals.LogNormal(median=float(truth[i] * np.exp(-sd[i] * latent[i])), log_sd=sd[i])
        for i, name in enumerate(("sigma", "rho", "beta"))
    }
    states: dict[str, marginals.Marginal] = {
        name: marginals.Normal(float(truth[i] - sd[i] * latent[i]), sd[i])
        for i, name in enumerate(("x0", "y0", "z0"), start=3)
    }
    return synthetic(
        "lorenz",
        "Lorenz (1963)",
        supac.Parameters(rates | states),
        latent,
        lambda x, seed: runge_kutta(_lorenz, x[3:], x[:3], times, 0.01).ravel(),
        scale=5.0,
        noise=0.2,
        loss=supac.CappedSquare(2.0),
        temperature=5e-3,
        role="judgement",
    )


@compiled
def radial_velocity(p: FloatArray, times: FloatArray) -> FloatArray:
    """Return K (cos(ν + ω) + e cos ω) of a Keplerian orbit at each time.

    p has the period, K, the eccentricity e, ω and the phase of the periastron.
    """
    out = np.empty(len(times))
    for i in range(len(times)):
        mean = 2.0 * np.pi * ((times[i] / p[0] - p[4]) % 1.0)
        eccentric = mean + p[2] * np.sin(mean)
        for _ in range(20):
            error = eccentric - p[2] * np.sin(eccentric) - mean
            eccentric -= error / (1.0 - p[2] * np.cos(eccentric))
        root = np.sqrt((1.0 + p[2]) / (1.0 - p[2]))
        true = 2.0 * np.arctan(root * np.tan(0.5 * eccentric))
        out[i] = p[1] * (np.cos(true + p[3]) + p[2] * np.cos(p[3]))
    return out


def planet() -> OutsideProblem:
    """A star's velocity and its planet: many valleys in the period.

    Mayor and Queloz (1995), Nature 378, 355, with a period of 4.23 days and K = 59 m/s; the orbit
    here is more eccentric than theirs. Formula in Murray and Correia (2010), equation 65.
    """
    times = np.sort(np.random.default_rng(51).uniform(0.0, 60.0, 35))
    parameters = supac.Parameters(
        {
            "period": marginals.LogNormal(median=4.23 * float(np.exp(0.08)), log_sd=0.1),
            "K": marginals.LogNormal(median=40.0, log_sd=0.4),
            "e": marginals.LogitNormal(0.0, 0.9, 0.15, 0.8),
            "omega": marginals.Normal(0.5, 0.8),
            "phase": marginals.Normal(0.4, 0.15),
        }
    )
    return synthetic(
        "planet",
        "Mayor and Queloz (1995); Murray and Correia (2010), equation 65",
        parameters,
        np.array([-0.8, 0.97, 0.9, -0.7, 0.8]),
        lambda x, seed: radial_velocity(x, times),
        scale=30.0,
        noise=0.3,
        loss=supac.CappedSquare(2.0),
        temperature=0.01,
        role="judgement",
    )


@compiled
def energy_balance(p: FloatArray, suns: FloatArray, bands: int, years: int) -> FloatArray:
    """Return the temperatures (°C) of bands of equal area from equator to pole: (suns, bands).

    p has A, B, C, the albedos without and with ice, and the temperature at which ice begins.
    """
    out = np.empty((len(suns), bands))
    for i in range(len(suns)):
        temperature = np.empty(bands)
        for j in range(bands):
            temperature[j] = 28.0 - 45.0 * ((j + 0.5) / bands) ** 2
        for _ in range(4 * years):
            mean = temperature.mean()
            for j in range(bands):
                y = (j + 0.5) / bands
                sun = suns[i] * (1.0 - 0.482 * 0.5 * (3.0 * y * y - 1.0))
                free = 0.5 * (1.0 + np.tanh((temperature[j] - p[5]) / 0.5))
                albedo = p[4] + (p[3] - p[4]) * free
                flux = sun * (1.0 - albedo) - p[0] - p[1] * temperature[j]
                temperature[j] += 0.25 * (flux - p[2] * (temperature[j] - mean)) / 6.0
        out[i] = temperature
    return out


def ice_age() -> OutsideProblem:
    """Temperatures from equator to pole under three suns, with a cliff: all of the Earth freezes.

    Budyko (1969), Tellus 21, 611; constants as in Kaper and Engler (2013), Mathematics and
    Climate, chapter 2: A = 202, B = 1.9, C = 3.04, albedos 0.32 and 0.62, ice below −10 °C.
    """
    suns = np.array([335.0, 343.0, 351.0])
    truth = {"A": 202.0, "B": 1.9, "C": 3.04, "free": 0.32, "ice": 0.62, "T_ice": 10.0}
    latent = np.array([-0.9, 0.8, -1.0, 0.7, 1.0, -0.8])

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        p = x.copy()
        p[5] = -x[5]
        return energy_balance(p, suns, 20, 60).ravel()

    return synthetic(
        "ice_age",
        "Budyko (1969); Kaper and Engler (2013), chapter 2",
        log_normals(truth, latent, [0.03, 0.15, 0.25, 0.06, 0.08, 0.25]),
        latent,
        simulate,
        scale=4.0,
        noise=0.3,
        loss=supac.CappedSquare(3.0),
        temperature=2e-3,
        role="judgement",
    )


@compiled
def darcy(log_conductivity: FloatArray, sources: FloatArray) -> FloatArray:
    """Return the head in each cell of a confined aquifer between heads 0: (experiments, cells).

    Finite volumes with harmonic means of the conductivities at the faces.
    """
    n = len(log_conductivity)
    k = np.exp(log_conductivity)
    face = np.empty(n + 1)
    face[0], face[n] = 2.0 * k[0], 2.0 * k[n - 1]
    for i in range(1, n):
        face[i] = 2.0 / (1.0 / k[i - 1] + 1.0 / k[i])
    out = np.empty(sources.shape)
    upper, right = np.empty(n), np.empty(n)
    for e in range(len(sources)):
        for i in range(n):
            pivot = face[i] + face[i + 1] - (face[i] * upper[i - 1] if i > 0 else 0.0)
            inflow = sources[e, i] / n**2 + (face[i] * right[i - 1] if i > 0 else 0.0)
            upper[i], right[i] = face[i + 1] / pivot, inflow / pivot
        out[e, n - 1] = right[n - 1]
        for i in range(n - 2, -1, -1):
            out[e, i] = right[i] + upper[i] * out[e, i + 1]
    return out


def aquifer() -> OutsideProblem:
    """The conductivity of an aquifer: 25 correlated parameters, exact data, a tiny λ.

    Carrera and Neuman (1986), Water Resources Research 22, 199; a Gaussian field with exponential
    covariance, as in Stuart (2010), Acta Numerica 19, 451.
    """
    cells = 25
    places = (np.arange(cells) + 0.5) / cells
    covariance = np.exp(-np.abs(places[:, None] - places) / 0.3)
    latent = np.linalg.cholesky(covariance) @ np.random.default_rng(25).standard_normal(cells)
    wells = [100.0 * (np.abs(places - centre) < 0.03) for centre in (0.2, 0.5, 0.8)]
    sources = np.array([np.full(cells, 4.0), *wells])
    observed = np.arange(1, cells, 3)
    return synthetic(
        "aquifer",
        "Carrera and Neuman (1986); Stuart (2010)",
        supac.Parameters(
            {f"log_k{i}": marginals.Normal(0.0, 1.0) for i in range(cells)},
            latent=supac.gaussian(np.zeros(cells), covariance),
        ),
        latent,
        lambda x, seed: darcy(x, sources)[:, observed].ravel(),
        scale=1.0,
        noise=0.005,
        loss=supac.MeanSquare(),
        temperature=1e-6,
        role="judgement",
        failure_risk=100.0,
        logarithmic=True,
    )


@compiled
def _stirred_tank(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    reaction = p[0] * 1e10 * np.exp(-p[1] / s[1]) * s[0]
    heat = p[3] * reaction + p[2] / 100.0 * (p[6] - s[1])
    out[0] = p[4] / 100.0 * (1.0 - s[0]) - reaction
    out[1] = p[4] / 100.0 * (p[5] - s[1]) + heat / 239.0


def stirred_tank() -> OutsideProblem:
    """An exothermic reactor that ignites: beyond 440 K it is shut down, and the run fails.

    Seborg, Edgar, Mellichamp and Doyle (2011), Process Dynamics and Control, example 2.5: k0 =
    7.2·10¹⁰/min, E/R = 8750 K, UA = 5·10⁴ J/(min K), −ΔH = 5·10⁴ J/mol, q = 100 L/min, feed at
    350 K, coolant at 300 K.
    """
    times, start = np.linspace(0.0, 6.0, 31)[1:], np.array([0.5, 350.0])
    truth = {"k0": 7.2, "E": 8750.0, "UA": 5e4, "heat": 5e4, "q": 100.0, "T_f": 350.0, "T_c": 300.0}
    latent = np.array([0.7, 0.8, -0.9, -0.6, 0.8, -0.7, 1.0])

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        states = runge_kutta(_stirred_tank, start, x, times, 0.01)
        if not states[:, 1].max() < 440.0:
            raise RuntimeError("the reactor was shut down")
        return np.asarray((states / [0.02, 2.0]).ravel())

    return synthetic(
        "stirred_tank",
        "Seborg et al. (2011), example 2.5",
        log_normals(truth, latent, [0.3, 0.01, 0.15, 0.08, 0.1, 0.006, 0.006]),
        latent,
        simulate,
        scale=2.0,
        noise=0.3,
        loss=supac.CappedSquare(3.0),
        temperature=1e-3,
        role="judgement",
        fails=True,
    )


PROBLEMS: dict[str, Callable[[], OutsideProblem]] = {
    "lorenz": lorenz,
    "planet": planet,
    "ice_age": ice_age,
    "aquifer": aquifer,
    "stirred_tank": stirred_tank,
}
