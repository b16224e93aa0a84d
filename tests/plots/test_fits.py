"""Simulations beside data, and the pictures that the demo saves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supac
from supac.plots import drawing_is_possible, save_fit, save_posterior
from supac.plots.fits import fit_bands

if not drawing_is_possible():
    pytest.skip("plots are an extra", allow_module_level=True)

from matplotlib.figure import Figure

TIME = np.linspace(0.0, 4.0, 5)
OBSERVED = np.array([1.0, 0.8, np.nan, 0.5, 0.4])
DRAWS = np.random.default_rng(0).normal(0.7, 0.1, (40, 5))


def test_bands_hold_nine_tenths_of_the_runs_that_did_not_fail() -> None:
    failed = np.vstack([DRAWS, np.full((3, 5), np.nan)])
    axes = fit_bands(
        TIME, OBSERVED, {"prior": 3.0 * DRAWS, "posterior": failed}, axes=Figure().subplots()
    )
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["prior, 90 %", "posterior, 90 %", "observed"]
    band = axes.collections[1].get_paths()[0].vertices
    low, high = np.quantile(DRAWS, [0.05, 0.95], axis=0)
    assert np.asarray(band)[:, 1].min() == pytest.approx(low.min())
    assert np.asarray(band)[:, 1].max() == pytest.approx(high.max())


def test_a_kind_of_which_all_runs_failed_is_left_out() -> None:
    axes = fit_bands(
        TIME, OBSERVED, {"posterior": np.full((3, 5), np.nan)}, noise=0.1, axes=Figure().subplots()
    )
    assert len(axes.collections) == 1  # the bars of the observations
    with pytest.raises(ValueError, match="its keys must be in"):
        fit_bands(TIME, OBSERVED, {"truth": DRAWS})


def test_pictures_are_saved_with_and_without_a_truth(tmp_path: Path) -> None:
    prior = supac.gaussian([0.0, 0.0], np.eye(2))
    result = supac.minimize(lambda x: float(np.tanh(x @ x)), prior, supac.Catoni(0.1), budget=30)
    for truth in (None, np.zeros(2)):
        save_posterior(tmp_path / "posterior.png", result, truth)
    observed = dict.fromkeys("abcd", OBSERVED)
    predicted = {name: {"prior": DRAWS, "posterior": DRAWS} for name in observed}
    save_fit(tmp_path / "fit.png", TIME, observed, predicted)
    for path in tmp_path.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
