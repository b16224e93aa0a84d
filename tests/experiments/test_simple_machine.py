"""The simple machine: what a discrepancy does to a parameter whose model is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.correlated import Discrepancy

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import simple_machine  # noqa: PLC0415

    return simple_machine


def test_only_what_is_known_of_the_discrepancy_finds_the_parameter(machine: Any) -> None:
    """Of data without noise: the wrong model, a vague discrepancy, one that begins with 0."""
    data = machine.truth(machine.X)[None]
    none, vague, *_, informed = (machine.intervals(each, data)[0] for each in machine.BELIEFS)
    real = machine.truth(machine.NEW)
    assert none[0, 1] < machine.TRUE
    assert vague[0, 1] < machine.TRUE
    assert informed[0, 0] < machine.TRUE < informed[0, 1]
    assert not none[1, 0] < real[0] < none[1, 1]
    for each in (vague, informed):  # among the data either predicts
        assert each[1, 0] < real[0] < each[1, 1]


@pytest.mark.parametrize(("number", "known", "holds"), [(1, (), False), (4, (0.0,), True)])
def test_the_loss_of_the_package_has_the_same_posterior(
    machine: Any, number: int, known: tuple[float, ...], holds: bool
) -> None:
    """Summed over a grid of the rate, at all nodes of amplitude and length.

    With `discrepancy = "auto"` the range misses the true rate; where it is known that friction is
    nothing at effort 0, and grows from there with slope 0, the range holds it.
    """
    belief, x = machine.BELIEFS[number], machine.X
    y = machine.truth(x)
    zero, none = np.zeros(len(x), dtype=int), np.full(len(x), -1)
    errors = Discrepancy(
        series=zero, times=x, amplitudes=zero, lengths=zero + 1, zero_at=known, flat_at=known
    )
    noise = np.full(len(x), machine.NOISE)
    loss = ColumnLoss(Likelihood(), none, none, none, y, noise, errors=errors)
    theta = np.linspace(0.3, 0.9, 121)
    nodes = np.array(belief.nodes)
    residuals = np.repeat((np.outer(theta, x) - y) / noise, len(nodes), axis=0)
    minus = len(x) * loss(residuals, np.tile(nodes, (len(theta), 1))) + 0.5 * np.repeat(
        (theta / machine.SPREAD_OF_RATE) ** 2, len(nodes)
    )
    weights = np.exp(minus.min() - minus).reshape(len(theta), -1).sum(axis=1)
    below = (np.cumsum(weights) - 0.5 * weights) / weights.sum()
    low, high = np.interp([0.05, 0.95], below, theta)
    # That of the program is from 2,000 draws of the nodes.
    assert machine.intervals(belief, y[None])[0, 0] == pytest.approx([low, high], abs=0.006)
    assert (low < machine.TRUE < high) == holds
