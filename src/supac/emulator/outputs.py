"""An emulator of the simulator's outputs, pushed through the exact loss."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from supac.codec import register
from supac.emulator.components import OutputTrainingSet
from supac.emulator.gated import GatedModel, emulator_plan, fit_gated
from supac.emulator.many import ManyTrainingSet
from supac.emulator.tuning import DEFAULT, EmulatorTuning
from supac.emulator.units import leading, principal_components
from supac.families import Distribution
from supac.problem import Evaluations, Problem
from supac.problem.losses import SquareLoss
from supac.problem.observation import observation_count
from supac.surrogate.estimator import BatchPlan, Context, Estimator
from supac.surrogate.regime import Regime


@register(later=("tuning",))
@dataclass(frozen=True)
class OutputEmulator(Estimator):
    """Emulate the principal components of the outputs with one shared process.

    The expected loss, the emulator's own uncertainty included, is averaged over `draws` draws.
    Above `limit` evaluations only those nearest to the current posterior are used. The first batch
    and the others are drawn wider than the posterior by the factors of `widening`: outputs vary
    smoothly beyond its edges, and where they do not one had better know. The share `probes` of a
    batch looks into the tails, once steps stay inside the trust region.
    """

    components: int = 40
    draws: int = 1200
    limit: int = 400
    widening: tuple[float, float] = (1.3, 1.15)
    probes: float = 0.35
    tuning: EmulatorTuning | None = field(default=None, repr=False)
    """Numbers of all rules; None for the defaults."""

    def plan(self, problem: Problem, n: int) -> BatchPlan:
        """Return small batches, the first of about one point a parameter.

        It is wide, unless there are too many parameters for so few runs to cover the prior, they
        span all directions, and the loss has a slope wherever the start is. Of a field the leading
        components count.
        """
        tuning, observed = self.tuning or DEFAULT, observation_count(problem.loss)
        sizes, simulated = tuning.batches, problem.start.dim - observed
        opening, components = 0.0, _components_of_field(problem, simulated, tuning)
        few = sizes.opening_from <= simulated <= sizes.opening_up_to
        first = simulated
        if components is not None:
            first = components + 1
        first = min(max(first, sizes.fewest), sizes.most)
        if components is None and sizes.opening and few and isinstance(problem.loss, SquareLoss):
            first, opening = simulated + 1, sizes.opening
        small = simulated <= sizes.small_up_to
        plan = emulator_plan(
            problem, first, n, self.widening, self.probes, sizes, opening=opening, small=small
        )
        return replace(plan, observed=observed)

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> GatedModel:
        """Fit the emulator and its gate."""
        context, tuning = context or Context(), self.tuning or DEFAULT
        if evaluations.outputs is None or context.loss is None:
            raise ValueError(
                "OutputEmulator needs the simulator's outputs, and they must explain the risk: "
                "pass risk=Composite(simulate, loss) without a proxy, or use GaussianProcess()"
            )
        kind = ManyTrainingSet if Regime.of(current.dim).is_many else OutputTrainingSet
        build = partial(kind.build, self.components, self.draws, context.loss, tuning)
        return fit_gated(build, evaluations, current, context, self.limit, tuning)


def _components_of_field(problem: Problem, simulated: int, tuning: EmulatorTuning) -> int | None:
    """Return the number of leading components if the simulated parameters are those of a field."""
    family, scales = problem.start.family, problem.variation
    covariance = scales.family.moments(scales.theta)[1][:simulated, :simulated]
    coupled = family.coupled[:simulated, :simulated]
    found = principal_components(covariance, coupled, tuning.units)
    if found is None or Regime.of(simulated).is_many:
        return None
    return leading(found[0], tuning.units)
