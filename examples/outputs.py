"""All outputs of a simulator and not only its risk, which takes fewer runs; and a certificate."""

import numpy as np
from scipy.integrate import solve_ivp

import supac
from supac import marginals

YEARS = np.arange(1.0, 13.0)
TRUTH = np.array([0.6, 0.03, 0.9, 0.02])


def simulate(x):
    """Hares and lynxes after each year, one list of 24 numbers."""
    born, eaten, starved, fed = x
    solution = solve_ivp(
        lambda _, y: [y[0] * (born - eaten * y[1]), y[1] * (fed * y[0] - starved)],
        (0.0, YEARS[-1]),
        [35.0, 5.0],
        t_eval=YEARS,
        rtol=1e-6,
    )
    return np.log(solution.y.ravel())


observed = simulate(TRUTH) + 0.1 * np.random.default_rng(0).standard_normal(24)


def residuals(x):
    return (simulate(x) - observed) / 0.1


parameters = supac.Parameters(
    {
        name: marginals.LogNormal(median, log_sd=0.3, unit="1/a")
        for name, median in (("born", 0.5), ("eaten", 0.025), ("starved", 0.8), ("fed", 0.025))
    }
)
bound = supac.MaurerLangfordSeeger(n=24, delta=0.05)
risk = supac.Composite(residuals, supac.Welsch(3.0))
result = supac.minimize(
    risk, parameters, bound, budget=80, execution=supac.Execution(on_failure="penalise")
)
print(result)
print("truth    ", TRUTH)
print("posterior", np.median(result.sample(2000, 0), axis=0).round(3))
print(result.certify(risk, n=24, draws=300))
