from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example
from hypothesis import given as hypotheses
from hypothesis import strategies as st
from scipy import stats

import supac
from supac.arrays import FloatArray
from supac.guarantee.betting import betting_limit
from supac.guarantee.certificate import rounded_up

N, DELTA = 400, 0.05
RISKS = np.random.default_rng(0).beta(2.0, 8.0, 500)
PRIOR = supac.gaussian(np.zeros(2), np.eye(2))
BOUNDS: dict[str, supac.Bound] = {
    "catoni": supac.Catoni(0.02),
    "auto": supac.Catoni("auto", N, DELTA),
    "mcallester": supac.McAllester(N, DELTA),
    "mls": supac.MaurerLangfordSeeger(N, DELTA),
    "tolstikhin": supac.TolstikhinSeldin(N, DELTA),
    "thiemann": supac.Thiemann(N, DELTA),
}


def certificate(risk: FloatArray = RISKS, bound: str = "mls", **options: Any) -> supac.Certificate:
    settings = {"kl": 3.0, "n": N, "delta": DELTA, **options}
    kl = settings.pop("kl")
    return supac.certify_draws(risk, kl, BOUNDS[bound], **settings)


@pytest.mark.parametrize("name", BOUNDS)
def test_the_value_is_the_bound_at_the_upper_limit_with_its_share_of_delta(name: str) -> None:
    given = certificate(bound=name)
    assert given.delta == pytest.approx(given.delta_monte_carlo + given.delta_pac)
    assert given.delta_monte_carlo == pytest.approx(0.2 * DELTA)
    assert given.mean_risk == pytest.approx(RISKS.mean())
    upper = betting_limit(RISKS, given.delta_monte_carlo)
    assert given.mean_risk_upper == pytest.approx(upper)
    bounds = {
        "catoni": supac.Catoni(0.02, N, given.delta_pac),
        "auto": supac.Catoni("auto", N, given.delta_pac),
        "mcallester": supac.McAllester(N, given.delta_pac),
        "mls": supac.MaurerLangfordSeeger(N, given.delta_pac),
        "tolstikhin": supac.TolstikhinSeldin(N, given.delta_pac),
        "thiemann": supac.Thiemann(N, given.delta_pac),
    }
    assert given.value == pytest.approx(bounds[name](upper, 3.0))
    assert given.value > given.mean_risk_upper > given.mean_risk


def test_a_ceiling_scales_everything() -> None:
    one, three = certificate(), certificate(3.0 * RISKS, ceiling=3.0)
    assert three.value == pytest.approx(3.0 * one.value)
    assert three.mean_risk_upper == pytest.approx(3.0 * one.mean_risk_upper)


def test_failed_runs_count_as_the_ceiling() -> None:
    broken = RISKS.copy()
    broken[:50] = np.nan
    given = certificate(broken)
    assert given.failed == 50
    assert given.mean_risk == pytest.approx(np.where(np.isnan(broken), 1.0, broken).mean())
    assert any("50 of 500 draws failed and count as 1" in each for each in given.corrections)


def test_trying_temperatures_is_paid_for() -> None:
    once = certificate(bound="catoni")
    assert any("0.02 was chosen" in each for each in once.assumptions)
    ten = certificate(bound="catoni", temperatures_tried=10)
    assert ten.value == pytest.approx(once.value + 0.02 * np.log(10.0))
    assert any("10 temperatures were tried" in each for each in ten.corrections)
    assert not any("was fixed" in each for each in ten.assumptions)
    auto = certificate(bound="auto")
    assert any("was chosen among" in each for each in auto.corrections)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bound": "catoni", "temperatures_tried": np.inf}, 'optimised .* Catoni\\("auto"'),
        ({"prior_is_independent": False}, "learnt on the same data"),
        ({"risk": RISKS + 0.9}, r"outside \[0, 1\], the range that was declared"),
        ({"risk": RISKS - 0.5}, r"outside \[0, 1\]"),
        ({"risk": np.empty(0)}, "at least one fresh draw"),
    ],
)
def test_what_is_not_guaranteed_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(supac.CertificateError, match=message):
        certificate(**options)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, "low"])
def test_delta_is_a_probability(delta: Any) -> None:
    with pytest.raises(ValueError, match="delta must be between 0 and 1"):
        certificate(delta=delta)


def test_it_speaks_to_people_and_to_machines() -> None:
    given = certificate()
    text = str(given)
    assert text.startswith("With probability at least 0.95, the mean true risk of the posterior is")
    assert f"at most {rounded_up(given.value)} (MaurerLangfordSeeger)" in text
    assert "the prior was chosen independently of these data" in text
    assert "credible intervals" in text
    assert "vacuous" not in text
    record = json.loads(given.to_json())
    assert record["value"] == given.value
    assert record["bounds"]["MaurerLangfordSeeger"] == given.value
    assert record["vacuous"] is False
    hopeless = certificate(bound="mcallester", kl=5_000.0)
    assert hopeless.vacuous
    assert "it is vacuous, since no risk is larger" in str(hopeless)


