"""Twelve pumps teach a prior, with which new ones are calibrated in twenty runs."""

import numpy as np

import supac


def pump(wear):
    """The risk of one pump: pumps differ in their wear, and agree in everything else."""
    best = np.array([1.5, wear, 0.5 * wear - 1.0])
    return lambda x: float(np.tanh(0.2 * np.sum((x - best) ** 2)))


bound = supac.Catoni(temperature=0.05)
tasks = [supac.Task(pump(wear), bound) for wear in np.random.default_rng(0).normal(0.0, 0.7, 16)]
textbook = supac.gaussian(np.zeros(3), np.eye(3))
learnt = supac.meta_learn(tasks[:12], textbook, passes=3)
print(learnt)

algorithm, means = supac.SuPAC(first=10, batch=5), {}
for name, prior in (("textbook's", textbook), ("learnt", learnt.prior)):
    results = [
        supac.minimize(task.risk, prior, bound, budget=20, algorithm=algorithm)
        for task in tasks[12:]
    ]
    means[name] = np.mean([result.objective for result in results])
    print(f"four new pumps, {name} prior: mean bound {means[name]:.3f}")
