"""Two explanations that fit equally well: a mixture keeps both."""

import numpy as np

import supac


def risk(x):
    """Two wells: the sign of the first parameter cannot be told from the data."""
    return 1.0 - np.exp(-((np.abs(x[0]) - 2.0) ** 2 + x[1] ** 2) / 0.5)


prior, bound = supac.gaussian(np.zeros(2), 2.25 * np.eye(2)), supac.Catoni(temperature=0.05)
one = supac.minimize(risk, prior, bound, budget=150)
both = supac.minimize(risk, prior, bound, budget=150, start=supac.split_mixture(prior, 2))
print(one)
print(both)
family = both.posterior.family
log_weights, parts = family.split(both.posterior.theta)
for weight, part in zip(np.exp(log_weights), parts, strict=True):
    mean, covariance = family.base.moments(part)
    print(f"{weight:.2f} of it around {mean.round(2)} ± {np.sqrt(np.diag(covariance)).round(2)}")