def test_a_certificate_that_says_little_says_so() -> None:
    given = certificate()
    assert not given.weakness
    high = replace(given, value=0.95)
    assert high.weakness == "it says next to nothing: no risk counts as more than 1"
    assert f"Take care: {high.weakness}." in str(high)
    capped = replace(given, capped=True, cap=1.0)
    assert "residuals above 1 times the noise count as that" in capped.weakness


def test_a_limit_far_above_the_mean_risk_says_what_it_pays_for() -> None:
    given = replace(certificate(), mean_risk=0.02, value=0.2)
    assert given.price.startswith("it is 10 times the mean risk on these data")
    assert f"how few they are ({N})" in given.price
    assert given.price in str(given)
    assert not replace(given, mean_risk=0.1).price
    assert "learnt" not in replace(given, subject="held-out").price


@hypotheses(value=st.floats(1e-300, 1e300))
@example(value=10_000.0)  # with a comma
def test_the_printed_limit_holds_too(value: float) -> None:
    printed = float(rounded_up(value).replace(",", ""))
    assert value <= printed <= value * (1.0 + 1e-3)


def test_certificates_of_version_0_1_are_read() -> None:
    told = json.loads(certificate().to_json())
    del told["subject"], told["delta_selection"]
    told["mean_risk_limits"] = {"kl inverse": 0.3, "empirical Bernstein": 0.4}
    assert supac.Certificate.from_json(json.dumps(told)) == certificate()


DATA = np.random.default_rng(5).normal(0.4, 0.5, (N, 2))


def risk(x: FloatArray) -> FloatArray:
    """Mean over the data of a loss in [0, 1]."""
    return np.minimum(((x[:, None] - DATA) ** 2).mean(axis=2) / 4.0, 1.0).mean(axis=1)


@pytest.fixture(scope="module")
def result() -> supac.Result:
    bound = supac.MaurerLangfordSeeger(N, DELTA)
    return supac.minimize(risk, PRIOR, bound, budget=80, execution=supac.Execution(vectorized=True))


@pytest.mark.slow
def test_a_result_certifies_itself_with_fresh_runs(result: supac.Result) -> None:
    given = result.certify(
        risk, n=N, delta=DELTA, draws=300, execution=supac.Execution(vectorized=True)
    )
    assert given.draws == 300
    assert given.bound == "MaurerLangfordSeeger"
    assert given.kl == pytest.approx(result.posterior.kl(PRIOR))
    again = result.certify(
        risk, n=N, delta=DELTA, draws=300, execution=supac.Execution(vectorized=True)
    )
    assert again == given
    other = result.certify(
        risk, n=N, delta=DELTA, draws=300, execution=supac.Execution(vectorized=True), seed=1
    )
    assert other.mean_risk != given.mean_risk
    one_by_one = result.certify(
        lambda x: float(risk(x[None])[0]), n=N, delta=DELTA, draws=300, execution=2
    )
    assert one_by_one.value == pytest.approx(given.value, rel=1e-12)
    vectorized = supac.Execution(vectorized=True)
    mine = supac.McAllester(N, DELTA)
    assert result.certify(risk, draws=300, execution=vectorized, bound=mine).bound == "McAllester"
    with pytest.raises(supac.CertificateError, match="optimised on the same data"):
        result.certify(risk, draws=300, execution=vectorized, bound=supac.Catoni(0.02, N, DELTA))
    with pytest.raises(supac.CertificateError, match="learnt on the same data"):
        result.certify(risk, draws=300, execution=vectorized, prior=result.posterior)


def test_units_and_failures_reach_the_certificate() -> None:
    parameters = supac.Parameters({"k": supac.marginals.LogNormal(2.0, 0.3)})

    def fragile(x: FloatArray) -> float:
        assert x[0] > 0.0
        if x[0] < 1.2:
            raise RuntimeError("boiled over")
        return min(abs(float(np.log(x[0]))) * 0.3, 1.0)

    bound = supac.Catoni(0.05)
    found = supac.minimize(
        fragile, parameters, bound, budget=60, execution=supac.Execution(on_failure="drop")
    )
    given = found.certify(fragile, n=50, draws=200)
    assert given.failed > 0  # dropped in the search, but not here


