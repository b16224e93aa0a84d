"""Statistics of searches that differ in one rule, with the same problems and seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from supac.arrays import FloatArray

FLOOR = 1e-4
"""Share of the gap below which nothing is told apart: 0.01 %."""
Pair = tuple[str, int, str]
"""Problem, seed, and the version of the package that searched."""
Gaps = Mapping[Pair, FloatArray]
"""Share of the gap left at each checkpoint, (c,)."""


@dataclass(frozen=True)
class Change:
    """How much more of the gap is left on each problem, in logarithms, at each checkpoint."""

    problems: tuple[str, ...]
    pairs: int
    """Searches that were compared."""
    logs: FloatArray
    """Mean over the seeds of log(gap without the rule) − log(gap with it): (problems, c)."""
    errors: FloatArray
    """Standard errors of these over the seeds, NaN where there is one: (problems, c)."""

    @property
    def factor(self) -> FloatArray:
        """Return the geometric mean over the problems of the ratios of the gaps, (c,)."""
        return np.exp(self.logs.mean(axis=0))

    @property
    def factor_error(self) -> FloatArray:
        """Return the standard error over the problems of its logarithm, NaN for one: (c,)."""
        return _standard_error(self.logs)

    def signs(self, checkpoint: int) -> tuple[int, int, float]:
        """Count the problems that are worse and better without the rule.

        The third number is the probability of so uneven a count, or a more uneven one, if both
        were as likely; problems that end alike do not count.
        """
        logs = self.logs[:, checkpoint]
        worse, better = int((logs > 0.0).sum()), int((logs < 0.0).sum())
        chance = binomtest(worse, worse + better).pvalue if worse + better else 1.0
        return worse, better, float(chance)


def compare(with_rule: Gaps, without: Gaps) -> Change:
    """Pair the searches of one problem, seed and version; ValueError if there are none."""
    pairs = sorted(with_rule.keys() & without.keys())
    if not pairs:
        raise ValueError("no problem and seed has a search with the rule and one without: make one")
    names = tuple(dict.fromkeys(problem for problem, *_ in pairs))
    differences = [
        np.array([_log(without[pair]) - _log(with_rule[pair]) for pair in pairs if pair[0] == name])
        for name in names
    ]
    return Change(
        names,
        len(pairs),
        np.array([each.mean(axis=0) for each in differences]),
        np.array([_standard_error(each) for each in differences]),
    )


def extremes(with_rule: Gaps, without: Gaps, checkpoint: int) -> tuple[Pair, Pair]:
    """Return the searches whose gap grows most and shrinks most without the rule."""
    pairs = sorted(with_rule.keys() & without.keys())
    growth = [_log(without[pair])[checkpoint] - _log(with_rule[pair])[checkpoint] for pair in pairs]
    return pairs[int(np.argmax(growth))], pairs[int(np.argmin(growth))]


def _log(gaps: FloatArray) -> FloatArray:
    return np.log(np.maximum(gaps, FLOOR))


def _standard_error(values: FloatArray) -> FloatArray:
    """Return standard errors of means over the first axis, NaN where there is one value."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan)
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))
