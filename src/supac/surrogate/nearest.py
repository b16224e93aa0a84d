"""Nearest neighbours of draws among evaluated points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from supac.arrays import IntArray

Float32Array = npt.NDArray[np.float32]

ROWS = 64
"""Draws at a time: enough for the matrix product, few enough for a core's cache."""


def lifted(points: Float32Array) -> Float32Array:
    """Return (n, dim + 1) of which y·p − |p|²/2 is the product with (y, 1).

    |p − y|² is smallest where that is largest.
    """
    half = 0.5 * np.einsum("ij,ij->i", points, points)
    return np.column_stack([points, -half])


def search_all(points: Float32Array, draws: Float32Array, k: int) -> IntArray:
    """Find the k points nearest to each draw by exhaustive search: indices (m, k)."""
    return search_lifted(np.ascontiguousarray(lifted(points).T), draws, k)


def search_lifted(points: Float32Array, draws: Float32Array, k: int) -> IntArray:
    """Do so for points (dim + 1, n) that were lifted before."""
    n = points.shape[1]
    lifted_draws = np.ones((len(draws), len(points)), np.float32)
    lifted_draws[:, :-1] = draws
    nearest = np.empty((len(draws), k), np.intp)
    buffer = np.empty((ROWS, n), np.float32)
    for start in range(0, len(draws), ROWS):
        block = lifted_draws[start : start + ROWS]
        closeness = np.matmul(block, points, out=buffer[: len(block)])
        if k == 1:
            nearest[start : start + ROWS, 0] = closeness.argmax(axis=1)
        else:
            nearest[start : start + ROWS] = np.argpartition(closeness, n - k, axis=1)[:, n - k :]
    return nearest


def search_pairs(points: Float32Array, z: Float32Array) -> tuple[IntArray, Float32Array]:
    """Find the lifted point nearest to each z and to each −z: indices and closeness (2, m).

    Both need one product, which is nearly all of the work.
    """
    n, rows = points.shape[1], np.arange(ROWS)
    lifted_draws = np.ones((len(z), len(points)), np.float32)
    lifted_draws[:, :-1] = z
    minus_square = 2.0 * points[-1]
    nearest, best = np.empty((2, len(z)), np.intp), np.empty((2, len(z)), np.float32)
    buffer = np.empty((ROWS, n), np.float32)
    for start in range(0, len(z), ROWS):
        block = lifted_draws[start : start + ROWS]
        closeness = np.matmul(block, points, out=buffer[: len(block)])
        for sign in (0, 1):
            if sign:  # −z·p − |p|²/2
                np.subtract(minus_square, closeness, out=closeness)
            found = closeness.argmax(axis=1)
            nearest[sign, start : start + ROWS] = found
            best[sign, start : start + ROWS] = closeness[rows[: len(block)], found]
    return nearest, best


def search_graph(points: Float32Array, draws: Float32Array, k: int) -> IntArray:
    """Find about the k points nearest to each draw with faiss's HNSW graph: indices (m, k).

    −1 marks a neighbour that was not found.
    """
    try:
        import faiss  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "Voronoi(approximate=True) needs faiss: pip install 'supac[search]'"
        ) from error
    index = faiss.IndexHNSWFlat(points.shape[1], 32)
    index.add(points)
    found: IntArray = index.search(draws, k)[1].astype(np.intp)
    return found
