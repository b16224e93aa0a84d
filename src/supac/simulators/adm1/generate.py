"""Generation of the embedded data set: a synthetic digester with uneven feed and noise.

    python -m supac.simulators.adm1.generate FOLDER

A 2,500 m³ digester at 35 °C gets about 110 m³ of sludge a day, less at weekends, its composition
drifting slowly, with twelve days of overload from day 90. The true parameters are a draw from the
paper's prior with half its spread; the initial state is the steady state for them.
Observations: log-normal noise of 8 % on concentrations, 4 % on gas; one in twenty is missing.
"""

from __future__ import annotations

import sys
from itertools import accumulate
from pathlib import Path

import numpy as np

from supac.simulators.adm1 import model
from supac.simulators.adm1.digester import INITIAL_FIELDS, OUTPUTS, Digester, FloatArray, Table
from supac.simulators.adm1.problem import EXAMPLE_NOISE
from supac.simulators.adm1.simulator import Simulator

SEED, DAYS, ROWS_A_DAY = 20_241, 196, 4
REACTOR = {"V_liq": 2500.0, "V_gas": 250.0, "T_ad": 308.15, "T_op": 308.15}
GUESS = {
    **dict.fromkeys(model.LIQUID, 0.05), **dict.fromkeys(model.BIOMASS, 0.5), "S_h2": 2e-7,
    "S_cation": 0.03, "S_anion": 0.01, "S_IC": 0.1, "S_IN": 0.1,
    "S_gas_h2": 1e-5, "S_gas_ch4": 1.6, "S_gas_co2": 0.014, "pH": 7.3, "time": 0.0,
}  # fmt: skip


def true_parameters() -> dict[str, float]:
    """Return the parameters that generated the observations."""
    z = np.random.default_rng([SEED, 0]).standard_normal(len(model.PRIOR))
    return {
        name: float(median * np.exp(0.5 * log_sd * draw))
        for (name, (median, log_sd)), draw in zip(model.PRIOR.items(), z, strict=True)
    }


def make_feed() -> Table:
    """Return the feed, four rows per day: weekly rhythm, drifting composition, an overload."""
    rng = np.random.default_rng([SEED, 1])
    time = np.arange(0.0, DAYS + 1e-9, 1.0 / ROWS_A_DAY)
    day = np.ceil(time).astype(int)

    def drift(step: float) -> FloatArray:
        """Return a log-normal AR(1) process with a time scale of about ten days."""
        shocks = rng.standard_normal(DAYS + 1)
        path = accumulate(shocks, lambda level, shock: 0.9 * level + step * shock, initial=0.0)
        return np.exp(np.array([*path][1:]))[np.minimum(day, DAYS)]

    feed = {"time": time, **{name: np.zeros_like(time) for name in model.LIQUID}}
    overload = np.where((day > 90) & (day <= 102), 1.35, 1.0)
    feed["X_ch"] = 9.0 * drift(0.08) * overload
    feed["X_pr"] = 14.0 * drift(0.06) * overload
    feed["X_li"] = 4.0 * drift(0.10) * overload
    feed["X_I"] = 5.0 * drift(0.05)
    feed["S_ac"] = 0.4 * drift(0.15)
    feed["S_IN"] = 0.01 * drift(0.05)
    for name, value in (("S_IC", 0.02), ("S_cation", 0.03), ("S_anion", 0.01)):
        feed[name] = np.full_like(time, value)
    weekly = 110.0 * np.where(np.isin(day % 7, (6, 0)), 0.75, 1.08)
    feed["Q"] = weekly * np.exp(0.05 * rng.standard_normal(len(time)))
    return {name: np.array([float(f"{v:.6g}") for v in column]) for name, column in feed.items()}


def steady_state(feed: Table, x: FloatArray) -> dict[str, float]:
    """Return the state after 300 days of the average feed."""
    days = np.arange(0.0, 301.0)
    average = {name: np.full_like(days, column.mean()) for name, column in feed.items()}
    nothing = {"time": np.array([1.0]), **{name: np.array([np.nan]) for name in OUTPUTS}}
    digester = Digester(
        **REACTOR, feed={**average, "time": days}, initial=GUESS, observations=nothing
    )
    states = Simulator(digester).trajectories(x)
    end = {name: float(f"{states[name][0, -1]:.8g}") for name in INITIAL_FIELDS if name != "time"}
    return {"time": 0.0, **end}


def make_digester() -> Digester:
    """Return the whole data set."""
    x, feed = np.array([list(true_parameters().values())]), make_feed()
    initial = steady_state(feed, x)
    time = np.arange(1.0, DAYS + 1.0)
    unseen = {"time": time, **{name: np.full(DAYS, np.nan) for name in OUTPUTS}}
    bare = Digester(**REACTOR, feed=feed, initial=initial, observations=unseen)
    truth = Simulator(bare).outputs(x, rtol=1e-6)[0]
    rng = np.random.default_rng([SEED, 2])
    noise = np.array([EXAMPLE_NOISE[name] for name in OUTPUTS])
    seen = truth * np.exp(noise * rng.standard_normal(truth.shape))
    seen[rng.random(truth.shape) < 0.05] = np.nan
    observed = {n: np.array([float(f"{v:.5g}") for v in seen[:, k]]) for k, n in enumerate(OUTPUTS)}
    return Digester(**REACTOR, feed=feed, initial=initial, observations={"time": time, **observed})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m supac.simulators.adm1.generate FOLDER")
    make_digester().write(Path(sys.argv[1]))
