"""A function as simulator: how fast does a cup of coffee cool?"""

import numpy as np

import supac
from supac import marginals

MINUTES = np.array([0.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0])
MEASURED = np.array([84.1, 77.0, 68.9, 57.3, 48.4, 42.5, 33.6, 27.1])  # °C, within half a degree


def risk(x):
    """From 0, a perfect fit, to 1: the share of a misfit of five degrees, squared."""
    hot, room, rate = x
    cooling = room + (hot - room) * np.exp(-rate * MINUTES)
    return np.mean(np.minimum(((cooling - MEASURED) / 5.0) ** 2, 1.0))


parameters = supac.Parameters(
    {
        "hot": marginals.Normal(mean=85.0, sd=5.0, unit="°C"),
        "room": marginals.Uniform(15.0, 30.0, unit="°C"),
        "rate": marginals.LogNormal(median=0.05, log_sd=0.7, unit="1/min"),
    }
)
result = supac.minimize(risk, parameters, supac.Catoni(temperature=0.002), budget=120)
print(result)
draws = result.sample(2000, 0)
for name, unit, column in zip(parameters.names, parameters.units, draws.T, strict=True):
    low, middle, high = np.quantile(column, [0.05, 0.5, 0.95])
    print(f"{name:5} {middle:.4g} {unit} ({low:.4g} to {high:.4g})")
