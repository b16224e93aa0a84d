"""Numbers of the emulators' rules: each once, with its purpose and the switch of its rule.

They are measured on problems from elsewhere: `make bench-ablation` for whole rules,
`make bench-outside` for the judgement problems, `make bench-dimension` for many parameters. A class
names the command that shows its numbers best. Guards against overflow and sizes of buffers
are no rules; they stay beside the code that they guard.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from supac.codec import register
from supac.surrogate.estimator import DEAREST, NOISY


@register(dropped=("look",))
@dataclass(frozen=True)
class BatchTuning:
    """Sizes of batches, in runs: `make bench-ablation`."""

    fewest: int = 10
    """Least size of a first batch of outputs."""
    most: int = 20
    """Largest size of a first batch of outputs; between these it is one run a parameter."""
    of_risk: int = 20
    """Size of a first batch if only the risk is known."""
    opening: float = 0.3
    """Width of a narrow first batch, in standard deviations of the start; 0 switches it off."""
    opening_from: int = 10
    """Least number of simulated parameters of a narrow first batch."""
    opening_up_to: int = 20
    """Largest number of these."""
    moving: int = 2
    """Runs of a batch while the posterior moves."""
    settled: int = 4
    """Runs of a batch once it has settled."""
    small_up_to: int = 20
    """Number of simulated parameters up to which batches are as small as these two."""
    moving_of_others: int = 3
    """Runs of a batch of more parameters, or of the risk alone, while the posterior moves."""
    settled_of_others: int = 5
    """Runs of such a batch once it has settled."""
    of_several_centres: int = 10
    """Runs of a batch of a mixture, which needs some around each of its centres."""
    share: int = 20
    """A later batch has at least one run for as many that were made."""
    inner: int = 25
    """Updates of the posterior on one model at most."""


@register(dropped=("far", "ignored"))
@dataclass(frozen=True)
class ScreeningTuning:
    """Labels of runs as outliers: `make bench-ablation`."""

    surprise: float | None = 9.0
    """Squared standardised residual from which a run may be an outlier, and its noise is larger;
    None switches residuals off."""
    deviations: float = 5.0
    """Robust standard deviations of the errors by which its risk exceeds the prediction."""
    nats: float = 20.0
    """Nats by which it does at least."""
    slack: float = 0.5
    """Share of the risk above the usual one by which it must exceed the prediction besides."""
    recent: int = 40
    """Runs whose median risk is the usual one."""
    recent_errors: int = 60
    """Runs whose errors are the usual ones."""
    most: float = 0.6
    """Share of the runs that may be outliers."""
    passes: int = 2
    """Times that the runs are labelled, each after a fit: at least one."""
    early: bool = True
    """Label new runs by the predictions of the last model before they are fitted."""
    most_inflated: float = 1e6
    """Largest factor on the noise variance of a run."""
    two_classes: bool = True
    """Separate the risks in two classes (Otsu, 1979) where the emulator is useless."""
    spread: tuple[float, float] = (0.1, 0.9)
    """Quantiles of the risks; an emulator whose errors exceed their distance is useless."""
    class_explains: float = 0.6
    """Share of the variance of the risks that the classes must explain."""
    class_runs: int = 8
    """Least number of runs of the lower class."""
    class_share: float = 0.25
    """Least share of the runs in the lower class."""


@register
@dataclass(frozen=True)
class ScheduleTuning:
    """When hyperparameters are fitted, and by how many steps of L-BFGS: `make bench`."""

    first: int = 40
    """Steps of a fit from the defaults."""
    first_of_several: int = 60
    """Steps of such a fit where emulators are averaged."""
    usual: int = 10
    """Steps of a fit that goes on from the last one."""
    few: int = 4
    """Steps of such a fit once the hyperparameters are well known, or after labels changed."""
    well_known: int = 250
    """Runs from which they are well known."""
    news: float = 1.08
    """Growth of the number of runs that is worth another fit."""
    anew: float = 2.0
    """Growth of the number of runs after which the defaults are tried again."""
    confirmed: bool = True
    """Fit as soon as the runs confirm or refute a linear model of many parameters."""


@register
@dataclass(frozen=True)
class AverageTuning:
    """Emulators with different hyperparameters, averaged: `make bench-ablation`."""

    powers: tuple[float, ...] = (0.3, 0.1)
    """Powers of the evidence, one for each further emulator; () switches it off."""
    runs: int = 120
    """Number of runs up to which emulators are averaged."""
    parameters: int = 20
    """Number of simulated parameters up to which they are."""


@register
@dataclass(frozen=True)
class GateTuning:
    """Cliffs, and what lies behind them: `make bench-ablation`."""

    width: float = 0.25
    """Width of a cliff, in standard deviations of the prior."""
    certainty: float = 0.9
    """Probability that a run behind a cliff fails."""
    leak: float = 0.005
    """Probability that a run fails before any."""
    nearest: float = -2.0
    """Nearest place of a cliff, in standard deviations of the prior from the posterior's mean."""
    farthest: float = 6.0
    """Farthest place of a cliff."""
    close: float = 0.5
    """Distance within which there is a cliff only if many of the last runs are outliers."""
    many_close: float = 0.2
    """Share of the last runs that is many."""
    axis: float = 0.05
    """Prior probability of a cliff along a parameter."""
    pair: float = 0.01
    """Prior probability of a cliff along a diagonal of two parameters."""
    suggested: float = 0.001
    """Prior probability of a cliff along a direction that outliers suggest."""
    cliffs_as_of: float = 10.0
    """Of many parameters, no more cliffs are expected than of so many."""
    most_pairs: int = 40
    """Number of pairs of parameters up to which their diagonals are considered."""
    most_failures: int = 120
    """Failures that count, the latest ones."""
    competing: float = -5.0
    """Logarithm of the odds from which a direction competes for the failures."""
    chains: int = 8
    """Chains of Gibbs' method."""
    burn: int = 3
    """Sweeps of each that do not count."""
    sweeps: int = 7
    """Sweeps of each that count."""
    charges: bool = True
    """Charge the posterior for runs that will fail; False leaves outliers out, and no more."""
    largest_twice: bool = True
    """Count the largest excess risk of an outlier twice in their mean: the next may be larger."""
    dearest: float = DEAREST
    """Nats that a bad run costs at most, if the ceiling of the risk is less."""


