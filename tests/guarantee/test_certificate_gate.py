"""What is certified, what is paid for and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.guarantee.basis import basis_of
from supac.guarantee.certificate import sizes_in_words
from supac.guarantee.gate import admitted, bound_to_certify
from supac.guarantee.provenance import Provenance
from supac.problem.bounds import Bound
from supac.problem.losses import ResidualLoss

DELTA = 0.05
BOUND = supac.MaurerLangfordSeeger(10, DELTA)


def simulate(x: FloatArray) -> FloatArray:
    return np.repeat(x[..., :1], 12, axis=-1)


def observed(**options: Any) -> supac.Observations:
    return supac.Observations(("a", "b"), np.zeros(12), np.ones(12), **options)


def composite(loss: Any, **options: Any) -> supac.Composite:
    return supac.Composite(simulate, loss, observed(**options))


def test_a_composite_knows_its_data_and_their_losses() -> None:
    basis = basis_of(composite(supac.Welsch()), supac.Catoni(0.1))
    assert basis.number(supac.Catoni) == 12
    assert basis.ceiling == 1.0
    assert not basis.declared
    residuals = np.random.default_rng(0).normal(size=(5, 12))
    risk = supac.Welsch()(residuals)
    assert basis.means(risk, residuals) == pytest.approx(risk)


def test_a_scalar_risk_is_declared_and_the_certificate_says_so() -> None:
    given = supac.certify_draws(np.full(50, 0.2), 1.0, BOUND, n=10, delta=DELTA)
    assert given.assumptions[0].startswith("as declared")
    with pytest.raises(supac.CertificateError, match="number of independent data behind the risk"):
        basis_of(lambda x: 0.0, supac.Catoni(0.1))


def test_the_ceiling_is_for_each_datum_not_for_their_mean() -> None:
    """Without a ceiling of its own, the loss of each datum is capped at the declared one."""
    basis = basis_of(composite(supac.MeanSquare()), supac.MaurerLangfordSeeger(12, DELTA, 4.0))
    residuals = np.zeros((1, 12))
    residuals[0, 0] = 10.0
    assert basis.means(np.array([100.0 / 12]), residuals) == pytest.approx(4.0 / 12)
    assert "each capped, in [0, 4]" in basis.assumptions[0]


def test_the_error_does_not_invite_raising_the_ceiling() -> None:
    with pytest.raises(supac.CertificateError) as error:
        supac.certify_draws(np.array([0.2, 1.7]), 1.0, BOUND, n=10, delta=DELTA)
    assert "chosen without looking at these data" in str(error.value)


def test_a_root_of_a_mean_is_certified_through_the_mean() -> None:
    bound = supac.MaurerLangfordSeeger(12, DELTA, ceiling=3.0)
    risk = composite(supac.RootMeanSquare())
    basis = basis_of(risk, bound)
    residuals = np.random.default_rng(0).normal(size=(5, 12))
    means = basis.means(supac.RootMeanSquare()(residuals), residuals)
    assert means == pytest.approx(np.minimum(residuals**2, 9.0).mean(axis=1))
    chosen, _, _ = admitted(bound, basis, DELTA, Provenance())
    assert chosen == supac.MaurerLangfordSeeger(12, DELTA, 9.0)
    assert basis.in_risk(chosen(means.mean(), 1.0)) <= 3.0


def test_an_objective_that_is_no_bound_is_certified_by_seegers() -> None:
    mean, root = composite(supac.Welsch()), composite(supac.RootMeanSquare())
    plain, fixed = supac.Catoni(0.1), supac.Catoni(0.1, 12, DELTA)
    for bound, risk, kept in [(plain, mean, False), (fixed, mean, True), (fixed, root, False)]:
        chosen = bound_to_certify(bound, basis_of(risk, bound))
        assert (chosen is bound) is kept
        assert kept or isinstance(chosen, supac.MaurerLangfordSeeger)


@pytest.mark.parametrize(
    ("blocks", "n", "numbers"),
    [
        ([0, 0, 1, 1, 2, 2], None, (3, 3, 3)),
        ([0, 1, 2, 3, 4, 5], 4, (4, 4, 4)),
        ([0, 0, 0, 0, 1, 2], None, (1, 1, 2)),  # 1/max w = 1.5; 1/Σw² = 2, less one for McAllester
        (None, 5, (5, 5, 5)),  # as many stretches of equal length, as declared
        (None, None, (12, 12, 12)),
    ],
)
def test_blocks_count_for_what_their_weights_allow(
    blocks: list[int] | None, n: int | None, numbers: tuple[int, ...]
) -> None:
    data = None if blocks is None else np.array(blocks, dtype=float)
    basis = basis_of(composite(supac.Welsch(), blocks=data), supac.Catoni(0.1), n=n)
    kinds: list[type[Bound]] = [supac.MaurerLangfordSeeger, supac.McAllester, supac.Catoni]
    assert tuple(basis.number(kind) for kind in kinds) == numbers


@pytest.mark.parametrize(
    ("options", "n", "message"),
    [
        ({}, 13, "12 numbers were measured"),
        ({"blocks": np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])}, 3, "2 independent blocks"),
    ],
)
def test_more_data_than_there_are_are_refused(
    options: dict[str, Any], n: int, message: str
) -> None:
    with pytest.raises(supac.CertificateError, match=message):
        basis_of(composite(supac.Welsch(), **options), supac.Catoni(0.1), n=n)


def test_a_loss_that_is_no_mean_is_refused() -> None:
    class Worst(ResidualLoss):
        def __call__(self, residuals: FloatArray) -> FloatArray:
            return np.asarray(np.abs(residuals).max(axis=1))

    with pytest.raises(supac.CertificateError, match="does not say what it is a mean of"):
        basis_of(composite(Worst()), supac.Catoni(0.1))


@pytest.mark.parametrize("kind", [supac.Catoni, supac.McAllester, supac.MaurerLangfordSeeger])
def test_bounds_hold_for_blocks_of_unequal_weights(kind: type[Bound]) -> None:
    """Bernoulli blocks of weights ½, ¼, ⅛ …: at most δ violations where n comes from the weights.

    A sample of one predictor and KL = 0 is the hardest case. Counting the blocks as equal breaks
    Seeger's bound.
    """
    rng, delta, repeats = np.random.default_rng(0), 0.2, 4_000
    weights = 0.5 ** np.arange(1.0, 11.0)
    weights /= weights.sum()
    true = 0.5
    risk = (rng.random((repeats, len(weights))) < true) @ weights

    def violations(n: int) -> float:
        bound = kind.for_data(n, delta, 1.0)
        return float(np.mean([bound(float(each), 0.0) < true for each in risk]))

    slack = 3.0 * np.sqrt(delta * (1.0 - delta) / repeats)
    assert violations(kind.data_in(weights)) <= delta + slack
    if kind is supac.MaurerLangfordSeeger:
        assert violations(100) > delta + slack


@pytest.mark.parametrize("loss", [supac.Welsch(2.0), supac.CappedSquare(), supac.RootMeanSquare()])
def test_a_risk_is_told_as_a_residual_in_the_units_of_the_data(loss: Any) -> None:
    """A run whose residuals are all equal has exactly that risk."""
    basis = basis_of(composite(loss), supac.Catoni(0.1, ceiling=3.0))
    residual = basis.residual(0.4)
    assert residual is not None
    assert loss(np.full((1, 12), residual))[0] == pytest.approx(0.4)
    assert basis.residual(0.0) == 0.0


def test_units_are_those_of_each_column() -> None:
    noise = np.repeat([0.1, 5.0], 6)
    data = supac.Observations(("a", "b"), np.ones(12), noise)
    assert data.in_units(2.0) == pytest.approx({"a": 0.2, "b": 10.0})
    logs = supac.Observations(("a", "b"), np.ones(12), 0.01 * noise, logarithmic=True)
    assert logs.in_units(2.0)["b (relative)"] == pytest.approx(np.expm1(0.1))


def test_limits_of_columns_are_told_together_where_they_are_equal() -> None:
    assert sizes_in_words({"a (g)": 0.2, "b (g)": 0.2, "c": 0.2, "d": 3.00001}) == (
        "a (g), b (g) and c ± 0.2, d ± 3.01"
    )
    assert sizes_in_words({"a (relative)": 0.734, "b (relative)": 2.0}) == "a ± 73.4 %, b ± 200 %"
    assert sizes_in_words({"a": 0.2}, sign="") == "a 0.2"  # a misfit is no band


def test_a_reoptimised_temperature_is_noticed() -> None:
    def risk(x: FloatArray) -> float:
        return float(np.tanh(x @ x))

    prior = supac.gaussian(np.zeros(1), np.eye(1))
    first = supac.minimize(risk, prior, supac.Catoni(0.1, 12, DELTA), budget=30)
    assert first.certificate is not None
    again = supac.reoptimize(first, risk, bound=supac.Catoni(0.05, 12, DELTA), budget=20)
    assert again.certificate is None
    assert "temperature was optimised on the same data" in again.uncertified
    free = supac.reoptimize(first, risk, bound=BOUND, budget=20)
    assert free.certificate is not None
    assert free.certificate.delta_pac < first.certificate.delta_pac  # the second one on these data
    moved = supac.gaussian(np.ones(1), np.eye(1))
    other = supac.reoptimize(first, risk, prior=moved, budget=20)
    assert "prior was learnt on the same data" in other.uncertified


def test_bets_hold_at_every_temperature() -> None:
    """Where the loss of each datum is known, a temperature chosen afterwards costs no more than
    that the certificate is the second one."""
    risk = supac.Composite(lambda x: np.repeat(x[:1], 12), supac.Welsch(), observed())
    prior = supac.gaussian(np.zeros(1), np.eye(1))
    first = supac.minimize(risk, prior, supac.Catoni(0.1, 12, DELTA), budget=30)
    again = supac.reoptimize(first, risk, bound=supac.Catoni(0.05, 12, DELTA), budget=20)
    assert first.certificate is not None
    assert again.certificate is not None
    assert again.certificate.bound == "Betting"
    assert again.certificate.delta_pac < 0.05 * first.certificate.delta_pac


def test_a_larger_budget_is_a_further_certificate(tmp_path: Any) -> None:
    risk = supac.Composite(lambda x: np.repeat(x[:1], 12), supac.Welsch(), observed())
    prior, store = supac.gaussian(np.zeros(1), np.eye(1)), tmp_path / "run.supac"
    first = supac.minimize(risk, prior, BOUND, budget=30, store=store)
    same = supac.minimize(risk, prior, BOUND, budget=30, store=store)
    assert same.certificate == first.certificate
    more = supac.resume(store, risk, budget=50)
    assert first.certificate is not None
    assert more.certificate is not None
    shares = [each.certificate.delta_pac for each in (first, more)]  # type: ignore[union-attr]
    assert shares[1] == pytest.approx(0.04 / 0.95 * shares[0])
    assert supac.resume(store, risk).certificate == more.certificate


@pytest.mark.slow
def test_a_posterior_as_prior_of_its_own_runs_is_noticed() -> None:
    risk = supac.Composite(lambda x: np.repeat(x[:1], 12), supac.Welsch(), observed())
    prior = supac.gaussian(np.zeros(1), np.eye(1))
    first = supac.minimize(risk, prior, BOUND, budget=30)
    known = supac.KnownRuns.of_record(first.record)
    again = supac.minimize(risk, first.posterior, BOUND, budget=30, known=known)
    assert "prior was learnt on the same data" in again.uncertified
    fresh = supac.minimize(risk, prior, BOUND, budget=30, known=known)
    assert fresh.certificate is not None


@pytest.mark.slow
def test_a_digester_has_one_certificate_in_python_file_and_report(tmp_path: Any) -> None:
    """The root of the mean square, through squares of at most 9, with days as blocks."""
    pytest.importorskip("numba", reason="ADM1 needs the extra adm1")
    from supac.simulators import adm1  # noqa: PLC0415 - slow to import

    words = '[simulator]\nbuiltin = "adm1"\n[bound]\ntemperature = 0.002\n[run]\nbudget = 30\n'
    (tmp_path / "problem.toml").write_text(words)
    file = supac.read_problem(tmp_path / "problem.toml")
    result = file.minimize()
    problem = adm1.example()
    python = supac.minimize(
        problem.composite, problem.parameters, supac.Catoni(0.002, ceiling=3.0), budget=30,
        execution=supac.Execution(vectorized=True, on_failure=file.execution.on_failure),
    )  # fmt: skip
    assert result.certificate == python.certificate
    assert result.certificate is not None
    assert "196 blocks of data are independent" in result.certificate.assumptions[0]
    assert "root of the mean square" in result.certificate.assumptions[0]
    page = supac.write_report(supac.read_store(file.store), tmp_path / "report.html").read_text()
    assert result.certificate.statement in page


def test_a_file_of_the_result_does_not_forget_what_has_seen_the_data() -> None:
    risk = supac.Composite(lambda x: np.repeat(x[:1], 12), supac.Welsch(), observed())
    prior = supac.gaussian(np.zeros(1), np.eye(1))
    first = supac.minimize(risk, prior, BOUND, budget=30)
    moved = supac.reoptimize(first, risk, prior=first.posterior, budget=20)
    again = supac.Result.from_json(moved.to_json(runs=True))
    assert again.record.provenance == moved.record.provenance
    with pytest.raises(supac.CertificateError, match="learnt on the same data"):
        again.certify(risk, draws=20)
    cold = supac.reoptimize(first, risk, bound=supac.Catoni(0.01), budget=20)
    back = supac.Result.from_json(cold.to_json())
    assert back.record.provenance == cold.record.provenance  # with an infinity
    assert back.certificate == cold.certificate
    assert back.record.next_provenance() == cold.record.next_provenance()


def mean_of(residuals: FloatArray) -> FloatArray:
    return np.minimum(residuals**2, 1.0).mean(axis=1)


@pytest.mark.parametrize(
    ("options", "bound", "message"),
    [
        ({}, supac.MaurerLangfordSeeger(1_000, DELTA), "12 numbers were measured"),
        ({"blocks": np.repeat([0.0, 1.0], 3)}, BOUND, "2 independent blocks"),
    ],
)
def test_a_function_as_loss_does_not_open_the_gate(
    options: dict[str, Any], bound: Bound, message: str
) -> None:
    with pytest.raises(supac.CertificateError, match=message):
        basis_of(composite(mean_of, **options), bound)
    sequence = basis_of(composite(mean_of, sequential=True), supac.MaurerLangfordSeeger(6, DELTA))
    with pytest.raises(supac.CertificateError, match="needs independent data"):
        admitted(supac.MaurerLangfordSeeger(6, DELTA), sequence, DELTA, Provenance())


class Signed(ResidualLoss):
    ceiling = 1.0

    def each(self, residuals: FloatArray) -> FloatArray:
        return np.tanh(residuals)

    def __call__(self, residuals: FloatArray) -> FloatArray:
        return self.each(residuals).mean(axis=1)


class Larger(Signed):
    def each(self, residuals: FloatArray) -> FloatArray:
        return residuals**2


class Other(Signed):
    def each(self, residuals: FloatArray) -> FloatArray:
        return np.minimum(residuals**2, 1.0)

    def __call__(self, residuals: FloatArray) -> FloatArray:
        return self.each(residuals).max(axis=1)


@pytest.mark.parametrize(
    ("loss", "message"),
    [(Signed(), "negative losses"), (Larger(), "above its ceiling"), (Other(), "not the mean of")],
)
def test_losses_are_what_they_say(loss: Any, message: str) -> None:
    residuals = np.random.default_rng(0).normal(size=(5, 12))
    with pytest.raises(supac.CertificateError, match=message):
        basis_of(composite(loss), BOUND).means(loss(residuals), residuals)


def test_a_certificate_that_fails_does_not_lose_the_runs() -> None:
    class Breaks(Signed):
        def each(self, residuals: FloatArray) -> FloatArray:
            raise RuntimeError("no such thing")

        def __call__(self, residuals: FloatArray) -> FloatArray:
            return mean_of(residuals)

    risk = supac.Composite(lambda x: np.repeat(x[:1], 12), Breaks(), observed())
    result = supac.minimize(risk, supac.gaussian(np.zeros(1), np.eye(1)), BOUND, budget=30)
    assert result.certificate is None
    assert "no such thing" in result.uncertified
