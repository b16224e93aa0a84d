"""Estimate how many independent data a time series is worth, to warn of a claim of many more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from supac.arrays import FloatArray
from supac.problem.data import Observations

_SEVERAL = 3.0  # times more data claimed than there seem to be


def effective_number(series: Sequence[FloatArray]) -> float:
    """Estimate the number of independent data in several series of residuals, in order of time.

    Each counts as n/τ, with the autocorrelation time τ = 1 + 2Σρ_k over the initial sequence of
    positive pairs ρ_2k + ρ_2k+1 (Geyer, 1992); as n if neighbours are not correlated beyond two
    standard errors. A model that does not fit makes residuals look dependent as well.
    """
    return float(sum(len(each) / _autocorrelation_time(each) for each in series if len(each)))


def _autocorrelation_time(values: FloatArray) -> float:
    centred = values - values.mean()
    n, power = len(values), float(centred @ centred)
    if power == 0.0:
        return 1.0
    spectrum = np.abs(np.fft.rfft(centred, 2 * n)) ** 2
    correlation = np.fft.irfft(spectrum, 2 * n)[:n] / power
    if n < 4 or correlation[1] < 2.0 / np.sqrt(n):
        return 1.0
    pairs = correlation[: n - n % 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0.0)
    return max(2.0 * float(pairs[: ends[0] if len(ends) else None].sum()) - 1.0, 1.0)


def warning_of_dependence(series: Sequence[FloatArray], n: int) -> tuple[str, ...]:
    """Return a warning if n claims several times more independent data than the residuals show."""
    worth = effective_number(series)
    if n <= _SEVERAL * worth or worth == 0.0:
        return ()
    return (
        f"the residuals are autocorrelated as if of about {worth:.0f} independent data, not of the "
        f"{n:,} that are claimed. A model that does not fit makes them so, whatever the noise: "
        "look at the fit first. If it is good, the noise is dependent: give blocks of rows that "
        "are long enough to be independent, or a smaller n",
    )


def warning_of_duplicates(data: Observations) -> tuple[str, ...]:
    """Return a warning if rows are exact copies of others, as in tables that were joined twice.

    Rows of one number without a time are not compared: coarse measurements coincide. Blocks may
    hold copies, as each counts once whatever is in it.
    """
    if data.blocks is not None or (data.times is None and len(data.columns) < 2):
        return ()
    values = data.values.reshape(len(data.columns), data.rows)
    there = np.isfinite(values).any(axis=0) & (np.nan_to_num(values) != 0.0).any(axis=0)
    times = np.zeros(data.rows) if data.times is None else data.times
    experiments = data.experiments or ("",) * data.rows
    rows = [
        (experiments[i], float(times[i]), values[:, i].tobytes()) for i in np.flatnonzero(there)
    ]
    copies = len(rows) - len(set(rows))
    if not copies:
        return ()
    told = "1 row of data is an exact copy" if copies == 1 else f"{copies} rows of data are copies"
    return (f"{told} of others, and counted as independent: remove copies, or give blocks",)
