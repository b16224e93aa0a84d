"""Laws of an emulator of two levels: fine outputs as coarse ones and a difference."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import supac
from emulated import PLANE, outputs_of
from supac.arrays import FloatArray
from supac.emulator.average import AveragedEmulator
from supac.emulator.gated import GatedModel
from supac.emulator.levels import CorrectedEmulator, TwoLevelEmulator, first_of
from supac.emulator.process import ScoreFunction
from supac.families import NormalWhitening
from supac.problem import Evaluations, Loss
from supac.surrogate.estimator import Context
from supac.surrogate.memory import Memory

SQUARE, OTHER = supac.MeanSquare(), supac.Welsch()
FRESH = PLANE.sample(200, 9)


def bent(x: FloatArray) -> FloatArray:
    """Outputs that few runs do not determine."""
    return np.asarray(np.sin(1.2 * outputs_of(x)) + 0.3 * np.cos(x[:, :1] + x[:, 1:]))


def correction(x: FloatArray) -> FloatArray:
    """What a fine model differs from a coarse one: little, and smooth."""
    return 0.02 * x[:, :1] * np.linspace(-1.0, 1.0, 6) + 0.1


def runs_at(x: FloatArray, outputs: FloatArray, loss: Loss) -> Evaluations:
    risk = np.asarray(loss(outputs))
    return Evaluations.none(2).append(x, risk, PLANE, outputs)


def fitted(rho: float, loss: Loss = SQUARE, fine: int = 8, *, useless: bool = False) -> GatedModel:
    """An emulator of few fine runs of ρ·coarse + correction and 60 coarse ones."""
    x, z = PLANE.sample(fine, 3), PLANE.sample(60, 4)
    rows = bent(z)
    if useless:
        rows = np.random.default_rng(0).standard_normal(rows.shape)
    estimator = TwoLevelEmulator(supac.OutputEmulator(draws=200), runs_at(z, rows, loss))
    runs = runs_at(x, rho * bent(x) + correction(x), loss)
    return estimator.fit(runs, PLANE, Context(prior=PLANE, loss=loss))


@cache
def usual() -> GatedModel:
    return fitted(1.0)


def error_of(model: GatedModel, rho: float, loss: Loss = SQUARE) -> float:
    """Root mean square error of predicted risks, over their standard deviation."""
    true = np.asarray(loss(rho * bent(FRESH) + correction(FRESH)))
    return float(np.sqrt(np.mean((model.predict(FRESH) - true) ** 2)) / true.std())


def own(model: GatedModel) -> CorrectedEmulator:
    found = first_of(model.emulator)
    assert isinstance(found, CorrectedEmulator)
    return found


class TestFineOutputsThatAreCoarseOnesAndALittle:
    @pytest.mark.parametrize("loss", [SQUARE, OTHER])
    @pytest.mark.parametrize("rho", [1.0, 0.85])
    def test_are_predicted_from_few_fine_runs(self, rho: float, loss: Loss) -> None:
        """As well as the 60 coarse runs predict themselves, but for the small difference."""
        x = PLANE.sample(8, 3)
        runs = runs_at(x, rho * bent(x) + correction(x), loss)
        context = Context(prior=PLANE, loss=loss)
        alone = supac.OutputEmulator(draws=200).fit(runs, PLANE, context)
        both = fitted(rho, loss)
        assert both.memory.corrects
        assert error_of(both, rho, loss) < 0.2 * error_of(alone, rho, loss)

    def test_have_the_factor_that_the_runs_say(self) -> None:
        little = correction(FRESH).std() / bent(FRESH).std()  # which has a part along the outputs
        assert own(fitted(0.85)).trend.rho == pytest.approx(0.85, abs=little)
        assert own(usual()).trend.rho == pytest.approx(1.0, abs=little)

    def test_are_exact_where_nothing_differs(self) -> None:
        """With ρ = 1 and no difference, the means are those of the coarse emulator."""
        x, z = PLANE.sample(5, 3), PLANE.sample(60, 4)
        estimator = TwoLevelEmulator(supac.OutputEmulator(draws=200), runs_at(z, bent(z), SQUARE))
        context = Context(prior=PLANE, loss=SQUARE)
        model = estimator.fit(runs_at(x, bent(x), SQUARE), PLANE, context)
        emulator = own(model)
        u = emulator.inputs(FRESH)
        y = emulator._predict(u)[0]
        scores = emulator.unit * y + emulator.shift + emulator.mean @ emulator.directions
        found = scores @ (emulator.training.basis @ emulator.directions).T
        below = emulator.trend.coarse
        y = below._predict(u)[0]
        scores = below.unit * y + below.shift + below.mean @ below.directions
        coarse = scores @ (below.training.basis @ below.directions).T
        wrong = np.sqrt(np.mean((coarse - bent(FRESH)) ** 2))
        assert np.sqrt(np.mean((found - coarse) ** 2)) < wrong


def test_a_useless_coarse_model_is_not_used() -> None:
    """The model is then that of the fine runs alone, to the last bit of its predictions."""
    model = fitted(1.0, fine=12, useless=True)
    assert not model.memory.corrects
    assert not isinstance(first_of(model.emulator), CorrectedEmulator)


@pytest.mark.parametrize("loss", [SQUARE, OTHER])
def test_gradients_are_those_of_predictions(loss: Loss) -> None:
    """Of both parts, through the loss and the variances of both: central differences."""
    emulator = own(fitted(0.9, loss))
    whitening = PLANE.whiten()
    assert isinstance(whitening, NormalWhitening)
    z = emulator.training.draws.z
    risk, gradients = emulator.risk_and_gradients(whitening)
    step = 1e-5
    if loss is SQUARE:  # of others the errors belong to the draws
        assert np.allclose(risk, emulator.predict(whitening.spread(z)), rtol=1e-9)
        for i in range(2):
            h = step * np.eye(2)[i]
            ahead, behind = (emulator.predict(whitening.spread(z + s * h)) for s in (1, -1))
            slope = (ahead - behind) / (2.0 * step)
            assert np.allclose(gradients[:, i], slope, atol=1e-6 * np.abs(gradients).max())
    function = lambda rows, y, v: ((y**2).sum(axis=1) + v, 2.0 * y, np.ones(len(y)))  # noqa: E731
    u = emulator.inputs(FRESH)
    found, by_u = emulator._gradients_in_units(u, function)
    y, v = emulator._predict(u)
    assert np.allclose(found, (y**2).sum(axis=1) + v, rtol=1e-9)
    for i in range(2):
        values = []
        for sign in (1.0, -1.0):
            y, v = emulator._predict(u + sign * step * np.eye(2)[i])
            values.append((y**2).sum(axis=1) + v)
        slope = (values[0] - values[1]) / (2.0 * step)
        assert np.allclose(by_u[:, i], slope, atol=1e-5 * np.abs(by_u).max())


def test_theorem_1_carries_the_sum_of_both_parts() -> None:
    """E_π[F + G] has the derivative E_π[∇(F + G)]: projections of parts add, as theirs do."""
    whitening = PLANE.whiten()
    assert isinstance(whitening, NormalWhitening)
    emulator = own(usual())
    draws = emulator.training.draws
    z, target = draws.z, np.linspace(-1.0, 1.0, emulator.process.y.shape[1])
    scale = emulator.training.units.scale[:, : emulator.training.u.shape[1]]
    by_z = np.linalg.solve(whitening.root, scale)
    u = (whitening.mean - emulator.training.units.centre) @ scale + z @ by_z

    def linear(weights: FloatArray) -> ScoreFunction:
        return lambda rows, y, v: (
            y @ weights,
            np.tile(weights, (len(y), 1)),
            np.zeros(len(y)),
        )

    def projected(values: FloatArray, by_u: FloatArray) -> FloatArray:
        return draws.project_gradients(whitening, values, by_u @ by_z.T).beta

    whole = projected(*emulator._gradients_in_units(u, linear(target)))
    difference = projected(*emulator.process.value_and_gradient(u, linear(target)))
    trend = emulator.trend
    weights = trend.slope @ target / emulator.unit
    coarse = projected(*trend.process.value_and_gradient(u, linear(weights)))
    assert np.allclose(whole, difference + coarse, atol=1e-9 * np.abs(whole).max())


def test_several_emulators_are_averaged_while_there_are_few_runs() -> None:
    emulator = usual().emulator
    assert isinstance(emulator, AveragedEmulator)
    assert all(isinstance(each, CorrectedEmulator) for each in emulator.members)


def test_the_memory_of_both_is_kept_bit_for_bit() -> None:
    memory = usual().memory
    again = Memory.from_arrays(memory.to_arrays())
    assert again is not None
    assert again.corrects
    assert again.coarse is not None
    assert memory.coarse is not None
    for one, other in ((again, memory), (again.coarse, memory.coarse)):
        assert one.hyperparameters.keys() == other.hyperparameters.keys()
        for name, each in one.hyperparameters.items():
            assert np.array_equal(each, other.hyperparameters[name])
        assert np.array_equal(one.outliers, other.outliers)
        assert (one.threshold, one.fitted) == (other.threshold, other.fitted)


def test_a_second_fit_goes_on_from_the_first() -> None:
    x, z = PLANE.sample(9, 3), PLANE.sample(60, 4)
    estimator = TwoLevelEmulator(supac.OutputEmulator(draws=200), runs_at(z, bent(z), SQUARE))
    runs = runs_at(x, bent(x) + correction(x), SQUARE)
    again = estimator.fit(runs, PLANE, Context(prior=PLANE, loss=SQUARE, memory=usual().memory))
    assert again.memory.coarse is not None
    assert again.memory.coarse.restarted == 60  # of no new run: nothing is fitted from defaults
    assert error_of(again, 1.0) < error_of(usual(), 1.0) + 0.02


def test_where_coarse_runs_failed_fine_ones_say_how_uncertain_their_outputs_are() -> None:
    """What the coarse emulator is wrong by there is learnt with the difference: it adds no risk."""
    z, narrow = PLANE.sample(200, 4), supac.gaussian(PLANE.mean, 0.04 * PLANE.covariance)
    z = z[((z - PLANE.mean) ** 2).sum(axis=1) > 5.0]
    x, fresh = narrow.sample(10, 3), narrow.sample(200, 5)
    estimator = TwoLevelEmulator(supac.OutputEmulator(draws=200), runs_at(z, bent(z), SQUARE))
    runs = runs_at(x, bent(x) + correction(x), SQUARE)
    emulator = own(estimator.fit(runs, narrow, Context(prior=PLANE, loss=SQUARE)))
    true = np.asarray(SQUARE(bent(fresh) + correction(fresh)))
    bias = emulator.predict(fresh).mean() - true.mean()
    assert abs(bias) < 0.1 * true.std()
