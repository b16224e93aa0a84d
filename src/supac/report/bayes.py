"""Posteriors that are those of Bayes: their ranges are credible intervals."""

from __future__ import annotations

import math

from supac.problem.bounds import Catoni
from supac.problem.columns import Likelihood
from supac.problem.losses import MeanSquare
from supac.problem.observation import residual_loss_of
from supac.record.local_ranges import words_on_local_ranges
from supac.record.record import Record

_ALIKE = 0.05  # relative difference of a temperature that was rounded

NOT_CREDIBLE = "The posterior minimises the objective; its ranges are not credible intervals."
CREDIBLE = (
    "With this loss and temperature the posterior is that of Bayes, as nearly as its family can "
    "be: the ranges are credible intervals, if the noise is independent, normal and as given."
)
TOO_NARROW = (
    "With this loss and temperature the posterior would be that of Bayes, but its ranges are "
    "local: credible intervals are wider."
)


def words_on_ranges(run: Record) -> str:
    """Say if the ranges of the parameters are credible intervals."""
    if not is_bayes(run):
        return NOT_CREDIBLE
    return TOO_NARROW if words_on_local_ranges(run) else CREDIBLE


def is_bayes(run: Record) -> bool:
    """Return True if exp(−loss/temperature) is a likelihood of independent normal measurements.

    That is so for a mean square with the temperature 2/n, and for its likelihood with 1/n.
    """
    bound, loss, data = run.bound, run.settings.loss, run.settings.observations
    if not isinstance(bound, Catoni) or data is None:
        return False
    own = residual_loss_of(loss)
    price = bound.temperature
    if isinstance(price, str) or not isinstance(own, MeanSquare | Likelihood):
        return False
    share = 2.0 if isinstance(own, MeanSquare) else 1.0
    return math.isclose(price * data.measured, share, rel_tol=_ALIKE)
