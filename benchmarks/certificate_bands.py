"""Do prediction bands cover new measurements as often as they say?

Searches on data whose times are drawn at random, and ten measurements at new times, which are
exchangeable with the others. The simulators fit, or do not, or overfit; the noise is Gaussian,
heavy-tailed, or common to blocks of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

import supac
from supac.arrays import BoolArray, FloatArray
from supac.guarantee.bands import Bands, conformal_bands

COVERAGES = (0.8, 0.9)
NEW = 10
Simulator = Callable[[FloatArray, FloatArray], FloatArray]
"""(m, dim), times (rows,) → (m, rows)."""


def decay(x: FloatArray, times: FloatArray) -> FloatArray:
    """Simulate x₀·exp(−exp(x₁)·t) + x₂."""
    return np.asarray(x[:, :1] * np.exp(-np.exp(x[:, 1:2]) * times) + x[:, 2:])


def line(x: FloatArray, times: FloatArray) -> FloatArray:
    """Simulate x₀ + x₁·t."""
    return np.asarray(x[:, :1] + x[:, 1:] * times)


def waves(x: FloatArray, times: FloatArray) -> FloatArray:
    """Simulate Σ x_k cos(k·t)."""
    return np.asarray(x @ np.cos(np.outer(np.arange(x.shape[1]), times)))


@dataclass(frozen=True)
class Setting:
    """A simulator, its data, and the bound that is minimised."""

    dim: int
    simulate: Simulator
    n: int = 20
    """Number of measurements, or of blocks of `rows` of them."""
    rows: int = 1
    held_out: int = 0
    """As many further ones that the search does not see."""
    tails: float = np.inf
    """Degrees of freedom of the noise."""
    temperature: float | None = None
    """Of Catoni's objective; by default Seeger's bound is minimised."""
    budget: int = 30

    def noise(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Draw noise; nine tenths of its variance are common to a block: (count · rows,)."""
        draw: Callable[..., Any] = rng.standard_normal
        if np.isfinite(self.tails):
            draw = partial(rng.standard_t, self.tails)
        if self.rows == 1:
            return 0.2 * np.asarray(draw(size=count))
        shared, own = draw(size=(count, 1)), draw(size=(count, self.rows))
        return 0.2 * np.asarray(np.sqrt(0.9) * shared + np.sqrt(0.1) * own).ravel()

    def covered(self, seed: int) -> dict[str, list[tuple[float, float]]]:
        """Search, and return the shares of new measurements in each kind of band, and its width.

        In the order of COVERAGES; NaN where bands are refused. A width is half of it, in noises.
        "fit" are bands of the residuals that the search has seen.
        """
        rng = np.random.default_rng([seed, 7])
        labels = np.repeat(np.arange(float(self.n + self.held_out + NEW)), self.rows)
        new = labels >= self.n + self.held_out
        times = rng.uniform(0.0, 4.0, len(labels))
        values = self.truth(times, rng) + self.noise(int(labels[-1]) + 1, rng)
        seen, blocks = np.where(new, np.nan, values), labels if self.rows > 1 else None
        data = supac.Observations(("y",), seen, np.full(len(values), 0.2), blocks=blocks)
        test = None
        if self.held_out:
            data, test = data.split(labels >= self.n)
        result = self.searched(
            supac.Composite(lambda x: self.simulate(x, times), supac.Welsch(), data, test), seed
        )
        outputs = result.ensemble.outputs
        assert outputs is not None
        makers: dict[str, Callable[[float], Bands]] = {
            "bands": result.bands,
            "fit": partial(conformal_bands, outputs, data),
        }
        return {
            name: [share_of(make, each, values, new) for each in COVERAGES]
            for name, make in makers.items()
        }

    def truth(self, times: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return the exact values: waves of random amplitudes, or a decay."""
        if self.simulate is waves:
            return waves(0.7 * rng.standard_normal((1, self.dim)), times)[0]
        return decay(np.array([[1.0, 0.0, 0.2]]), times)[0]

    def searched(self, risk: supac.Composite, seed: int) -> supac.Result:
        """Minimise the bound."""
        bound = supac.MaurerLangfordSeeger(self.n, 0.05)
        return supac.minimize(
            risk,
            supac.gaussian(np.zeros(self.dim), np.eye(self.dim)),
            bound if self.temperature is None else supac.Catoni(self.temperature),
            budget=self.budget,
            seed=seed,
            execution=supac.Execution(vectorized=True, progress=False),
        )


def share_of(
    make: Callable[[float], Bands], coverage: float, values: FloatArray, new: BoolArray
) -> tuple[float, float]:
    """Return the share of the new values in a band, and half its width in noises."""
    try:
        bands = make(coverage)
    except supac.CertificateError:
        return np.nan, np.nan
    inside = (bands.lower <= values) & (values <= bands.upper)
    return float(inside[new].mean()), bands.in_units["y"] / 0.2


SETTINGS = {
    "3 parameters, 20 data": Setting(3, decay),
    "6 parameters, 20 data": Setting(6, waves),
    "6 parameters, 20 data, cold": Setting(6, waves, temperature=0.005, budget=60),
    "a line through a decay, 30 data": Setting(2, line, 30),
    "heavy tails (Student-t 2), 30 data": Setting(3, decay, 30, tails=2.0),
    "20 blocks of 4 rows that err together": Setting(3, decay, rows=4),
}
_ALSO_HELD_OUT = (
    "3 parameters, 20 data",
    "6 parameters, 20 data",
    "20 blocks of 4 rows that err together",
)
HEAD = ["setting", "method", "data sets", "refused at 0.9",
        *(f"{words} {each:g}" for each in COVERAGES for words in ("covered at", "± noises at")),
        "residuals of the fit at 0.9"]  # fmt: skip


def trial(setting: Setting, seed: int) -> dict[str, list[tuple[float, float]]]:
    """Make one search; a function for other processes."""
    return setting.covered(seed)


class Pool(Protocol):
    """What maps a function of a seed over several processes."""

    def map(self, trial: Callable[[int], Any], seeds: range, chunksize: int = 1) -> list[Any]:
        """Return the outcome of each seed."""
        ...


def bands_rows(count: int, pool: Pool) -> list[list[str]]:
    """Return a row for each setting, and for some another with as many more data held out."""
    rows = []
    for name, setting in SETTINGS.items():
        laws = {"jackknife+": setting}
        if name in _ALSO_HELD_OUT:
            laws["split conformal"] = replace(setting, held_out=setting.n)
        for method, law in laws.items():
            outcomes = pool.map(partial(trial, law), range(count), chunksize=10)
            rows.append([name, method, f"{count:,}", *cells(outcomes)])
            print(*rows[-1], flush=True)
    return rows


def cells(outcomes: Sequence[dict[str, list[tuple[float, float]]]]) -> list[str]:
    """Format mean coverages and their standard errors over data sets, and median widths."""
    bands = np.array([each["bands"] for each in outcomes])
    fit = np.array([each["fit"] for each in outcomes])[:, -1, 0]
    told = [str(int(np.isnan(bands[:, -1, 0]).sum()))]
    for share, width in np.moveaxis(bands, 0, -1):
        told += [with_error(share), f"{np.nanmedian(width):.2f}"]
    return [*told, with_error(fit)]


def with_error(shares: FloatArray) -> str:
    """Format the mean of what is known, and its standard error."""
    known = shares[~np.isnan(shares)]
    if not len(known):
        return "–"
    return f"{known.mean():.3f} ± {known.std() / np.sqrt(len(known)):.3f}"
