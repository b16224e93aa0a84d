"""The risk as an emulator of the inliers and a gate for the outliers.

One bad run in the training set of a smooth emulator spoils it far around. So runs that failed, or
that lie far outside what all others explain, are labelled outliers and train the gate instead. The
risk is then modelled as

    emulator(x) + severity · p(x),

p the gate's probability and severity the excess risk of an outlier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.emulator.gate import Gate, fit_gate
from supac.emulator.process import Process
from supac.emulator.projection import Expansion
from supac.emulator.selection import most_informative
from supac.emulator.units import Units
from supac.families import Distribution, Family, NormalWhitening, gaussian
from supac.families.gaussian import Gaussian
from supac.problem import Evaluations, Problem
from supac.surrogate.estimator import (
    DEAREST,
    MANY_PARAMETERS,
    BatchPlan,
    Context,
    EmulatorState,
    Surrogate,
)
from supac.surrogate.least_squares import project_known

_FEW = 3  # runs of a batch while the posterior moves
_LOOK = 10  # runs around the start, once a search that began narrowly has settled
_BATCH = 5  # runs of a batch once it has settled
_RECENT, _RECENT_ERRORS = 40, 60
_SURPRISE = 9.0  # squared standardised residual from which a run may be an outlier
_MOST_OUTLIERS = 0.6  # share of the runs
_FAR = 20.0  # standard deviations of the posterior, a parameter
_IGNORED = 1e12  # factor on the noise of runs that are left out
_FEW_OUTLIERS = 0.2  # share of the runs, beside which the emulator can be judged
_FIRST_STEPS, _STEPS, _FEW_STEPS = 40, 10, 4  # of L-BFGS on the hyperparameters
_HARDLY_KNOWN, _ANEW = 120, 60  # runs up to which emulators are averaged, and steps of each
_WELL_KNOWN = 250  # runs from which few steps do: the hyperparameters hardly change any more
_NEWS = 1.08  # growth of the number of runs that is worth fitting them anew


class FittedEmulator(Protocol):
    """Predict the risk from the runs of a training set that are no outliers."""

    @property
    def process(self) -> Process:
        """Return the process behind the predictions."""

    @property
    def hyperparameters(self) -> FloatArray:
        """Return the hyperparameters as one vector."""

    def inputs(self, x: FloatArray) -> FloatArray:
        """Return points as inputs of the process: (n, dim) → (n, p)."""

    def misfit(self) -> float:
        """Compute minus the log-evidence."""

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk: (n, dim) → (n,)."""

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out predicted risks and squared standardised residuals of inliers."""

    def predict_outliers(self, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return predicted risks and squared standardised residuals of runs not trained on."""

    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Compute the mean risk, E[risk · features], and the share of variance they explain."""


class TrainingSet(Protocol):
    """Hold runs in standardised units, from which emulators are fitted."""

    @property
    def units(self) -> Units:
        """Return the units of the parameters."""

    @property
    def default(self) -> FloatArray:
        """Return the hyperparameters to start from."""

    def condition(
        self, inliers: BoolArray, inflation: FloatArray, hyperparameters: FloatArray, steps: int
    ) -> FittedEmulator:
        """Improve the hyperparameters by `steps` of L-BFGS, and condition on the inliers."""

    @property
    def averages(self) -> bool:
        """Return True if emulators are averaged as long as there are few runs."""

    def average(
        self, emulator: FittedEmulator, inliers: BoolArray, inflation: FloatArray, steps: int
    ) -> FittedEmulator:
        """Return the mean of the emulator and of others, fitted anew by `steps` if not 0."""


def _has_one_centre(start: Distribution) -> bool:
    return isinstance(start.whiten(), NormalWhitening)


def emulator_plan(
    problem: Problem,
    first: int,
    n: int,
    widening: tuple[float, float],
    probes: float,
    opening: float = 0.0,
) -> BatchPlan:
    """Return small Latin batches with probes, and many updates on one model.

    They are smallest for posteriors with one centre: a mixture needs runs around all of them. The
    first has the width `opening`, if that is not zero, and is followed by a wide one later.
    """
    one_centre = _has_one_centre(problem.start)
    few, batch = (_FEW, _BATCH) if one_centre else (0, 2 * _BATCH)
    return BatchPlan(
        first,
        batch=max(batch, n // 20),
        few=few,
        latin=True,
        width=widening[min(n, 1)],
        opening=opening if one_centre else 0.0,
        look=_LOOK if opening and one_centre else 0,
        widest=widening[0],
        probes=probes,
        inner=25,
        uses_known=True,
        regresses=not one_centre,
    )


@dataclass(frozen=True, eq=False)
class GatedModel:
    """Model the risk by emulator + severity · gate.

    The gate is the probability that a run fails or is an outlier, the severity the mean excess
    risk of such a run.
    """

    emulator: FittedEmulator
    gate: Gate
    severity: float
    error: float
    """Root mean square leave-one-out error of the inliers."""
    outliers: int
    noise: float
    """Standard deviation of the simulator's noise in those of its outputs; NaN if not known."""
    state: EmulatorState
    seed: int

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the risk of inliers: (n, dim) → (n,)."""
        return self.emulator.predict(x)

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Project the risk: in closed form for Gaussian families, from common draws for others."""
        if at.family.is_gaussian and at.dim > MANY_PARAMETERS:
            expanded = self._expanded(at)
            if expanded is not None:
                return expanded
        whitening = at.whiten()
        if not isinstance(whitening, NormalWhitening):
            known = project_known(self.risk, at, np.random.default_rng(self.seed))
            return replace(known, loo_error=self.error)
        mean, beta, explained = self.emulator.moments(whitening)
        if self.severity:
            chance, slope, curvature = self.gate.expectation(whitening.mean, whitening.covariance)
            beta = beta + self.severity * whitening.projection(slope, curvature)
            mean += self.severity * chance
        eta = whitening.coefficients(beta)
        deviation = float(np.linalg.norm(beta))
        return Surrogate(eta, mean, at, deviation, explained, loo_error=self.error)

    def _expanded(self, at: Distribution) -> Surrogate | None:
        """Project the risk of many parameters by gradients; None if there is another way."""
        expand: Callable[[NormalWhitening], Expansion | None] | None
        expand, family = getattr(self.emulator, "expand", None), at.family
        exponential = isinstance(family, Gaussian)
        if expand is None or (isinstance(family, Family) and not exponential):
            return None
        whitening = (at if exponential else gaussian(at.mean, at.covariance)).whiten()
        assert isinstance(whitening, NormalWhitening)
        found = expand(whitening)
        if found is None:
            return None
        mean, slope, hessian = found.mean, found.slope, found.hessian
        if self.severity:
            gate = self.gate.expectation(whitening.mean, whitening.covariance)
            mean += self.severity * gate[0]
            slope = slope + self.severity * gate[1]
            hessian = hessian + self.severity * gate[2]
        if isinstance(family, Gaussian):
            eta = family.expansion(whitening.mean, slope, hessian)
        else:
            gradient = family.mean_gradient(at.theta, slope, hessian)
            if gradient is None:
                return None
            eta = family.natural(at.theta, gradient)
        deviation = max(found.deviation, 1e-300)
        return Surrogate(eta, mean, at, deviation, found.explained, loo_error=self.error)

    def risk(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk of all runs, outliers included: (n, dim) → (n,)."""
        return self.predict(x) + self.severity * self.gate.probability(x)

    def failure_chance(self, at: Distribution) -> float:
        """Compute the share of the runs of `at` that will fail or be outliers."""
        if at.family.is_gaussian:
            return self.gate.expectation(*at.family.moments(at.theta))[0]
        return float(self.gate.probability(at.sample(1_000, self.seed)).mean())

    def probes(self, n: int, at: Distribution, rng: np.random.Generator) -> FloatArray:
        """Choose points in the tails of `at` where the gate is least certain: (n, dim).

        Greedily the largest √(p(1 − p)) among wide draws; each choice damps its neighbourhood.
        """
        whitening = at.whiten()
        if not isinstance(whitening, NormalWhitening):
            return np.empty((0, at.dim))
        candidates = whitening.spread(1.6 * rng.standard_normal((400, at.dim)))
        chance = self.gate.probability(candidates)
        doubt = np.sqrt(chance * (1.0 - chance))
        u = candidates @ self.gate.units.scale
        picked = []
        for _ in range(n):
            best = int(np.argmax(doubt))
            picked.append(best)
            distance = ((u - u[best]) ** 2).sum(axis=1)
            doubt = doubt * -np.expm1(-0.5 * distance / at.dim)
        return candidates[picked]

    @property
    def explained(self) -> float:
        """Return how well runs are predicted from others: the share of the variance, at most 1.

        It is 0 where many went wrong: then the gate decides, not the emulator.
        """
        known = self.outliers <= _FEW_OUTLIERS * len(self.state.outliers)
        return self.emulator.process.explained if known else 0.0

    def informative(
        self, n: int, pool: FloatArray, about: FloatArray, given: FloatArray
    ) -> FloatArray:
        """Choose n points of the pool that tell most about the risk at others, (k, dim): (n, dim).

        Points that are `given` are run as well.
        """
        inputs, process = self.emulator.inputs, self.emulator.process
        return pool[most_informative(process, n, inputs(pool), inputs(about), inputs(given))]


def nearest(runs: Evaluations, current: Distribution, limit: int) -> tuple[Evaluations, IntArray]:
    """Return the `limit` runs nearest to `current`, in its own metric, and their rows."""
    if len(runs) <= limit:
        return runs, np.arange(len(runs))
    z = current.whiten().points(runs.x)
    distance = np.einsum("ij,ij->i", z, z)
    rows = np.sort(np.argsort(distance, kind="stable")[:limit])
    return runs.select(rows), rows


def fit_gated(
    build: Callable[[Evaluations, Distribution, Context], TrainingSet],
    evaluations: Evaluations,
    current: Distribution,
    context: Context,
    limit: int,
) -> GatedModel:
    """Screen the `limit` nearest runs, emulate the inliers, and fit the gate to the outliers.

    The other runs keep their labels.
    """
    everything = evaluations.usable(context.failure_risk)
    runs, rows = nearest(everything, current, limit)
    training, last, total = build(runs, current, context), context.state, len(everything)
    all_outliers, all_inflation = _last_labels(everything, context)
    outliers, inflation = all_outliers[rows], all_inflation[rows]
    hyperparameters, steps, threshold = training.default, _first_steps(training), np.inf
    fitted = total if last is None or _is_news(last.fitted, total, current) else last.fitted
    emulator: FittedEmulator | None = None
    if last is not None:
        if len(last.hyperparameters) == len(training.default):
            hyperparameters = last.hyperparameters
        steps = (_STEPS if total <= _WELL_KNOWN else _FEW_STEPS) if fitted == total else 0
        before, labels = outliers, (outliers, inflation, _is_near(runs, current))
        outliers, inflation, hyperparameters, threshold, emulator = _relabel(
            training, runs, labels, hyperparameters, steps, context.resolution
        )
        # They were just fitted to the same runs, but for those whose label has changed.
        steps = 0 if np.array_equal(outliers, before) else min(steps, _FEW_STEPS)
    inliers = ~outliers
    if emulator is None or steps:
        emulator = training.condition(inliers, inflation[inliers], hyperparameters, steps)
    averages = training.averages and total <= _HARDLY_KNOWN
    restarted = total if last is None else last.restarted
    due = (averages and fitted == total) or total >= 2 * restarted or context.anew
    if last is not None and due and total <= _WELL_KNOWN:
        restarted = total
        emulator = _or_anew(emulator, training, inliers, inflation[inliers])
    if averages:
        steps = _ANEW * (fitted == total)
        emulator = training.average(emulator, inliers, inflation[inliers], steps)
    all_outliers[rows], all_inflation[rows] = outliers, inflation
    residual = runs.risk[inliers] - emulator.leave_one_out()[0]
    coupled, rng = current.family.coupled, context.rng
    gate, severity = _fit_gate(emulator, training.units, runs, outliers, coupled, rng)
    if np.isfinite(context.ceiling):
        # Risks without a limit say nothing on what a failure costs: the worst is an accident.
        severity = min(severity, max(context.ceiling, DEAREST * context.resolution))
    return GatedModel(
        emulator=emulator,
        gate=gate,
        severity=severity,
        error=_root_mean_square(residual),
        outliers=int(outliers.sum()),
        noise=getattr(emulator, "noise", np.nan),
        state=EmulatorState(
            emulator.hyperparameters, all_outliers, all_inflation, threshold, restarted, fitted
        ),
        seed=int(rng.integers(2**32)),
    )


def _root_mean_square(numbers: FloatArray) -> float:
    """Return √(mean square), also of numbers whose squares are too large; it changes no bit."""
    unit = np.ldexp(1.0, int(np.frexp(np.abs(numbers).max(initial=0.0))[1]))
    return float(unit * np.sqrt(np.mean((numbers / unit) ** 2)))


def _is_near(runs: Evaluations, current: Distribution) -> BoolArray:
    """Mark runs within some standard deviations of the posterior, a parameter: (n,)."""
    z = current.whiten().points(runs.x)
    return np.asarray((z**2).mean(axis=1) < _FAR**2)


def _is_news(before: int, now: int, current: Distribution) -> bool:
    """Return True if the hyperparameters are worth fitting anew after `before` runs.

    Those of many parameters are as soon as there are more runs than a linear model has unknowns:
    then it shows whether the outputs are linear.
    """
    unknowns = current.dim + 1
    confirmed = current.dim > MANY_PARAMETERS and before <= unknowns < now
    return confirmed or now >= _NEWS * before


def _first_steps(training: TrainingSet) -> int:
    """Return the steps of a fit from the default hyperparameters."""
    return _ANEW if training.averages else _FIRST_STEPS


def _or_anew(
    emulator: FittedEmulator, training: TrainingSet, inliers: BoolArray, inflation: FloatArray
) -> FittedEmulator:
    """Return the emulator, or one fitted from the default hyperparameters if that is likelier."""
    again = training.condition(inliers, inflation, training.default, _first_steps(training))
    return min(emulator, again, key=lambda each: each.misfit())


def _last_labels(runs: Evaluations, context: Context) -> tuple[BoolArray, FloatArray]:
    """Return the labels and inflations of the last fit; label new runs by its predictions."""
    n, last, expected = len(runs), context.state, context.expected
    outliers, inflation = ~runs.ok, np.ones(n)
    if last is not None:
        old = len(last.outliers)
        outliers[:old] = last.outliers
        inflation[:old] = last.inflation
        if expected is not None and len(expected) == n - old:
            outliers[old:] |= runs.risk[old:] - expected > last.threshold
    if (outliers & runs.ok).sum() > _MOST_OUTLIERS * n:
        outliers = ~runs.ok
    return outliers, inflation


def _relabel(
    training: TrainingSet,
    runs: Evaluations,
    labels: tuple[BoolArray, FloatArray, BoolArray],
    hyperparameters: FloatArray,
    steps: int,
    resolution: float,
) -> tuple[BoolArray, FloatArray, FloatArray, float, FittedEmulator | None]:
    """Fit the emulator to the inliers and label all runs by their residuals, twice.

    Only runs that are `near`, or failed, can be outliers. Where the posterior is narrow, those of
    the first batches are far away, and what the emulator does not explain of them says nothing of
    cliffs around it: they are left out.
    Return outliers, inflations, hyperparameters, the excess risk from which a run may be an
    outlier, and the emulator if the labels are those that it was fitted with.
    """
    (outliers, inflation, near), n, threshold = labels, len(runs), np.inf
    settled: FittedEmulator | None = None
    for first in (True, False):
        inliers = ~outliers
        emulator = training.condition(inliers, inflation[inliers], hyperparameters, steps * first)
        hyperparameters = emulator.hyperparameters
        predicted, surprise = np.zeros(n), np.zeros(n)
        predicted[inliers], surprise[inliers] = emulator.leave_one_out()
        before = outliers & runs.ok
        if before.any():
            predicted[before], surprise[before] = emulator.predict_outliers(before)
        excess = runs.risk - predicted
        recent = excess[inliers][-_RECENT_ERRORS:]
        deviation = 1.4826 * float(np.median(np.abs(recent - np.median(recent))))
        threshold = max(5.0 * deviation, 20.0 * resolution)
        usual = float(np.median(runs.risk[-_RECENT:]))
        bar = threshold + 0.5 * np.maximum(predicted - usual, 0.0)
        unexplained = (surprise > _SURPRISE) & (excess > bar) & runs.ok
        new, ignored = unexplained & near, unexplained & ~near
        most = int(_MOST_OUTLIERS * n)
        if new.sum() > most:
            new &= excess >= np.sort(excess)[-most]
        if first and threshold > max(_spread(runs.risk[inliers]), 20.0 * resolution):
            # The emulator is useless: its errors exceed the spread of the risks themselves.
            upper = _upper_class(runs.risk[inliers])
            if upper is not None:
                new |= runs.ok & (runs.risk > upper)
                hyperparameters = training.default
        last, outliers = (outliers, inflation), new | ~runs.ok
        inflation = np.clip(surprise / _SURPRISE, 1.0, 1e6)
        inflation[ignored] = _IGNORED
        same = all(map(np.array_equal, last, (outliers, inflation)))
        if same and hyperparameters is emulator.hyperparameters:
            settled = emulator
            break
    return outliers, inflation, hyperparameters, threshold, settled


def _spread(risk: FloatArray) -> float:
    return float(np.ptp(np.quantile(risk, [0.1, 0.9])))


def _upper_class(risk: FloatArray) -> float | None:
    """Return the cut of the risks in two classes (Otsu), if it explains most of their variance."""
    ordered = np.sort(risk)
    n = len(ordered)
    below = np.arange(1, n)
    sums = np.cumsum(ordered)[:-1]
    between = below * (n - below) * (sums / below - (ordered.sum() - sums) / (n - below)) ** 2
    best = int(np.argmax(between))
    if between[best] <= 0.6 * n**2 * ordered.var() or best + 1 < max(8, 0.25 * n):
        return None
    return float(0.5 * (ordered[best] + ordered[best + 1]))


def _fit_gate(
    emulator: FittedEmulator,
    units: Units,
    runs: Evaluations,
    outliers: BoolArray,
    coupled: BoolArray,
    rng: np.random.Generator,
) -> tuple[Gate, float]:
    """Fit the gate; return it with the mean excess risk of an outlier, 0 if there was none.

    Far from all good runs an emulator may predict more than any outlier costs: that is no reward.
    """
    last = runs.drawn & (runs.iteration == runs.iteration.max(initial=0))
    share = float(outliers[last].mean()) if last.any() else 0.0
    near = share if share > 0.2 else 0.0
    gate = fit_gate(runs.x, outliers, runs.iteration, units, coupled, near, rng)
    if not outliers.any():
        return gate, 0.0
    excess = np.maximum(runs.risk[outliers] - emulator.predict(runs.x[outliers]), 0.0)
    return gate, float((excess.sum() + excess.max()) / (len(excess) + 1))
