"""Prediction bands: split conformal on held-out data, jackknife+ over blocks, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray, IntArray
from supac.guarantee.bands import (
    conformal_bands,
    jackknife_bands,
    left_out_weights,
    within_data,
)

TIMES = np.linspace(0.0, 5.0, 40)
PRIOR = supac.Parameters(
    {"a": supac.marginals.LogNormal(1.0, 0.5), "k": supac.marginals.LogNormal(1.0, 0.5)}
)


def decay(x: FloatArray) -> FloatArray:
    return np.asarray(x[0] * np.exp(-x[1] * TIMES))


def measured(**options: object) -> supac.Observations:
    noise = 0.1 * np.random.default_rng(0).standard_normal(40)
    values = 2.0 * np.exp(-0.7 * TIMES) + noise
    return supac.Observations(("y",), values, np.full(40, 0.1), **options)  # type: ignore[arg-type]


def searched(
    data: supac.Observations, n: int, test: supac.Observations | None = None, **options: object
) -> supac.Result:
    risk = supac.Composite(decay, supac.Welsch(), data, test)
    bound = supac.MaurerLangfordSeeger(n, 0.05)
    return supac.minimize(risk, PRIOR, bound, budget=60, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def result() -> supac.Result:
    return searched(measured(), 40)


# Split conformal


@pytest.mark.parametrize("logarithmic", [False, True])
def test_of_ten_exchangeable_measurements_exactly_eight_are_covered(logarithmic: bool) -> None:
    """⌈10 · 0.8⌉ of ten, each in turn the new one: the law behind the coverage, without a draw."""
    values = np.random.default_rng(1).standard_t(2, 10)
    values = np.exp(values) if logarithmic else values
    covered = 0
    for new in range(10):
        held_out = supac.Observations(("y",), np.delete(values, new), np.ones(9), logarithmic)
        centre = np.full((3, 9), 1.0 if logarithmic else 0.0)
        bands = conformal_bands(centre, held_out, 0.8)
        covered += bool(bands.lower[0] <= values[new] <= bands.upper[0])
    assert covered == 8


def test_of_exchangeable_blocks_the_mean_coverage_is_no_less() -> None:
    """Blocks of 1 to 4 measurements that err together: counting rows would cover too few."""
    rng = np.random.default_rng(2)
    blocks = [3.0 * rng.standard_normal() + 0.1 * rng.standard_normal(1 + i % 4) for i in range(10)]
    covered = []
    for new in range(10):
        kept = [each for i, each in enumerate(blocks) if i != new]
        labels = np.repeat(np.arange(9.0), [len(each) for each in kept])
        values = np.concatenate(kept)
        held_out = supac.Observations(("y",), values, np.ones(len(values)), blocks=labels)
        bands = conformal_bands(np.zeros((2, len(values))), held_out, 0.8)
        assert bands.blocks == {"y": 9}
        covered.append(np.mean(np.abs(blocks[new]) <= bands.upper[0]))
    assert 0.8 <= np.mean(covered) < 1.0


def test_each_column_has_its_own_width_or_none() -> None:
    mixed = np.random.default_rng(7).permutation(np.arange(20.0))
    values = np.concatenate([mixed, 10.0 * mixed, np.ones(4), np.full(16, np.nan)])
    data = supac.Observations(("a", "b", "few"), values, np.full(60, 2.0))
    bands = conformal_bands(
        np.zeros((2, 60)),
        data,
        0.9,
    )
    assert bands.in_units == {"a": pytest.approx(18.0), "b": pytest.approx(180.0)}
    assert np.isnan(bands.lower[40:]).all()
    assert "a ± 18, b ± 180 (split conformal, 20 measurements a column)" in bands.statement


def test_bands_need_enough_data() -> None:
    data = supac.Observations(("y",), np.zeros(8), np.ones(8))
    with pytest.raises(supac.CertificateError, match=r"need at least 9 held-out .* most 0\.88"):
        conformal_bands(np.zeros((3, 8)), data, 0.9)
    with pytest.raises(supac.CertificateError, match=r"need at least 19 .* of at most 0\.77"):
        jackknife_bands(np.zeros((3, 8)), data, supac.MeanSquare(), 1.0, 0.9)


def test_outputs_without_a_logarithm_are_named() -> None:
    labels = np.arange(10.0)
    data = supac.Observations(("y",), np.ones(10), np.ones(10), logarithmic=True, blocks=labels)
    with pytest.raises(supac.CertificateError, match="needs positive outputs"):
        conformal_bands(np.zeros((2, 10)), data, 0.8)


# Jackknife+


class Linear:
    """y = a·x + noise of variance 1, and the Gibbs posterior of a mean square at λ = 2/n."""

    def __init__(self, n: int, dim: int, rng: np.random.Generator):
        self.a, self.rng = rng.standard_normal((n, dim)), rng
        self.truth = rng.standard_normal(dim)
        self.y = self.measure()
        self.trade_off = 0.5 * n

    def measure(self) -> FloatArray:
        return np.asarray(self.a @ self.truth + self.rng.standard_normal(len(self.a)))

    def posterior(self, kept: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance, given these data; the prior is standard normal."""
        a, weight = self.a[kept], 2.0 * self.trade_off / len(kept)
        covariance = np.asarray(np.linalg.inv(np.eye(a.shape[1]) + weight * a.T @ a), np.float64)
        return covariance @ a.T @ self.y[kept] * weight, covariance

    def outputs(self, sets: int) -> FloatArray:
        every = np.arange(len(self.y))
        return np.asarray(
            self.rng.multivariate_normal(*self.posterior(every), size=sets) @ self.a.T
        )

    @property
    def data(self) -> supac.Observations:
        return supac.Observations(("y",), self.y, np.ones(len(self.y)))


