"""Diagnostics of a round."""

from __future__ import annotations

import numpy as np

from supac.search.algorithm import NO_STEP, Info
from supac.search.descent import Descent, SurrogateBound
from supac.search.facts import Facts
from supac.search.remarks import EXTRAPOLATES, REJECTED, RIDGE
from supac.surrogate.estimator import RiskModel
from supac.surrogate.importance import Importance, effective_size, pareto_shape
from supac.surrogate.regime import Regime

_ROUNDING = 1e-9  # share of the largest risk


def report(facts: Facts, model: RiskModel, descent: Descent, bound: SurrogateBound) -> Info:
    """Report a round: the posterior that drew its batch, by what is known after it."""
    runs, trial, update = facts.runs, facts.judged.trial, facts.judged.update
    seen = bound.at(facts.state.posterior, np.nan) if update.rejected else descent.first
    surrogate, posterior = seen.surrogate, descent.last.posterior
    # Within the error of predicting a run, or rounding, it may be by chance.
    error = surrogate.loo_error if np.isfinite(surrogate.loo_error) else 0.0
    slack = error + _ROUNDING * float(np.abs(runs.risk).max())
    out_of_range = not -slack <= surrogate.mean - runs.risk.min() <= np.ptp(runs.risk) + slack
    remarks = {
        RIDGE: surrogate.ridge > 0.0,
        EXTRAPOLATES: out_of_range,
        NO_STEP: descent.alpha == 0.0,
        REJECTED: facts.taken_back,
    }
    size, k_hat = surrogate.effective_size, np.nan
    usual = len(runs) <= facts.state.tuning.estimator.many and not Regime.of(posterior.dim).is_many
    if usual and runs.drawn.any() and model.predict(posterior.mean[None]) is not None:
        # A model that sees beyond the runs does not say how well they cover the posterior; of many
        # parameters they never do.
        weights = Importance().fit(runs, posterior).weights(posterior)
        size, k_hat = effective_size(weights), pareto_shape(weights)
    return Info(
        mean_risk=surrogate.mean,
        kl=seen.kl,
        objective=seen.objective,
        alpha=descent.alpha,
        step_kl=posterior.kl(seen.posterior),
        predicted=descent.last.objective,
        r_squared=surrogate.r_squared,
        effective_size=size,
        k_hat=k_hat,
        loo_error=surrogate.loo_error,
        radius=update.radius,
        shortfall=np.nan if trial is None else trial.shortfall,
        ratio=np.nan if trial is None else trial.ratio,
        wrong=model.outliers,
        failure_chance=model.failure_chance(posterior),
        noise=model.noise,
        notes=(*facts.chosen.notes, *(remark for remark, true in remarks.items() if true)),
    )
