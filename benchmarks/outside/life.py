"""Problems for judgement from the life sciences and chemistry, three of them with real data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import supac
from outside.ode import compiled
from outside.problem import OutsideProblem
from outside.synthetic import square_of
from supac import marginals
from supac.arrays import FloatArray

PUROMYCIN = np.array(
    [
        [0.02, 0.02, 0.06, 0.06, 0.11, 0.11, 0.22, 0.22, 0.56, 0.56, 1.10, 1.10],
        [76.0, 47.0, 97.0, 107.0, 123.0, 139.0, 159.0, 152.0, 191.0, 201.0, 207.0, 200.0],
    ]
)
"""Concentration (ppm), rate (counts/min²)."""
THEOPHYLLINE = np.array(
    [
        [0.0, 0.25, 0.57, 1.12, 2.02, 3.82, 5.1, 7.03, 9.05, 12.12, 24.37],
        [0.74, 2.84, 6.57, 10.5, 9.66, 8.58, 8.36, 7.47, 6.89, 5.94, 3.28],
    ]
)
"""Time (h), concentration (mg/L)."""
DOSE = 4.02
"""mg of theophylline for each kg of the subject."""
IN_BED = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4], dtype=np.float64)
"""Boys in bed, day by day."""
BOYS = 763
ROBERTSON = np.array([0.04, 3e7, 1e4])
"""Rates of Robertson's reaction."""


def michaelis_menten() -> OutsideProblem:
    """Rates of an enzyme treated with puromycin: two parameters, real data, a large λ.

    Bates and Watts (1988), Nonlinear Regression Analysis, table A1.3; least squares there give
    V = 212.7 and K = 0.0641.
    """
    concentration, rate = PUROMYCIN
    median, log_sd = np.array([120.0, 0.2]), np.array([0.5, 1.0])
    loss = supac.Welsch(3.0)
    return OutsideProblem(
        name="puromycin",
        role="judgement",
        source="Bates and Watts (1988), table A1.3",
        parameters=supac.Parameters(
            {
                "V": marginals.LogNormal(median=120.0, log_sd=0.5),
                "K": marginals.LogNormal(median=0.2, log_sd=1.0),
            }
        ),
        simulate=lambda x, seed: (x[0] * concentration / (x[1] + concentration) - rate) / 10.0,
        loss=loss,
        temperature=0.1,
        reference=np.log(np.array([212.7, 0.0641]) / median) / log_sd,
        square=square_of(loss),
    )


def theophylline() -> OutsideProblem:
    """Absorption and elimination of a drug by one subject: real data, a correlated prior.

    Boeckmann, Sheiner and Beal (1994), as in Pinheiro and Bates (2000), Mixed-Effects Models in S
    and S-PLUS, section 8.1, who give log ke = −2.92, log ka = 0.575, log Cl = −3.916 for it. Fast
    absorption with slow elimination and the reverse look alike.
    """
    times, measured = THEOPHYLLINE
    correlation = np.array([[1.0, 0.3, 0.1], [0.3, 1.0, 0.7], [0.1, 0.7, 1.0]])
    median, log_sd = np.array([0.5, 0.06, 0.6]), 0.7
    published = np.exp([0.575, -3.916, -3.916 + 2.92])

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        absorption, elimination = x[0], x[1] / x[2]
        faster = absorption - elimination
        rise = times if abs(faster) < 1e-9 else -np.expm1(-faster * times) / faster
        concentration = DOSE / x[2] * absorption * np.exp(-elimination * times) * rise
        return np.asarray((concentration - measured) / 0.5)

    loss = supac.CappedSquare(3.0)
    return OutsideProblem(
        name="theophylline",
        role="judgement",
        source="Pinheiro and Bates (2000), section 8.1, subject 1",
        parameters=supac.Parameters(
            {
                name: marginals.LogNormal(median=middle, log_sd=log_sd)
                for name, middle in zip(("ka", "Cl", "V"), median.tolist(), strict=True)
            },
            latent=supac.gaussian(np.zeros(3), correlation),
        ),
        simulate=simulate,
        loss=loss,
        temperature=0.01,
        reference=np.log(published / median) / log_sd,
        square=square_of(loss),
    )


@compiled
def _epidemic(infection: float, recovery: float, days: int, seed: int) -> FloatArray:
    """Simulate each infection and recovery (Gillespie, 1977): infected boys day by day."""
    np.random.seed(seed)  # noqa: NPY002 - the compiled function's own generator
    susceptible, infected, now = BOYS - 3, 3, 0.0
    out = np.zeros(days)
    day = 0
    while infected > 0:
        infections = infection * susceptible * infected / BOYS
        total = infections + recovery * infected
        now += np.random.exponential(1.0 / total)  # noqa: NPY002
        while day < days and day < now:
            out[day] = infected
            day += 1
        if day == days:
            break
        if np.random.random() * total < infections:  # noqa: NPY002
            susceptible -= 1
            infected += 1
        else:
            infected -= 1
    return out


