"""An emulator of the runs that went as expected, and a gate for those that did not.

One bad run in the training set of a smooth emulator spoils it far around. So runs are screened:
those that failed, or that lie far outside what all others explain, are taken out and taught to
the gate instead. The risk is then modelled as

    bulk(x) + severity · p(x),

p the gate's probability and severity the excess risk of a run that goes wrong, plus a correction on
the family's statistics that makes up for what the emulator misses on average around the current
posterior (Theorem 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.emulator.gate import Gate, fit_gate
from supac.families import Distribution, NormalWhitening, Whitening
from supac.problem.evaluations import Evaluations
from supac.surrogate.importance import tempered_weights
from supac.surrogate.least_squares import project_known
from supac.surrogate.ridge import two_scale_ridge
from supac.surrogate.surrogate import Context, Surrogate

_RECENT, _RECENT_ERRORS = 40, 60
_SURPRISE = 9.0  # squared standardised error from which a run may count as wrong
_MOST_WRONG = 0.6  # share of the runs
_FIRST_STEPS, _STEPS, _FEW_STEPS = 40, 10, 4  # of L-BFGS on the hyperparameters
_WELL_KNOWN = 250  # runs from which few steps do: the hyperparameters hardly change any more
_NEWS = 1.08  # growth of the number of runs that is worth fitting them anew


class Bulk(Protocol):
    """An emulator conditioned on the runs that were kept."""

    @property
    def phi(self) -> FloatArray:
        """The hyperparameters."""

    def misfit(self) -> float:
        """Minus the log-evidence."""

    def predict(self, x: FloatArray) -> FloatArray:
        """The expected risk: (n, dim) → (n,)."""

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """For each run kept, its risk and squared standardised error as others predict them."""

    def held_out(self, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
        """The same for runs that were not kept."""

    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Mean risk, E[risk · features], and how much of its variance they explain."""


class Emulation(Protocol):
    """A set of runs from which emulators are made."""

    @property
    def default(self) -> FloatArray:
        """The hyperparameters to start from."""

    def condition(
        self, kept: BoolArray, inflation: FloatArray, phi: FloatArray, steps: int
    ) -> Bulk:
        """Train on the runs kept, improving φ by so many steps."""


