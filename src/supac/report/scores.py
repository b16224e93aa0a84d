"""Scores of the fit of each observed column, on the data that were fitted and on others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from supac.arrays import FloatArray, IntArray
from supac.problem import Observations
from supac.problem.skill import Skill
from supac.report.misfit import has_course
from supac.report.words import number

FITTED, HELD_OUT = "fitted", "held out"
COVERAGE = 0.9
"""Of the bands that are counted: simulations of the posterior with their noise."""
_FEWEST = 3  # measurements of a column that have scores
_STEPS = 60  # bisections for the ends of a band
_BEYOND_NOISE = 1.5  # typical misfit, in noises, that noise alone does not explain

SCORES = ("NSE", "KGE", "R²", "bias", "RMSE")
"""Headings of what `score_cells` returns."""


@dataclass(frozen=True)
class Score:
    """Medians over the fresh runs for one observed column, of the fitted or the held-out data."""

    column: str
    unit: str
    part: str
    measured: int
    nse: float
    kge: float
    r2: float
    pbias: float
    rmse: float
    misfit: float
    """Root mean square residual in units of the noise; NaN if the noise is not known."""
    covered: float
    """Share of the measurements inside of the band of 90 %; NaN if the noise is not known."""
    width: float
    """Mean width of that band, in the unit of the column: its sharpness."""
    course: bool
    """True if the measurements show a course beyond their scatter."""
    noise_fitted: bool = False

    @property
    def held_out(self) -> bool:
        """True for data that the search did not see."""
        return self.part == HELD_OUT

    @property
    def mean_is_better(self) -> bool:
        """True if a constant, the mean of these data, fits clearly better than the model."""
        if not self.nse < 0.0:
            return False
        if self.noise_fitted or not np.isfinite(self.misfit):
            return self.course
        return self.misfit > _BEYOND_NOISE


def score_cells(score: Score) -> tuple[str, ...]:
    """Return the scores as words of a table."""
    bias = number(score.pbias, 2)
    return (
        *(number(each, 2) for each in (score.nse, score.kge, score.r2)),
        f"{bias} %" if np.isfinite(score.pbias) else bias,
        number(score.rmse),
    )


def scores_of(
    seen: Observations,
    values: FloatArray,
    simulated: FloatArray,
    part: str,
    noise_fitted: frozenset[str] = frozenset(),
) -> list[Score]:
    """Return the scores of each column of the measured `values` for simulations (n, cells)."""
    shape, made = (len(seen.columns), seen.rows), []
    cells = seen.cells
    units = seen.units or ("",) * len(seen.columns)
    for i, name in enumerate(seen.columns):
        places = i * seen.rows + np.arange(seen.rows)
        y, s = values.reshape(shape)[i], simulated[:, places]
        known = np.isfinite(y) & np.isfinite(s).all(axis=0)
        if known.sum() < _FEWEST:
            continue
        y, s, noise = y[known], s[:, known], seen.noise[places][known]
        skill = Skill.of(s, y)
        misfit = covered = width = np.nan
        if seen.noise_known:
            a, b = (np.log(s), np.log(y)) if seen.logarithmic else (s, y)
            misfit = float(np.sqrt(np.median(np.mean(((a - b) / noise) ** 2, axis=1))))
            covered = float(np.mean(sides(a, b, noise) == 0))
            low, high = (_quantile(a, noise, each) for each in _ends())
            low, high = (np.exp(low), np.exp(high)) if seen.logarithmic else (low, high)
            width = float(np.mean(high - low))
        made.append(
            Score(
                column=name,
                unit=units[i],
                part=part,
                measured=len(y),
                nse=float(np.median(skill.nse)),
                kge=float(np.median(skill.kge)),
                r2=float(np.median(skill.r2)),
                pbias=float(np.median(skill.pbias)),
                rmse=float(np.median(skill.rmse)),
                misfit=misfit,
                covered=covered,
                width=width,
                course=has_course(y, [cells[place] for place in places[known]]),
                noise_fitted=name in noise_fitted,
            )
        )
    return made


def _ends() -> tuple[float, float]:
    return 0.5 * (1.0 - COVERAGE), 0.5 * (1.0 + COVERAGE)


def sides(simulated: FloatArray, measured: FloatArray, noise: FloatArray) -> IntArray:
    """Return −1 for measurements below the band, 1 for those above, 0 for others.

    The band is that of the mixture of all runs (n, m) with their noise (m,).
    """
    share = ndtr((measured - simulated) / noise).mean(axis=0)
    low, high = _ends()
    return (share > high).astype(np.intp) - (share < low).astype(np.intp)


def _quantile(simulated: FloatArray, noise: FloatArray, chance: float) -> FloatArray:
    """Return a quantile of the mixture of all runs with normal noise, for each measurement."""
    reach = 10.0 * noise
    low, high = simulated.min(axis=0) - reach, simulated.max(axis=0) + reach
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        below = ndtr((middle - simulated) / noise).mean(axis=0) < chance
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(0.5 * (low + high))
