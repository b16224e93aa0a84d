"""Every number of the emulators' tuning changes some bit of some fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import supac
from emulated import PLANE, outputs_of
from supac.arrays import FloatArray
from supac.codec import from_spec, to_spec
from supac.emulator.levels import TwoLevelEmulator
from supac.emulator.tuning import DEFAULT, EmulatorTuning
from supac.problem import Evaluations
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.correlated import Autoregressive, CorrelatedErrors
from supac.problem.observation import ObservationLoss
from supac.search.algorithm import one_thread
from supac.surrogate.estimator import Context

Fit = Callable[[EmulatorTuning], bytes]
CLIFF = supac.RootMeanSquare()


def leaves(part: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers of a tuning, by their path."""
    for each in fields(part):
        value, name = getattr(part, each.name), f"{path}{each.name}"
        if is_dataclass(value):
            yield from leaves(value, f"{name}.")
        else:
            yield name, value


def with_leaf(part: Any, path: str, value: Any) -> Any:
    """The same tuning with another value at a path."""
    name, _, rest = path.partition(".")
    inner = getattr(part, name)
    return replace(part, **{name: with_leaf(inner, rest, value) if rest else value})


# Few steps of each fit are enough to see a difference.
QUICK = replace(
    DEFAULT, schedule=replace(DEFAULT.schedule, first=6, first_of_several=5, usual=4, few=3)
)
NUMBERS = dict(leaves(QUICK))

# Where another value must be far off to be felt in the fits below.
OTHER: dict[str, Any] = {
    "correction.better": 0.0,
    "batches.share": 40,
    "batches.opening_from": 13,
    "batches.opening_up_to": 14,
    "batches.small_up_to": 14,
    "screening.most_inflated": 1.5,
    "screening.most": 0.03,
    "screening.recent": 1,
    "screening.recent_errors": 3,
    "screening.slack": 300.0,
    "screening.deviations": 900.0,
    "screening.nats": 3000.0,
    "screening.surprise": 900.0,
    "screening.class_explains": 1.0,
    "screening.class_runs": 60,
    "screening.class_share": 1.0,
    "screening.spread": (0.0, 1.0),
    "schedule.well_known": 20,
    "schedule.news": 3.0,
    "schedule.anew": 1.0,
    "average.runs": 20,
    "average.parameters": 1,
    "gate.many_close": 0.0,
    "gate.close": 1.0,
    "gate.competing": 50.0,
    "gate.most_pairs": 0,
    "gate.most_failures": 2,
    "gate.dearest": 1e3,
    "probes.useless": 0.0,
    "probes.candidates": 40,
    "view.fewest": 40,
    "view.flat": 0.01,
    "view.bearable": 0.01,
    "view.usual": 0.3,
    "view.outputs": 1,
    "view.clearly": 1e9,
    "view.closer": (0.01,),
    "view.long": 3,
    "hyperprior.powers": (0.7,),
    "hyperprior.clearly_less": 1e9,
    "hyperprior.most_oblique": 0.01,
    "hyperprior.outputs.oblique": 0.01,
    "hyperprior.risk.oblique": 0.01,
    "hyperprior.outputs.noise_limits": (1e-2, 0.2),
    "hyperprior.risk.noise_limits": (1e-1, 0.2),
    "trend.outputs": 0,
    "trend.inputs": 5,
    "trend.runs_a_term": 30,
    "trend.least_weight": 0.999,
    "trend.fewest": 1000,
    "trend.better": 1e-9,
    "trend.hopeless": 1e-9,
    "trend.negligible": 0.9,
    "units.one_by_one": 20,
    "units.most_of_it": 1.0 - 1e-12,
    "units.concentrated": 0.0,
    "units.clearly": 1e9,
    "units.runs": 5,
    "draws.all_up_to": 1,
    "draws.a_parameter": 9,
    "draws.noisy": 0.0,
    "draws.exact": 50,
}

# And where the difference is only seen beside another number.
BESIDE: dict[str, tuple[str, Any]] = {"screening.recent": ("screening.slack", 4.0)}


def another(path: str, value: Any) -> Any:
    """A value that is not that of the tuning."""
    if path in OTHER:
        return OTHER[path]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, tuple):
        return tuple(0.7 * each for each in value)
    return 0.7 * value


def bits(model: Any, at: supac.Distribution) -> bytes:
    """All that a search takes from a model."""
    rng = np.random.default_rng(5)
    found = model.project(at, rng)
    numbers = [found.eta, found.mean, model.severity, model.explained, model.failure_chance(at)]
    numbers += [model.probes(3, at, rng), model.memory.outliers, model.memory.inflation]
    numbers += [
        model.memory.threshold,
        model.memory.restarted,
        model.memory.fitted,
        model.predict(at.sample(20, 6)),
    ]
    return b"".join(np.asarray(each, dtype=np.float64).tobytes() for each in numbers)