@dataclass(frozen=True, eq=False)
class Correction:
    """A function β·features + mean on the statistics, features being those of one distribution."""

    at: Distribution
    whitening: Whitening
    beta: FloatArray
    mean: float

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n, dim) → (n,)."""
        return self.mean + self.whitening.features(x) @ self.beta

    def surrogate(self) -> Surrogate:
        """The same function by its η."""
        eta = self.whitening.coefficients(self.beta)
        return Surrogate(eta, self.mean, self.at, deviation=float(np.linalg.norm(self.beta)))


@dataclass(frozen=True, eq=False)
class GatedModel:
    """bulk + severity · gate + correction."""

    bulk: Bulk
    gate: Gate
    severity: float
    correction: Correction | None
    error: float
    """Root mean square leave-one-out error of the runs kept."""
    size: float
    """Effective number of runs around the current posterior."""
    wrong: int
    memory: Mapping[str, FloatArray]
    seed: int

    def predict(self, x: FloatArray) -> FloatArray:
        """The risk of a run that goes as expected: (n, dim) → (n,)."""
        expected = self.bulk.predict(x)
        return expected if self.correction is None else expected + self.correction(x)

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """In closed form for the gate and Gaussian families, with common draws elsewhere."""
        whitening = at.whiten()
        if not isinstance(whitening, NormalWhitening):
            known = project_known(self.risk, at, np.random.default_rng(self.seed))
            return replace(known, effective_size=self.size, loo_error=self.error)
        mean, beta, explained = self.bulk.moments(whitening)
        chance, slope, curvature = self.gate.expectation(*at.family.moments(at.theta))
        beta = beta + self.severity * whitening.projection(slope, curvature)
        eta, mean = whitening.coefficients(beta), mean + self.severity * chance
        if self.correction is not None:
            correction = self.correction.surrogate()
            eta = eta + correction.eta
            mean += correction.mean_under(at.theta)
        deviation = float(np.linalg.norm(beta))
        return Surrogate(
            eta, mean, at, deviation, explained, effective_size=self.size, loo_error=self.error
        )

    def risk(self, x: FloatArray) -> FloatArray:
        """The risk of any run: (n, dim) → (n,)."""
        return self.predict(x) + self.severity * self.gate.probability(x)

    def chance(self, at: Distribution) -> float:
        """The share of the runs of `at` that are expected to go wrong."""
        if at.family.is_gaussian:
            return self.gate.expectation(*at.family.moments(at.theta))[0]
        return float(self.gate.probability(at.sample(1_000, self.seed)).mean())

    def probes(self, n: int, at: Distribution, rng: np.random.Generator) -> FloatArray:
        """Points in the tails of `at` where it is least clear whether a run goes wrong: (n, dim).

        Greedily the largest √(p(1 − p)) among wide draws, each pick damping its neighbourhood.
        """
        whitening = at.whiten()
        if not isinstance(whitening, NormalWhitening):
            return np.empty((0, at.dim))
        candidates = whitening.spread(1.6 * rng.standard_normal((400, at.dim)))
        chance = self.gate.probability(candidates)
        doubt = np.sqrt(chance * (1.0 - chance))
        u = candidates @ self.gate.scale
        picked = []
        for _ in range(n):
            best = int(np.argmax(doubt))
            picked.append(best)
            distance = ((u - u[best]) ** 2).sum(axis=1)
            doubt = doubt * -np.expm1(-0.5 * distance / at.dim)
        return candidates[picked]


def units(current: Distribution, context: Context) -> tuple[FloatArray, FloatArray]:
    """(centre, scale) of u = (x − centre) @ scale: prior standard deviations from the mean."""
    _, covariance = (context.prior or current).family.moments((context.prior or current).theta)
    root = np.linalg.cholesky(covariance)
    return current.mean, np.asarray(np.linalg.solve(root, np.eye(len(root)))).T


def nearest(runs: Evaluations, current: Distribution, limit: int) -> tuple[Evaluations, IntArray]:
    """The `limit` runs that are nearest to `current`, in its own metric, and their rows."""
    if len(runs) <= limit:
        return runs, np.arange(len(runs))
    z = current.whiten().points(runs.x)
    distance = np.einsum("ij,ij->i", z, z)
    rows = np.sort(np.argsort(distance, kind="stable")[:limit])
    return runs.select(rows), rows


def fit_gated(
    emulation: Emulation,
    everything: Evaluations,
    runs: Evaluations,
    rows: IntArray,
    current: Distribution,
    context: Context,
) -> GatedModel:
    """Screen the runs, emulate the good ones, teach the others to the gate.

    The runs are those of the emulation, `rows` of everything; the others keep their labels.
    """
    memory = context.memory
    first = "wrong" not in memory
    phi = memory.get("phi", emulation.default)
    if len(phi) != len(emulation.default):
        phi = emulation.default
    all_wrong, all_inflation = _before(everything, context)
    total = len(everything)
    wrong, inflation = all_wrong[rows], all_inflation[rows]
    screen = _Screen(emulation, runs, context.resolution)
    steps = _FIRST_STEPS
    fitted = memory.get("fitted", np.zeros(1))
    if first or total >= _NEWS * fitted[0]:
        fitted = np.array([float(total)])
    if not first:
        news = fitted[0] == total
        steps = (_STEPS if total <= _WELL_KNOWN else _FEW_STEPS) if news else 0
        before = wrong
        wrong, inflation, phi = screen.relabel(wrong, inflation, phi, steps)
        # φ was just fitted to the same runs, but for those that the screen has changed its mind of.
        steps = 0 if np.array_equal(wrong, before) else min(steps, _FEW_STEPS)
    bulk = emulation.condition(~wrong, inflation[~wrong], phi, steps)
    restarted = memory.get("restarted", np.zeros(1))
    stuck = total >= 2 * restarted[0] or "rejected" in memory
    if first or (stuck and total <= _WELL_KNOWN):
        restarted = np.array([float(total)])
        if not first:
            again = emulation.condition(~wrong, inflation[~wrong], emulation.default, _FIRST_STEPS)
            bulk = min(bulk, again, key=lambda each: each.misfit())
    all_wrong[rows], all_inflation[rows] = wrong, inflation
    kept_risk, _ = bulk.left_out()
    residual = runs.risk[~wrong] - kept_risk
    weights, size = tempered_weights(runs, current, 0.5)
    gate, severity = _gate(bulk, runs, wrong, current, context)
    correction = None if first else _correction(runs.x, residual, weights, ~wrong, current)
    return GatedModel(
        bulk=bulk,
        gate=gate,
        severity=severity,
        correction=correction,
        error=float(np.sqrt(np.mean(residual**2))),
        size=size,
        wrong=int(wrong.sum()),
        memory={
            "phi": bulk.phi,
            "wrong": all_wrong.astype(np.float64),
            "inflation": all_inflation,
            "delta": np.array([screen.delta]),
            "restarted": restarted,
            "fitted": fitted,
        },
        seed=int(context.rng.integers(2**32)),
    )


def _before(runs: Evaluations, context: Context) -> tuple[BoolArray, FloatArray]:
    """Labels and noise inflation as the last fit left them; new runs judged by its predictions."""
    n, memory, expected = len(runs), context.memory, context.expected
    wrong, inflation = ~runs.ok, np.ones(n)
    if "wrong" in memory:
        old = len(memory["wrong"])
        wrong[:old] = memory["wrong"] > 0.5
        inflation[:old] = memory["inflation"]
        if expected is not None and len(expected) == n - old:
            wrong[old:] |= runs.risk[old:] - expected > memory["delta"][0]
    if (wrong & runs.ok).sum() > _MOST_WRONG * n:
        wrong = ~runs.ok
    return wrong, inflation


@dataclass(eq=False)
class _Screen:
    """Finds the runs that lie far outside what all others explain."""

    emulation: Emulation
    runs: Evaluations
    resolution: float
    delta: float = np.inf
    """The excess risk from which a run may count as wrong."""

    def relabel(
        self, wrong: BoolArray, inflation: FloatArray, phi: FloatArray, steps: int
    ) -> tuple[BoolArray, FloatArray, FloatArray]:
        """Twice: emulate the runs that are kept, then judge all runs by it."""
        runs, n = self.runs, len(self.runs)
        for first in (True, False):
            bulk = self.emulation.condition(~wrong, inflation[~wrong], phi, steps * first)
            phi = bulk.phi
            predicted, surprise = np.zeros(n), np.zeros(n)
            predicted[~wrong], surprise[~wrong] = bulk.left_out()
            judged = wrong & runs.ok
            if judged.any():
                predicted[judged], surprise[judged] = bulk.held_out(judged)
            excess = runs.risk - predicted
            self.delta = self._threshold(excess[~wrong])
            usual = float(np.median(runs.risk[-_RECENT:]))
            bar = self.delta + 0.5 * np.maximum(predicted - usual, 0.0)
            new = (surprise > _SURPRISE) & (excess > bar) & runs.ok
            most = int(_MOST_WRONG * n)
            if new.sum() > most:
                new &= excess >= np.sort(excess)[-most]
            if first and self._useless(runs.risk[~wrong]):
                upper = _upper_class(runs.risk[~wrong])
                if upper is not None:
                    new |= runs.ok & (runs.risk > upper)
                    phi = self.emulation.default
            wrong = new | ~runs.ok
            inflation = np.clip(surprise / _SURPRISE, 1.0, 1e6)
        return wrong, inflation, phi

    def _threshold(self, excess: FloatArray) -> float:
        recent = excess[-_RECENT_ERRORS:]
        deviation = 1.4826 * float(np.median(np.abs(recent - np.median(recent))))
        return max(5.0 * deviation, 20.0 * self.resolution)

    def _useless(self, risk: FloatArray) -> bool:
        """Whether the emulator's errors exceed the spread of the risks themselves."""
        low, high = np.quantile(risk, [0.1, 0.9])
        return self.delta > max(high - low, 20.0 * self.resolution)


