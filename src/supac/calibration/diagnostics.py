"""Warnings to read before a result is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import chdtri

from supac.arrays import BoolArray, FloatArray
from supac.emulator.view import View
from supac.families import Distribution
from supac.guarantee.basis import CertificateError, basis_of
from supac.problem import Bound, Evaluations, Problem
from supac.problem.bounds import Declared, worth_of_a_nat
from supac.problem.losses import reason_of_no_ceiling
from supac.problem.observation import observation_count
from supac.record.run import Run, by_kind, quoted
from supac.search.algorithm import NO_STEP, Info, State
from supac.search.levels import WITHOUT_MODEL
from supac.search.note import Note, is_among
from supac.search.remarks import PASSING
from supac.search.restart import DOUBTED, SETTLED, has_learnt_nothing
from supac.search.valleys import LONGER
from supac.surrogate.estimator import NOISY

BUDGET, NOISE, RANGE = "budget", "noise", "range"
FAILURES, REFUSALS = "failures", "refusals"
"""Codes of notes that have a place of their own in a report."""
REFUSALS_LEFT_OUT = "refusals left out"
"""Code of the note that the bound is about the other draws, which has no such place."""
_DRAWS = 10_000  # of the posterior, that say how far it reaches
_SMALL = 0.1  # nats: a step below this changes little
_SURE = 2.0  # standard errors
_MUCH = 3.0  # nats that a step gains if the objective still falls, whatever the first ones gained
_OFTEN, _LAST = 3, 2  # rounds with the same remark, and rounds at the end
_NEIGHBOURS = 500  # latest runs that tell the noise of the risk
_MORE = "raise it, by `supac resume --budget` or budget= of resume"
_ENOUGH_EQUAL, _ROUNDING = 3, 1e-12  # runs, and share of their risk by which equal ones differ
_DECADES = 3.0  # that outputs span over the runs from which it is told
_REMEDY = (
    "a mixture may follow them: start=split_mixture(prior, 2) of minimize in Python; any shape of "
    "the result, as it has by default, joins them if they are near each other"
)


def notes_on_the_estimate(
    problem: Problem, state: State, size: float, risk: object, *, fresh: bool
) -> tuple[str, ...]:
    """Warn if too few runs support the mean risk, or if risks leave the range of the bound."""
    notes = []
    unknowns = state.posterior.family.size + 1
    if size < unknowns and not fresh and state.evaluations.ok.any():
        notes.append(
            f"the mean risk rests on the equivalent of {size:.1f} independent runs, fewer than the "
            f"{unknowns} unknowns of the surrogate: check it with fresh draws of the posterior, by "
            "`supac certify --posterior` or `certify`"
        )
    return (*notes, *_note_on_the_range(problem, state.evaluations, risk))


def _note_on_the_range(problem: Problem, runs: Evaluations, risk: object) -> tuple[str, ...]:
    """Warn if risks leave the range of the bound, unless a certificate is one all the same.

    That is so where it caps the loss of each datum, as of a mean square: then they always leave it.
    """
    ceiling = Declared.by(problem.bound).ceiling
    likelihood = reason_of_no_ceiling(problem.loss)
    promised = Declared.by(problem.bound).n is not None
    counted = problem.failure_risk is not None and not runs.ok.all()
    known = runs.risk[~np.isnan(runs.risk)]
    if (
        ceiling is None
        or not (promised or (counted and not likelihood))
        or ((known >= 0.0) & (known <= ceiling)).all()
    ):
        return ()
    words = (
        f"risks from {known.min():.3g} to {known.max():.3g} leave the range "
        f"[0, {ceiling:.3g}] that the bound assumes: "
    )
    if known.min() >= 0.0 and _caps(problem.bound, runs, risk):
        return ()
    words += (
        "its value guarantees nothing; give the bound the ceiling= of the loss, or use a bounded "
        "loss such as Welsch()"
    )
    return (Note(RANGE, words),)


def _caps(bound: Bound, runs: Evaluations, risk: object) -> bool:
    """Return True if there is a certificate, which caps the loss of each datum."""
    measured = None if runs.outputs is None else runs.outputs.shape[1]
    try:
        basis = basis_of(risk, bound, measured=measured)
    except CertificateError:
        return False
    return basis.capped


def notes_on_the_way(
    queries: Sequence[int], infos: Sequence[Info], nat: float = 0.0
) -> tuple[str, ...]:
    """Return each distinct note of the rounds once, with its count and its first occurrence.

    Leave out `NO_STEP` after small steps: the search has converged; and `PASSING` remarks that the
    search has got over: it has converged since, or gained more than a `nat`, in units of the
    objective. A search that began again can converge to as little as before: it must have gained.
    """
    places: dict[str, list[int]] = {}
    converged = False
    for i, info in enumerate(infos):
        for note in info.notes:
            expected = is_among(note, (NO_STEP,)) and converged
            if not (expected or is_among(note, (*WITHOUT_MODEL, DOUBTED, LONGER))):
                places.setdefault(note, []).append(i)
        if info.alpha > 0.0:  # a small radius makes small steps too
            converged = info.step_kl < min(_SMALL, 0.5 * info.radius)
    objective = np.array([info.objective for info in infos])

    def is_over(note: str, at: list[int]) -> bool:
        since = converged and at[-1] < len(infos) - _LAST and not is_among(note, (SETTLED,))
        return (
            is_among(note, PASSING)
            and len(at) < _OFTEN
            and (since or _gained(objective, at[-1]) > nat)
        )

    return tuple(
        f"{note} ({len(at)} of {len(infos)} iterations, first at {queries[at[0]]} queries)"
        for note, at in places.items()
        if not is_over(note, at)
    )


def _gained(objective: FloatArray, after: int) -> float:
    """Return by how much the objective was better after a round than up to it; NaN if unknown."""
    best = [np.fmin.reduce(part, initial=np.inf) for part in np.split(objective, [after + 1])]
    return float(best[0] - best[1]) if np.isfinite(best[1]) else np.nan


def hardly_begun(history: Mapping[str, FloatArray]) -> bool:
    """Return True if at most one step was made, and no small one."""
    known = np.isfinite(history["objective"])
    return bool(len(known) < 2 and not (history["step_kl"][known] < _SMALL).any())


def note_on_the_budget(history: Mapping[str, FloatArray], bound: Bound | None) -> tuple[str, ...]:
    """Warn if the objective was still falling when the budget ended.

    It was if the last two steps made over a tenth of the total gain or six nats, and more than the
    error of the objective, the last one half of that; and if the next one promises a nat or more.
    """
    if hardly_begun(history):
        words = f"the budget ended after a single step, before the search had settled: {_MORE}"
        return (Note(BUDGET, words),)
    known = history["objective"][np.isfinite(history["objective"])]
    if len(known) < 4:
        return ()
    last = {name: last_known(each) for name, each in history.items()}  # a round may have failed
    error = np.nan_to_num(last["loo_error"]) / np.sqrt(np.fmax(last["effective_size"], 1.0))
    nat = 0.0 if bound is None else worth_of_a_nat(bound, last["mean_risk"], last["kl"])
    # Of a gain of thousands of nats a twentieth is much.
    share, many = known[0] - known[-1], _MUCH * nat if nat else np.inf
    small, smaller = min(0.1 * share, 2.0 * many), min(0.05 * share, many)
    if known[-3] - known[-1] < max(small, _SURE * error) or known[-2] - known[-1] < smaller:
        return ()
    if known[-1] - last["predicted"] < nat:
        return ()
    falling = " → ".join(f"{value:.3g}" for value in known[-3:])
    words = f"the objective was still falling when the budget ended ({falling}): {_MORE}"
    return (Note(BUDGET, words),)


def last_known(column: FloatArray) -> float:
    """Return the last finite value of a column of the history; NaN if there is none."""
    known = column[np.isfinite(column)]
    return float(known[-1]) if len(known) else np.nan


def note_on_noise(history: Mapping[str, FloatArray]) -> tuple[str, ...]:
    """Say what the last model left of the outputs as noise, if it is a tenth of what they vary by.

    A noisy simulator is one reason, outputs that change faster than the runs show another: only two
    runs at one point tell them apart.
    """
    noise = history["noise"][-1:]
    if not (noise > NOISY).any():
        return ()
    words = (
        f"the emulator leaves about {noise[0]:.0%} of the spread of the outputs over all runs "
        "unexplained: if the simulator is noisy, that is its noise, and no posterior has a mean "
        "risk below it; if two runs at one point agree, outputs change faster than these runs "
        "show, and more runs or a narrower prior help"
    )
    return (Note(NOISE, words),)


def note_on_learning(
    problem: Problem, state: State, objective: float, nat: float, error: float
) -> tuple[str, ...]:
    """Warn if the posterior is hardly better than the start."""
    if not has_learnt_nothing(problem, state, objective, nat, error):
        return ()
    return (
        "the posterior is hardly better than where the search began, and runs could not be "
        "predicted from each other: the search may have missed where the risk is low; with a "
        "larger budget, by `supac resume --budget` or budget= of resume, it begins again elsewhere",
    )


def note_on_equal_risks(runs: Evaluations) -> tuple[str, ...]:
    """Warn if all runs that did not fail have the same risk, wherever they were made."""
    risk = runs.risk[runs.ok]
    if len(risk) < _ENOUGH_EQUAL or np.ptp(risk) > _ROUNDING * np.abs(risk).max():
        return ()
    return (
        f"all {len(risk)} runs that did not fail have the same risk, {risk[0]:.3g}: nothing was "
        "learnt; check that the simulator uses its parameters, that its outputs are those that "
        "were measured, and that the loss is not flat as far from the data as all runs are",
    )


def advice_on_workers(workers: int, batch: int, first: int) -> str:
    """Say how many workers wait in each round of `batch` runs, and how to use them."""
    idle = workers - batch
    wait = "waits" if idle == 1 else "wait"
    option = f"batch={workers}" if first >= workers else f"first={workers}, batch={workers}"
    return (
        f"{idle} of {workers} workers {wait} in rounds of {batch} runs, "
        "which do not grow with the workers so that results do not depend on these; "
        f'SuPAC({option}), or mode="async", uses them all, for more runs in less time'
    )


def advice_on_decades(problem: Problem, runs: Evaluations) -> tuple[str, ...]:
    """Say that outputs span decades, and that large ones were compressed for the emulator."""
    good = runs.select(runs.ok)
    if problem.loss is None or good.outputs is None or len(good) < 2 or not good.outputs.size:
        return ()
    sizes = np.abs(good.outputs).max(axis=1)
    usual = float(np.median(sizes))
    decades = float(np.log10(sizes.max() / usual)) if usual > 0.0 else 0.0
    view = View.of(good.outputs, good.risk, problem.loss, observation_count(problem.loss))
    if not decades >= _DECADES or view is None or not np.isfinite(view.scale):
        return ()
    return (
        f"outputs span {decades:.0f} decades over the runs: large ones were compressed, by asinh, "
        "to be emulated, and the loss was computed from them as they are; where all are positive, "
        'compare = "log" in [data], or logarithmic=True of Observations, may need fewer runs',
    )


def notes_on_failures(failures: Sequence[Run], *, left_out: bool) -> tuple[str, ...]:
    """Report the number of failed runs and the most common reason."""
    if not failures:
        return ()
    commonest = by_kind(failures)[0]
    reason = commonest[0].message
    share = "all" if len(commonest) == len(failures) else f"{len(commonest)} of them"
    alike = quoted(commonest) == reason
    note = f"{len(failures)} runs failed, {share} {'with' if alike else 'such as'}: {reason}"
    if len(failures) == 1:
        note = f"a run failed with: {reason}"
    if left_out:
        note += ". They were left out: the bound is about runs that do not fail"
    return (Note(FAILURES, note),)


def notes_on_refusals(
    refused: Sequence[Run], runs: int, *, left_out: bool = False
) -> tuple[str, ...]:
    """Report the number of draws that no run was made of, and why."""
    if not refused:
        return ()
    reasons = [f"{each[0].message} ({len(each)})" for each in by_kind(refused)]
    verb = "was" if len(refused) == 1 else "were"
    told = f"{len(refused)} of {runs} draws {verb} refused: {', '.join(reasons)}"
    if left_out:
        told += ". They were left out: the bound is about draws that are not refused"
        return (Note(REFUSALS_LEFT_OUT, told),)
    if len(refused) > MANY_REFUSED * runs:
        told += ". Formulas such as k2 = k1 + gap keep a constraint without refusing any"
    return (Note(REFUSALS, told),)


MANY_REFUSED = 0.3  # share of the draws from which there may be a better way


def notes_on_modes(
    problem: Problem, runs: Evaluations, posterior: Distribution, mean_risk: float
) -> tuple[str, ...]:
    """Warn of good runs out of the posterior's reach, or of a mean risk far above the best.

    The optimal distribution for Catoni's bound has the density prior·exp(−R/λ), by which runs are
    compared. A run is out of reach if the posterior would practically never draw its point. Either
    must be more than the luck of the best of many noisy runs.
    """
    good = runs.select(runs.ok)
    if len(good) < 2 or not np.isfinite(mean_risk):
        return ()
    worth = worth_of_a_nat(problem.bound, mean_risk, posterior.divergence(problem.prior).value)
    if not worth > 0.0:
        return ()
    beyond = _out_of_reach(good, posterior)
    luck = _luck(good.select(~beyond), posterior)
    quality = problem.prior.log_prob(good.x) - good.risk / worth
    # By how much the worst of twenty draws falls short of their median where all is Gaussian.
    slack = 0.5 * float(np.diff(chdtri(posterior.dim, [0.5, 0.05]))[0])
    usual = np.median(quality[~beyond]) if not beyond.all() else np.inf
    missed = beyond & (quality > usual - slack + luck / worth)
    if missed.any():
        count, best = int(missed.sum()), float(good.risk[missed].min())
        words = "a run is" if count == 1 else f"{count} runs are"
        return (
            f"{words} out of the posterior's reach and as good as those within (risk from "
            f"{best:.3g}): the risk may have other modes, which are missed; {_REMEDY}",
        )
    # A quadratic risk in so many dimensions costs half as many nats on average.
    best, allowed = float(good.risk.min()), 2.0 * posterior.dim * worth + luck
    if posterior.family.is_gaussian and mean_risk - best > allowed:
        mean, least = _told_apart(mean_risk, best)
        return (
            f"the mean risk, {mean}, is far above that of the best run, {least}: the "
            f"posterior spreads over good and bad regions, perhaps over several modes; {_REMEDY}",
        )
    return ()


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Return both numbers with three digits, or as many as tell them apart."""
    for digits in range(3, 17):
        found = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if found[0] != found[1]:
            return found
    return repr(one), repr(other)


def _luck(runs: Evaluations, posterior: Distribution) -> float:
    """Estimate by how much the best of the runs is better than it would be without its noise.

    The noise is what a risk differs by from that of the nearest run. It is that of the simulator,
    and what risks differ by between neighbours.
    """
    few = runs.latest(_NEIGHBOURS)
    if len(few) < 2:
        return 0.0
    z = posterior.whiten().points(few.x)
    squares = np.einsum("ij,ij->i", z, z)
    distance = squares[:, None] + squares - 2.0 * z @ z.T
    np.fill_diagonal(distance, np.inf)
    gap = np.abs(few.risk - few.risk[np.argmin(distance, axis=1)])
    noise = 1.4826 * float(np.median(gap)) / np.sqrt(2.0)
    return noise * float(np.sqrt(2.0 * np.log(len(few))))


def _out_of_reach(runs: Evaluations, posterior: Distribution) -> BoolArray:
    """Mark runs twice as far below the median log-density as the furthest draw: (n,)."""
    own = posterior.log_prob(posterior.sample(_DRAWS, 0))
    return posterior.log_prob(runs.x) < 2.0 * own.min() - np.median(own)
