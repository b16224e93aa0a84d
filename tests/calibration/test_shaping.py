"""Searches whose posterior may have any shape, from the first run to what is made of the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.families import Mixture
from supac.report.standing import standing
from supac.search.tuning import MovingTuning, Tuning

TIMES = np.linspace(0.0, 1.0, 20)
_NOISE = np.concatenate([np.full(20, 2.0), np.full(20, 0.3)])
PARAMETERS = supac.Parameters({"a": marginals.Normal(0.0, 1.5), "b": marginals.Normal(0.0, 1.5)})
BOUND = supac.Catoni(2.0 / 40)


def outputs(x: FloatArray) -> FloatArray:
    """Return outputs that depend on a, and on b − a², so that the posterior is a banana."""
    return np.concatenate([x[0] * TIMES, (x[1] - x[0] ** 2) * (1.0 - TIMES)])


DATA = supac.Observations(
    ("low", "high"),
    outputs(np.array([0.3, 0.2])) + _NOISE * np.random.default_rng(0).standard_normal(40),
    _NOISE,
)
RISK = supac.Composite(outputs, supac.MeanSquare(), DATA)


def search(shape: str = "auto", **options: Any) -> supac.Result:
    return supac.minimize(RISK, PARAMETERS, BOUND, budget=36, shape=shape, **options)


@pytest.fixture(scope="module")
def bent() -> supac.Result:
    return search()


def true_objective(posterior: supac.Distribution) -> float:
    """Compute the objective in nats, from many draws."""
    x = posterior.sample(20_000, 3)
    residuals = np.array(
        [DATA.residuals(outputs(each)[None])[0] for each in PARAMETERS.from_latent(x)]
    )
    nats = (residuals**2).mean(axis=1) / BOUND.temperature
    log_ratio = posterior.log_prob(x) - PARAMETERS.prior.log_prob(x)
    return float((nats + log_ratio).mean())


def test_a_bent_posterior_is_a_mixture_with_a_lower_objective(bent: supac.Result) -> None:
    own = search("gaussian")
    assert own.posterior.family == supac.Gaussian(2)
    assert own.evidence is None
    assert isinstance(bent.posterior.family, Mixture)
    assert true_objective(bent.posterior) < true_objective(own.posterior) - 0.2


def test_the_evidence_is_that_of_a_sum_over_the_prior(bent: supac.Result) -> None:
    x = PARAMETERS.sample(PARAMETERS.prior, 400_000, 1)
    simulated = np.hstack([x[:, :1] * TIMES, (x[:, 1:] - x[:, :1] ** 2) * (1.0 - TIMES)])
    likelihood = np.exp(-0.5 * ((simulated - DATA.values) ** 2 / _NOISE**2).sum(axis=1))
    error = likelihood.std() / likelihood.mean() / np.sqrt(len(x))
    assert bent.evidence is not None
    assert bent.evidence.runs == bent.validated > 0
    away = abs(bent.evidence.log - np.log(likelihood.mean()))
    assert away < 3.0 * np.hypot(bent.evidence.error, error) + 0.05


@pytest.mark.parametrize(
    "bound", [supac.MaurerLangfordSeeger(40, 0.05), supac.McAllester(40, 0.05)]
)
def test_bounds_without_a_temperature_have_shapes_too(bound: supac.Bound) -> None:
    loss = supac.Composite(outputs, supac.Welsch(), DATA)
    made = supac.minimize(loss, PARAMETERS, bound, budget=30, shape="auto")
    assert made.objective <= bound(1.0, 0.0)
    assert made.evidence is None


def test_workers_and_a_kill_change_no_bit(bent: supac.Result, tmp_path: Path) -> None:
    def stop(event: Any) -> bool:
        return bool(event.queries >= 18)

    path = tmp_path / "run.supac"
    first = search(store=path, callback=stop)
    assert first.stop_reason is supac.StopReason.USER
    again = supac.resume(path, RISK, execution=2)
    assert again.posterior == bent.posterior
    assert again.objective == bent.objective
    assert again.evidence == bent.evidence
    read = supac.read_store(path).result()
    assert read.posterior == bent.posterior
    assert read.evidence == bent.evidence


def test_a_larger_budget_goes_on_from_the_gaussian(tmp_path: Path) -> None:
    path = tmp_path / "run.supac"
    supac.minimize(RISK, PARAMETERS, BOUND, budget=30, shape="auto", store=path)
    more = supac.resume(path, RISK, budget=44)
    assert more.record.queries == 44
    assert isinstance(more.posterior.family, Mixture)


def test_a_shape_may_be_changed_when_a_search_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.supac"
    search("gaussian", store=path)
    assert isinstance(supac.resume(path, RISK, shape="auto").posterior.family, Mixture)


def test_files_hold_the_shape_and_the_evidence(bent: supac.Result) -> None:
    read = supac.Result.from_json(bent.to_json(None))
    assert read.posterior == bent.posterior
    assert read.evidence == bent.evidence


def test_tables_of_other_tools_hold_the_evidence(bent: supac.Result) -> None:
    pytest.importorskip("xarray")
    assert bent.evidence is not None
    facts = bent.to_arviz(draws=2).attrs
    found = facts["log_evidence"], facts["log_evidence_error"]
    assert found == (bent.evidence.log, bent.evidence.error)


def test_the_standing_tells_shape_and_evidence(bent: supac.Result) -> None:
    told = dict(standing(bent.record))
    assert told["shape"].startswith("a mixture of ")
    assert bent.evidence is not None
    assert f"log Z = {bent.evidence.log:.2f} ± " in told["evidence"]
    assert not {"shape", "evidence"} & set(dict(standing(search("gaussian").record)))


def test_what_follows_from_a_gaussian_follows_from_a_mixture(bent: supac.Result) -> None:
    assert bent.certificate is not None or bent.uncertified
    assert np.isfinite(supac.predict(bent, outputs, 5).outputs).all()
    assert "a" in str(bent.sensitivity())
    start = supac.reoptimize(bent, RISK, budget=12, validation=0).record.start
    assert start.family == supac.Gaussian(2)


def test_the_family_is_kept_where_parameters_may_not_correlate() -> None:
    apart = supac.Parameters(PARAMETERS.marginals, blocks=[])
    made = supac.minimize(RISK, apart, BOUND, budget=30, shape="auto")
    assert made.posterior.family == supac.DiagonalGaussian(2)


def test_a_posterior_that_still_moves_keeps_its_family() -> None:
    always = Tuning(moving=MovingTuning(gain=-1.0, again=-1.0))
    made = search(algorithm=supac.SuPAC(tuning=always))
    assert made.posterior.family == supac.Gaussian(2)
    assert made.evidence is None


def test_any_shape_is_the_default(bent: supac.Result) -> None:
    made = supac.minimize(RISK, PARAMETERS, BOUND, budget=36)
    assert made.posterior == bent.posterior
    assert made.record.settings.shape == "auto"


def test_algorithms_without_a_model_keep_their_family() -> None:
    made = supac.minimize(
        RISK, PARAMETERS, BOUND, budget=160, shape="auto", algorithm=supac.SuPAC.paper()
    )
    assert made.posterior.family == supac.Gaussian(2)


def test_another_word_for_a_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r'shape must be "auto" or "gaussian", not .round'):
        search("round")