def test_weights_give_the_predictions_of_a_search_without_a_block() -> None:
    """Against the posterior of the other data, in closed form; five standard errors."""
    case = Linear(30, 3, np.random.default_rng(3))
    outputs, blocks = case.outputs(20_000), np.arange(30) // 5
    residuals = case.data.residuals(outputs)
    weights = left_out_weights(residuals, blocks, supac.MeanSquare(), case.trade_off)
    for b in range(6):
        mean, _ = case.posterior(np.flatnonzero(blocks != b))
        left_out, exact = weights[b] @ outputs, case.a @ mean
        error = np.sqrt(weights[b] ** 2 @ (outputs - left_out) ** 2)
        assert (np.abs(left_out - exact) < 5.0 * error).all()
        moved = np.abs(outputs.mean(axis=0) - exact)
        assert (moved > 10.0 * error).any()  # all data would not have given it


def test_jackknife_covers_where_residuals_of_the_fit_do_not() -> None:
    """20 data, 8 parameters, 20 sets; ≥ 80 % within three standard errors over the data sets."""
    rng, covered, naive = np.random.default_rng(4), [], []
    for _ in range(160):
        case = Linear(20, 8, rng)
        outputs, new = case.outputs(20), case.measure()
        try:
            bands = jackknife_bands(outputs, case.data, supac.MeanSquare(), case.trade_off, 0.8)
            seen = conformal_bands(outputs, case.data, 0.9)
        except supac.CertificateError:  # the posterior is narrow, or residuals look dependent
            continue
        covered.append(np.mean((bands.lower <= new) & (new <= bands.upper)))
        naive.append(np.mean((seen.lower <= new) & (new <= seen.upper)))
    assert len(covered) > 140
    error = np.std(covered) / np.sqrt(len(covered))
    assert np.mean(covered) + 3.0 * error >= 0.8
    assert (
        np.mean(naive) + 3.0 * error < 0.8
    )  # of residuals that the fit has seen, at a higher level


def test_many_blocks_are_left_out_several_at_a_time() -> None:
    case = Linear(450, 2, np.random.default_rng(5))
    bands = jackknife_bands(case.outputs(20), case.data, supac.MeanSquare(), case.trade_off, 0.9)
    assert bands.blocks == {"y": 450}
    assert bands.in_units["y"] == pytest.approx(1.96, abs=0.25)