def _upper_class(risk: FloatArray) -> float | None:
    """Where to cut the risks into two classes (Otsu), if that explains most of their variance."""
    ordered = np.sort(risk)
    n = len(ordered)
    below = np.arange(1, n)
    sums = np.cumsum(ordered)[:-1]
    between = below * (n - below) * (sums / below - (ordered.sum() - sums) / (n - below)) ** 2
    best = int(np.argmax(between))
    if between[best] <= 0.6 * n**2 * ordered.var() or best + 1 < max(8, 0.25 * n):
        return None
    return float(0.5 * (ordered[best] + ordered[best + 1]))


def _gate(
    bulk: Bulk, runs: Evaluations, wrong: BoolArray, current: Distribution, context: Context
) -> tuple[Gate, float]:
    """The gate, and the excess risk of a run that goes wrong."""
    centre, scale = units(current, context)
    last = runs.drawn & (runs.iteration == runs.iteration.max(initial=0))
    share = float(wrong[last].mean()) if last.any() else 0.0
    gate = fit_gate(
        runs.x,
        wrong,
        runs.iteration,
        centre,
        scale,
        current.family.coupled,
        near=share if share > 0.2 else 0.0,
        rng=context.rng,
    )
    usual = float(np.median(runs.risk[-_RECENT:]))
    worst = float(runs.risk.max()) - usual
    excess = runs.risk[wrong] - bulk.predict(runs.x[wrong]) if wrong.any() else np.empty(0)
    return gate, float((excess.sum() + worst) / (len(excess) + 1))


def _correction(
    x: FloatArray,
    residual: FloatArray,
    weights: FloatArray,
    kept: BoolArray,
    current: Distribution,
) -> Correction:
    """Bayesian regression of what the emulator misses, so that Theorem 1 holds at `current`."""
    whitening = current.whiten()
    own = weights[kept] / weights[kept].sum()
    features = whitening.features(x[kept])
    linear = current.dim if isinstance(whitening, NormalWhitening) else current.family.size
    beta = two_scale_ridge(features, residual, own, linear)
    return Correction(current, whitening, beta, float(own @ residual - (own @ features) @ beta))
