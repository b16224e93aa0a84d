"""Choice of the runs that tell most: those that leave an emulator the least variance."""

from __future__ import annotations

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.emulator.process import Process


def most_informative(
    process: Process,
    n: int,
    pool: FloatArray,
    about: FloatArray,
    given: FloatArray | None = None,
) -> IntArray:
    """Choose n rows of the inputs `pool` greedily, to know most of the inputs `about`.

    Each leaves the least mean variance over `about`: it takes away cov(c, a)² / (var(c) + noise)
    at a if c is run. Inputs that are `given` are run in any case. The pool has n rows or more.
    """
    assert n <= len(pool)
    first = 0 if given is None else len(given)
    inputs = pool if given is None else np.concatenate([given, pool])
    own, cross = process.covariance(inputs, inputs), process.covariance(inputs, about)
    chosen = list(range(first))
    for step in range(first + n):
        variance = np.diag(own) + process.noise
        if step >= first:
            gain = np.einsum("ij,ij->i", cross, cross) / variance
            gain[chosen] = -1.0
            chosen.append(int(np.argmax(gain)))
        best = chosen[step]
        share = own[best] / variance[best]
        cross = cross - np.outer(share, cross[best])
        own = own - np.outer(share, own[best])
    return np.array(chosen[first:], dtype=np.intp) - first
