"""Numbers of the search's rules: each once, with its purpose and the switch of its rule.

A search keeps its numbers in its state, and so in its store: a resumed one goes on with those that
it began with. `make bench-ablation` measures what a rule is worth, `make bench-outside` the
judgement problems, `make bench-dimension` many parameters; a class names the command that shows its
numbers best. Guards against rounding and overflow are no rules; they stay beside what they guard.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from supac.codec import register
from supac.emulator.tuning import EmulatorTuning


@register
@dataclass(frozen=True)
class MovingTuning:
    """When a posterior moves, so that batches are small: `make bench-ablation`."""

    gain: float = 3.0
    """Nats that a step gains while the posterior moves; infinite for batches of one size."""
    again: float = 12.0
    """Nats that a step must gain once it has settled, to count as moving again."""
    observed: float = 0.1
    """Nats in place of `gain` with observation parameters, whose noise makes up for doubt."""
    observed_runs: int = 3
    """Runs a simulated parameter up to which `observed` holds; 0 switches it off."""


@register
@dataclass(frozen=True)
class PlacementTuning:
    """Places of the next runs: `make bench-ablation`."""

    near_side: float = 1.0
    """Width of every second point beside a moving mean, in shares of `of_shift`."""
    far_side: float = 2.0
    """Width of the others."""
    of_shift: float = 0.5
    """Share of the mean's shift that points beside it are away."""
    narrowest: float = 0.5
    """Least width of these, in standard deviations of the posterior."""
    widest: float = 1.5
    """Largest width of these."""
    stretch: float = 1.5
    """Times its size that a batch may have, to end at a linear model; 1 switches it off."""
    pool: int = 300
    """Points among which those that tell most are chosen."""
    pool_width: float = 1.3
    """Width of the pool, in standard deviations of the posterior."""
    explained: float = 0.4
    """Share of the runs' variance that a model must predict to choose points; infinite: none."""
    chosen_from: int = 4
    """Least size of a batch of which a part tells most or probes."""
    inside: float = 0.97
    """Share of the radius within which a step is free, so that tails are probed; 0: never."""
    ahead_from: int = 2
    """Least size of a batch of which one run is ahead of the step."""
    ahead_gain: float = 3.0
    """Nats that a run ahead must promise; infinite for none."""
    ahead_beyond: float = 2.0
    """Standard deviations that it may be farther away than draws of the start are."""
    new_directions: bool = True
    """Turn draws of many parameters to directions that no run has taken."""


@register
@dataclass(frozen=True)
class TrustTuning:
    """Length of the next step, after the trial of the last: `make bench-ablation`.

    The radii are those of `TrustRegion`; doubling and halving is usual (Conn, Gould and Toint,
    Trust-Region Methods, 2000, section 6.1).
    """

    grow: float = 2.0
    """Factor on the radius after a step that gained enough; 1 for none."""
    shrink: float = 0.5
    """Factor after one that gained too little; 1 for none."""
    farther: float = 16.0
    """Times `most` that the radius may have after steps that gained what was promised; 1: none."""
    rise: float = 1.0
    """Standard errors by which the bound has risen if a step is taken back; infinite: none is."""
    lack: float = 2.0
    """Standard errors by which its runs exceed their predictions, too."""
    excluded: float = 0.3
    """Largest share of runs that are outliers without the step being to blame; 0: all count."""
    back: float = 0.75
    """Share of a step's runs that judge it while others are under way."""
    alpha_of_many: float = 0.8
    """Least share of the way to the minimiser that an update of many parameters goes."""
    start_of_many: float = 1.0 / 16.0
    """Least first radius of many parameters, in nats a parameter."""
    least_of_many: float = 1.0 / 32.0
    """Least radius of many parameters, in nats a parameter."""
    most_of_many: float = 0.5
    """Least largest radius of many parameters, in nats a parameter."""
    fresh: float = 0.2
    """Share of the budget that checks the last posterior."""
    fresh_of_few: float = 0.25
    """Share of a small budget, up to `fresh_usual` runs."""
    fresh_usual: int = 20
    """Fresh runs that a small budget has at most."""
    fresh_most: int = 60
    """Fresh runs at most; 0: none."""


@register
@dataclass(frozen=True)
class DescentTuning:
    """When the updates on one model end: `make bench-ablation`."""

    little: float = 0.02
    """Nats that the last `patience` updates must gain to be worth another."""
    patience: int = 3
    """Updates that are looked at together."""
    observed_updates: int = 25
    """Updates of observation parameters alone; 0 switches them off."""
    observed_leap: float = 2.0
    """Nats a parameter by which one of these may move them: a projection is local."""
    back_off: float = 0.5
    """Share of a step that is tried after one that gained nothing."""


@register
@dataclass(frozen=True)
class KnownTuning:
    """Steps on runs that were made elsewhere, before the first own one."""

    steps: int = 20
    """Steps on them at most."""
    still: float = 0.01
    """KL of a step that ends them."""
    surround: float = 2.0
    """Standard deviations of the posterior within which enough of them must lie."""