@register
@dataclass(frozen=True)
class ProbeTuning:
    """Points in the tails, and those that tell most: `make bench-ablation`."""

    candidates: int = 400
    """Points among which probes are chosen."""
    width: float = 1.6
    """Their standard deviations, in those of the posterior."""
    chooses: bool = True
    """Choose the points that tell most."""
    useless: float = 0.2
    """Share of outliers above which the emulator chooses no points: 1 switches this rule off."""


@register
@dataclass(frozen=True)
class ViewTuning:
    """Outputs as the loss sees them: `make bench-ablation`."""

    best: float = 1 / 3
    """Share of the runs that say which size of an output is usual."""
    fewest: int = 4
    """Least number of these."""
    flat: float = 3.0
    """Widths of a loss that flattens, up to which residuals are emulated as they are."""
    usual: float = 10.0
    """Usual sizes of an output from which others are compressed."""
    bearable: float = 10.0
    """Times that size which needs no compression."""
    closer: tuple[float, ...] = (1.0, 0.3)
    """Shares of that size from which the evidence may prefer more compression; () for none."""
    clearly: float = 0.4
    """Nats a number by which the evidence must prefer it."""
    outputs: int = 100
    """Number of outputs that tell the evidence."""
    references: int = 2
    """Runs at which the loss is differentiated."""
    slope: float = 0.1
    """Weight of a first difference: kinks and flat parts of a loss have no second one."""
    least: float = 0.3
    """Least effect of an output on the loss, in those of the usual one."""
    long: int = 300
    """Outputs above which those of a likelihood are never compressed: `make bench-series`."""


@register
@dataclass(frozen=True)
class Expected:
    """Hyperparameters that are expected of one kind of numbers: `make bench-outside`."""

    deviations: tuple[float, float, float, float]
    """Standard deviations of the squared-exponential, linear and quadratic part, and of noise."""
    noise_limits: tuple[float, float]
    """Least and largest standard deviation of the noise."""
    noise_floor: float
    """Standard deviation of noise that is always there."""
    oblique: float
    """Number of pairs of parameters that are expected to matter together."""


@register
@dataclass(frozen=True)
class HyperpriorTuning:
    """Priors of the hyperparameters: `make bench-outside`, of lengths also `make bench-dimension`.

    Numbers are in units of the standardised inputs and outputs, or of logarithms of them.
    """

    outputs: Expected = Expected((1.0, 1.0, 0.22, 0.05), (1e-3, 0.1), 3e-3, 8.0)
    """Hyperparameters of outputs."""
    risk: Expected = Expected((1.0, 0.6, 0.37, 0.08), (1e-4, 2.0), 1e-3, 3.0)
    """Hyperparameters of the risk alone."""
    log_length: float = 0.7
    """Logarithm of the length of one input; with more of them it grows as their root."""
    log_spread: float = 1.0
    """Standard deviation of the logarithms of lengths and parts."""
    log_noise_spread: float = 1.5
    """Standard deviation of that of the noise."""
    most_oblique: float = 0.3
    """Largest scale of the off-diagonals of the metric."""
    powers: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 2.0)
    """Powers of the variances of a field's components by which its lengths may grow."""
    unequal: float = 0.05
    """Scale by which the logarithms of most lengths of many inputs differ."""
    clearly_less: float = 0.5
    """Share of the squared error below which these are fitted before there are enough runs."""


