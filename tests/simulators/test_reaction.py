"""Two reactions in a row: the closed solution solves the equations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from supac.simulators.reaction import PARAMETERS, Reaction

TIMES = np.array([0.25, 1.0, 4.0, 10.0])


@pytest.mark.parametrize("x", [(2.0, 0.9, 0.35), (1.0, 0.5, 0.5), (1.0, 0.5, 0.5 + 1e-9)])
def test_it_solves_the_equations(x: tuple[float, float, float]) -> None:
    initial, k1, k2 = x
    solved = solve_ivp(
        lambda _, y: [-k1 * y[0], k1 * y[0] - k2 * y[1]], (0.0, 10.0), [initial, 0.0],
        t_eval=TIMES, rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(Reaction(TIMES)(np.array([x]))[0], solved.y.ravel(), rtol=1e-7)


def test_columns_may_come_in_any_order() -> None:
    x = np.array([[2.0, 0.9, 0.35]])
    turned = Reaction(TIMES, PARAMETERS[::-1])(x[:, ::-1])
    np.testing.assert_array_equal(turned, Reaction(TIMES)(x))


def test_nothing_is_lost_before_it_decays() -> None:
    """Without the second reaction A + B stays what it was."""
    a, b = np.split(Reaction(TIMES)(np.array([[2.0, 0.9, 0.0]]))[0], 2)
    np.testing.assert_allclose(a + b, 2.0, rtol=1e-12)
