"""Voronoi cells from draws that serve for several posteriors.

A block of draws of π_k, pairs μ_k ± C_k⁻ᵀz, keeps its nearest evaluations, in the metric of π_k,
and is compared with new evaluations alone; pairs share their products. For another posterior π a
draw y counts w = π(y)/π_k(y) times, and is worth 1/π_k[w²] draws of π. Blocks of posteriors near π
serve again; fresh ones add what is missing, and are kept where π drew a batch. All of this follows
from the evaluations and their proposals, batch by batch: what is in memory saves time, and changes
no bit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.families import NormalWhitening
from supac.problem import Evaluations
from supac.surrogate.nearest import Float32Array, search_pairs

BLOCK, BLOCKS = 512, 16
"""Draws that come and go together at most, and the number of blocks that there are at least."""
WORTH = 0.25
"""Share of a draw of π that one of another posterior is worth at least, to be kept."""
_SPARE = 8
_ROUNDING = 1e-9
_ELSEWHERE = 1  # the stream of draws of posteriors that drew no batch
_NAMES = ("_draws", "_squares", "_closeness", "_nearest", "_mean", "_root")
_MOST = 2**26  # bytes of all pools but the latest
_LARGE = 1e300  # as an entry of a matrix that is positive definite with it
_CACHE = 2**17  # numbers of a product that a core's cache holds


class _Memory(threading.local):
    """The pools of a thread, the latest last: searches that take turns have one each.

    Those with the same first point, as of one seed, are kept together.
    """

    def __init__(self) -> None:
        self.pools: OrderedDict[tuple[int, bytes], list[Pool]] = OrderedDict()

    def pool_of(self, runs: Evaluations, draws: int) -> Pool:
        """Return the pool that was told the beginning of these runs, or a new one."""
        key = (draws, runs.x[0].tobytes())
        same = self.pools.pop(key, [])
        pool = next((each for each in same if each.knows(runs, draws)), None)
        if pool is None:
            pool = Pool(runs.x.shape[1], draws)
            while self.pools and self._bytes > _MOST:
                self.pools.popitem(last=False)
            while sum(each.bytes for each in same) > _MOST:
                same.pop()
        self.pools[key] = [pool, *(each for each in same if each is not pool)]
        return pool

    @property
    def _bytes(self) -> int:
        return sum(each.bytes for pools in self.pools.values() for each in pools)


_memory = _Memory()


def reused_counts(runs: Evaluations, draws: int, at: NormalWhitening) -> tuple[FloatArray, bool]:
    """Count the draws of a Gaussian that are nearest to each evaluation: (n,).

    Draws of proposals count by their importance; all are worth `draws` fresh ones. Also return
    whether some evaluations may be the same point; then the first of these has all their draws.
    """
    pool = _memory.pool_of(runs, draws)
    for batch in range(pool.batches, len(runs.proposals)):
        pool.learn(runs, batch)
    return pool.counts(at), pool.repeated


@dataclass(eq=False)
class _Source:
    """A posterior that blocks come from."""

    whitening: NormalWhitening
    slots: list[int]


@dataclass(frozen=True, eq=False)
class _Views:
    """Sources as they are seen from one posterior: an entry of each array is a source."""

    share: FloatArray
    """Draws of the posterior that one of the source's draws is worth."""
    view: FloatArray
    """(dim + 1, dim), M and Ms transposed, from the source's own coordinates z to the square of
    those of the posterior, |Mᵀz + s|²."""
    log_ratio: FloatArray
    """The constant of log w, with |s|²."""

    @classmethod
    def own(cls, dim: int) -> _Views:
        """Return how a posterior sees itself."""
        return cls(np.ones(1), np.eye(dim + 1, dim)[None], np.zeros(1))

    def select(self, rows: list[int]) -> _Views:
        """Return some of them."""
        return _Views(self.share[rows], self.view[rows], self.log_ratio[rows])

    def joined(self, others: _Views) -> _Views:
        """Return these and others."""
        pairs = zip(_arrays(self), _arrays(others), strict=True)
        return _Views(*(np.concatenate(pair) for pair in pairs))


def _arrays(views: _Views) -> tuple[FloatArray, FloatArray, FloatArray]:
    return views.share, views.view, views.log_ratio


