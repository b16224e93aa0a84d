"""The risk as an emulator of the inliers and a gate for the outliers.

Runs that failed, or that lie far outside what all others explain, are labelled outliers
(`screening.py`) and train the gate instead. The risk is then modelled as

    emulator(x) + severity · p(x),

p the gate's probability and severity the excess risk of an outlier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.emulator.base import FittedEmulator, TrainingSet
from supac.emulator.gate import Gate, fit_gate
from supac.emulator.schedule import Schedule
from supac.emulator.screening import Labels, Screened, screen
from supac.emulator.selection import most_informative
from supac.emulator.tuning import BatchTuning, EmulatorTuning, GateTuning, ProbeTuning
from supac.emulator.units import Units
from supac.families import Distribution, gaussian
from supac.problem import Evaluations, Problem
from supac.surrogate.estimator import BatchPlan, Context, RiskModel, Surrogate
from supac.surrogate.least_squares import project_known
from supac.surrogate.memory import Memory
from supac.surrogate.regime import Regime


def emulator_plan(
    problem: Problem,
    first: int,
    n: int,
    widening: tuple[float, float],
    probes: float,
    tuning: BatchTuning,
    *,
    opening: float = 0.0,
    small: bool = False,
) -> BatchPlan:
    """Return small Latin batches with probes, and many updates on one model.

    They are smallest for `small` problems with one centre: a mixture needs runs around all of its
    centres. The first has the width `opening`, if that is not zero, and is followed by a wide one
    later.
    """
    one_centre = problem.start.whiten().normal is not None
    few, batch = tuning.moving_of_others, tuning.settled_of_others
    if small:
        few, batch = tuning.moving, tuning.settled
    if not one_centre:
        few, batch, opening = 0, tuning.of_several_centres, 0.0
    return BatchPlan(
        first,
        batch=max(batch, n // tuning.share),
        few=few,
        latin=True,
        width=widening[min(n, 1)],
        opening=opening,
        widest=widening[0],
        probes=probes,
        inner=tuning.inner,
        uses_known=True,
        regresses=not one_centre,
    )


@dataclass(frozen=True, eq=False)
class GatedModel(RiskModel):
    """Model the risk by emulator + severity · gate.

    The gate is the probability that a run fails or is an outlier, the severity the mean excess
    risk of such a run.
    """

    emulator: FittedEmulator
    gate: Gate
    error: float
    """Root mean square leave-one-out error of the inliers."""
    labels: BoolArray
    """True for outliers among the runs that it was fitted to: (n,)."""
    learnt: Memory
    seed: int
    tuning: ProbeTuning

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the risk of inliers: (n, dim) → (n,)."""
        return self.emulator.predict(x)

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Project the risk: in closed form for Gaussian families, from common draws for others."""
        if at.family.is_gaussian and Regime.of(at.dim).is_many:
            expanded = self._expanded(at)
            if expanded is not None:
                return expanded
        whitening = at.whiten().normal
        if whitening is None:
            known = project_known(self.expected_risk, at, np.random.default_rng(self.seed))
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
        family = at.family
        full = family.gaussian
        if family.exponential is not None and full is None:
            return None
        whitening = (gaussian(at.mean, at.covariance) if full is None else at).whiten().normal
        assert whitening is not None
        found = self.emulator.expand(whitening)
        if found is None:
            return None
        mean, slope, hessian = found.mean, found.slope, found.hessian
        if self.severity:
            gate = self.gate.expectation(whitening.mean, whitening.covariance)
            mean += self.severity * gate[0]
            slope = slope + self.severity * gate[1]
            hessian = hessian + self.severity * gate[2]
        if full is not None:
            eta = full.expansion(whitening.mean, slope, hessian)
        else:
            gradient = family.mean_gradient(at.theta, slope, hessian)
            if gradient is None:
                return None
            eta = family.natural(at.theta, gradient)
        deviation = max(found.deviation, 1e-300)
        return Surrogate(eta, mean, at, deviation, found.explained, loo_error=self.error)

    def expected_risk(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk of all runs, outliers included: (n, dim) → (n,)."""
        return self.predict(x) + self.severity * self.gate.probability(x)

    def doubt(self, x: FloatArray) -> FloatArray | None:
        """Return what the emulator's uncertainty adds to the risk: (n, dim) → (n,)."""
        return self.emulator.doubt(x)

    def failure_chance(self, at: Distribution) -> float:
        """Compute the share of the runs of `at` that will fail or be outliers."""
        if at.family.is_gaussian:
            return self.gate.expectation(*at.family.moments(at.theta))[0]
        return float(self.gate.probability(at.sample(1_000, self.seed)).mean())

    def probes(self, n: int, at: Distribution, rng: np.random.Generator) -> FloatArray:
        """Choose points in the tails of `at` where the gate is least certain: (n, dim).

        Greedily the largest √(p(1 − p)) among wide draws; each choice damps its neighbourhood.
        """
        whitening = at.whiten().normal
        if whitening is None:
            return np.empty((0, at.dim))
        wide = self.tuning.width * rng.standard_normal((self.tuning.candidates, at.dim))
        candidates = whitening.spread(wide)
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
    def severity(self) -> float:
        """Return the mean excess risk of an outlier; 0 if there was none."""
        return self.gate.severity

    @property
    def outliers(self) -> int:
        """Return the number of outliers among the runs that it was fitted to."""
        return int(self.labels.sum())

    @property
    def noise(self) -> float:
        """Return the standard deviation of the simulator's noise; NaN if it is not known."""
        return self.emulator.noise

    @property
    def memory(self) -> Memory:
        """Return the hyperparameters and labels, from which the next fit goes on."""
        return self.learnt

    @property
    def explained(self) -> float:
        """Return how well runs are predicted from others: the share of the variance, at most 1.

        It is 0 where many went wrong: then the gate decides, not the emulator.
        """
        known = self.outliers <= self.tuning.useless * len(self.learnt.outliers)
        return self.emulator.process.explained if known and self.tuning.chooses else 0.0

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
    tuning: EmulatorTuning,
) -> GatedModel:
    """Screen the `limit` nearest runs, emulate the inliers, and fit the gate to the outliers.

    The other runs keep their labels.
    """
    everything, memory = evaluations.usable(context.failure_risk), context.memory
    runs, rows = nearest(everything, current, limit)
    training, total = build(runs, current, context), len(everything)
    several, anew = training.averages, context.anew
    schedule = Schedule.of(memory, total, current.dim, tuning, several=several, anew=anew)
    before = Labels.remembered(everything, memory, context.expected, tuning.screening)
    found = Screened(before.of(rows), training.default, np.inf, None)
    if memory is None:
        emulator = found.labels.emulator(training, training.default, schedule.usual)
    else:
        given = replace(found, hyperparameters=memory.start(training.default))
        steps, worth = schedule.usual, context.resolution
        found = screen(training, runs, given, steps, worth, tuning.screening)
        emulator = found.fitted(training, schedule.after_labels, given.labels)
    emulator = _rivals(emulator, training, found.labels, schedule)
    outliers, after = found.labels.outliers, before.updated(rows, found.labels)
    residual = runs.risk[~outliers] - emulator.leave_one_out()[0]
    return GatedModel(
        emulator,
        _fit_gate(emulator, training.units, runs, outliers, current, context, tuning.gate),
        error=_root_mean_square(residual),
        labels=outliers,
        learnt=Memory(
            emulator.hyperparameters,
            after.outliers,
            after.inflation,
            found.threshold,
            schedule.restarted,
            schedule.fitted,
            on_scale=training.inputs.remembered_choice,
        ),
        seed=int(context.rng.integers(2**32)),
        tuning=tuning.probes,
    )


