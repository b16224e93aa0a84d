"""What finds a posterior in so many runs: this package, and others from their own environment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from typing import Any

import numpy as np

import supac
from reference.target import Target
from supac import marginals
from supac.arrays import FloatArray
from supac.record.ending import StopReason

DRAWS = 2_000
_PLAUSIBLE, _FARTHEST = 1.0, 4.0  # standard deviations of the prior: where others begin and end


@dataclass(frozen=True)
class Answer:
    """A posterior after at most so many runs."""

    runs: int
    used: int
    draws: FloatArray
    """In the user's units: (n, dim)."""
    log_evidence: float | None
    seconds: float
    """Processor time, without that of runs of the simulator before."""


Method = Callable[[Target, int, Sequence[int]], Iterator[Answer]]


def search(target: Target, seed: int, checkpoints: Sequence[int]) -> Iterator[Answer]:
    """Search anew for each number of runs; those that validate are among them."""
    for runs in checkpoints:
        begun = time.process_time()
        found = supac.minimize(
            target.risk, target.parameters, target.bound, budget=runs, seed=seed, shape="auto",
            execution=supac.Execution(progress=False),
        )  # fmt: skip
        if found.stop_reason is StopReason.INTERRUPTED:
            return
        draws = target.parameters.from_latent(found.posterior.sample(DRAWS, seed))
        log = None if found.evidence is None else found.evidence.log
        yield Answer(runs, len(found.record.runs), draws, log, time.process_time() - begun)


class Coordinates:
    """What others are told: box priors in the user's units, all else in latent ones.

    Box priors have their bounds; the prior of the others is normal.
    """

    def __init__(self, target: Target):
        self.target = target
        own = list(target.parameters.transforms.values())
        self.box = np.array([isinstance(each, marginals.Uniform) for each in own])
        ends = [
            each.bounds if boxed else (0.0, 0.0) for each, boxed in zip(own, self.box, strict=True)
        ]
        sd = np.sqrt(np.diag(target.parameters.prior.covariance))
        self.low = np.where(self.box, [end[0] for end in ends], -_FARTHEST * sd)
        self.high = np.where(self.box, [end[1] for end in ends], _FARTHEST * sd)
        middle, half = 0.5 * (self.low + self.high), 0.5 * (self.high - self.low)
        near = np.where(self.box, 0.68 * half, _PLAUSIBLE * sd)
        self.near = (middle - near, middle + near)
        self.asked: list[FloatArray] = []

    def log_joint(self, y: FloatArray) -> float:
        """Return log-likelihood + log-prior at a point (dim,), −∞ where they are."""
        y = np.ravel(np.asarray(y, dtype=np.float64))
        self.asked.append(y)
        x = self.to_user(y[None])
        if not np.all((x > self._bounds[0]) & (x < self._bounds[1])):
            return -np.inf
        with np.errstate(all="ignore"):
            energy = float(self.target.energy(x)[0])
        prior = self.target.parameters.prior
        normal = prior.log_prob(self.target.parameters.to_latent(x))[0]
        slopes = [
            float(each.log_slope(each.to_latent(column))[0])
            for each, column in zip(
                self.target.parameters.transforms.values(), x.T, strict=True
            )
        ]  # fmt: skip
        log = -energy + float(normal) - float(np.sum(np.where(self.box, slopes, 0.0)))
        return log if np.isfinite(log) else -np.inf

    @property
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        ends = np.array([each.bounds for each in self.target.parameters.transforms.values()])
        return ends[:, 0], ends[:, 1]

    def to_user(self, y: FloatArray) -> FloatArray:
        """Return points in the user's units."""
        latent = self.target.parameters.from_latent(np.where(self.box, 0.0, y))
        return np.where(self.box, y, latent)


