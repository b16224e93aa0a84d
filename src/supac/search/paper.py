"""SuPAC-CE, the paper's Algorithm 2, on one page: for reading, and to test `SuPAC.paper()` against.

supac.minimize(risk, prior, supac.Catoni(temperature), budget=1000, algorithm=SuPACCE())
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from supac.arrays import FloatArray
from supac.families import Distribution, as_distribution
from supac.problem import Batch, Problem
from supac.problem.bounds import fixed_temperature
from supac.search.algorithm import DRAW, PROJECT, Algorithm, Info, State, initial_state, one_thread
from supac.search.trust import FixedStep
from supac.surrogate.least_squares import project
from supac.surrogate.voronoi import NearestNeighbours, Voronoi


@dataclass(frozen=True)
class SuPACCE(Algorithm):
    """Minimise Catoni's bound (eq. 4) over the exponential family of the prior."""

    first: int = 160
    batch: int = 32
    alpha_max: float = 0.5
    kl_max: float = 1.0
    draws: int = 40_000
    """Number of Monte Carlo draws behind the weights."""

    def init(self, problem: Problem, seed: int) -> State:
        """Line 1: θ ← θ_0, without evaluations."""
        prior, family = problem.prior, problem.start.family
        known = as_distribution(prior)
        if known is None or known.family != family:
            raise TypeError("SuPACCE needs a prior of the posterior's family; use SuPAC.paper()")
        if fixed_temperature(problem.bound) is None:
            raise TypeError("SuPACCE minimises Catoni's bound alone; use SuPAC.paper()")
        return initial_state(problem, seed)

    def ask(self, problem: Problem, state: State) -> Batch:
        """Line 3: draw i.i.d. x_{n+1}, …, x_{n+k} ~ π_θ."""
        return state.drawn(self.batch if state.iteration else self.first, DRAW)

    def tell(
        self,
        problem: Problem,
        state: State,
        batch: Batch,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> tuple[State, Info]:
        """Lines 4 to 9: from the risks of a batch to the next θ."""
        # Line 4: Ev ← Ev ∪ {(x_i, R(x_i))}.
        evaluations = state.told(batch, risk, outputs)
        runs, posterior = evaluations.usable(problem.failure_risk), state.posterior
        temperature = fixed_temperature(problem.bound)
        assert temperature is not None
        assert isinstance(problem.prior, Distribution)
        with one_thread():
            # Line 5: ω_i ← π_θ[cell of x_i], by nearest neighbours of draws (section 4.2.1).
            cells = NearestNeighbours(runs.x, runs.risk, Voronoi(draws=self.draws))
            weights = cells.weights(posterior, state.rng(PROJECT))
            # Line 6: η*, C = argmin Σ ω_i (η·T(x_i) + C − R(x_i))²; the paper forgets the η.
            surrogate = project(runs.x, runs.risk, weights, posterior)
            # Line 7: θ̃ = θ_p − η*/λ (Theorem 2) and δθ = θ̃ − θ; the paper has θ_0 for θ_p.
            target = problem.prior.theta - surrogate.eta / temperature
            # Lines 8 and 9: θ ← θ + α̃δθ, α̃ = sup{α ≤ α_max : KL(θ + αδθ, θ) ≤ kl_max}
            # (section 4.2.2).
            step = FixedStep(self.alpha_max, self.kl_max).move(posterior, target, posterior)
        kl = posterior.kl(problem.prior)
        objective = problem.bound(surrogate.mean, kl)
        step_kl = step.posterior.kl(posterior)
        info = Info(surrogate.mean, kl, objective, alpha=step.alpha, step_kl=step_kl)
        return replace(state, posterior=step.posterior, evaluations=evaluations), info
