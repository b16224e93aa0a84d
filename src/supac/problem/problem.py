"""The problem to solve: the prior, the bound, the start, and what is known of the risk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from supac.arrays import FloatArray
from supac.families import Density, Distribution
from supac.problem.bounds import Bound
from supac.problem.parameters import Parameters

Function = Callable[[FloatArray], FloatArray]
"""(n, dim) → (n,)."""
Loss = Callable[[FloatArray], FloatArray]
"""Outputs (n, m) → risks (n,)."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise bound(π[R], KL(π, prior)) over the family of `start`."""

    prior: Density
    bound: Bound
    start: Distribution
    proxy: Function | None = None
    """A cheap approximation of the risk, (n, dim) → (n,)."""
    failure_risk: float | None = None
    """What a failed run counts as; None leaves it out."""
    loss: Loss | None = None
    """From the simulator's outputs to risks, where `tell` is told the outputs."""
    scale: Distribution | None = None
    """The scales on which parameters vary, where they are not the prior's: that may change."""

    @classmethod
    def within(
        cls,
        prior: Distribution | Parameters,
        bound: Bound,
        *,
        loss: Loss | None = None,
        failure_risk: float | None = None,
    ) -> Problem:
        """The usual case: the posterior is sought in the prior's family, from the prior on.

        The points of `Parameters` are latent: `parameters.from_latent(x)` has the user's units.
        """
        latent = prior.prior if isinstance(prior, Parameters) else prior
        return cls(latent, bound, latent, failure_risk=failure_risk, loss=loss)
