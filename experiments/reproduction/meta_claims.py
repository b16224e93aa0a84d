"""What the paper claims of meta-learning, what we saw, and whether the one bears out the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import spearmanr

from claim import Claim
from meta import SGD, TEMPERATURES
from records import Results
from supac.arrays import FloatArray

BEGIN, TRAINING, NEW = {0.1: 0.61, 0.01: 0.14}, {0.1: 0.24, 0.01: 0.050}, {0.1: 0.291, 0.01: 0.052}
"""The objective at first, and that of training tasks and of new ones after 150 epochs."""


def meta_claims(results: Results) -> Iterator[Claim]:
    """At both temperatures; where there are several environments, of their mean."""
    for temperature in TEMPERATURES:
        lesson = results.lesson(SGD, temperature)
        if lesson is not None and len(lesson["epoch"]) > 150:
            yield from _claims(lesson, temperature, _remark(results))


def _remark(results: Results) -> str:
    """Return what the number of environments allows to say."""
    environments = {each.environment for each in results.experiments if results.rows(each)}
    if len(environments) == 1:
        return "One environment cannot tell: others end higher or lower."
    return f"A mean of {len(environments)} environments, which are not the paper's."


def _claims(lesson: dict[str, FloatArray], temperature: float, remark: str) -> Iterator[Claim]:
    says, end = f"λ = {temperature:g}: ", TRAINING[temperature]
    test, train, error = lesson["test_mean"], lesson["train"], float(lesson["test_error"][-1])
    fresh = float(lesson["train_end"][-1])
    yield Claim(
        f"{says}from an objective of {BEGIN[temperature]:g} to {end:g} in 150 epochs",
        f"the training objective of the last, as the tasks' models see it, is at most {end:g}",
        f"{test[0]:.3f} → {train[-1]:.4f}",
        bool(train[-1] <= end),
        remark,
    )
    yield Claim(
        f"{says}the same, by fresh draws",
        f"that of the last posteriors, from fresh draws, is at most {end:g}",
        f"{fresh:.4f}",
        fresh <= end,
        remark,
    )
    yield Claim(
        f"{says}new tasks end at {NEW[temperature]:g}",
        "their mean objective is above that by at most two standard errors",
        f"{test[-1]:.4f}, standard error over tasks {error:.4f}",
        bool(test[-1] <= NEW[temperature] + 2.0 * error),
        remark,
    )
    share = (test[0] - train[15]) / (test[0] - train[-1])
    yield Claim(
        f"{says}the first 15 epochs make more than 80 % of the decrease",
        "of the training objective, from that of new tasks under the first prior on",
        f"{share:.1%}",
        bool(share > 0.8),
        "In the paper one new task of λ = 0.01 decides it: 83 % with it, 79 % without. See below.",
    )
    seen = ~np.isnan(test) & ~np.isnan(train)
    rank = float(spearmanr(test[seen], train[seen]).statistic)
    yield Claim(
        f"{says}the objective of new tasks follows the training objective throughout",
        "Spearman's correlation over the epochs that were tested is at least 0.9",
        f"{rank:.3f}",
        rank >= 0.9,
    )
