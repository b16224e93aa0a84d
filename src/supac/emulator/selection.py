"""Choice of the runs that tell most: those that leave an emulator the least variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm

from supac.arrays import FloatArray, IntArray
from supac.emulator.process import Process, factor_of_covariance


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
    unknown = _Unknown.of(process, pool if given is None else np.concatenate([given, pool]), about)
    chosen, new = list(range(first)), list(range(first))
    for _ in range(n):
        if new:
            unknown.run(new)
        gain = unknown.gain
        gain[chosen] = -1.0
        new = [int(np.argmax(gain))]
        chosen += new
    return np.array(chosen[first:], dtype=np.intp) - first


@dataclass(eq=False)
class _Unknown:
    """Covariances that runs leave between inputs c that may be run and inputs a of interest."""

    process: Process
    inputs: FloatArray
    """c: (m, dim)."""
    explained: FloatArray
    """E, by which runs lower the covariances of c by EᵀE: (rows, m)."""
    variance: FloatArray
    """var(c), with the noise of a run: (m,)."""
    cross: FloatArray
    """cov(c, a): (m, k)."""

    @classmethod
    def of(cls, process: Process, inputs: FloatArray, about: FloatArray) -> _Unknown:
        """Return what the runs of the process leave."""
        explained = process.whitened(inputs)
        variance = process.kernel_diagonal(inputs) + process.noise
        variance -= np.einsum("ij,ij->j", explained, explained)
        np.maximum(variance, process.noise, out=variance)  # less is rounding
        # In the memory of the kernel, and so of its transpose, as LAPACK has matrices.
        rows, cross = process.whitened(about), process.kernel(inputs, about)
        dgemm(-1.0, rows, explained, beta=1.0, c=cross.T, trans_a=1, overwrite_c=1)
        return cls(process, inputs, explained, variance, cross)

    @property
    def gain(self) -> FloatArray:
        """Compute what each input would take away, Σ cov(c, a)² / (var(c) + noise): (m,)."""
        return np.asarray(np.einsum("ij,ij->i", self.cross, self.cross) / self.variance)

    def run(self, rows: list[int]) -> None:
        """Take away what is known once some of the inputs are run."""
        own = self.process.kernel(self.inputs[rows], self.inputs)
        size = float(own[:, rows].trace())
        own -= self.explained[:, rows].T @ self.explained
        noisy = own[:, rows] + self.process.noise * np.eye(len(rows))
        root = factor_of_covariance(noisy, size)
        more = solve_triangular(root, own, lower=True, check_finite=False)
        share = solve_triangular(root, self.cross[rows], lower=True, check_finite=False)
        self.explained = np.concatenate([self.explained, more])
        self.variance -= np.einsum("ij,ij->j", more, more)
        np.maximum(self.variance, self.process.noise, out=self.variance)  # less is rounding
        self.cross -= more.T @ share