def test_a_posterior_too_narrow_to_leave_data_out_has_no_bands() -> None:
    case = Linear(20, 10, np.random.default_rng(6))
    with pytest.raises(supac.CertificateError, match="the posterior is narrow"):
        jackknife_bands(case.outputs(20), case.data, supac.MeanSquare(), 1e4, 0.8)


# Of a result


def test_a_result_has_bands_without_a_run(result: supac.Result) -> None:
    bands = result.bands()
    assert bands.method == "jackknife+"
    assert 0.1 < bands.in_units["y"] < 0.4  # the noise is 0.1
    inside = (bands.lower <= measured().values) & (measured().values <= bands.upper)
    assert inside.mean() > 0.9
    assert (bands.lower < bands.centre).all()
    assert "not proven" in bands.assumption
    narrow = result.bands(0.5).in_units["y"]
    assert narrow < bands.in_units["y"]


def test_held_out_data_come_back_from_stores_and_files(tmp_path: Path) -> None:
    train, test = measured().split(np.arange(40) % 2 == 1)
    made = searched(train, 20, test, store=tmp_path / "run.supac")
    bands = made.bands()
    assert bands.method == "split conformal"
    assert bands.blocks == {"y": 20}
    stored = supac.read_store(tmp_path / "run.supac")
    told = supac.Result.from_json(made.to_json(runs=True))
    for again in (stored, stored.result(), told):
        np.testing.assert_array_equal(again.bands().upper, bands.upper)
    with pytest.raises(supac.CertificateError, match="no fresh runs of the posterior are known"):
        supac.Result.from_json(made.to_json()).bands()


def test_sequences_and_autocorrelated_rows_have_none(result: supac.Result) -> None:
    outputs = result.ensemble.outputs
    assert outputs is not None
    sequence = measured(sequential=True)
    wave = replace(measured(), values=measured().values + np.sin(TIMES))
    for data, words in ((sequence, "depends on earlier ones"), (wave, "autocorrelated as if")):
        with pytest.raises(supac.CertificateError, match=words):
            jackknife_bands(outputs, data, supac.Welsch(), 1.0)
        with pytest.raises(supac.CertificateError, match=words):
            conformal_bands(outputs, data)
    blocks = replace(wave, blocks=np.arange(40.0) // 2)
    assert jackknife_bands(outputs, blocks, supac.Welsch(), 1.0).unit == "blocks"


def test_a_smaller_n_says_that_rows_are_dependent() -> None:
    with pytest.raises(supac.CertificateError, match="n = 20 says that the 40 data are dependent"):
        searched(measured(), 20).bands()


def test_a_prior_that_has_seen_the_data_has_none(result: supac.Result) -> None:
    risk = supac.Composite(decay, supac.Welsch(), measured())
    learnt = PRIOR.with_prior(result.posterior)
    again = supac.reoptimize(result, risk, prior=learnt, budget=30)
    with pytest.raises(supac.CertificateError, match="prior was learnt on the same data"):
        again.bands()


def test_a_risk_without_outputs_has_none() -> None:
    start = supac.gaussian(np.zeros(2), np.eye(2))
    plain = supac.minimize(lambda x: float(np.tanh(x @ x)), start, supac.Catoni(0.1), budget=30)
    with pytest.raises(supac.CertificateError, match="need simulated outputs"):
        plain.bands()


def test_rows_beyond_all_data_have_no_band() -> None:
    """Other times than any that were measured are not exchangeable with these."""
    values = np.array([*np.sin(np.arange(30.0)), np.nan, np.nan])
    data = supac.Observations(("y",), values, np.ones(32), times=np.arange(32.0) - 1.0)
    sets = np.zeros((5, 32)) + np.arange(5.0)[:, None] / 10.0
    bands = conformal_bands(sets, data, 0.8)
    assert np.isfinite(bands.upper).all()
    cut = within_data(bands, data, None)
    assert np.isnan(cut.lower[30:]).all()
    assert np.isnan(cut.upper[30:]).all()
    np.testing.assert_array_equal(cut.upper[:30], bands.upper[:30])
    later = replace(data, values=np.where(np.arange(32) == 31, 0.0, np.nan))
    np.testing.assert_array_equal(within_data(bands, data, later).lower, bands.lower)