def _rivals(
    emulator: FittedEmulator, training: TrainingSet, labels: Labels, schedule: Schedule
) -> FittedEmulator:
    """Return the emulator, or one fitted anew if that is likelier, averaged with others."""
    if schedule.anew:
        again = labels.emulator(training, training.default, schedule.anew)
        emulator = min(emulator, again, key=lambda each: each.misfit())
    if not schedule.averages:
        return emulator
    inliers = ~labels.outliers
    return training.average(emulator, inliers, labels.inflation[inliers], schedule.others)


def _root_mean_square(numbers: FloatArray) -> float:
    """Return √(mean square), also of numbers whose squares are too large; it changes no bit."""
    unit = np.ldexp(1.0, int(np.frexp(np.abs(numbers).max(initial=0.0))[1]))
    return float(unit * np.sqrt(np.mean((numbers / unit) ** 2)))


def _fit_gate(
    emulator: FittedEmulator,
    units: Units,
    runs: Evaluations,
    outliers: BoolArray,
    current: Distribution,
    context: Context,
    tuning: GateTuning,
) -> Gate:
    """Fit the gate, with the mean excess risk of an outlier, 0 if there was none.

    Far from all good runs an emulator may predict more than any outlier costs: that is no reward.
    """
    last = runs.drawn & (runs.iteration == runs.iteration.max(initial=0))
    share = float(outliers[last].mean()) if last.any() else 0.0
    near, coupled = share if share > tuning.many_close else 0.0, current.family.coupled
    gate = fit_gate(
        runs.x, outliers, runs.iteration, units, coupled, near, context.rng, tuning=tuning
    )
    if not (outliers.any() and tuning.charges):
        return gate
    excess = np.maximum(runs.risk[outliers] - emulator.predict(runs.x[outliers]), 0.0)
    severity = mean_excess(excess, largest_twice=tuning.largest_twice)
    if np.isfinite(context.ceiling):
        # Risks without a limit say nothing on what a failure costs: the worst is an accident.
        severity = min(severity, max(context.ceiling, tuning.dearest * context.resolution))
    return replace(gate, severity=severity)


def mean_excess(excess: FloatArray, *, largest_twice: bool) -> float:
    """Return the mean excess risk of outliers, with the largest counted twice: there may be more.

    Few outliers are rarely the worst ones.
    """
    if not largest_twice:
        return float(excess.mean())
    return float((excess.sum() + excess.max()) / (len(excess) + 1))