class Pool:
    """Blocks in memory, in slots of arrays that grow. All of them know the same evaluations."""

    def __init__(self, dim: int, draws: int):
        self.batches, self.worth = 0, draws
        pairs = min(BLOCK, max(BLOCK // BLOCKS, draws // BLOCKS)) // 2
        self.block = 2 * pairs
        self._seen_from = np.zeros(0)
        self._x = np.zeros((0, dim))
        self._told = self._x  # with all runs that were given, of which `_x` is the beginning
        self._firsts: set[float] = set()
        self._sources: list[_Source] = []
        """The latest first."""
        self._views = _Views.own(dim).select([])
        self._stacks: tuple[FloatArray, ...] = ()
        """Mean, C⁻¹ and θ of all sources, stacked."""
        self._free: list[int] = []
        self._draws = np.zeros((0, dim + 1, pairs), np.float32)  # z, with a last coordinate of 1
        self._squares = np.zeros((0, pairs), np.float32)
        self._closeness = np.zeros((0, 2, pairs), np.float32)  # of z and of −z
        self._nearest = np.zeros((0, 2, pairs), np.intp)
        self._mean, self._root = np.zeros((0, dim)), np.zeros((0, dim, dim))

    def knows(self, runs: Evaluations, draws: int) -> bool:
        """Return True if it was told the beginning of these runs, and nothing else."""
        if self.worth != draws or self.batches > len(runs.proposals):
            return False
        if runs.x is self._told and self.batches == len(runs.proposals):
            return True
        told = int(np.searchsorted(runs.iteration, self.batches))
        last = runs.proposals[self.batches - 1].theta if self._sources else None
        return np.array_equal(self._x, runs.x[:told]) and (
            last is None or np.array_equal(self._sources[0].whitening.theta, last)
        )

    @property
    def repeated(self) -> bool:
        """Return True if evaluations share a first coordinate, which draws rarely do."""
        return len(self._firsts) < len(self._x)

    @property
    def bytes(self) -> int:
        """Memory of its draws."""
        return sum(getattr(self, name).nbytes for name in _NAMES)

    def learn(self, runs: Evaluations, batch: int) -> None:
        """Compare all draws with a batch, then make them serve for its proposal."""
        whitening = runs.proposals[batch].whiten().normal
        assert whitening is not None
        first, end = np.searchsorted(runs.iteration, [batch, batch + 1]).tolist()
        self._told, self._x, self.batches = runs.x, runs.x[:end], batch + 1
        self._firsts.update(self._x[first:, 0].tolist())
        if not len(self._x):  # all runs of the first batches have failed
            return
        self._compare(first)
        self._look_from(whitening)
        kept, worth = [], 0.0
        for k, (source, share) in enumerate(zip(self._sources, self._shares, strict=True)):
            if share >= WORTH and worth < self.worth - self.block:
                kept.append(k)
                worth += share * self.block * len(source.slots)
            else:
                self._free += source.slots
        missing = max(1, -int(-(self.worth - worth) // self.block))
        before = [self._sources[k] for k in kept]
        self._sources = [self._draw(whitening, missing, batch), *before]
        self._views = _Views.own(len(whitening.mean)).joined(self._views.select(kept))
        own = whitening.mean, whitening.inverse_root, whitening.theta
        new = [np.ascontiguousarray(each)[None] for each in own]
        pairs = zip(new, self._stacks or new, strict=True)
        self._stacks = tuple(np.concatenate([one, rest[kept]]) for one, rest in pairs)
        if len(self._free) > _SPARE + len(self._draws) // 4:
            self._compact()

    def _compare(self, first: int) -> None:
        """Compare the draws with the evaluations from the first on."""
        new = self._x[first:]
        if not len(new) or not len(self._draws):
            return
        points = ((new - self._mean[:, None]) @ self._root).astype(np.float32)
        square = np.einsum("sij,sij->si", points, points)[..., None]
        points = np.concatenate([points, -0.5 * square], axis=2)
        for rows in self._parts(len(new)):
            closeness = points[rows] @ self._draws[rows]
            self._improve(rows, 0, closeness, first)
            # −z·p − |p|²/2
            self._improve(rows, 1, np.subtract(-square[rows], closeness, out=closeness), first)

    def _parts(self, height: int) -> Iterator[slice]:
        """Divide the slots into parts whose products, of `height` rows each, fit into the cache."""
        step = max(1, _CACHE // (height * self._draws.shape[2]))
        return (slice(start, start + step) for start in range(0, len(self._draws), step))

    def _improve(self, rows: slice, sign: int, closeness: Float32Array, first: int) -> None:
        """Replace the nearest evaluations of draws by new ones that are closer."""
        before, nearest = self._closeness[rows, sign], self._nearest[rows, sign]
        top = closeness.max(axis=1)
        slot, draw = np.nonzero(top > before)
        before[slot, draw] = top[slot, draw]
        nearest[slot, draw] = first + closeness[slot, :, draw].argmax(axis=1)

    def _look_from(self, at: NormalWhitening) -> None:
        """See all sources from another posterior.

        With z = Cᵀ(x − μ), a draw of π_k is x = μ_k + C_k⁻ᵀz_k, so z = Mᵀz_k + s with M = C_k⁻¹C
        and s = Cᵀ(μ_k − μ). π_k[w²] = |M|²|A|^(−1/2) exp(2|A^(−1/2)Ms|² − |s|²), A = 2MMᵀ − 1.
        """
        self._seen_from = at.theta
        if not self._sources:
            return
        centres, roots, thetas = self._stacks
        ratio = roots @ at.root
        shift = (centres - at.mean) @ at.root
        seen = (ratio @ shift[..., None])[..., 0]
        log_det = np.log(np.diagonal(ratio, axis1=1, axis2=2)).sum(axis=1)
        squared = (shift**2).sum(axis=1)
        spread = 2.0 * ratio @ ratio.transpose(0, 2, 1) - np.eye(len(at.mean))
        excess = _log_excess(spread, seen)
        share = np.exp(-np.maximum(2.0 * log_det + excess - squared, 0.0))
        views = np.concatenate([ratio.transpose(0, 2, 1), seen[:, None]], axis=1)
        constant = log_det - 0.5 * squared
        same = (thetas == at.theta).all(axis=1)
        if same.any():  # without rounding
            share[same], constant[same] = 1.0, 0.0
            views[same] = np.eye(len(at.mean) + 1, len(at.mean))
        self._views = _Views(share, views, constant)

    @property
    def _shares(self) -> list[float]:
        return self._views.share.tolist()

    def _draw(self, whitening: NormalWhitening, blocks: int, batch: int) -> _Source:
        """Draw blocks, and search their nearest evaluations among all."""
        source = _Source(whitening, [self._slot() for _ in range(blocks)])
        z, nearest, closeness = self._search(whitening, blocks, batch)
        slots, shape = source.slots, (blocks, self.block // 2)
        self._draws[slots, :-1] = z.reshape(*shape, -1).transpose(0, 2, 1)
        self._draws[slots, -1] = 1.0
        self._squares[slots] = np.einsum("ij,ij->i", z, z).reshape(shape)
        self._nearest[slots] = nearest.reshape(2, *shape).transpose(1, 0, 2)
        self._closeness[slots] = closeness.reshape(2, *shape).transpose(1, 0, 2)
        self._mean[slots], self._root[slots] = whitening.mean, whitening.root
        return source

    def _search(
        self, whitening: NormalWhitening, blocks: int, *stream: int
    ) -> tuple[Float32Array, IntArray, Float32Array]:
        """Draw blocks, and return one half of them, and the nearest evaluations of both."""
        # The first evaluation differs from search to search, and so do the draws.
        words = np.frombuffer(self._x[0].tobytes(), np.uint32).tolist()
        rng = np.random.default_rng([*words, *stream])
        z = rng.standard_normal((blocks * self.block // 2, self._x.shape[1]), np.float32)
        points = np.empty((self._x.shape[1] + 1, len(self._x)), np.float32)
        centred = np.empty(self._x.shape, np.float32)
        np.subtract(self._x, whitening.mean, out=centred, casting="same_kind")
        np.matmul(whitening.root.T.astype(np.float32), centred.T, out=points[:-1])
        points[-1] = -0.5 * np.einsum("ij,ij->j", points[:-1], points[:-1])
        return z, *search_pairs(points, z)

    def _slot(self) -> int:
        """Return a free slot; if there is none, make room."""
        if not self._free:
            first, more = len(self._draws), _SPARE
            for name in _NAMES:
                old = getattr(self, name)
                room = np.zeros((more, *old.shape[1:]), old.dtype)
                setattr(self, name, np.concatenate([old, room]))
            self._free = list(range(first + more - 1, first - 1, -1))
        return self._free.pop()

    def _compact(self) -> None:
        """Give up free slots, which cost as much as others."""
        used = [slot for source in self._sources for slot in source.slots]
        for name in _NAMES:
            setattr(self, name, getattr(self, name)[used])
        places = iter(range(len(used)))
        for source in self._sources:
            source.slots = [next(places) for _ in source.slots]
        self._free = []

    def counts(self, at: NormalWhitening) -> FloatArray:
        """Add up what the draws nearest to each evaluation are worth: (n,)."""
        if not np.array_equal(self._seen_from, at.theta):
            self._look_from(at)
        shares = list(zip(self._sources, self._shares, strict=True))
        slots = [slot for source, share in shares if share >= WORTH for slot in source.slots]
        values, n = self._weights()[slots], len(self._x)
        found = np.bincount(self._nearest[slots].ravel(), values.ravel(), n)
        worth = sum(share * len(source.slots) for source, share in shares if share >= WORTH)
        worth *= self.block
        missing = int(np.ceil((self.worth - worth) / self.block - _ROUNDING))
        if missing > 0:  # never at the last proposal
            nearest = self._search(at, missing, self.batches, _ELSEWHERE)[1]
            found = found + np.bincount(nearest.ravel(), minlength=n)
        return np.asarray(found, np.float64)

    def _weights(self) -> FloatArray:
        """Compute share·w of the draws of all slots: (slots, 2, block/2)."""
        counts = [len(source.slots) for source in self._sources]
        slots = [slot for source in self._sources for slot in source.slots]
        with np.errstate(divide="ignore"):
            constant = np.log(self._views.share) + self._views.log_ratio
        constant[self._views.share < WORTH] = -np.inf
        rows, dim = len(self._draws), self._x.shape[1]
        views = np.zeros((rows, dim + 1, dim), np.float32)
        views[slots] = np.repeat(self._views.view.astype(np.float32), counts, axis=0)
        scale = np.full((rows, 1, 1), -np.inf, np.float32)
        scale[slots, 0, 0] = np.repeat(constant, counts)
        log_weights = np.empty(self._closeness.shape, np.float32)
        for part in self._parts(dim):
            z = views[part] @ self._draws[part, :-1]
            tilt = z[:, -1].copy()
            half = 0.5 * (self._squares[part] - np.square(z, out=z)[:, :-1].sum(axis=1))
            np.subtract(half, tilt, out=log_weights[part, 0])
            np.add(half, tilt, out=log_weights[part, 1])
        log_weights += scale
        return np.exp(log_weights, out=log_weights)


def _log_excess(spread: FloatArray, seen: FloatArray) -> FloatArray:
    """Compute 2|A^(−1/2)Ms|² − ½log|A| of each A and Ms; infinite if A is not positive definite."""
    count, dim = seen.shape
    # The last row of the Cholesky factor of A with a further row Ms is A^(−1/2)Ms.
    bordered = np.empty((count, dim + 1, dim + 1))
    bordered[:, :-1, :-1], bordered[:, -1, :-1], bordered[:, -1, -1] = spread, seen, _LARGE
    try:
        root = np.linalg.cholesky(bordered)
    except np.linalg.LinAlgError:
        if count == 1:
            return np.array([np.inf])
        halves = zip(np.array_split(spread, 2), np.array_split(seen, 2), strict=True)
        return np.concatenate([_log_excess(*half) for half in halves])
    far, diagonal = root[:, -1, :-1], np.diagonal(root, axis1=1, axis2=2)[:, :-1]
    return 2.0 * (far**2).sum(axis=1) - np.log(diagonal).sum(axis=1)
