"""The emulator of outputs whose Jacobians are known for some of the runs.

Each fit is made twice, with the Jacobians and without them, and the one is taken that predicts
left-out runs better: derivatives mislead where outputs are rough, noisy, or bend soon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.emulator.base import TrainingSet, WrappedEmulator
from supac.emulator.components import FittedOutputEmulator, OutputTrainingSet
from supac.emulator.gated import GatedModel, fit_gated
from supac.emulator.gradient_process import CENTRE, GradientProcess
from supac.emulator.many import ManyTrainingSet
from supac.emulator.outputs import OutputEmulator
from supac.emulator.sparse import nearness
from supac.emulator.tuning import DEFAULT
from supac.emulator.units import Inputs
from supac.emulator.view import SeenLoss
from supac.families import Distribution
from supac.problem import Evaluations, Loss, Problem
from supac.problem.observation import observation_count
from supac.surrogate.estimator import BatchPlan, Context, Estimator
from supac.surrogate.memory import Memory
from supac.surrogate.regime import Regime

GRADIENTS = "outputs and derivatives"
"""Name of the process of both."""
_MOST_ROWS = 1000  # values and derivatives that a process is conditioned on
_ENERGY = 1e-5  # share of the squared slopes that is left out
_SAME = 1e-12  # share of the squares below which a direction of the outputs is rounding
_PLAIN = 400  # outputs up to which they are their own coordinates
_PARAMETERS_A_RUN = 10  # parameters from which on a Jacobian is worth as much as a run costs
_FIRST, _FEW = 3, 2  # runs of the first batch, and of others while the posterior moves


def has_jacobians(runs: Evaluations) -> bool:
    """Return True if the Jacobian of a run is known."""
    return runs.jacobians is not None and any(each is not None for each in runs.jacobians)


def are_worth_it(problem: Problem) -> bool:
    """Return True if Jacobians are to be expected, and tell more than the runs that they cost."""
    simulated = problem.start.dim - observation_count(problem.loss)
    cost = problem.jacobian_cost
    return cost is not None and cost * _PARAMETERS_A_RUN <= simulated


def unused_note(problem: Problem) -> str:
    """Return why the function of the Jacobian is never called; "" if it is, or there is none."""
    cost = problem.jacobian_cost
    if not cost or are_worth_it(problem):
        return ""
    simulated = problem.start.dim - observation_count(problem.loss)
    least = int(np.ceil(cost * _PARAMETERS_A_RUN))
    return (
        f"no Jacobian is asked for: at a cost of {cost:g} runs each it saves nothing below {least} "
        f"parameters, and there are {simulated}; if it costs less than {simulated / 10:g} runs, "
        "say so with jacobian_cost"
    )


def have_helped(memory: Memory | None) -> bool:
    """Return True if the last fit was made with Jacobians, or none was made."""
    return memory is None or GRADIENTS in memory.hyperparameters


@dataclass(frozen=True)
class JacobianEmulator(Estimator):
    """Emulate outputs by their values and Jacobians, or by `rule` where these mislead."""

    rule: OutputEmulator = field(default_factory=OutputEmulator)

    def plan(self, problem: Problem, n: int) -> BatchPlan:
        """Return small batches from the first on: each run says what many others would."""
        plan = self.rule.plan(problem, n)
        return replace(plan, first=_FIRST, opening=0.0, few=_FEW, width=1.0)

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> GatedModel:
        """Fit with Jacobians and without them, and return the better predictor of left-out runs."""
        context = context or Context()
        plain = self.rule.fit(evaluations, current, context)
        if not has_jacobians(evaluations) or context.loss is None:
            return plain
        build = partial(JacobianTrainingSet.build, self.rule, context.loss)
        tuning = self.rule.tuning or DEFAULT
        informed = fit_gated(build, evaluations, current, context, self.rule.limit, tuning)
        errors = [_left_out_error(each, current) for each in (informed, plain)]
        better = informed if errors[0] <= errors[1] else plain
        known = dict(plain.learnt.hyperparameters)
        if better is informed:
            known |= informed.learnt.hyperparameters
        else:
            known.pop(GRADIENTS, None)
        return replace(better, learnt=replace(better.learnt, hyperparameters=known))


def _left_out_error(model: GatedModel, current: Distribution) -> float:
    """Compute the squared error of predicting inliers from others, weighted by nearness."""
    emulator = model.emulator
    if isinstance(emulator, WrappedEmulator):
        emulator = emulator.inner
    emulator = cast("FittedOutputEmulator", emulator)
    process, inliers = emulator.process, ~model.labels
    if isinstance(process, GradientProcess):
        square = ((process.y - process.leave_one_out) ** 2).sum(axis=1)
        errors = np.asarray(emulator.unit**2 * square + emulator.rest)
    else:
        errors = emulator.left_out_errors(inliers)
    weight = nearness(current, emulator.training.x[inliers])
    return float(weight @ errors / weight.sum())


@dataclass(frozen=True, eq=False)
class JacobianTrainingSet(TrainingSet):
    """Hold the runs as the emulator without Jacobians has them, and the slopes of the outputs."""

    base: OutputTrainingSet
    """With coordinates that outputs and slopes share."""
    inputs: Inputs
    at: IntArray
    """Rows of the runs with slopes: (s,)."""
    slopes: FloatArray
    """Derivatives of the coordinates in the inputs: (s, p, r)."""

    @classmethod
    def build(
        cls,
        rule: OutputEmulator,
        loss: Loss,
        runs: Evaluations,
        current: Distribution,
        context: Context,
    ) -> JacobianTrainingSet:
        """Convert the Jacobians of the runs to slopes of what is emulated, in its inputs."""
        kind = ManyTrainingSet if Regime.of(current.dim).is_many else OutputTrainingSet
        tuning = rule.tuning or DEFAULT
        base = kind.build(rule.components, rule.draws, loss, tuning, runs, current, context)
        seen = np.full((len(runs), base.outputs.shape[1]), np.nan)
        seen[runs.ok] = base.outputs
        at = _nearest_with_jacobians(runs, base.u)
        slopes = _slopes_of_outputs(runs, at, base, seen)
        basis = _common_basis(base.outputs, slopes)
        if basis is not None:
            seen, slopes = seen @ basis, slopes @ basis
        base = replace(
            base,
            coordinates=seen,
            own_basis=np.eye(base.outputs.shape[1]) if basis is None else basis,
            one_by_one=False,
            nearness=nearness(current, runs.x, tuning.trend),
        )
        return cls(base, base.inputs, at, slopes)

    @property
    def default(self) -> Mapping[str, FloatArray]:
        """Return the hyperparameters to start from."""
        return {GRADIENTS: CENTRE}

    def condition(
        self,
        inliers: BoolArray,
        inflation: FloatArray,
        hyperparameters: Mapping[str, FloatArray],
        steps: int,
    ) -> FittedOutputEmulator:
        """Fit a process to the principal components of the inliers and of their slopes."""
        base = self.base
        rows, by_distance = base.coordinates[inliers], 1.0 / base.nearness[inliers]
        inflation = inflation * by_distance
        weight = (1.0 / inflation) / (1.0 / inflation).sum()
        mean = weight @ rows
        centred = rows - mean
        known = inliers[self.at]
        at = (np.cumsum(inliers) - 1)[self.at[known]]
        slopes = self.slopes[known]
        directions = self._principal(inliers, centred, slopes)
        scores = centred @ directions
        rest = max(float(weight @ ((centred**2).sum(axis=1) - (scores**2).sum(axis=1))), 0.0)
        unit = float(np.sqrt((weight @ scores**2).mean())) + 1e-300
        shift = weight @ scores
        process = _process(
            hyperparameters[GRADIENTS],
            base,
            (base.u[inliers], (scores - shift) / unit, inflation),
            at,
            slopes @ directions / unit,
        ).fit(steps)
        return base.emulator_kind(
            base,
            base.x[inliers],
            by_distance,
            mean,
            directions,
            shift,
            unit,
            rest,
            process=process,
            hyperparameters={**hyperparameters, GRADIENTS: process.hyperparameters},
        )

    def _principal(self, inliers: BoolArray, centred: FloatArray, slopes: FloatArray) -> FloatArray:
        """Return the principal directions of runs and slopes, as columns."""
        every = np.concatenate([centred, slopes.reshape(-1, centred.shape[1])])
        sizes, vectors = np.linalg.eigh(every.T @ every)
        used = int((sizes > _ENERGY**2 * sizes[-1]).sum())
        return vectors[:, ::-1][:, : max(min(self.base.components, used), 1)]


def _nearest_with_jacobians(runs: Evaluations, u: FloatArray) -> IntArray:
    """Return rows of the runs with Jacobians: the nearest, as many as a process may have."""
    assert runs.jacobians is not None
    known = [i for i, each in enumerate(runs.jacobians) if each is not None and runs.ok[i]]
    rows = np.array(known, dtype=np.intp)
    near = np.argsort((u[rows] ** 2).sum(axis=1), kind="stable")[: max(_MOST_ROWS - len(u), 1)]
    return np.sort(rows[near])


def _slopes_of_outputs(
    runs: Evaluations, at: IntArray, base: OutputTrainingSet, seen: FloatArray
) -> FloatArray:
    """Return the slopes of emulated outputs in the inputs of runs `at`: (s, p, m)."""
    assert runs.jacobians is not None
    p, bend = base.u.shape[1], base.inputs.slope(runs.x[at])
    back = np.linalg.inv(base.units.scale[:p, :p])  # w(x) = w(centre) + u @ back
    view = base.loss.view if isinstance(base.loss, SeenLoss) else None
    found = np.empty((len(at), p, seen.shape[1]))
    for place, row in enumerate(at):
        jacobian = runs.jacobians[row]
        assert jacobian is not None
        found[place] = back @ (jacobian if bend is None else jacobian / bend[place, :p]).T
        if view is not None:  # t(y), whose inverse is `back`
            stretch = view.stretch(seen[row])
            found[place] *= np.where(
                stretch > 0.0, 1.0 / np.where(stretch > 0.0, stretch, 1.0), 0.0
            )
    return found


def _common_basis(outputs: FloatArray, slopes: FloatArray) -> FloatArray | None:
    """Return an orthonormal basis (m, r) of outputs and slopes; None for all of few outputs."""
    m = outputs.shape[1]
    if m <= _PLAIN:
        return None
    every = np.concatenate([outputs, slopes.reshape(-1, m)])
    if len(every) < m:
        sizes, vectors = np.linalg.eigh(every @ every.T)
        used = sizes > _SAME * sizes[-1]
        return np.asarray(np.linalg.qr(every.T @ vectors[:, used])[0])
    sizes, vectors = np.linalg.eigh(every.T @ every)
    return np.asarray(vectors[:, sizes > _SAME * sizes[-1]])


def _process(
    hyperparameters: FloatArray,
    base: OutputTrainingSet,
    values: tuple[FloatArray, FloatArray, FloatArray],
    at: IntArray,
    slopes: FloatArray,
) -> GradientProcess:
    """Return the process of values (u, y, inflation) and of the slopes that matter (s, p, k)."""
    u, y, inflation = values
    energy = np.einsum("spk,sqk->pq", slopes, slopes) / max(len(at) * slopes.shape[2], 1)
    sizes, turn = np.linalg.eigh(energy)
    sizes, turn = np.maximum(sizes[::-1], 0.0), turn[:, ::-1]
    count = int((np.cumsum(sizes) < (1.0 - _ENERGY) * sizes.sum()).sum()) + 1
    most = max((_MOST_ROWS - len(u)) // count, 1)
    if len(at) > most:
        near = np.sort(np.argsort((u[at] ** 2).sum(axis=1), kind="stable")[:most])
        at, slopes = at[near], slopes[near]
    along = np.einsum("spk,pr->srk", slopes, turn[:, :count])
    least = 1e-12 * sizes[0] + 1e-300
    return GradientProcess(
        hyperparameters, base.prior, u, y, inflation, at, turn, sizes + least, along
    )