@register
@dataclass(frozen=True)
class WarpTuning:
    """Logarithms of large risks, if only the risk is known: `make bench-studies`."""

    deviations: float | None = 8.0
    """Robust standard deviations above the usual risk where they begin; None for nowhere."""
    recent: int = 32
    """Runs whose risks are the usual ones."""


@register
@dataclass(frozen=True)
class TrendTuning:
    """Sparse polynomials of many parameters: `make bench-dimension`."""

    outputs: int = 200
    """Number of outputs up to which each is emulated by itself; 0 switches polynomials off."""
    inputs: int = 20
    """Inputs of an output at most."""
    strongest: int = 8
    """Inputs whose products are candidates."""
    products: int = 16
    """Products of an output at most."""
    runs_a_term: int = 4
    """Least number of runs for each term of an output."""
    updates: int = 10
    """Updates of the variances of the coefficients."""
    shrink: float = 2.0
    """Number that these are divided by: their prior is 1/√variance."""
    usual: float | None = 3.0
    """Squared standard deviations a parameter beyond which a run says little; None: all count."""
    least_weight: float = 0.05
    """Least weight of a run that is predicted by the polynomial."""
    fewest: int = 16
    """Least number of these."""
    folds: int = 4
    """Parts of the runs, each of which is predicted from the others."""
    together: int = 3
    """Runs of a batch in one part."""
    better: float = 0.9
    """Errors in those of the process alone with which the polynomial wins."""
    hopeless: float = 2.0
    """Errors with which it gives up."""
    negligible: float = 1e-6
    """Share of an output's variance below which a product is left out."""


@register
@dataclass(frozen=True)
class UnitsTuning:
    """Inputs of an emulator: components of a field, scales: `make bench-outside`."""

    one_by_one: int = 10
    """Number of parameters up to which each is an input, however they correlate."""
    concentrated: float = 1.0 / 3.0
    """Effective number of components of a field over its parameters, at most; 0: none is one."""
    most_of_it: float = 0.95
    """Share of the variance of the prior that leading components hold."""
    user_scale: bool = True
    """See parameters on the user's scale where the runs are likelier on it."""
    clearly: float = 0.02
    """Nats a number by which they must be for a parameter that differs from the others."""
    runs: int = 100
    """Latest runs that tell."""


@register
@dataclass(frozen=True)
class DrawTuning:
    """Draws over which a loss is averaged: `make bench-projection`."""

    all_up_to: int = 20
    """Number of parameters up to which there are all draws; of more, half do."""
    a_parameter: int = 2
    """Least number of draws for each parameter of more."""
    of_risk: int = 600
    """Draws over which an emulated risk is averaged that has no closed form."""
    a_statistic: int = 10
    """Least number for each statistic, if the loss has no slopes."""
    directions: int = 25
    """Directions along which such a loss of many parameters is averaged."""
    a_direction: int = 120
    """Draws for each of these."""
    exact: int = 300
    """Draws for a likelihood whose expectation over the emulator is exact: `make bench-series`."""
    noisy: float = NOISY
    """Noise of the simulator, in standard deviations of its outputs, from which it counts."""


@register
@dataclass(frozen=True)
class CorrectionTuning:
    """Fine outputs as coarse ones and a difference: `make bench-levels`."""

    better: float = 1.0
    """Share of the error of left-out fine runs below which coarse ones are used; 0: never."""
    scale: float = 0.2
    """Standard deviation of the factor on the coarse outputs around 1; 0: it is 1."""


@register(later=("correction",))
@dataclass(frozen=True)
class EmulatorTuning:
    """Numbers of all rules of the emulators."""

    batches: BatchTuning = field(default_factory=BatchTuning)
    screening: ScreeningTuning = field(default_factory=ScreeningTuning)
    schedule: ScheduleTuning = field(default_factory=ScheduleTuning)
    average: AverageTuning = field(default_factory=AverageTuning)
    gate: GateTuning = field(default_factory=GateTuning)
    probes: ProbeTuning = field(default_factory=ProbeTuning)
    view: ViewTuning = field(default_factory=ViewTuning)
    hyperprior: HyperpriorTuning = field(default_factory=HyperpriorTuning)
    warp: WarpTuning = field(default_factory=WarpTuning)
    trend: TrendTuning = field(default_factory=TrendTuning)
    units: UnitsTuning = field(default_factory=UnitsTuning)
    draws: DrawTuning = field(default_factory=DrawTuning)
    correction: CorrectionTuning = field(default_factory=CorrectionTuning)


DEFAULT = EmulatorTuning()
"""Numbers of a search that was given no others."""