def influenza() -> OutsideProblem:
    """Influenza in a boarding school, person by person: a stochastic simulator, real data.

    Anonymous (1978), British Medical Journal 1, 587; Murray (2002), Mathematical Biology I,
    section 10.2, has infection at 1.66 and recovery at 0.44 a day.
    """
    median, log_sd = np.array([1.1, 0.7, 0.8]), np.array([0.4, 0.4, 0.2])

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        infected = _epidemic(x[0], x[1], len(IN_BED), seed)
        return np.asarray((np.sqrt(x[2] * infected) - np.sqrt(IN_BED)) / 1.5)

    loss = supac.CappedSquare(3.0)
    names = ("infection", "recovery", "in_bed")
    return OutsideProblem(
        name="influenza",
        role="judgement",
        source="British Medical Journal (1978) 1, 587; Murray (2002)",
        parameters=supac.Parameters(
            {
                name: marginals.LogNormal(median=middle, log_sd=sd)
                for name, middle, sd in zip(names, median.tolist(), log_sd.tolist(), strict=True)
            }
        ),
        simulate=simulate,
        loss=loss,
        temperature=0.02,
        reference=np.log(np.array([1.66, 0.44, 0.95]) / median) / log_sd,
        square=square_of(loss),
        noisy=True,
    )


@compiled
def robertson_reaction(k: FloatArray, times: FloatArray, steps: int) -> FloatArray:
    """Integrate A → B, 2B → C + B, B + C → A + C: (times, 3), NaN if Newton's method fails.

    The L-stable Runge–Kutta method of two equal implicit stages, `steps` steps between times.
    """
    gamma = 1.0 - np.sqrt(0.5)
    out = np.full((len(times), 3), np.nan)
    b, c, now = 0.0, 0.0, 0.0
    for i in range(len(times)):
        # Steps in a constant ratio where there is one.
        ratio = (times[i] / now) ** (1.0 / steps) if now > 0.0 else 1.0
        for j in range(steps):
            h = now * (ratio - 1.0) if ratio > 1.0 else times[0] / steps
            slope_b, slope_c = 0.0, 0.0
            for stage in range(2):
                base_b = b + h * (1.0 - gamma) * slope_b * stage
                base_c = c + h * (1.0 - gamma) * slope_c * stage
                new_b, new_c, change = base_b, base_c, 1.0
                for _ in range(20):
                    a = 1.0 - new_b - new_c
                    rate_c = k[1] * new_b * new_b
                    rate_b = k[0] * a - k[2] * new_b * new_c - rate_c
                    f_b = new_b - base_b - gamma * h * rate_b
                    f_c = new_c - base_c - gamma * h * rate_c
                    bb = 1.0 + gamma * h * (k[0] + k[2] * new_c + 2.0 * k[1] * new_b)
                    bc = gamma * h * (k[0] + k[2] * new_b)
                    cb = -2.0 * gamma * h * k[1] * new_b
                    determinant = bb - bc * cb
                    step_b = (f_b - bc * f_c) / determinant
                    step_c = (bb * f_c - cb * f_b) / determinant
                    new_b -= step_b
                    new_c -= step_c
                    change = abs(step_b) / (abs(new_b) + 1e-12) + abs(step_c)
                    if change < 1e-10:
                        break
                if not change < 1e-6:
                    return out
                slope_b, slope_c = (new_b - base_b) / (gamma * h), (new_c - base_c) / (gamma * h)
            b, c = new_b, new_c
            now = times[i] if j == steps - 1 else now + h
        out[i] = 1.0 - b - c, b, c
    return out


def robertson() -> OutsideProblem:
    """Robertson's stiff reaction: rates and outputs over decades, outputs in their own units.

    Robertson (1966); Hairer and Wanner (1996), Solving Ordinary Differential Equations II,
    equation IV.1.4, with rates 0.04, 3·10⁷ and 10⁴.
    """
    times: FloatArray = np.asarray(0.4 * 10.0 ** np.arange(7), dtype=np.float64)
    latent, log_sd = np.array([1.0, -1.2, 0.9]), 1.2
    noise = 0.05 * np.random.default_rng(5).standard_normal(21)
    data = robertson_reaction(ROBERTSON, times, 40).ravel() * np.exp(noise)

    def residuals(outputs: FloatArray) -> FloatArray:
        return np.log(np.maximum(outputs, 1e-12) / data) / 0.2

    loss = supac.Welsch(2.0)
    return OutsideProblem(
        name="robertson",
        role="judgement",
        source="Robertson (1966); Hairer and Wanner (1996), equation IV.1.4",
        parameters=supac.Parameters(
            {
                f"k{i + 1}": marginals.LogNormal(
                    median=float(rate * np.exp(-log_sd * latent[i])), log_sd=log_sd
                )
                for i, rate in enumerate(ROBERTSON)
            }
        ),
        simulate=lambda x, seed: robertson_reaction(x, times, 20).ravel(),
        loss=lambda outputs: loss(residuals(outputs)),
        temperature=1e-4,
        reference=latent,
        residuals=residuals,
        square=square_of(loss),
    )


PROBLEMS: dict[str, Callable[[], OutsideProblem]] = {
    "puromycin": michaelis_menten,
    "theophylline": theophylline,
    "influenza": influenza,
    "robertson": robertson,
}