def fits(
    estimator: Any,
    runs: Evaluations,
    at: supac.Distribution,
    loss: Any = None,
    expected: float | None = None,
    first: int = 0,
    **given: Any,
) -> bytes:
    """The bits of a second fit, to further runs."""
    context = Context(prior=given.pop("prior", at), loss=loss, resolution=0.01, **given)
    first = first or len(runs) - 5
    some = runs.select(np.arange(first))
    before = estimator.fit(some, at, replace(context, rng=np.random.default_rng(0)))
    told = None
    if expected is not None:  # a fit that has screened its runs says from where they are outliers
        told = np.full(len(runs) - first, expected)
        screening = replace(context, memory=before.memory, rng=np.random.default_rng(2))
        before = estimator.fit(some, at, screening)
    again = replace(context, memory=before.memory, expected=told, rng=np.random.default_rng(1))
    return bits(before, at) + bits(estimator.fit(runs, at, again), at)


def two_batches(x: FloatArray, outputs: FloatArray, loss: Any, at: Any, last: int) -> Evaluations:
    risk = np.asarray(loss(outputs))
    early = slice(None, len(x) - last)
    late = slice(len(x) - last, None)
    runs = Evaluations.none(x.shape[1]).append(x[early], risk[early], at, outputs[early])
    return runs.append(x[late], risk[late], at, outputs[late])


def plans(tuning: EmulatorTuning) -> bytes:
    """Batches of problems of several sizes."""
    found = []
    bound, loss = supac.Catoni(0.1), supac.MeanSquare()
    for dim in (2, 12, 15, 25, 30):
        start = supac.gaussian(np.zeros(dim), np.eye(dim))
        composite = supac.Composite(lambda x: x, loss)
        problem = supac.Problem(start, bound, start, loss=composite.loss)
        for n in (0, 500):
            found.append(supac.OutputEmulator(tuning=tuning).plan(problem, n))
            found.append(supac.GaussianProcess(tuning=tuning).plan(problem, n))
    field = supac.gaussian(np.zeros(16), field_covariance(16))
    problem = supac.Problem(field, bound, field, loss=loss)
    found.append(supac.OutputEmulator(tuning=tuning).plan(problem, 0))
    mixed = supac.mixture([PLANE, supac.gaussian([3.0, 0.0], np.eye(2))], [0.5, 0.5])
    problem = supac.Problem(mixed, bound, mixed, loss=loss)
    found.append(supac.OutputEmulator(tuning=tuning).plan(problem, 0))
    return repr(found).encode()


def field_covariance(dim: int) -> FloatArray:
    place = np.linspace(0.0, 1.0, dim)
    return np.asarray(np.exp(-0.5 * ((place[:, None] - place) / 0.3) ** 2) + 1e-6 * np.eye(dim))


def cliffs(tuning: EmulatorTuning) -> bytes:
    """Outputs that jump beyond a cliff, of which some runs fail."""
    x = PLANE.sample(60, 3)
    outputs = outputs_of(x)
    outputs[x[:, 0] > 0.9] += 4.0
    outputs[::11] *= 1.3
    runs = two_batches(x, outputs, CLIFF, PLANE, 12)
    return fits(
        supac.OutputEmulator(draws=100, tuning=tuning),
        runs,
        PLANE,
        CLIFF,
        expected=0.9,
        first=48,
        ceiling=2.0,
    )


def far_runs(tuning: EmulatorTuning) -> bytes:
    """Runs of the start, one inexplicable, around a narrow posterior; nothing has a ceiling."""
    narrow = supac.gaussian([0.2, 0.1], [1e-4, 1e-4])
    x = np.concatenate([PLANE.sample(30, 1), narrow.sample(30, 2)])
    outputs = outputs_of(x)
    outputs[[7, 13]] += 3.0
    runs = two_batches(x, outputs, CLIFF, narrow, 30)
    return fits(
        supac.OutputEmulator(draws=100, tuning=tuning), runs, narrow, CLIFF, prior=PLANE, first=55
    )


def useless(tuning: EmulatorTuning) -> bytes:
    """A risk of two classes that no emulator explains, of a few parameters."""
    x = PLANE.sample(50, 3)
    risk = 0.1 + 0.01 * np.sin(90.0 * x[:, 0]) + 5.0 * (np.sin(77.0 * x[:, 1]) > 0.5)
    runs = Evaluations.none(2).append(x, risk, PLANE)
    return fits(supac.GaussianProcess(tuning=tuning), runs, PLANE, ceiling=9.0)