def test_a_prior_outside_the_family_has_no_exact_kl() -> None:
    class Wide:
        def log_prob(self, x: FloatArray) -> FloatArray:
            return np.asarray(stats.t(5).logpdf(x).sum(axis=1))

    found = supac.minimize(
        risk,
        Wide(),
        supac.Catoni(0.05),
        budget=60,
        start=PRIOR,
        execution=supac.Execution(vectorized=True),
    )
    with pytest.raises(supac.CertificateError, match="only known from draws"):
        found.certify(risk, n=N, execution=supac.Execution(vectorized=True))


def test_the_automatic_temperature_is_nearly_the_best_one() -> None:
    """Beside δ/K instead of δ, a grid of factors √2 costs at most 1.5 % of the complexity."""
    for kl in (0.0, 1.0, 10.0, 100.0):
        auto = supac.Catoni("auto", N, DELTA)
        grid = np.geomspace(1e-4, 1.0, 4_001)
        share = DELTA / len(auto.temperatures)
        best = min(supac.Catoni(float(t), N, share)(0.1, kl) for t in grid)
        assert best - 1e-6 <= auto(0.1, kl) <= best + 0.0155 * (best - 0.1)
        assert auto.best_temperature(0.1, kl) in auto.temperatures


def test_the_automatic_temperature_needs_the_data() -> None:
    with pytest.raises(ValueError, match='"auto" needs n, the number of data, and delta'):
        supac.Catoni("auto")
    with pytest.raises(ValueError, match="temperature"):
        supac.Catoni("high")  # type: ignore[arg-type]


def test_bounds_without_a_temperature_choose_it_on_the_way(result: supac.Result) -> None:
    """The minimiser of another bound certifies lower by it than Catoni's at a poor temperature."""
    poor = supac.minimize(
        risk, PRIOR, supac.Catoni(0.1), budget=80, execution=supac.Execution(vectorized=True)
    )
    options: dict[str, Any] = {
        "n": N,
        "delta": DELTA,
        "draws": 400,
        "execution": supac.Execution(vectorized=True),
    }
    mls = supac.MaurerLangfordSeeger(N, DELTA)
    assert result.certify(risk, **options).value < poor.certify(risk, bound=mls, **options).value
    auto = supac.minimize(
        risk,
        PRIOR,
        supac.Catoni("auto", N, DELTA),
        budget=80,
        execution=supac.Execution(vectorized=True),
    ).certify(risk, **options)
    assert auto.value < poor.certify(risk, **options).value


def test_whatever_the_loss_makes_of_failures_they_count_as_the_ceiling() -> None:
    """A sum that skips NaN would reward them, in the search as in the certificate."""

    def simulate(x: FloatArray) -> FloatArray:
        if x[0] > 0.0:
            raise RuntimeError("boiled over")
        return 0.1 * x

    composite = supac.Composite(simulate, lambda y: np.minimum(np.nansum(y**2, axis=1), 1.0))
    found = supac.minimize(
        composite,
        PRIOR,
        supac.Catoni(0.05),
        budget=60,
        execution=supac.Execution(on_failure="penalise"),
    )
    assert found.posterior.mean[0] < -0.5  # away from where it fails
    given = supac.certify(PRIOR, PRIOR, composite, supac.Catoni(0.05), n=N, draws=100)
    assert 30 < given.failed < 70
    assert given.mean_risk > 0.01 * given.failed - 1e-12


def test_every_bound_in_the_table_is_paid_for() -> None:
    ten = certificate(bound="catoni", temperatures_tried=10)
    assert ten.bounds["Catoni"] == ten.value


@pytest.mark.parametrize("kl", [np.nan, np.inf, -50.0])
def test_kl_is_a_number_of_nats(kl: float) -> None:
    with pytest.raises(supac.CertificateError, match="must be a number of nats"):
        certificate(kl=kl)


def test_a_bound_of_ones_own_is_not_known_to_hold() -> None:
    class Own(supac.Bound):
        n = 5

        def __call__(self, mean_risk: float, kl: float) -> float:
            return mean_risk + kl

    with pytest.raises(supac.CertificateError, match="cites no proof"):
        supac.certify_draws(RISKS, 1.0, Own(), n=N, delta=DELTA)


def test_numbers_of_all_kinds_are_temperatures() -> None:
    for number in (np.float32(0.5), np.int64(1), 1):
        bound = supac.Catoni(number, N, DELTA)  # type: ignore[arg-type]
        assert bound.temperatures == (float(number),)


@pytest.mark.parametrize(
    ("value", "said"), [(1806.1, "1,810"), (0.01234, "0.0124"), (99.91, "100"), (2.5e7, "2.5e+07")]
)
def test_limits_are_rounded_up_without_powers_of_ten(value: float, said: str) -> None:
    assert rounded_up(value, 3) == said
