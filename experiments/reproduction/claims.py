"""What the paper claims, what we saw, and whether the one bears out the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import f as fisher

from meta import SGD, TEMPERATURES
from records import Results
from settings import (
    BUDGET,
    COMPOSITE,
    DESCENTS,
    EXTREMES,
    GRID,
    MOMENTA,
    PRELIMINARY,
    SCALAR,
    SELECTED,
    STANDARD,
    ce,
    descent,
)  # fmt: skip
from supac.arrays import FloatArray

NOISE = 0.004
"""How far two means of the objective may be apart: the ± that the paper gives its own."""
SIMULATOR_SECONDS = 3.0
"""Of one query in the paper."""


@dataclass(frozen=True)
class Claim:
    """One statement of the paper."""

    says: str
    test: str
    """What must be seen for it to hold."""
    seen: str
    held: bool


def claims(results: Results) -> Iterator[Claim]:
    """All whose runs are there."""
    yield from _performance(results)
    yield from _against_descent(results)
    yield from _hyperparameters(results)
    yield from _nesterov(results)
    yield from _overhead(results)
    for temperature in TEMPERATURES:
        yield from _meta(results, temperature)


def ours(results: Results) -> Iterator[Claim]:
    """What we claim for our own algorithm."""
    standard = results.end(ce(*STANDARD))
    if not len(standard):
        return
    for name in (COMPOSITE, SCALAR):
        end = results.end(name)
        if len(end):
            budget = results.settings[name].budget
            yield Claim(
                f"{name} is at least as good after {budget} queries as SuPAC-CE after "
                f"{results.settings[ce(*STANDARD)].budget}",
                "its mean final objective is not larger than SuPAC-CE's",
                f"{_spread(end)} against {_spread(standard)}",
                bool(end.mean() <= standard.mean()),
            )


def _performance(results: Results) -> Iterator[Claim]:
    name = ce(*STANDARD)
    for says, column, value, within in (
        ("SuPAC-CE reduces the objective to 0.121 ± 0.004", "objective", 0.121, 0.004),
        ("with a mean risk of 0.102 ± 0.003", "mean_risk", 0.102, 0.003),
    ):
        end = results.end(name, column)
        if len(end) and results.on_paper_data and results.settings[name].budget == BUDGET:
            yield Claim(
                says,
                f"the mean over repeats is at most {value + within:g}",
                _spread(end),
                bool(end.mean() <= value + within),
            )


def _against_descent(results: Results) -> Iterator[Claim]:
    standard = ce(*STANDARD)
    long = [descent(*each) for each in SELECTED if len(results.end(descent(*each)))]
    if not long or results.settings[standard].budget != BUDGET:
        return
    ends = {name: results.end(name) for name in long}
    best = min(ends, key=lambda name: float(np.median(ends[name])))
    early = results.at(standard, 1800)
    yield Claim(
        "better on average after 1800 queries than the best of gradient descent after 9600",
        "the mean after 1792 queries is below the best median of gradient descent",
        f"{_spread(early)} against {np.median(ends[best]):.4f} ({best}); the luckiest of its "
        f"repeats {min(end.min() for end in ends.values()):.4f}",
        bool(early.mean() < np.median(ends[best])),
    )
    spread, other = _width(results.end(standard)), _width(ends[best])
    yield Claim(
        "much higher stability between repeats than gradient descent",
        "the range from quantile 0.2 to 0.8 at the end is at most half as wide",
        f"{spread:.4f} against {other:.4f} ({best}); standard deviations "
        f"{results.end(standard).std(ddof=1):.4f} against {ends[best].std(ddof=1):.4f}",
        bool(spread <= 0.5 * other),
    )
    one_step = np.median(results.at(standard, 160))
    chosen = ends[descent(*SELECTED[1])]
    worse = int((chosen > one_step).sum())
    yield Claim(
        "4 of 20 gradient descents end worse than a single step of SuPAC-CE",
        "at least one does",
        f"{worse} of {len(chosen)} above {one_step:.3f}",
        worse > 0,
    )
    yield from _preliminary(results)


def _preliminary(results: Results) -> Iterator[Claim]:
    at = {each: results.at(descent(*each), PRELIMINARY) for each in DESCENTS}
    widths = {each: _width(values) for each, values in at.items()}
    calm = max(widths[each] for each in SELECTED)
    erratic = [(80, 0.07), (160, 0.07), (80, 0.05)]
    yield Claim(
        "step size 0.07, and 0.05 with 80 queries a step, behave erratically between repeats",
        "after 1600 queries each has a wider range of quantiles than both that were selected",
        ", ".join(f"{size:g} with {batch}: {widths[batch, size]:.3f}" for batch, size in erratic)
        + f"; selected: {calm:.3f} at most",
        bool(min(widths[each] for each in erratic) > calm),
    )
    slow, fast = (float(np.median(at[160, size])) for size in (0.025, 0.05))
    yield Claim(
        "with 160 queries a step, size 0.025 is clearly slower than 0.05",
        "its median after 1600 queries is higher by more than the noise",
        f"{slow:.3f} against {fast:.3f}",
        slow > fast + NOISE,
    )


def _hyperparameters(results: Results) -> Iterator[Claim]:
    grid = [ce(*each) for each in GRID]
    if all(len(results.end(name)) for name in grid):
        repeats = min(len(results.end(name)) for name in grid)
        means = [float(results.end(name)[:repeats].mean()) for name in grid]
        yield Claim(
            "similar performance for alpha_max from 0.25 to 0.75 and kl_max from 0.5 to 2",
            f"the nine means at the end, {repeats} repeats each, differ by at most 2 × {NOISE:g}",
            f"from {min(means):.4f} to {max(means):.4f}",
            max(means) - min(means) <= 2.0 * NOISE,
        )
        at = [results.at(name, 288)[:repeats] for name in grid]
        medians = [float(np.median(each)) for each in at]
        noise = float(np.median([_width(each) for each in at]))
        yield Claim(
            "after the fourth step their differences in speed are below the noise",
            "after the fifth, medians differ by less than the range of quantiles of one setting",
            f"from {min(medians):.3f} to {max(medians):.3f}, range {noise:.3f}",
            max(medians) - min(medians) <= noise,
        )
    yield from _extremes(results)


def _extremes(results: Results) -> Iterator[Claim]:
    standard = results.end(ce(*STANDARD))
    if not all(len(results.end(ce(*each))) for each in EXTREMES):
        return
    wild = results.end(ce(10.0, 1.0))
    p = _larger_variance(wild, standard)
    yield Claim(
        "instability for kl_max above 5: with 10, 0.147 ± 0.022, standard deviation 0.061 against "
        "0.0032",
        "the variance at the end is larger, F test at 1 %",
        f"{_spread(wild)} against {_spread(standard)}, p = {p:.1g}",
        p < 0.01,
    )
    mild = results.end(ce(5.0, 0.9))
    yield Claim(
        "… and it starts to appear with kl_max = 5",
        "the same test",
        f"{_spread(mild)}, p = {_larger_variance(mild, standard):.1g}",
        _larger_variance(mild, standard) < 0.01,
    )
    slow, usual = (results.at(ce(*each), 608) for each in ((0.01, 0.1), STANDARD))
    yield Claim(
        "slower for kl_max below 0.1",
        "with 0.01, the median after 608 queries is higher by more than the noise",
        f"{np.median(slow):.3f} against {np.median(usual):.3f}",
        bool(np.median(slow) > np.median(usual) + NOISE),
    )
    slow, usual = (results.at(ce(*each), 2400) for each in ((0.01, 0.1), STANDARD))
    yield Claim(
        "… but as good after 2000",
        f"means after 2400 queries differ by at most {NOISE:g}",
        f"{_spread(slow)} against {_spread(usual)}",
        bool(abs(slow.mean() - usual.mean()) <= NOISE),
    )


def _nesterov(results: Results) -> Iterator[Claim]:
    standard = ce(*STANDARD)
    runs = {
        (batch, size, times, momentum): descent(batch, times * size, momentum)
        for batch, size in SELECTED
        for times in (1, 2)
        for momentum in MOMENTA
        if len(results.end(descent(batch, times * size, momentum)))
    }
    if len(runs) < 12:
        return
    gaps = {name: _closest(results, name, standard) for name in runs.values()}
    nearest = min(gaps, key=gaps.__getitem__)
    best = min(runs.values(), key=lambda name: float(np.median(results.end(name))))
    yield Claim(
        "no setting of Nesterov's acceleration is as efficient as SuPAC-CE",
        "from 480 queries on, each of the 12 medians is above SuPAC-CE's at as many queries",
        f"nearest: {nearest}, {gaps[nearest]:+.4f}; best end {np.median(results.end(best)):.4f} "
        f"({best}) against {np.median(results.end(standard)):.4f}",
        gaps[nearest] > 0.0,
    )
    start = _prior_objective(results)
    failed = {
        batch: int((results.end(runs[batch, size, 2, 0.5]) > start).sum())
        for batch, size in SELECTED
    }
    yield Claim(
        "with twice the step and momentum 0.5, 3 of 8 runs (160 a step) and 2 of 8 (80) end above "
        "where they began",
        "at least one of the 16 does",
        ", ".join(f"{count} ({batch} a step)" for batch, count in failed.items()),
        sum(failed.values()) > 0,
    )
    good = {
        name: int((results.end(name) < 0.2).sum())
        for (_, _, times, momentum), name in runs.items()
        if times == 2 and momentum > 0.5
    }
    yield Claim(
        "with twice the step and more momentum, fewer than 3 of 8 runs get below 0.2",
        "for all four settings",
        ", ".join(str(count) for count in good.values()) + " of 8",
        max(good.values()) < 3,
    )


def _closest(results: Results, name: str, standard: str) -> float:
    """The least by which a median is above that of SuPAC-CE at as many queries."""
    queries, objective = results.curve(name)
    medians = np.median(objective, axis=0)
    return min(
        float(median - np.median(results.at(standard, each)))
        for each, median in zip(queries, medians, strict=True)
        if each >= 480
    )


def _prior_objective(results: Results) -> float:
    """Where descents begin, but for the small step that they have made at the first look."""
    return float(np.median(results.at(descent(*SELECTED[0]), 160)))


def _overhead(results: Results) -> Iterator[Claim]:
    name, baseline = ce(*STANDARD), descent(*SELECTED[1])
    if not (len(results.end(name)) and len(results.end(baseline))):
        return
    extra = (_per_query(results, name) - _per_query(results, baseline)) / SIMULATOR_SECONDS
    yield Claim(
        "3.5 % more processing time than gradient descent, with a simulator of 3 s",
        "at most as much",
        f"{extra:.3%}",
        extra <= 0.035,
    )


def _per_query(results: Results, name: str) -> float:
    """Seconds of the algorithm itself."""
    return float(np.median(results.end(name, "algorithm_seconds") / results.end(name, "queries")))


def _meta(results: Results, temperature: float) -> Iterator[Claim]:
    lesson = results.lesson(SGD, temperature)
    if lesson is None or len(lesson["epoch"]) < 151:
        return
    begin, end = {0.1: (0.61, 0.24), 0.01: (0.14, 0.050)}[temperature]
    test = dict(zip(lesson["epoch"].astype(int), lesson["test_mean"], strict=True))
    error = lesson["test_error"][-1]
    train, fresh = float(lesson["train"][-1]), float(lesson["train_end"][-1])
    yield Claim(
        f"λ = {temperature:g}: from a bound of {begin:g} to {end:g} in 150 meta-steps",
        f"the training bound of the last epoch, by the tasks' models, is at most {end:g}",
        f"training {train:.4f} (by fresh draws {fresh:.4f}), test {test[0]:.3f} → "
        f"{test[150]:.4f} ± {error:.4f}",
        train <= end,
    )
    share = (test[0] - test[15]) / (test[0] - test[150])
    yield Claim(
        f"λ = {temperature:g}: the first 15 steps make more than 80 % of the decrease",
        "of the test bound's, in epochs",
        f"{share:.0%}",
        share > 0.8,
    )
    gap = test[150] / train - 1.0
    yield Claim(
        f"λ = {temperature:g}: the bound of new tasks follows that of the training tasks",
        "at the end they differ by at most a tenth, or two standard errors",
        f"{gap:+.1%}",
        abs(test[150] - train) <= max(0.1 * train, 2.0 * error),
    )


def _spread(values: FloatArray) -> str:
    """Mean and standard deviation between repeats."""
    return f"{values.mean():.4f} ± {values.std(ddof=1):.4f}"


def _width(values: FloatArray) -> float:
    low, high = np.quantile(values, [0.2, 0.8])
    return float(high - low)


def _larger_variance(values: FloatArray, reference: FloatArray) -> float:
    """The p-value of Fisher's test."""
    ratio = values.var(ddof=1) / reference.var(ddof=1)
    return float(fisher.sf(ratio, len(values) - 1, len(reference) - 1))
