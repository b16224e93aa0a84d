"""Do 90 % bands of predictions hold the truth in 90 % of the cases?

200 synthetic data sets of two reactions in a row, A to B to C: parameters from the prior, 24
measurements up to hour 10 with normal noise. A search of 60 runs each, then 200 draws of its
posterior up to hour 30, with twice the initial concentration: a scenario that nobody has measured.
Counted is how often the band of simulations holds the true output, and that of measurements a new
measurement.

python benchmarks/predictions.py --sets 200 --out benchmarks/results/predictions.md
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import supac
from pages import fitted
from supac import marginals
from supac.arrays import FloatArray

TIMES = np.array([0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0])
LATER = np.array([1.0, 3.0, 6.0, 10.0, 15.0, 20.0, 30.0])
NOISE = 0.05
COVERAGE = 0.9
PARAMETERS = supac.Parameters(
    {
        "initial": marginals.Uniform(0.5, 5.0),
        "k1": marginals.LogNormal(median=0.5, log_sd=0.8),
        "k2": marginals.LogNormal(median=0.15, log_sd=0.8),
    }
)


def reaction(
    x: FloatArray, times: FloatArray, factor: float = 1.0, loss: float = 0.0
) -> FloatArray:
    """Simulate A and B; with `loss`, A also vanishes in a way that the calibrated model lacks."""
    initial, k1, k2 = x
    k2 = k2 + 1e-9 * (k1 == k2)
    a = factor * initial * np.exp(-(k1 + loss) * times)
    b = factor * initial * k1 * (np.exp(-(k1 + loss) * times) - np.exp(-k2 * times))
    return np.concatenate([a, b / (k2 - k1 - loss)])


def calibrated(x: FloatArray) -> FloatArray:
    """Simulate what was measured."""
    return reaction(x, TIMES)


def scenario(x: FloatArray) -> FloatArray:
    """Simulate twice the initial concentration, and three times as long."""
    return reaction(x, LATER, 2.0)


@dataclass(frozen=True)
class Setting:
    """A loss, a bound, and what the truth has that the simulator lacks."""

    name: str
    loss: Callable[[FloatArray], FloatArray]
    bound: supac.Bound
    missing: float = 0.0


SETTINGS = (
    Setting("Bayesian", supac.MeanSquare(), supac.Catoni(2 / 24)),
    Setting("default", supac.Welsch(), supac.MaurerLangfordSeeger(n=24, delta=0.05)),
    Setting("a reaction is missing", supac.MeanSquare(), supac.Catoni(2 / 24), missing=0.1),
)


def one(setting: Setting, seed: int) -> FloatArray:
    """Return which outputs, and which new measurements, lie in their bands: (2, outputs)."""
    rng = np.random.default_rng([seed, 7])
    truth = PARAMETERS.sample(PARAMETERS.prior, 1, rng)[0]
    measured = reaction(truth, TIMES, loss=setting.missing)
    measured = measured + NOISE * rng.standard_normal(len(measured))
    data = supac.Observations(("A", "B"), measured, np.full(len(measured), NOISE), times=TIMES)
    risk = supac.Composite(calibrated, setting.loss, data)
    result = supac.minimize(
        risk,
        PARAMETERS,
        setting.bound,
        budget=60,
        seed=seed,
        execution=supac.Execution(progress=False),
    )
    made = result.predict(scenario, 200, outputs=("A", "B"), times=LATER, seed=seed)
    bands = made.bands(COVERAGE)
    real = reaction(truth, LATER, 2.0, setting.missing)
    new = real + NOISE * rng.standard_normal(len(real))
    return np.array(
        [
            (bands.lower <= real) & (real <= bands.upper),
            (bands.measured_lower <= new) & (new <= bands.measured_upper),
        ],
        dtype=np.float64,
    )


def row(setting: Setting, found: FloatArray) -> str:
    """Return a line of the table from what was found, (sets, 2, outputs)."""
    inside = np.tile(TIMES[-1] >= LATER, 2)
    cells = []
    for kind in (0, 1):
        for where in (inside, ~inside):
            each = found[:, kind, where].mean(axis=1)
            error = each.std(ddof=1) / np.sqrt(len(each))
            cells.append(f"{100 * each.mean():.1f} ± {100 * error:.1f} %")
    return f"| {setting.name} | {' | '.join(cells)} |"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results/predictions.md"
    )
    options = parser.parse_args()
    lines = []
    with ProcessPoolExecutor(options.workers) as pool:
        for setting in SETTINGS:
            every = list(pool.map(partial(one, setting), range(options.sets), chunksize=5))
            lines.append(row(setting, np.array(every)))
            print(lines[-1], flush=True)
    within, beyond = "to hour 10", "hours 15 to 30"
    head = [
        "posterior",
        *(f"{what}, {when}" for what in ("output", "measured") for when in (within, beyond)),
    ]
    text = [
        "# Bands of predictions",
        "",
        f"`make bench-predictions`: shares of {options.sets} synthetic data "
        f"sets, with standard errors, in which bands of {100 * COVERAGE:g} % hold what they are "
        "for. Two reactions in a row, parameters drawn from the prior, 24 measurements up to hour "
        "10, searches of 60 runs; then 200 draws in a scenario with twice the initial "
        "concentration, up to hour 30. The Bayesian posterior is that of `MeanSquare` and "
        "`Catoni(2 / 24)`, the default of problem files that of `Welsch` and "
        "`MaurerLangfordSeeger(n=24)`; a reaction is missing in the simulator of the last, "
        "Bayesian too. Outputs are the true ones in the bands of simulations, measured is a new "
        "measurement in its band.",
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
        *lines,
        "",
    ]
    options.out.write_text(fitted("\n".join(text)), encoding="utf-8")


if __name__ == "__main__":
    main()
