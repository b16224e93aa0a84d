"""Checks of the fit: to the data that were fitted, and to those that were held out."""

from __future__ import annotations

import math

import numpy as np

from supac.calibration.diagnostics import last_known
from supac.problem.bounds import worth_of_a_nat
from supac.report.account import NOWHERE_NEAR, Account
from supac.report.beginnings import beginnings, rivals, words_on_rival
from supac.report.check import NAMED, Answer, Level
from supac.report.misfit import Misfit
from supac.report.residuals import DOUBTED, Autocorrelation
from supac.report.scores import COVERAGE
from supac.report.words import number, percent

OFF = 2.0  # typical misfit, in units of the noise, above which the model does not fit
_FAR_OFF = 10.0  # and above which a posterior that is no better than the start says nothing
_BETTER = 3.0  # nats by which a posterior is better than the start if anything was learnt
_SATURATED = 0.1  # share of measurements where the loss is flat that is told
_GROWN = 1.5  # prior standard deviations by which a fitted noise level exceeds its prior
_UNEXPLAINED = 0.7  # misfit beside the spread of the data: half of their variance is left


def is_better(run: Account) -> bool:
    """Return True unless the posterior is hardly better than the first one."""
    known = run.history["objective"][np.isfinite(run.history["objective"])]
    if not len(known) or not math.isfinite(run.objective):
        return True
    return bool(run.objective < known[0] - _BETTER * nat(run))


def nat(run: Account) -> float:
    """Return how much a nat of KL lowers the objective at its end; 0 if that is not known."""
    bound = run.record.bound
    if bound is None:
        return 0.0
    mean_risk, kl = (last_known(run.history[name]) for name in ("mean_risk", "kl"))
    return worth_of_a_nat(bound, mean_risk, kl)


def fits(run: Account) -> Answer:
    """Judge the misfit of each observed column, if known, and the mean risk."""
    mean = mean_is_better(run, held_out=False)
    advice = "Look at the fit: is the noise realistic, is the model right?"
    off = [each for each in run.misfits if each.typical > OFF]
    if off:
        return _far_off(run, off, mean, advice)
    risk = f"mean risk {number(run.mean_risk)}"
    bounded = run.ceiling is not None and math.isfinite(run.mean_risk)
    if run.ceiling is not None and bounded:
        risk += f" of at most {run.ceiling:g}"
    badly = run.ceiling is not None and bounded and run.mean_risk > 0.5 * run.ceiling
    fitted = any(each.fitted for each in run.misfits)
    if badly or (mean and not fitted):
        told = f"Badly: {risk}. {mean}" if badly else f"Badly. {mean}"
        return Level.LOOK, f"{told.rstrip()} {advice}"
    if fitted:
        return _fits_with_fitted_noise(run, risk, mean)
    if run.misfits:
        worst = max(each.typical for each in run.misfits)
        words = f"Yes: typical misfits are at most {number(worst, 2)} times the noise ({risk})."
        return Level.TRUST, words
    return (Level.TRUST, f"As far as the loss tells: {risk}.") if bounded else None


def _far_off(run: Account, off: list[Misfit], mean: str, advice: str) -> Answer:
    """Judge columns whose misfit the noise does not explain."""
    told = ", ".join(f"{each.column} {number(each.typical, 2)}" for each in off)
    worst = max(each.typical for each in off)
    mean = "".join(f"{each} " for each in (mean, saturation(run)) if each)
    if worst > NOWHERE_NEAR or (worst > _FAR_OFF and not is_better(run)):
        return Level.DO_NOT_TRUST, (
            f"Not at all. Typical misfits in units of the noise: {told}. {mean}Are data and "
            "simulator in the same units, are columns and settings the right ones, and is the "
            "noise?"
        )
    return Level.LOOK, (
        f"Badly: typical misfits are more than {OFF:g} times the noise ({told}). {mean}{advice} If "
        "both are, the posterior may be too wide: more data or a sharper loss would narrow it. Or "
        "the search has not found where the model fits, which happens with priors of many decades: "
        "try more runs, another seed or a narrower prior."
    )


def saturation(run: Account) -> str:
    """Say that the loss does not see how far off many measurements are; "" if it does."""
    if run.saturated is None or run.saturated[0] < _SATURATED:
        return ""
    share, flat = run.saturated
    return (
        f"For {percent(share)} of the measurements the residual is above {number(flat, 2)} noises, "
        "where the loss hardly grows: neither the search nor a certificate sees how far off they "
        "are."
    )


def mean_is_better(run: Account, *, held_out: bool) -> str:
    """Name the columns that a constant fits better than the model does; "" if there are none."""
    worse = [s for s in run.scores if s.held_out == held_out and s.mean_is_better]
    if not worse:
        return ""
    told = ", ".join(f"{each.column} {number(each.nse, 2)}" for each in worse[:NAMED])
    more = f" and {len(worse) - NAMED} more" if len(worse) > NAMED else ""
    data = "held-out measurements" if held_out else "measurements"
    return (
        f"The mean of the {data} is a better model than this one, as Nash–Sutcliffe efficiencies "
        f"below 0 say ({told}{more})."
    )


def noise_remains(run: Account) -> Answer:
    """Judge if the residuals are like independent noise; None if that cannot be told."""
    found = run.autocorrelation
    if found is None:
        return None
    if run.correlated_errors:
        words = "They need not be independent: the loss takes errors for correlated ones"
        return Level.TRUST, f"{words} (correlation of neighbours {number(found.correlation, 2)})."
    told = f"correlation {number(found.correlation, 2)}, z = {number(found.z, 2)}"
    if not found.doubted:
        words = f"Yes: neighbours in time are no more alike than independent noise is ({told})."
        return Level.TRUST, words
    fitted = any(each.fitted for each in run.misfits)
    hidden = " Noise that is fitted hides it, as it grows with the misfit." if fitted else ""
    return Level.LOOK, (
        f"No: residuals of neighbours in time are alike ({told}; of noise alone, z is below "
        f"{DOUBTED:g}).{_where(run, found)}{hidden} Either the search has found a wrong valley: "
        "try another seed, more runs or a narrower prior, and compare the objectives. Or the "
        "model, its inputs or its times lack something: then ranges and bands are too narrow, "
        f"since they take the residuals for independent noise.{_setting(run)}"
    )


