"""Runs on a Dask cluster, without waiting for the slowest; here a small one on this machine."""

import time

import numpy as np
from distributed import LocalCluster

import supac


def simulate(x):
    """Residuals of a slow simulator, some runs of which take three times as long as others."""
    time.sleep(0.02 + 0.04 * (x[0] > 0.0))
    return np.array([x[0] - 0.5, x[1] + 0.3, x[0] * x[1], x[2] - 0.1 * x[0]]) / 0.3


if __name__ == "__main__":
    risk = supac.Composite(simulate, supac.Welsch(3.0))
    prior, bound = supac.gaussian(np.zeros(3), np.eye(3)), supac.Catoni(temperature=0.02)
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(n_workers=4, **options) as cluster:
        result = supac.minimize(
            risk,
            prior,
            bound,
            budget=80,
            execution=supac.Execution(
                cluster.scheduler_address, mode="async"
            ),  # of any cluster, such as "tcp://10.0.0.1:8786"
        )
    print(result)
    print(result.posterior.mean.round(2))
