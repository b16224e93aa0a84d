"""Summary of many parameters: directions, fields, and the parameters that changed most.

A direction is a combination v·u of the latent parameters. Those with extreme ratios of posterior to
prior variance solve Σ_posterior v = w² Σ_prior v; they are independent under both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Parameters
from supac.problem.fields import Field
from supac.record.parameter_change import ParameterChange

FEW = 40
"""Number of parameters up to which each of them is shown."""
INFORMED = 0.8
"""Posterior over prior standard deviation below which a direction counts as informed."""


@dataclass(frozen=True, eq=False)
class Direction:
    """A combination of parameters."""

    width: float
    """Its posterior over its prior standard deviation."""
    shift: float
    """Shift of its mean in prior standard deviations."""
    loadings: FloatArray
    """Prior correlation of each parameter with it, (dim,)."""

    def largest(self, names: Sequence[str], count: int) -> list[tuple[str, float]]:
        """Return the names of the `count` parameters with the largest loadings, and these."""
        first = np.argsort(-np.abs(self.loadings), kind="stable")[:count]
        return [(names[i], float(self.loadings[i])) for i in first]


@dataclass(frozen=True, eq=False)
class Directions:
    """All directions, as (dim, dim) arrays; the best known first."""

    widths: FloatArray
    shifts: FloatArray
    loadings: FloatArray
    """Loadings of direction i in row i."""

    def __repr__(self) -> str:
        told = ", ".join(f"{each:.2g}" for each in self.widths[:4])
        return f"Directions(widths {told}{', …' if len(self) > 4 else ''})"

    def __len__(self) -> int:
        return len(self.widths)

    def __getitem__(self, i: int) -> Direction:
        return Direction(float(self.widths[i]), float(self.shifts[i]), self.loadings[i])

    @property
    def informed(self) -> int:
        """Number of directions that are known better than before by a fifth or more."""
        return int((self.widths < INFORMED).sum())

    @property
    def degrees(self) -> float:
        """Degrees of freedom that the data determine: Σ(1 − w²) over directions with w < 1."""
        return float(np.maximum(1.0 - self.widths**2, 0.0).sum())


def directions_of(prior: Distribution | None, posterior: Distribution | None) -> Directions | None:
    """Compare two distributions in all directions; None if a covariance is unknown or singular."""
    if prior is None or posterior is None:
        return None
    before, after = prior.covariance, posterior.covariance
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        return None
    try:
        squares, vectors = eigh(after, before)  # vᵀ·Σ_prior·v = 1
    except np.linalg.LinAlgError:
        return None
    loadings = vectors.T @ before / np.sqrt(np.diag(before))
    # Of the two signs of a direction, the one in which its largest loading is positive.
    places = np.arange(len(loadings)), np.abs(loadings).argmax(axis=1)
    signs = np.sign(loadings[places])
    shifts = signs * (vectors.T @ (posterior.mean - prior.mean))
    return Directions(np.sqrt(np.maximum(squares, 0.0)), shifts, signs[:, None] * loadings)


@dataclass(frozen=True, eq=False)
class FieldChange:
    """A field under the prior and under the posterior; arrays have its shape."""

    name: str
    field: Field
    rows: Sequence[ParameterChange]
    """One a point, in row-major order."""

    @property
    def unit(self) -> str:
        """Unit of its values."""
        return self.field.prior.unit

    @property
    def prior(self) -> FloatArray:
        """5 %, median and 95 % of the prior, (3, *shape)."""
        return self._of([row.prior for row in self.rows])

    @property
    def posterior(self) -> FloatArray:
        """5 %, median and 95 % of the posterior, (3, *shape)."""
        return self._of([row.posterior for row in self.rows])

    def _of(self, ends: Sequence[tuple[float, float, float]]) -> FloatArray:
        return np.array(ends).T.reshape(3, *self.field.shape)

    @property
    def widths(self) -> FloatArray:
        """Posterior over prior standard deviation."""
        return np.array([row.width for row in self.rows]).reshape(self.field.shape)


def field_changes(
    rows: Sequence[ParameterChange], parameters: Parameters | None
) -> list[FieldChange]:
    """Return the fields among the changes of all parameters."""
    if parameters is None or not rows:
        return []
    return [
        FieldChange(name, field, rows[parameters.columns(name)])
        for name, field in parameters.fields.items()
    ]


def most_learnt(rows: Sequence[ParameterChange], count: int) -> list[int]:
    """Return the indices of the parameters that changed most, by KL, or else by width."""
    by_kl = not any(math.isnan(row.kl) for row in rows)
    order = sorted(range(len(rows)), key=lambda i: -rows[i].kl if by_kl else rows[i].width)
    return order[:count]


def not_in_fields(count: int, parameters: Parameters | None) -> list[int]:
    """Return the indices of the parameters that are no points of fields."""
    fields = [] if parameters is None else [parameters.columns(name) for name in parameters.fields]
    inside = {i for each in fields for i in range(each.start, each.stop)}
    return [i for i in range(count) if i not in inside]


def shown(rows: Sequence[ParameterChange], parameters: Parameters | None, count: int) -> list[int]:
    """Return the indices of parameters to show: those outside fields, then the most learnt.

    All if there are few; else at most `count`, the most learnt first.
    """
    if len(rows) <= FEW:
        return list(range(len(rows)))
    alone = set(not_in_fields(len(rows), parameters))
    order = most_learnt(rows, len(rows))
    if not alone or len(alone) == len(rows):
        return order[:count]
    return sorted(order, key=lambda i: i not in alone)[:count]
