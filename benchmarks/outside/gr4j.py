"""A problem for judgement from hydrology: a catchment whose worst day counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import supac
from outside.ode import compiled
from outside.problem import OutsideProblem
from outside.synthetic import synthetic
from supac import marginals
from supac.arrays import FloatArray

WARM_UP, DAYS = 365, 365


@compiled
def _unit_hydrograph(days: float, doubled: bool) -> FloatArray:
    """Return the ordinates of the hydrograph that lasts `days`, or twice as long."""
    length = int(np.ceil(2.0 * days if doubled else days))
    total = np.zeros(length + 1)
    for i in range(1, length + 1):
        share = i / days
        if share >= (2.0 if doubled else 1.0):
            total[i] = 1.0
        elif share <= 1.0:
            total[i] = (0.5 if doubled else 1.0) * share**2.5
        else:
            total[i] = 1.0 - 0.5 * (2.0 - share) ** 2.5
    return total[1:] - total[:-1]


@compiled
def flows(p: FloatArray, rain: FloatArray, evaporation: FloatArray) -> FloatArray:
    """Return the daily flow (mm) of GR4J: capacity, exchange, routing store, days of the flood."""
    first, second = _unit_hydrograph(p[3], False), _unit_hydrograph(p[3], True)
    waiting, direct_waiting = np.zeros(len(first) + 1), np.zeros(len(second) + 1)
    store, routing = 0.5 * p[0], 0.5 * p[2]
    out = np.empty(len(rain))
    for day in range(len(rain)):
        filled = store / p[0]
        if rain[day] >= evaporation[day]:
            net = rain[day] - evaporation[day]
            wet = np.tanh(min(net / p[0], 13.0))
            gained = p[0] * (1.0 - filled**2) * wet / (1.0 + filled * wet)
            store += gained
            effective = net - gained
        else:
            dry = np.tanh(min((evaporation[day] - rain[day]) / p[0], 13.0))
            store -= store * (2.0 - filled) * dry / (1.0 + (1.0 - filled) * dry)
            effective = 0.0
        kept = store * (1.0 + (4.0 / 9.0 * store / p[0]) ** 4) ** -0.25
        effective += store - kept
        store = kept
        for i in range(len(first)):
            waiting[i] = waiting[i + 1] + 0.9 * effective * first[i]
        for i in range(len(second)):
            direct_waiting[i] = direct_waiting[i + 1] + 0.1 * effective * second[i]
        exchange = p[1] * (routing / p[2]) ** 3.5
        routing = max(0.0, routing + waiting[0] + exchange)
        kept = routing * (1.0 + (routing / p[2]) ** 4) ** -0.25
        out[day] = routing - kept + max(0.0, direct_waiting[0] + exchange)
        routing = kept
    return out


def weather(days: int) -> tuple[FloatArray, FloatArray]:
    """Draw daily rain, wet and dry spells, and the evaporation of the seasons (mm)."""
    rng = np.random.default_rng(4)
    wet, rain = False, np.zeros(days)
    for day in range(days):
        wet = bool(rng.random() < (0.65 if wet else 0.25))
        rain[day] = rng.gamma(0.8, 9.0) if wet else 0.0
    season = np.sin(2.0 * np.pi * (np.arange(days) / 365.0 - 0.25))
    return rain, 2.2 + 1.8 * season


def worst(residuals: FloatArray) -> FloatArray:
    """Return the largest residual as a share of 6, at most 1: (n, m) → (n,)."""
    return np.minimum(np.abs(residuals).max(axis=1) / 6.0, 1.0)


def catchment() -> OutsideProblem:
    """The daily flow of a catchment, judged by its worst day: a loss that is not smooth.

    GR4J, Perrin, Michel and Andréassian (2003), Journal of Hydrology 279, 275; the priors are the
    medians and 80 % intervals of its parameters there: 350 mm (100, 1200), 0 mm (−5, 3), 90 mm (20,
    300), 1.7 days (1.1, 2.9).
    """
    rain, evaporation = weather(WARM_UP + DAYS)
    parameters = supac.Parameters(
        {
            "capacity": marginals.LogNormal(median=350.0, log_sd=0.96),
            "exchange": marginals.Normal(0.0, 2.5),
            "routing": marginals.LogNormal(median=90.0, log_sd=0.95),
            "days": marginals.LogNormal(median=1.7, log_sd=0.38),
        }
    )
    return synthetic(
        "catchment",
        "GR4J (Perrin et al., 2003)",
        parameters,
        np.array([0.7, -0.5, -0.8, 0.9]),
        lambda x, seed: np.sqrt(flows(x, rain, evaporation)[WARM_UP:]),
        scale=0.3,
        noise=0.3,
        loss=worst,
        temperature=5e-3,
        role="judgement",
        square=2.0,  # the largest of so many residuals is about three times their root mean square
    )


PROBLEMS: dict[str, Callable[[], OutsideProblem]] = {"catchment": catchment}
