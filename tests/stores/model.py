"""A simulator as a Python function: two reactions in a row, A -> B -> C."""

import csv
from pathlib import Path

from scipy.integrate import solve_ivp

with open(Path(__file__).with_name("data.csv")) as file:
    TIMES = [float(row["time"]) for row in csv.DictReader(file)]


def simulate(initial, k1, k2):
    """Called once a run, with every parameter by its name, in its unit."""

    def rates(time, state):
        a, b = state
        return [-k1 * a, k1 * a - k2 * b]

    solution = solve_ivp(rates, (0.0, TIMES[-1]), [initial, 0.0], t_eval=TIMES, rtol=1e-6)
    if not solution.success:
        raise RuntimeError(solution.message)  # recorded as a failed run
    a, b = solution.y
    return {"A": a, "B": b}  # the observed columns, each as long as the data
