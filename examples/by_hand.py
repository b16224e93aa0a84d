"""The loop by hand: ask for points, run the simulator wherever you like, tell what came of it."""

import numpy as np

import supac


def laboratory(x):
    """What is expensive: here a formula, elsewhere a queue, a person, a machine."""
    return np.tanh(0.2 * ((x[:, 0] - 1.0) ** 2 + 4.0 * (x[:, 1] - x[:, 0] ** 2 / 2) ** 2))


prior, bound = supac.gaussian(np.zeros(2), np.eye(2)), supac.Catoni(temperature=0.05)
algorithm = supac.SuPAC(first=16, batch=8)
problem = supac.Problem.within(prior, bound)
state = algorithm.init(problem, seed=0)
for _ in range(8):
    batch = algorithm.ask(problem, state)  # pure: the same state asks for the same points
    risk = laboratory(batch.x)  # NaN where a run failed
    state, info = algorithm.tell(problem, state, batch, risk)
    print(f"{len(state.evaluations):3} runs, objective {info.objective:.4f}", *info.notes)

# The runs were used to find the posterior: fresh ones judge it.
fresh = laboratory(state.posterior.sample(200, np.random.default_rng(1)))
kl = state.posterior.kl(prior)
error = fresh.std() / np.sqrt(len(fresh))
print(f"mean risk {fresh.mean():.4f} ± {error:.4f}, KL {kl:.2f}, {bound(fresh.mean(), kl):.4f}")
