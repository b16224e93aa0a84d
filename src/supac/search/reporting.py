"""Reporting: the diagnostics of one round."""

from __future__ import annotations

import numpy as np

from supac.problem import Evaluations
from supac.search.algorithm import NO_STEP, Info
from supac.search.descent import Descent, Visit
from supac.search.planning import MANY
from supac.search.steps import RadiusUpdate, Trial
from supac.surrogate import Importance, RiskModel, pareto_shape

_RIDGE = (
    "the runs do not determine the surrogate, which was fitted with a ridge; a larger first batch "
    "avoids it"
)
_EXTRAPOLATES = (
    "the surrogate's mean risk is outside the range of all risks seen: it extrapolates; smaller "
    "steps or larger batches avoid it"
)
_REJECTED = "a step made things worse than predicted and was taken back"


def nothing_learnt(note: str) -> Info:
    """Report a round without a step."""
    return Info(np.nan, np.nan, np.nan, notes=(note,))


def report(
    runs: Evaluations,
    model: RiskModel,
    descent: Descent,
    seen: Visit,
    trial: Trial | None,
    update: RadiusUpdate,
    notes: tuple[str, ...],
) -> Info:
    """Report a round; `seen` is the posterior that drew the batch, by what is known after it."""
    surrogate = seen.surrogate
    out_of_range = not runs.risk.min() <= surrogate.mean <= runs.risk.max()
    remarks = {
        _RIDGE: surrogate.ridge > 0.0,
        _EXTRAPOLATES: out_of_range,
        NO_STEP: descent.alpha == 0.0,
        _REJECTED: update.rejected,
    }
    size, k_hat = surrogate.effective_size, np.nan
    if hasattr(model, "predict") and len(runs) <= MANY and runs.drawn.any():
        # A model that sees beyond the runs does not say how well they cover the posterior.
        weights = Importance().fit(runs, descent.posterior).weights(descent.posterior)
        size, k_hat = 1.0 / float(weights @ weights), pareto_shape(weights)
    chance = getattr(model, "failure_chance", None)
    return Info(
        mean_risk=surrogate.mean,
        kl=seen.kl,
        objective=seen.objective,
        alpha=descent.alpha,
        step_kl=descent.posterior.kl(seen.posterior),
        predicted=descent.predicted,
        r_squared=surrogate.r_squared,
        effective_size=size,
        k_hat=k_hat,
        loo_error=surrogate.loo_error,
        radius=update.radius,
        shortfall=np.nan if trial is None else trial.shortfall,
        ratio=np.nan if trial is None else trial.ratio,
        wrong=getattr(model, "outliers", np.nan),
        failure_chance=np.nan if chance is None else chance(descent.posterior),
        notes=(*notes, *(remark for remark, true in remarks.items() if true)),
    )