def pyvbmc(target: Target, seed: int, checkpoints: Sequence[int]) -> Iterator[Answer]:
    """Run PyVBMC without an early stop, and return its last posterior at each number of runs."""
    package, told = import_module("pyvbmc"), Coordinates(target)
    begun, budget, least = time.process_time(), max(checkpoints), -1e7
    finite = lambda y: max(told.log_joint(y), least)  # noqa: E731
    unbounded = np.where(told.box, 1.0, np.inf)
    centre = 0.5 * (told.near[0] + told.near[1])
    vbmc = package.VBMC(
        finite,
        centre[None],
        *((unbounded * each)[None] for each in (told.low, told.high)),
        *(each[None] for each in told.near),
        options={"min_fun_evals": budget, "max_fun_evals": budget, "display": "off"},
        seed=seed,
    )
    with redirect_stdout(StringIO()):
        vbmc.optimize()
    seconds = time.process_time() - begun
    history = vbmc.iteration_history
    counts = [int(count) for count in history["func_count"]]
    for runs in checkpoints:
        last = [i for i, count in enumerate(counts) if count <= runs]
        if last:
            mixture = history["vp"][last[-1]]
            mixture.rng = seed
            draws = told.to_user(np.asarray(mixture.sample(DRAWS)[0]))
            log = float(history["elbo"][last[-1]])
            share = counts[last[-1]] / counts[-1]
            yield Answer(runs, counts[last[-1]], draws, log, seconds * share)


def gpry(target: Target, seed: int, checkpoints: Sequence[int]) -> Iterator[Answer]:
    """Run GPry without an early stop for each number of runs, and sample its emulator."""
    package = import_module("gpry.run")
    for runs in checkpoints:
        if runs < 4 * target.dim:
            continue  # three runs a parameter are its first
        told, begun = Coordinates(target), time.process_time()
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            runner = package.Runner(
                told.log_joint,
                bounds=np.column_stack([told.low, told.high]).tolist(),
                ref_bounds=np.column_stack(told.near).tolist(),
                convergence_criterion=False,
                options={"max_total": runs, "max_initial": runs},
                seed=seed,
                verbose=1,
            )
            runner.run()
            sampled, log, _ = _last_sample(runner)
        weights = np.ones(len(sampled["X"])) if sampled["w"] is None else sampled["w"]
        chosen = np.random.default_rng(seed).choice(len(weights), DRAWS, p=weights / weights.sum())
        # Its prior is uniform between the bounds, that of the log-joint density is within it.
        volume = float(np.log(told.high - told.low).sum())
        seconds, draws = time.process_time() - begun, told.to_user(sampled["X"][chosen])
        yield Answer(runs, len(told.asked), draws, log + volume, seconds)


def _last_sample(runner: Any) -> tuple[Any, float, float]:
    """Return the samples of a runner's emulator, and its log-evidence with the error."""
    return runner.last_mc_samples(), *map(float, runner._last_mc_logZ)


def laplace(target: Target, seed: int, checkpoints: Sequence[int]) -> Iterator[Answer]:
    """Minimise by DFO-LS, and take its last Jacobian for the covariance, in latent units.

    It needs residuals; one solve for each number of runs, from the prior's mean.
    """
    if not target.is_square:
        return
    solver, parameters = import_module("dfols"), target.parameters
    dim, rng = target.dim, np.random.default_rng(seed)
    for runs in checkpoints:
        if runs < dim + 2:
            continue
        begun = time.process_time()
        found = solver.solve(
            lambda u: np.concatenate([target.outputs(parameters.from_latent(u[None]))[0], u]),
            0.5 * rng.standard_normal(dim) if seed else np.zeros(dim),
            maxfun=runs,
            bounds=(np.full(dim, -5.0), np.full(dim, 5.0)),
            rhobeg=0.3,
            rhoend=1e-4,
            do_logging=False,
        )
        if found.jacobian is None:
            continue
        mean, jacobian = np.asarray(found.x), np.asarray(found.jacobian)
        precision = jacobian[:-dim].T @ jacobian[:-dim] + np.eye(dim)
        normal = supac.gaussian(mean, np.linalg.inv(precision))
        energy = float(target.latent_energy(mean[None])[0]) + 0.5 * float(mean @ mean)
        log = -energy - 0.5 * float(np.linalg.slogdet(precision)[1])
        draws = parameters.from_latent(normal.sample(DRAWS, seed))
        yield Answer(runs, int(found.nf), draws, log, time.process_time() - begun)


METHODS: dict[str, Method] = {
    "supac": search,
    "PyVBMC": pyvbmc,
    "GPry": gpry,
    "Laplace": laplace,
}
