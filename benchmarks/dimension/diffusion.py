"""Finite elements for −∇·(a∇u) = f on the unit square, u = 0 on its boundary."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.sparse import coo_array, csr_array

from supac.arrays import FloatArray, IntArray


class Diffusion:
    """Bilinear elements; a is constant on each of rows × columns cells of `refine`² elements.

    Cell k is in row k div columns and column k mod columns; nodes are numbered along x first, and
    only the inner ones carry unknowns. Derivatives are those in log a.
    """

    def __init__(self, rows: int, columns: int, refine: int):
        self.cells = rows * columns
        self._across, self._up = columns * refine, rows * refine
        self.unknowns = (self._across - 1) * (self._up - 1)
        self._stiffness = _stiffness(1.0 / self._across, 1.0 / self._up)
        x, y = (
            np.tile(np.arange(self._across), self._up),
            np.repeat(np.arange(self._up), self._across),
        )
        self._nodes = np.stack(
            [self._number(x + i, y + j) for i, j in ((0, 0), (1, 0), (0, 1), (1, 1))], axis=1
        )
        cell = (y // refine) * columns + x // refine
        ones = np.ones(len(cell))
        self._cell_sums = csr_array((ones, (cell, np.arange(len(cell)))))
        self._assembly = self._assemble(cell)

    def _number(self, x: IntArray, y: IntArray) -> IntArray:
        """Return the number of the unknown at a node; `unknowns` for those on the boundary."""
        inside = (x > 0) & (x < self._across) & (y > 0) & (y < self._up)
        return np.where(inside, (y - 1) * (self._across - 1) + x - 1, self.unknowns)

    def _assemble(self, cell: IntArray) -> csr_array:
        """Return the map from coefficients to the lower bands of the matrix, as one long vector."""
        entries: list[tuple[IntArray, IntArray, FloatArray]] = []
        for i in range(4):
            for j in range(4):
                row, column = self._nodes[:, i], self._nodes[:, j]
                kept = (row >= column) & (row < self.unknowns)
                place = (row - column)[kept] * self.unknowns + column[kept]
                entries.append((place, cell[kept], np.full(kept.sum(), self._stiffness[i, j])))
        place, of, value = (np.concatenate(each) for each in zip(*entries, strict=True))
        shape = ((self._across + 1) * self.unknowns, self.cells)
        return coo_array((value, (place, of)), shape=shape).tocsr()

    def uniform_load(self) -> FloatArray:
        """Return the integrals of f = 1 with each hat function: (unknowns,)."""
        return np.full(self.unknowns, 1.0 / (self._across * self._up))

    def interpolation(self, places: FloatArray) -> FloatArray:
        """Return the hat functions at places, (n, 2) → (n, unknowns).

        They interpolate u, and are the loads of unit sources there.
        """
        scaled = places * (self._across, self._up)
        corner = np.minimum(scaled.astype(int), (self._across - 1, self._up - 1))
        (tx, ty), (x, y) = (scaled - corner).T, corner.T
        weights = np.zeros((len(places), self.unknowns + 1))
        for i, j in ((0, 0), (1, 0), (0, 1), (1, 1)):
            share = (tx if i else 1.0 - tx) * (ty if j else 1.0 - ty)
            weights[np.arange(len(places)), self._number(x + i, y + j)] += share
        return weights[:, :-1]

    def factor(self, coefficients: FloatArray) -> FloatArray:
        """Return the banded Cholesky factor of the stiffness matrix for coefficients (cells,)."""
        bands = (self._assembly @ coefficients).reshape(-1, self.unknowns)
        return np.asarray(cholesky_banded(bands, lower=True, overwrite_ab=True, check_finite=False))

    def solve(self, factor: FloatArray, loads: FloatArray) -> FloatArray:
        """Return u for each of the loads: (s, unknowns) → (s, unknowns)."""
        solved = cho_solve_banded((factor, True), loads.T, check_finite=False)
        return np.asarray(solved).T

    def sensitivity(
        self, coefficients: FloatArray, u: FloatArray, adjoint: FloatArray
    ) -> FloatArray:
        """Return the derivatives of wᵀu in log a: u (s, n), K⁻¹w (o, n) → (o, s, cells)."""
        flux = self._on_elements(u) @ self._stiffness
        product = np.einsum("oei,sei->ose", self._on_elements(adjoint), flux)
        flat = product.reshape(-1, product.shape[-1])
        by_cell = np.asarray((self._cell_sums @ flat.T).T).reshape(*product.shape[:2], self.cells)
        return -coefficients * by_cell

    def _on_elements(self, u: FloatArray) -> FloatArray:
        """Return the values at the nodes of each element: (s, unknowns) → (s, elements, 4)."""
        return np.pad(u, ((0, 0), (0, 1)))[:, self._nodes]


def _stiffness(width: float, height: float) -> FloatArray:
    """Return ∫∇φᵢ·∇φⱼ of the four hat functions of one element: (4, 4)."""
    mass = np.array([[2.0, 1.0], [1.0, 2.0]]) / 6.0
    slope = np.array([[1.0, -1.0], [-1.0, 1.0]])
    return np.kron(mass * height, slope / width) + np.kron(slope / height, mass * width)
