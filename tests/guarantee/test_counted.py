"""Every certificate on the same data is counted, and pays for those before it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.problem_file import starter_files
from supac.record.store.file import lock, unlock

DELTA = 0.05
DATA = supac.Observations(("y",), np.linspace(-0.5, 0.5, 12), np.ones(12))
PRIOR = supac.gaussian(np.zeros(1), np.eye(1))
BOUND = supac.MaurerLangfordSeeger(12, DELTA)


def simulate(x: FloatArray) -> FloatArray:
    return np.repeat(x[:1], 12)


RISK = supac.Composite(simulate, supac.Welsch(), DATA)


def found(store: Path | None = None, **options: Any) -> supac.Result:
    return supac.minimize(RISK, PRIOR, BOUND, budget=30, store=store, **options)


def shares(*given: supac.Certificate | None) -> list[float]:
    """Shares of δ that certificates of new ensembles are left with."""
    return [(each.delta - each.delta_selection) / DELTA for each in given if each is not None]


def sets(result: supac.Result, **options: Any) -> supac.Certificate:
    return result.certify(RISK, subject="ensemble", **{"draws": 5, **options})


def test_new_ensembles_pay_for_those_before_them() -> None:
    """Repeating with other seeds until the number pleases costs a factor of five each time."""
    result = found()
    given = [sets(result), sets(result, seed=1), sets(result, draws=6), sets(result, seed=1)]
    assert shares(*given) == pytest.approx([0.04, 0.008, 0.0016, 0.008])
    assert given[3] == given[1]  # the same one again
    assert "certificate number 3 of its kind" in str(given[1])
    assert [each.earlier for each in given] == [1, 2, 3, 2]
    assert "certificate 3 on these data" in given[1].earlier_in_words
    assert supac.Certificate.from_json(given[1].to_json()) == given[1]
    first = result.certificate
    assert first is not None
    assert not first.earlier_in_words


def test_a_capped_loss_says_which_residuals_it_does_not_tell_apart() -> None:
    bound = supac.MaurerLangfordSeeger(12, DELTA, ceiling=1.0)
    risk = supac.Composite(simulate, supac.MeanSquare(), DATA)
    made = supac.minimize(risk, PRIOR, bound, budget=30).certificate
    assert made is not None
    assert made.cap == pytest.approx(1.0)
    assert "residuals above 1 times the noise count as that, however large" in made.in_words
    own = found().certificate
    assert own is not None
    assert own.cap is None


def test_a_posterior_with_other_draws_pays_and_going_on_does_not() -> None:
    result = found()
    few, more = (result.certify(RISK, draws=draws) for draws in (20, 40))
    other = result.certify(RISK, draws=20, seed=1)
    assert shares(few, more, other) == pytest.approx([0.95, 0.95, 0.04])
    assert other.delta == pytest.approx(
        other.delta_monte_carlo + other.delta_pac + other.delta_selection
    )
    assert shares(sets(result)) == pytest.approx([0.04])  # another statement, counted apart
    assert any("own δ" in each for each in more.not_guaranteed)


def test_a_file_counts_for_later_processes(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    first = found(store)
    assert shares(sets(first)) == pytest.approx([0.04])
    again = supac.read_store(store).result()
    assert shares(sets(again, seed=1), sets(first, seed=2)) == pytest.approx([0.008, 0.0016])
    assert shares(sets(again)) == pytest.approx([0.04])
    more = supac.resume(store, RISK, budget=50)  # its certificate comes after those
    assert more.certificate is not None
    assert more.certificate.delta_pac == pytest.approx(0.96 * DELTA * 0.2**5)
    assert supac.resume(store, RISK).certificate == more.certificate


def test_a_file_of_fresh_runs_counts_without_a_record(tmp_path: Path) -> None:
    options: Any = {"subject": "ensemble", "draws": 5, "store": tmp_path / "runs.supac"}
    given = [supac.certify(PRIOR, PRIOR, RISK, BOUND, seed=seed, **options) for seed in (0, 1, 0)]
    assert shares(*given) == pytest.approx([0.95, 0.04, 0.95])
    assert given[0] == given[2]


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    result = found(tmp_path / "run.supac")
    lock(tmp_path / "run.supac")
    try:
        assert any("could not be counted" in each for each in sets(result).warnings)
    finally:
        unlock(tmp_path / "run.supac")
    assert shares(sets(result, seed=1)) == pytest.approx([0.008])  # in memory it was


def test_searches_from_the_runs_of_a_result_are_counted() -> None:
    first = found()
    other = supac.McAllester(12, DELTA)
    again = supac.reoptimize(first, RISK, bound=other, budget=20)
    third = supac.reoptimize(first, RISK, bound=supac.Thiemann(12, DELTA), budget=20)
    known = supac.KnownRuns.of_record(first.record)
    fourth = supac.minimize(RISK, PRIOR, BOUND, budget=40, known=known)
    every = [each.certificate for each in (first, again, third, fourth)]
    pac = [each.delta_pac / every[0].delta_pac for each in every if each and every[0]]
    assert pac[1] <= 0.04 / 0.95 + 1e-12  # a sample that validation chose has less
    assert pac[2] <= 0.008 / 0.95 + 1e-12
    assert pac[3] <= 0.0016 / 0.95 + 1e-12
    repeated = supac.reoptimize(first, RISK, bound=other, budget=20)
    assert repeated.certificate == again.certificate


def test_held_out_certificates_of_later_searches_are_counted() -> None:
    """With other priors the ensembles are refused, but not what the test part says."""
    risk = supac.Composite(simulate, supac.Welsch(), *DATA.split(np.arange(12) % 2 == 0))
    first = supac.minimize(risk, PRIOR, supac.MaurerLangfordSeeger(6, DELTA), budget=30)
    priors = [supac.gaussian(np.full(1, shift), np.eye(1)) for shift in (0.1, 0.2)]
    later = [supac.reoptimize(first, risk, prior=prior, budget=20) for prior in priors]
    assert [each.certificate for each in later] == [None, None]
    limits = [each.held_out for each in (first, *later)]
    assert all(limit is not None for limit in limits)
    assert len(first.record.provenance.given) == 3


def test_a_declaration_outlives_a_search_that_was_stopped(tmp_path: Path) -> None:
    learnt = supac.Provenance(prior_is_independent=False)
    store = tmp_path / "run.supac"
    found(store, provenance=learnt, callback=lambda iteration: True)
    origin = supac.read_store(store)
    origin.ending = None
    result = found(known=supac.KnownRuns.of_record(origin))
    assert result.certificate is None
    assert not result.record.provenance.prior_is_independent


def test_a_certificate_keeps_its_number_whoever_asks_next(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    mine = found(store)
    other = supac.read_store(store).result()
    given = [sets(other), sets(mine, seed=1), sets(mine, seed=1)]
    assert shares(*given) == pytest.approx([0.04, 0.008, 0.008])


def test_a_result_file_remembers() -> None:
    result = found()
    sets(result)
    again = supac.Result.from_json(result.to_json(runs=True))
    assert shares(sets(again, seed=1)) == pytest.approx([0.008])


def test_what_only_the_user_knows_is_declared(tmp_path: Path) -> None:
    learnt = supac.Provenance(prior_is_independent=False)
    result = found(tmp_path / "run.supac", provenance=learnt)
    assert "prior was learnt on the same data" in result.uncertified
    assert "prior was learnt" in supac.resume(tmp_path / "run.supac", RISK).uncertified
    twice = found(provenance=supac.Provenance(earlier=2))
    assert twice.certificate is not None
    assert shares(twice.certificate) == pytest.approx([0.96 * 0.008])


def test_a_problem_file_declares_a_prior_that_has_seen_the_data(tmp_path: Path) -> None:
    for name, text in starter_files("python").items():
        seen = text.replace("budget = 60", "prior_has_seen_data = true\nbudget = 60")
        (tmp_path / name).write_text(seen)
    problem = supac.read_problem(tmp_path / "problem.toml")
    result = problem.minimize(budget=40)
    assert "prior was learnt on the same data" in result.uncertified
    with pytest.raises(supac.CertificateError, match="learnt on the same data"):
        problem.certify(supac.read_store(problem.store), draws=5)


@pytest.mark.parametrize(
    ("loss", "bound", "refused"),
    [
        (supac.CappedSquare(), None, True),
        (supac.Welsch(2.0), None, True),
        (supac.Welsch(), supac.MaurerLangfordSeeger(12, DELTA, 2.0), False),
    ],
)
def test_a_loss_chosen_after_a_result_is_noticed(
    loss: Any, bound: supac.Bound | None, refused: bool
) -> None:
    risk = supac.Composite(simulate, loss, DATA)
    again = supac.reoptimize(found(), risk, bound=bound, budget=20)
    assert ("changed after a result on the same data" in again.uncertified) is refused


def test_a_ceiling_that_caps_the_loss_is_part_of_it() -> None:
    risk = supac.Composite(simulate, supac.MeanSquare(), DATA)
    low, high = (supac.MaurerLangfordSeeger(12, DELTA, ceiling) for ceiling in (2.0, 4.0))
    result = supac.minimize(risk, PRIOR, high, budget=30)
    assert result.certify(risk, draws=5).value > 0.0
    with pytest.raises(supac.CertificateError, match="changed after a result"):
        result.certify(risk, draws=5, bound=low)


@dataclass(frozen=True)
class Proven(supac.Bound, proof="a test"):
    n: int
    delta: float
    ceiling: float = 1.0

    def __call__(self, mean_risk: float, kl: float) -> float:
        return supac.McAllester(self.n, self.delta)(mean_risk, kl)


@dataclass(frozen=True)
class ForDraws(Proven, proof="a test", of_draws=True):
    pass


def test_a_theorem_on_posteriors_is_none_on_draws() -> None:
    """A bound of the user's may rest on no Δ; then only the mean over a posterior is certified."""
    result = supac.minimize(RISK, PRIOR, Proven(12, DELTA), budget=30)
    assert "not over draws of it" in result.uncertified
    assert result.certify(RISK, draws=20).bound == "Proven"
    with pytest.raises(supac.CertificateError, match="not over draws of it"):
        sets(result)
    declared = supac.minimize(RISK, PRIOR, ForDraws(12, DELTA), budget=30)
    assert declared.certificate is not None