@register(dropped=("clearly",))
@dataclass(frozen=True)
class RestartTuning:
    """When a search begins again, and where: `make bench-outside`."""

    learnt: float = 3.0
    """Nats by which a posterior is better than the start, or another one; 0: no new beginning."""
    explained: float = 0.5
    """Least error of predicting a run, in standard deviations, of a risk not understood."""
    quiet: float = 0.5
    """Nats that a step gains if the search has settled."""
    patience: int = 20
    """Draws after a first batch that a beginning has which does not settle."""
    narrow: float = 0.3
    """Width of a beginning around a run, in standard deviations of the start."""
    failing: float = 0.5
    """Share of the latest draws that fail where a search begins at a run that did not; 1: none."""
    lately: int = 15
    """Number of these draws."""
    reach: float = 3.0
    """Standard deviations of a posterior within which it has explored."""
    near: float = 0.5
    """Standard deviations of the start within which it has."""


@register
@dataclass(frozen=True)
class ValleyTuning:
    """A second beginning on some of the data, if residuals are doubted: `make bench-valleys`."""

    wanted: bool = False
    """It is made. Not by default: what it costs where the model is wrong is not known."""
    doubted: float = 2.5
    """Standard errors above which neighbours among residuals are alike; infinite: none begins."""
    quiet: float = 3.0
    """Nats that the last two steps gain at most if the search has settled."""
    most: int = 2
    """Beginnings after the first at most."""
    horizons: tuple[float, ...] = (0.25, 0.5)
    """Shares of the data, the first of each series, before all of them."""
    rests: float = 1.0
    """Nats that a step on a part of the data gains where more are taken in."""
    patience: int = 12
    """Runs after which they are in any case."""


@register
@dataclass(frozen=True)
class StopTuning:
    """When a search ends before its budget: `python -m benchmarks.outside.studies stopping`."""

    rounds: int = 3
    """Rounds without change, after which it ends."""
    runs: int = 15
    """Runs of these at least."""
    unchanged: float = 0.005
    """Nats between their posteriors: far below the error of an objective; 0: it never ends so."""
    failures_lately: int = 10
    """Latest runs of which too many must have failed as well."""
    failures_from: int = 30
    """Runs before the share of failures is judged."""
    failures_in_any_case: int = 100
    """Runs from which it is judged while steps still promise much."""
    lent: float = 0.6
    """Share of the runs kept for validation that a search on its way makes first; 0: none."""
    kept: int = 4
    """Number of those that it leaves: fewer say nothing of a posterior."""
    on_its_way: float = 1.0
    """Nats between its last two posteriors above which a search is; infinite: none is."""


@register
@dataclass(frozen=True)
class EstimatorTuning:
    """Which estimator a search without one has: `make bench`."""

    many: int = 1_500
    """Draws from which regression on all of them is as good as an emulator; 0 for it alone."""
    a_statistic: int = 10
    """Draws a statistic that regression needs at least."""


@register(later=("dear",))
@dataclass(frozen=True)
class CoarseTuning:
    """Runs of a coarse model beside the fine one: `make bench-levels`."""

    pairs: int = 4
    """Points of the first batch that are run on both levels."""
    differs: float = 0.3
    """Share of the squared differences between runs, the median over pairs of them, that the
    coarse model may miss to be searched first; 0: it never is."""
    dear: float = 0.5
    """Fine runs a parameter that the least search of the coarse model may cost; infinite: any."""
    a_parameter: int = 5
    """Coarse runs a parameter that are made first."""
    least: int = 20
    """Least number of these."""
    most: int = 60
    """Largest number of these."""
    dearest: float = 3.0
    """Fine runs that all of them may cost, but for the least number."""
    ever: int = 100
    """Coarse runs of a search on the coarse model that has not settled."""
    failing: int = 8
    """Latest coarse runs of which more than half have failed, where that search ends."""
    first: int = 2
    """Fine runs of the first batch after it."""
    steps: int = 8
    """Steps on coarse runs alone between two batches of fine ones; 0: none."""
    step_cost: float = 0.2
    """Fine runs that the coarse ones of such a step cost."""
    width: float = 1.15
    """Width of their draws, in standard deviations of the posterior."""
    at_limit: float = 0.97
    """Share of the radius from which a step is followed by such ones."""
    gained: float = 0.3
    """Least ratio of gain to promise of the step before."""
    idle: int = 3
    """Rounds in which coarse runs were of no use, after which none is made."""


@register(later=("coarse", "valleys"))
@dataclass(frozen=True)
class Tuning:
    """Numbers of all rules of the search."""

    moving: MovingTuning = field(default_factory=MovingTuning)
    placement: PlacementTuning = field(default_factory=PlacementTuning)
    trust: TrustTuning = field(default_factory=TrustTuning)
    descent: DescentTuning = field(default_factory=DescentTuning)
    known: KnownTuning = field(default_factory=KnownTuning)
    restart: RestartTuning = field(default_factory=RestartTuning)
    valleys: ValleyTuning = field(default_factory=ValleyTuning)
    stop: StopTuning = field(default_factory=StopTuning)
    estimator: EstimatorTuning = field(default_factory=EstimatorTuning)
    coarse: CoarseTuning = field(default_factory=CoarseTuning)
    emulator: EmulatorTuning = field(default_factory=EmulatorTuning)
    """Numbers of the default estimators; one that is given has its own."""


DEFAULT = Tuning()
"""Numbers of a search that was given no others."""