def tails(tuning: EmulatorTuning) -> bytes:
    """A risk of large tails, of three parameters that depend on each other."""
    space = supac.gaussian(np.zeros(3), np.eye(3))
    x = space.sample(50, 4)
    risk = np.exp(2.0 * np.abs(x).sum(axis=1)) * 1e-3 + 0.1 * (x[:, 0] * x[:, 1] - x[:, 2]) ** 2
    runs = Evaluations.none(3).append(x, risk, space)
    return fits(supac.GaussianProcess(tuning=tuning), runs, space)


def field(tuning: EmulatorTuning) -> bytes:
    """Outputs of a field of 16 parameters."""
    space = supac.gaussian(np.zeros(16), field_covariance(16))
    x = space.sample(30, 4)
    outputs = np.tanh(x[:, ::3]) + 0.1
    runs = two_batches(x, outputs, supac.MeanSquare(), space, 5)
    return fits(supac.OutputEmulator(draws=100, tuning=tuning), runs, space, supac.MeanSquare())


def flat(tuning: EmulatorTuning) -> bytes:
    """A loss that flattens, and then a function of outputs that differ in size."""
    x = PLANE.sample(30, 3)
    outputs = 8.0 * outputs_of(x)
    loss = supac.Welsch()
    runs = two_batches(x, outputs, loss, PLANE, 5)
    return fits(supac.OutputEmulator(draws=100, tuning=tuning), runs, PLANE, loss)


def black_box(rows: FloatArray) -> FloatArray:
    return np.asarray(np.abs(rows[:, 0] - 1.0) + 0.01 * rows[:, 1] ** 2 + 0.0 * rows[:, 2])


def function(tuning: EmulatorTuning) -> bytes:
    """A loss that is any function of the outputs, which differ in size."""
    x = PLANE.sample(60, 3)
    outputs = np.exp(2.0 * outputs_of(x)[:, :3]) * np.array([1.0, 100.0, 1e3])
    runs = two_batches(x, outputs, black_box, PLANE, 5)
    return fits(supac.OutputEmulator(draws=100, tuning=tuning), runs, PLANE, black_box)


def huge(tuning: EmulatorTuning) -> bytes:
    """Residuals over decades, of a square loss."""
    x = PLANE.sample(30, 3)
    outputs = np.exp(3.0 * outputs_of(x)) - 0.5
    outputs[:, 0] = x[:, 0]  # which needs no compression
    runs = two_batches(x, outputs, supac.MeanSquare(), PLANE, 5)
    return fits(supac.OutputEmulator(draws=100, tuning=tuning), runs, PLANE, supac.MeanSquare())


def noisy(tuning: EmulatorTuning) -> bytes:
    """Outputs with some noise."""
    x = PLANE.sample(40, 3)
    outputs = outputs_of(x) + 0.05 * np.random.default_rng(0).standard_normal((40, 6))
    runs = two_batches(x, outputs, CLIFF, PLANE, 5)
    return fits(supac.OutputEmulator(draws=100, tuning=tuning), runs, PLANE, CLIFF)


SIX = np.full(6, -1)


def likelihood_of(errors: CorrelatedErrors | None) -> ObservationLoss:
    """Of six outputs, with a noise level, and with a memory of the errors."""
    level, values = np.zeros(6, dtype=int), np.zeros(6)
    own = ColumnLoss(Likelihood(), SIX, SIX, level, values, np.ones(6), errors=errors)
    return ObservationLoss(own, 2)


def sought_noise(tuning: EmulatorTuning, errors: CorrelatedErrors | None = None) -> bytes:
    """A noise level that is sought."""
    posterior = supac.gaussian([0.0, 0.0, 2.0, 2.0], 0.01 * np.eye(4))
    x = posterior.sample(20, 3)
    rows, loss = np.column_stack([outputs_of(x[:, :2]), x[:, 2:]]), likelihood_of(errors)
    runs = two_batches(x, rows, loss, posterior, 5)
    return fits(supac.OutputEmulator(draws=100, tuning=tuning), runs, posterior, loss)


def memory(tuning: EmulatorTuning) -> bytes:
    """And errors that are autoregressive."""
    level, times = np.zeros(6, dtype=int), np.arange(6.0)
    return sought_noise(tuning, Autoregressive(series=level, times=times, memories=level + 1))


def two_levels(tuning: EmulatorTuning) -> bytes:
    """Few runs beside many of a coarse model, which is half as large and a little curved."""
    x, loss = PLANE.sample(12, 3), supac.MeanSquare()
    runs = two_batches(x, outputs_of(x), loss, PLANE, 5)
    z = PLANE.sample(30, 4)
    rows = 0.5 * outputs_of(z) + 0.02 * z[:, :1] ** 2
    coarse = Evaluations.none(2).append(z, np.asarray(loss(rows)), PLANE, rows)
    rule = supac.OutputEmulator(draws=100, tuning=tuning)
    return fits(TwoLevelEmulator(rule, coarse), runs, PLANE, loss)