def _where(run: Account, found: Autocorrelation) -> str:
    """Name the columns whose residuals are most alike, and the longest stretch out of its band."""
    words = ""
    if len(found.series) > 1:
        worst = ", ".join(f"{name} {number(z, 2)}" for name, z in found.series[:3])
        words = f" Most alike by column: {worst}."
    if run.stretch is None or run.stretch.by_chance:
        return words
    own = run.stretch
    return (
        f"{words} From {number(own.first)} to {number(own.last)}, {own.length} measurements of "
        f"{own.name} one after the other lie on one side of their bands of {percent(COVERAGE)}."
    )


def _setting(run: Account) -> str:
    """Name the settings that take errors for dependent ones, unless one of them is used."""
    if not run.source[0] or run.correlated_errors:
        return ""
    return (
        ' If no other valley fits better, write discrepancy = "auto" in [data]: the model is then '
        "off by a smooth curve beside the noise, and predictions show it. Of hundreds of data a "
        "series, name a correlation_time."
    )


def noise_has_grown(run: Account) -> Answer:
    """Judge noise levels that were fitted beside their priors; None if there are none."""
    rows = [row for row in run.learnt if row.name in run.noise_levels]
    if not rows or any(math.isnan(row.shift) for row in rows):
        return None
    grown = [row for row in rows if row.shift > _GROWN]
    if not grown:
        return Level.TRUST, f"Yes: none is more than {_GROWN:g} prior standard deviations higher."
    told = ", ".join(f"{row.name} by {number(row.shift, 2)}" for row in grown[:NAMED])
    return Level.LOOK, (
        f"No: they are higher by more than {_GROWN:g} prior standard deviations ({told}). Fitted "
        "noise takes up what the model does not explain: either the prior was too small, or the "
        "search has found a wrong valley, or the model lacks something. Look at the fit."
    )


def is_alone(run: Account) -> Answer:
    """Judge if other beginnings ended elsewhere and are as good; None if there was only one."""
    if len(beginnings(run.record)) < 2 or not nat(run) > 0.0:
        return None
    others = rivals(run.record, nat(run))
    if sum(np.isfinite(each.objective) for each in beginnings(run.record)) < 2:
        return None  # one that was cut off says nothing of another valley
    if not others:
        return Level.TRUST, "Yes: no other beginning ended elsewhere and as well."
    told = "; ".join(words_on_rival(run.record, each) for each in others[:NAMED])
    return Level.LOOK, (
        f"No: a second valley fits as well: {told}. The posterior describes one of them alone, and "
        "so do its ranges and predictions. Other data may tell them apart, or a prior."
    )


def fits_held_out(run: Account) -> Answer:
    """Judge the fit to data that the search did not see; None if there are none."""
    mine = [each for each in run.scores if each.held_out]
    if not mine:
        return None
    told = ", ".join(f"{each.column} {number(each.nse, 2)}" for each in mine[:NAMED])
    advice = (
        "Are these data of the same kind, with the same times, units and settings? If they are, "
        "the model does not hold beyond the data that it was fitted to."
    )
    mean = mean_is_better(run, held_out=True)
    if mean:
        return Level.LOOK, f"No. {mean} {advice}"
    off = [each for each in mine if each.misfit > OFF and not each.noise_fitted]
    if off:
        sizes = ", ".join(f"{each.column} {number(each.misfit, 2)}" for each in off[:NAMED])
        return Level.LOOK, (
            f"Badly: typical misfits are more than {OFF:g} times the noise ({sizes}). {advice}"
        )
    return Level.TRUST, f"Yes: Nash–Sutcliffe efficiencies of the held-out data are {told}."


def _fits_with_fitted_noise(run: Account, risk: str, mean: str) -> tuple[Level, str]:
    """Judge misfits beside the spread of the data, where the noise was fitted to them."""
    fitted = [each for each in run.misfits if each.fitted and not math.isnan(each.of_spread)]
    far = [each for each in fitted if each.of_spread > _UNEXPLAINED]
    beginning = "noise that depends on parameters is as large as the misfits, whatever the fit"
    others = [each.typical for each in run.misfits if not each.fitted]
    rest = (
        f" Where the noise is given, typical misfits are at most {number(max(others), 2)} times it."
        if others
        else ""
    )
    if far:
        mean = f" {mean}" if mean else ""
        told = ", ".join(f"{each.column} {percent(each.of_spread)}" for each in far[:NAMED])
        more = f" and {len(far) - NAMED} more" if len(far) > NAMED else ""
        return Level.LOOK, (
            f"Hardly: {beginning}. Beside the spread of the measurements, misfits are {told}{more}."
            f"{mean} Either these are mostly noise, or the search has not found where the model "
            f"follows them: look at the fit, and try more runs or another seed.{rest}"
        )
    if not fitted:
        return Level.TRUST, (
            f"Nothing speaks against it: {beginning}, and these measurements show no course beyond "
            f"their scatter that a model could miss ({risk}).{rest}"
        )
    worst = max(each.of_spread for each in fitted)
    return Level.TRUST, (
        f"As far as can be told: {beginning}. Misfits are at most {percent(worst)} of the spread "
        f"of the measurements ({risk}).{rest}"
    )
