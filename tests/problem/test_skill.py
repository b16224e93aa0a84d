"""Scores of a fit, by their definitions and by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from supac.problem.skill import Skill

Y = np.array([1.0, 3.0, 2.0, 6.0, 4.0])
S = np.array([1.5, 2.0, 2.5, 5.0, 5.0])


def test_a_perfect_simulation_has_perfect_scores() -> None:
    told = Skill.of(Y, Y)
    found = [told.nse, told.kge, told.r2, told.pbias, told.rmse]
    assert np.allclose(np.concatenate(found), [1.0, 1.0, 1.0, 0.0, 0.0])


def test_nash_sutcliffe_of_the_mean_is_zero() -> None:
    told = Skill.of(np.full(5, Y.mean()), Y)
    assert told.nse[0] == pytest.approx(0.0)
    assert np.isnan(told.r2[0])  # a constant has no correlation


def test_kling_gupta_is_that_of_correlation_spread_and_mean() -> None:
    told, r = Skill.of(S, Y), stats.pearsonr(S, Y).statistic
    parts = (r - 1.0, S.std(ddof=1) / Y.std(ddof=1) - 1.0, S.mean() / Y.mean() - 1.0)
    assert told.kge[0] == pytest.approx(1.0 - np.linalg.norm(parts))
    assert told.r2[0] == pytest.approx(r**2)


def test_bias_is_in_per_cent_and_above_zero_for_too_much() -> None:
    assert Skill.of(1.2 * Y, Y).pbias[0] == pytest.approx(20.0)
    assert Skill.of(Y - 0.32, Y).pbias[0] == pytest.approx(-10.0)


def test_scores_are_in_the_units_that_they_say() -> None:
    """All but the root mean square error are the same in other units."""
    one, other = Skill.of(S, Y), Skill.of(1000.0 * S, 1000.0 * Y)
    for name in ("nse", "kge", "r2", "pbias"):
        assert np.allclose(getattr(one, name), getattr(other, name))
    assert other.rmse[0] == pytest.approx(1000.0 * np.sqrt(np.mean((S - Y) ** 2)))


def test_missing_measurements_do_not_count() -> None:
    gaps = np.append(Y, np.nan)
    told = Skill.of(np.vstack([np.append(S, 9.0), np.append(S, 1e9)]), gaps)
    assert np.allclose(told.nse, Skill.of(S, Y).nse[0])


def test_scores_that_are_not_defined_are_nan() -> None:
    flat, centred = Skill.of(S, np.ones(5)), Skill.of(S, Y - Y.mean())
    assert np.isnan([flat.nse[0], flat.kge[0], flat.r2[0]]).all()
    assert np.isnan([centred.kge[0], centred.pbias[0]]).all()
    with pytest.raises(ValueError, match=r"simulated must be \(n, 5\)"):
        Skill.of(S[:4], Y)
