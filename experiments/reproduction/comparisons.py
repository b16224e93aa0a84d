"""Statistics of samples of runs, and tests that compare two of them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.stats import bartlett, fisher_exact, mannwhitneyu

from supac.arrays import FloatArray


def spread(values: FloatArray) -> str:
    """Format mean and standard deviation between repeats."""
    return f"{values.mean():.4f} ± {values.std(ddof=1):.4f}"


def usual(values: FloatArray) -> str:
    """Format median and quantiles 0.2 and 0.8 between repeats, some of which may have diverged."""
    low, middle, high = np.quantile(values, [0.2, 0.5, 0.8])
    return f"{middle:.4f} ({low:.4f}–{high:.4f})"


def standard_error(values: FloatArray) -> float:
    """Compute the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def width(values: FloatArray) -> float:
    """Compute the distance from quantile 0.2 to 0.8."""
    low, high = np.quantile(values, [0.2, 0.8])
    return float(high - low)


def wider(values: FloatArray, reference: FloatArray) -> float:
    """Compute the p-value that logarithms deviate more from their median."""
    logs, others = np.log(values), np.log(reference)
    return larger(np.abs(logs - np.median(logs)), np.abs(others - np.median(others)))


def more_variable(values: FloatArray, reference: FloatArray) -> float:
    """Compute the p-value of a larger variance, for normal samples (Bartlett)."""
    if values.var() <= reference.var():
        return 1.0
    return float(bartlett(values, reference).pvalue)


def larger(values: FloatArray, reference: FloatArray) -> float:
    """Compute the p-value of larger values (Mann–Whitney)."""
    return float(mannwhitneyu(values, reference, alternative="greater").pvalue)


def as_often(count: int, total: int, other: int, others: int) -> bool:
    """Return True if two counts may come from one probability (Fisher's exact test, 0.05)."""
    return _exact(count, total, other, others, "two-sided") >= 0.05


def more_often(count: int, total: int, other: int, others: int) -> float:
    """Compute the p-value of a larger probability behind the first count (Fisher's exact test)."""
    return _exact(count, total, other, others, "greater")


def _exact(
    count: int, total: int, other: int, others: int, alternative: Literal["two-sided", "greater"]
) -> float:
    table = np.array([[count, total - count], [other, others - other]])
    return float(fisher_exact(table, alternative=alternative).pvalue)
