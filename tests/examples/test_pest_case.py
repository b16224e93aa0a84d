"""docs/pest.md, done as it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supac
from walks import Walk, follow

PAGE = Path(__file__).parents[2] / "docs" / "pest.md"
TRUTH = (14.0, 2.6, 0.8)  # q0, k and base that made the page's data


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    pytest.importorskip("pyemu", reason="pyemu is not installed: pip install 'supac[pest]'")
    return follow(PAGE, tmp_path_factory.mktemp("empty"))


def test_the_case_is_calibrated(walk: Walk) -> None:
    assert list(walk.said)[:3] == [
        "supac run case.pst --check",
        "supac run case.pst --workers 2",
        "supac report case.supac",
    ]
    assert "outputs compared  9" in walk.said["supac run case.pst --check"]
    assert "verdict: trust" in walk.said["supac report case.supac"]
    run = supac.read_store(walk.folder / "case.supac")
    assert not run.failures
    draws = run.sample(4_000, 0)
    assert (np.abs(draws.mean(axis=0) - TRUTH) < 3.0 * draws.std(axis=0)).all()


def test_the_posterior_is_bayes_s(walk: Walk) -> None:
    """Means and standard deviations by importance sampling of the exact model."""
    run = supac.read_store(walk.folder / "case.supac")
    draws, days = run.sample(4_000, 1), np.array([1, 2, 3, 5, 7, 10, 15, 20])
    assert run.parameters is not None
    ours, latent = run.known_posterior(), run.parameters.to_latent(draws)
    q0, k, base = draws.T[:, :, None]
    flow = 1.5 * (q0 * np.exp(-days / k) + 0.1 * q0 * np.exp(-days / (10.0 * k)) + base)
    observed = np.array([17.36, 12.61, 9.65, 6.09, 4.45, 3.10, 2.33, 2.03])
    misfit = ((flow - observed) / 0.2) ** 2
    likelihood = -0.5 * (misfit.sum(axis=1) + 16.0 * (np.log10(k[:, 0]) - 0.5) ** 2)
    prior = run.parameters.prior
    weights = likelihood + prior.log_prob(latent) - ours.log_prob(latent)
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    effective = 1.0 / (weights**2).sum()
    assert effective > 400.0
    mean = weights @ draws
    deviation = np.sqrt(weights @ (draws - mean) ** 2)
    # Three standard errors of the weighted mean, and what a Gaussian leaves of a skewed posterior.
    tolerance = (3.0 / np.sqrt(effective) + 0.1) * deviation
    assert (np.abs(draws.mean(axis=0) - mean) < tolerance).all()
    assert np.allclose(draws.std(axis=0), deviation, rtol=0.25)


def test_the_posterior_goes_back_to_pest(walk: Walk) -> None:
    said = walk.said["supac export case.supac post.jcb --posterior 200"]
    assert "wrote 200 parameter sets to post.jcb" in said
    lines = (walk.folder / "post.par").read_text().splitlines()
    values = {line.split()[0]: float(line.split()[1]) for line in lines[1:]}
    assert list(values) == ["q0", "k", "k_slow", "base", "area"]
    assert values["k_slow"] == pytest.approx(10.0 * values["k"])
    assert values["k"] == pytest.approx(2.6, rel=0.2)
