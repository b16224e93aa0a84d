"""The standing of a search in a few rows: estimates of one posterior, and what is ahead."""

from __future__ import annotations

import math
import time

from supac.problem import CombinedMeasurements, Measurements
from supac.problem.combined import CombinedLikelihood
from supac.problem.likelihood import NoisyLikelihood, NormalLikelihood
from supac.problem.observation import loss_of_outputs
from supac.record.outlook import promise, seconds_left
from supac.record.record import Record
from supac.report.beginnings import beginnings, words_on_beginnings
from supac.running.terminal import duration

_NOTHING = 1e-9  # nats


def standing(run: Record) -> list[tuple[str, str]]:
    """Return names and words of the estimates; nothing before the first round."""
    about = run.estimate
    if not math.isfinite(about.objective):
        return []
    began = [("beginnings", words_on_beginnings(run))] if len(beginnings(run)) > 1 else []
    if run.stop_reason is None:
        return [*_on_the_way(run), *began, *ahead(run)]
    error = f" ± {about.mean_risk_error:.1g}" if math.isfinite(about.mean_risk_error) else ""
    fresh = f"from {about.validated} fresh runs" if about.validated else "estimated on the way"
    return [
        ("objective", f"{about.objective:.4g}"),
        ("mean risk", f"{about.mean_risk:.4g}{error}, {fresh}"),
        *_likelihood(run),
        ("KL to prior", f"{_nats(about.kl)} nats"),
        *_shape(run),
        *began,
    ]


def _shape(run: Record) -> list[tuple[str, str]]:
    """Return the shape of a posterior that may have had any, and the evidence, if it is known."""
    rows: list[tuple[str, str]] = []
    if run.ending is None:
        return rows
    mixture = run.ending.posterior.family.mixture
    if mixture is not None and (run.family is None or run.family.mixture is None):
        rows.append(("shape", f"a mixture of {mixture.count} Gaussians"))
    found = run.ending.evidence
    if found is not None:
        doubt = f" ± {found.error:.1g}" if math.isfinite(found.error) else ", unchecked by runs"
        rows.append(("evidence", f"log Z = {found.log:.2f}{doubt} nats, of exp(−risk/λ)"))
    return rows


def _likelihood(run: Record) -> list[tuple[str, str]]:
    """Return minus the log-likelihood of all measurements, if the loss is that of one."""
    data, loss, about = run.settings.data, run.settings.loss, run.estimate
    loss = loss_of_outputs(loss)
    loss = loss.likelihood if isinstance(loss, CombinedLikelihood) else loss
    if not (
        isinstance(data, Measurements | CombinedMeasurements)
        and isinstance(loss, NormalLikelihood | NoisyLikelihood)
    ):
        return []
    count = data.measured
    error = f" ± {count * about.mean_risk_error:.1g}" if about.mean_risk_error > 0.0 else ""
    return [("−log L", f"{count * about.mean_risk:.4g}{error}, of all {count} measurements")]


def _on_the_way(run: Record) -> list[tuple[str, str]]:
    """Describe the present posterior, as the parameters do, and apart from it the one before.

    The last batch was drawn from the one before: its objective and mean risk are estimated from
    runs, those of the present one only predicted.
    """
    about, predicted = run.estimate, run.rounds[-1].info.predicted
    before = f"{about.objective:.4g}, mean risk {about.mean_risk:.4g}, KL {_nats(about.kl)} nats"
    rows = []
    if math.isfinite(predicted):
        rows.append(("objective", f"{predicted:.4g}, as the model predicts"))
    kl = run.posterior_kl
    if math.isfinite(kl):
        rows.append(("KL to prior", f"{_nats(kl)} nats"))
    return [*rows, ("step before", f"objective {before}; estimated from its runs")]


def _nats(kl: float) -> str:
    """Return a KL divergence with three digits, and 0 for what is rounding alone."""
    return "0" if abs(kl) < _NOTHING else f"{kl:.3g}"


def ahead(run: Record) -> list[tuple[str, str]]:
    """Return the time left and what more runs promise, while a search has not ended."""
    rows = [("time left", words_on_time(run))] if run.running else []
    return [*rows, ("outlook", promise(run).sentence)]


def words_on_time(run: Record) -> str:
    """Say how long the rest of the budget takes at the present pace."""
    left, seconds = run.budget - run.spent, seconds_left(run, time.time())
    if left <= 0:
        return "none: the budget is spent"
    runs = f"{left:.0f} runs" if run.coarse_use is None else f"{left:.3g} fine runs' worth"
    if math.isnan(seconds):
        return f"not known yet, for {runs}"
    return f"{duration(seconds)} for {runs}, or less if nothing is left to gain"