MANY = supac.gaussian(np.zeros(50), np.eye(50))


def many(tuning: EmulatorTuning) -> bytes:
    """Outputs of 50 parameters, each of which depends on few, and bends."""
    x = MANY.sample(70, 4)
    outputs = x[:, :30] * (1.0 + 0.5 * x[:, 1:31]) + 0.3 * x[:, 20:50] ** 2
    runs = Evaluations.none(50)
    for first in range(0, 70, 7):
        rows = slice(first, first + 7)
        risk = (outputs[rows] ** 2).mean(axis=1)
        runs = runs.append(x[rows], risk, MANY, outputs[rows])
    estimator = supac.OutputEmulator(draws=100, tuning=tuning)
    return fits(estimator, runs, MANY, supac.MeanSquare())


def few_of_many(tuning: EmulatorTuning) -> bytes:
    """As many runs of 50 parameters as confirm a linear model, and some that failed."""
    x = MANY.sample(53, 4)
    outputs = x @ np.random.default_rng(0).standard_normal((50, 8)) / 7.0
    outputs[:6] = np.nan
    risk = np.where(np.isnan(outputs[:, 0]), np.nan, (outputs**2).mean(axis=1))
    runs = Evaluations.none(50).append(x, risk, MANY, outputs)
    estimator = supac.OutputEmulator(draws=100, tuning=tuning)
    return fits(estimator, runs, MANY, supac.MeanSquare(), first=50, failure_risk=5.0)


def no_slopes(tuning: EmulatorTuning) -> bytes:
    """A loss of 50 parameters, and one of 2, that have no slopes."""
    found = b""
    for at in (MANY, PLANE):
        x = at.sample(30, 4)
        outputs = x[:, :2] + 0.1 * x[:, :2] ** 2
        loss = lambda rows: np.abs(rows).max(axis=1)  # noqa: E731
        runs = two_batches(x, outputs, loss, at, 5)
        found += fits(supac.OutputEmulator(draws=40, tuning=tuning), runs, at, loss)
    return found


def boxes(tuning: EmulatorTuning) -> bytes:
    """Outputs, and a risk alone, that are linear in one box and in a latent value of another."""
    box = supac.marginals.Uniform(-1.0, 1.0)
    parameters = supac.Parameters({"a": box, "b": box})
    x = PLANE.sample(30, 3)
    outputs = 0.1 + np.column_stack([parameters.from_latent(x)[:, 0], x[:, 1], x[:, 1]])
    found = b""
    for estimator, loss in (
        (supac.OutputEmulator(draws=100, tuning=tuning), supac.MeanSquare()),
        (supac.GaussianProcess(tuning=tuning), None),
    ):
        runs = two_batches(x, outputs, supac.MeanSquare(), PLANE, 5)
        runs = runs if loss else replace(runs, outputs=None)
        found += fits(estimator, runs, PLANE, loss, user_scales=parameters.user_scales)
    return found


FITS: dict[str, tuple[Fit, ...]] = {
    "batches": (plans,),
    "screening": (cliffs, far_runs, useless),
    "schedule": (noisy, cliffs, few_of_many),
    "average": (noisy, cliffs),
    "gate": (cliffs, few_of_many, far_runs),
    "correction": (two_levels,),
    "probes": (noisy, cliffs),
    "view": (huge, function, flat, noisy, sought_noise),
    "hyperprior": (noisy, tails, field, few_of_many, many),
    "warp": (tails,),
    "trend": (many,),
    "units": (field, plans, boxes),
    "draws": (noisy, many, no_slopes, boxes, memory),
}


@cache
def as_it_is(fit: Fit) -> bytes:
    return fit(QUICK)


@pytest.mark.parametrize("path", NUMBERS)
def test_every_number_changes_some_bit_of_some_fit(path: str) -> None:
    value = NUMBERS[path]
    other = another(path, value)
    assert other != value
    own = QUICK if path not in BESIDE else with_leaf(QUICK, *BESIDE[path])
    tuning, section = with_leaf(own, path, other), path.split(".", maxsplit=1)[0]
    with one_thread():
        for fit in FITS[section]:
            before = as_it_is(fit) if own is QUICK else fit(own)
            if fit(tuning) != before:
                return
    pytest.fail(f"{path} = {other} changes no bit")


def test_a_tuning_is_kept_in_files() -> None:
    """An estimator without one has none there, so that files of earlier versions are alike."""
    tuning = with_leaf(DEFAULT, "average.powers", (0.2,))
    for estimator in (supac.OutputEmulator(tuning=tuning), supac.GaussianProcess(tuning=tuning)):
        assert from_spec(to_spec(estimator)) == estimator
        plain = replace(estimator, tuning=None)
        assert "tuning" not in to_spec(plain)
        assert from_spec(to_spec(plain)) == plain
