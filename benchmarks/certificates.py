"""Do certificates hold as often as they say, what breaks them, and how tight are they?

Data sets from laws whose true risk is known, posteriors found on them, and every kind of
certificate by every bound, compared with the truth. Then the same with one condition broken on
purpose; what a certificate costs above the bound itself; how often prediction bands cover new
measurements; and two problems that come with supac.

    make bench-certificates                   # 500 data sets a setting: half an hour of CPU
    make bench-certificates ARGS=100          # data sets; the table is printed, not kept
    python benchmarks/certificates.py 500 ADM1 "The problem"   # only these sections anew

Outcomes are kept in benchmarks/tmp-certificates/ as they are made: the same command goes on after
an interruption. Remove the folder where the code has changed.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy import stats

import supac
from certificate_bands import HEAD as BANDS_HEAD
from certificate_bands import NEW, bands_rows
from certificate_doors import DOORS
from certificate_laws import (
    BOUNDS,
    COIN_TEMPERATURES,
    DELTA,
    DRAWS,
    SETS,
    SETTINGS,
    Gibbs,
    Regression,
    Series,
    Values,
    capped_square,
    fixed_catoni,
    gaussian_noise,
)
from pages import fitted
from supac.arrays import FloatArray
from supac.families import Mixture
from supac.guarantee.ensemble import PASSED
from supac.guarantee.provenance import Provenance
from supac.problem.bounds import kl_inverse
from supac.problem_file import read_problem, starter_files
from supac.simulators import adm1

RESULTS = Path(__file__).parent / "results" / "certificates.md"
KINDS = (f"{SETS} sets", "posterior", "held out")
Outcome = tuple[Values, float]
KEPT = Path(__file__).parent / "tmp-certificates"
_AT_A_TIME = 50  # outcomes in a file
VECTORISED = supac.Execution(vectorized=True, progress=False)
SEEGER = "MaurerLangfordSeeger"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Format a table in Markdown."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def limit(violated: int, count: int) -> str:
    """Format the 95 % upper limit of a share."""
    most = stats.beta(violated + 1, count - violated).ppf(0.95) if violated < count else 1.0
    return f"{100.0 * most:.1f} %"


class KeptPool:
    """A pool of processes whose outcomes are kept in files, by the order in which it is asked."""

    def __init__(self, pool: ProcessPoolExecutor, count: int, section: str):
        name = re.sub(r"\W+", "-", section.lower())
        self._pool, self._folder, self._asked = pool, KEPT / str(count) / name, 0
        self._folder.mkdir(parents=True, exist_ok=True)

    def map(self, trial: Callable[[int], Any], seeds: range, chunksize: int = 1) -> list[Any]:
        """Return the outcome of each seed, made now unless it is there."""
        self._asked += 1
        found: list[Any] = []
        for first in range(0, len(seeds), _AT_A_TIME):
            file = self._folder / f"{self._asked:02}-{first}.pickle"
            if not file.exists():
                part = seeds[first : first + _AT_A_TIME]
                made = list(self._pool.map(trial, part, chunksize=chunksize))
                file.write_bytes(pickle.dumps(made))
            found += pickle.loads(file.read_bytes())
        return found


# Violations


def violations(name: str, kind: str, outcomes: Sequence[Outcome]) -> list[str]:
    """Format a row: violations by each bound, and the limit by Seeger's beside the truth."""
    truth = np.array([each for _, each in outcomes])
    cells = []
    for bound in BOUNDS:
        values = np.array([each.get(bound, np.nan) for each, _ in outcomes])
        missing = np.isnan(values).all()
        cells.append("–" if missing else str(int((values < truth).sum())))
    worst = max(int(cell) for cell in cells if cell != "–")
    shown = np.mean([each.get(SEEGER, next(iter(each.values()))) for each, _ in outcomes])
    numbers = [f"{len(outcomes):,}", *cells, limit(worst, len(outcomes))]
    print(name, kind, *cells, "of", len(outcomes), flush=True)
    return [name, kind, *numbers, f"{truth.mean():.3f}", f"{shown:.3f}"]


HEAD = ["setting", "of", "data sets", "Catoni, λ fixed", 'Catoni("auto")', "McAllester", "Seeger",
        "Tolstikhin–Seldin", "Thiemann", "pooled bets", "bets", "Chernoff",
        "95 % limit of the worst", "true risk",
        "certificate"]  # fmt: skip


def certified(name: str, seed: int) -> list[Outcome]:
    """Certify one data set of a setting, in every kind."""
    law, rng = SETTINGS[name], np.random.default_rng([seed, 1])
    case = law.case(rng)
    made = [case.of_ensemble(), case.of_posterior()]
    return made if isinstance(law, Series) else [*made, law.held_out(rng).of_held_out()]


def settings_rows(count: int, pool: KeptPool) -> list[list[str]]:
    """Return a row for each setting and kind."""
    rows = []
    for name in SETTINGS:
        outcomes = pool.map(partial(certified, name), range(count), chunksize=20)
        rows += [
            violations(name, kind, part)
            for kind, part in zip(KINDS, zip(*outcomes, strict=True), strict=False)
        ]
    return rows


def coins_certified(n: int, inverses: Sequence[float], seed: int) -> list[Outcome]:
    """Certify a Gibbs posterior over predictors that guess: 1, 5 and 20 sets, and all of it."""
    inverse = inverses[seed % len(inverses)]
    law = Gibbs(n=n, inverse=inverse, predictors=2_000, coins=True)
    rng = np.random.default_rng([seed, 2])
    case = law.case(rng)
    parts = [case.of_ensemble(sets, selection=1.0) for sets in (1, 5, 20)]
    return [*parts, case.of_posterior(), law.held_out(rng).of_held_out()]


def coins_rows(count: int, pool: KeptPool) -> list[list[str]]:
    """Return a row for each number of data and sets, all temperatures together."""
    rows = []
    laws: list[tuple[int, Sequence[float], str]] = [
        (10, COIN_TEMPERATURES, ""), (30, COIN_TEMPERATURES, ""), (30, (0.0,), ", prior"),
    ]  # fmt: skip
    for n, inverses, words in laws:
        trial = partial(coins_certified, n, inverses)
        outcomes = pool.map(trial, range(2 * count), chunksize=20)
        for k, kind in enumerate(("1 set", "5 sets", *KINDS)):
            name = f"2,000 predictors that guess, n = {n}{words}"
            rows.append(violations(name, kind, [each[k] for each in outcomes]))
    return rows


# Searches


class Decay:
    """x₀·exp(−exp(x₁)·t) + x₂ at 20 times; the true risk is that of new noise, exactly."""

    times = np.linspace(0.0, 4.0, 20)
    noise = 0.2

    def __call__(self, x: FloatArray) -> FloatArray:
        """Simulate: (m, 3) → (m, 20)."""
        return x[:, :1] * np.exp(-np.exp(x[:, 1:2]) * self.times) + x[:, 2:]

    def observed(self, rng: np.random.Generator) -> supac.Observations:
        """Draw a data set."""
        exact = self(np.array([[1.0, 0.0, 0.2]]))[0]
        values = exact + self.noise * rng.standard_normal(exact.shape)
        return supac.Observations(("y",), values, np.full(exact.shape, self.noise))

    def true_losses(self, x: FloatArray) -> FloatArray:
        """Compute the expected loss of each measurement of the same design: (m, 3) → (m, 20)."""
        error = (self(x) - self(np.array([[1.0, 0.0, 0.2]]))) / self.noise
        return capped_square(error, np.ones_like(error), 3.0)


class EulerDecay(Decay):
    """The same by Euler's method, 12 steps a unit of time; or with the rate of another decay."""

    def __init__(self, *, misleads: bool):
        self.misleads = misleads

    def __call__(self, x: FloatArray) -> FloatArray:
        """Simulate: (m, 3) → (m, 20)."""
        rate = np.exp(x[:, 1:2] + 0.7 * self.misleads)
        return x[:, :1] * np.maximum(1.0 - rate / 12, 0.0) ** (12 * self.times) + x[:, 2:]


COARSE = {
    "a coarse model": EulerDecay(misleads=False),
    "a misleading one": EulerDecay(misleads=True),
}
"""Coarse models of searches, which count a twentieth."""


def searched(kind: str, seed: int) -> tuple[list[Outcome], float, bool]:
    """Search with 20 runs, a few of them for validation.

    Return certificates, their share of δ, and True for a mixture chosen by its predicted bound, or
    a coarse model that was searched.
    """
    model = Decay()
    bound = fixed_catoni(20) if kind == "Catoni" else supac.MaurerLangfordSeeger(20, DELTA)
    data, test = model.observed(np.random.default_rng([seed, 3])), None
    if kind == "half":
        data, test = data.split(np.arange(20) % 2 == 1)
        bound = supac.MaurerLangfordSeeger(10, DELTA)
    coarse = supac.Coarse(COARSE[kind], cost=0.05) if kind in COARSE else None
    risk = supac.Composite(model, supac.CappedSquare(), data, test, coarse=coarse)
    prior = supac.gaussian(np.zeros(3), np.eye(3))
    shape = "auto" if kind == "shape" else "gaussian"
    result = supac.minimize(
        risk, prior, bound, budget=20, shape=shape, execution=VECTORISED, seed=seed
    )
    use = result.record.coarse_use
    mixed = isinstance(result.posterior.family, Mixture) if use is None else use.useful
    given = result.certificate
    assert given is not None
    losses = model.true_losses(result.ensemble.x).mean(axis=0)
    if result.held_out is None:
        return [(dict(given.bounds), float(losses.mean()))], given.delta_pac / given.delta, mixed
    seen, unseen = float(losses[::2].mean()), float(losses[1::2].mean())
    made: list[Outcome] = [(dict(given.bounds), seen), (dict(result.held_out.bounds), unseen)]
    return made, given.delta_pac / given.delta, mixed


def searches_rows(count: int, pool: KeptPool) -> list[list[str]]:
    """Return rows for each bound that was minimised, and with half of the data held out."""
    rows = []
    for kind in ("Catoni", SEEGER, "half", "shape"):
        outcomes = pool.map(partial(searched, kind), range(count), chunksize=10)
        given_up = sum(share < 0.5 for _, share, _ in outcomes)
        what = f"{SEEGER}, 10 of 20 data held out" if kind == "half" else f"{kind}, n = 20"
        if kind == "shape":
            mixtures = sum(mixed for *_, mixed in outcomes)
            what = f'{SEEGER}, n = 20, shape="auto", {mixtures} mixtures'
        name = f"`minimize` with {what}; {given_up} gave up a posterior"
        parts = zip(*(made for made, _, _ in outcomes), strict=True)
        for words, part in zip(("its sets", "held out"), parts, strict=False):
            rows.append(violations(name, words, part))
    return rows


def coarse_rows(count: int, pool: KeptPool) -> list[list[str]]:
    """Return a row for each coarse model."""
    rows = []
    for kind in COARSE:
        outcomes = pool.map(partial(searched, kind), range(count), chunksize=10)
        used = sum(each for *_, each in outcomes)
        name = f"`minimize` with {SEEGER}, n = 20, and {kind}, {used} times of use"
        rows.append(violations(name, "its sets", [made[0] for made, _, _ in outcomes]))
    return rows


# Broken on purpose


def door(name: str, seed: int) -> tuple[bool | None, bool | None]:
    """Try a certificate with a condition broken, and kept."""
    return DOORS[name][0](seed)


def doors_rows(count: int, pool: KeptPool) -> list[list[str]]:
    """Return a row for each condition."""
    rows = []
    for name, (function, words) in DOORS.items():
        outcomes = pool.map(partial(door, name), range(count), chunksize=20)
        cells = []
        for which in range(2):
            given = [each[which] for each in outcomes if each[which] is not None]
            cells.append(f"{sum(map(bool, given)):,} of {len(given):,}")
        print(name, *cells, flush=True)
        rows.append([name, (function.__doc__ or "").strip(), cells[0], cells[1], words])
    return rows


# Tightness


def old_limit(shares: FloatArray, delta: float) -> float:
    """Compute version 0.1's limit of a mean: inverse kl or empirical Bernstein, δ/2 each."""
    m, half = len(shares), 0.5 * delta
    chernoff = kl_inverse(float(shares.mean()), -float(np.log(half)) / m)
    logarithm, deviation = float(np.log(2.0 / half)), float(shares.std(ddof=1))
    slack = deviation * np.sqrt(2.0 * logarithm / m) + 7.0 * logarithm / (3.0 * (m - 1))
    return min(chernoff, float(shares.mean()) + float(slack), 1.0)


TIGHT_DRAWS, TIGHT_NOISE = (20, 300, 1_000), gaussian_noise(0.5)


def tight(n: int, seed: int) -> list[float]:
    """Compare certificates of one data set, 4 parameters, by Seeger's bound.

    The posterior is the best of twelve Gaussians by the exact bound, as a search would find it.
    """
    rng = np.random.default_rng([seed, 4])
    base = Regression(n=n, dim=4, noise=TIGHT_NOISE)
    a, y = base.data(rng)
    whole = supac.MaurerLangfordSeeger(n, DELTA)
    found = []
    for precision in np.geomspace(0.02, 4.0, 12):
        law = Regression(n=n, dim=4, noise=base.noise, precision=float(precision))
        posterior, prior = law.posterior(a, y)
        mean, covariance = posterior.mean, posterior.covariance
        sd = np.sqrt(np.einsum("ij,jk,ik->i", a, covariance, a))
        risk = float(capped_square(y - a @ mean, sd, law.cap).mean())
        kl = float(posterior.kl(prior))
        found.append((whole(risk, kl), risk, kl, law, posterior, prior))
    exact, risk, kl, law, posterior, prior = min(found, key=lambda each: each[0])
    case = law.case_of(a, y, posterior, prior, rng, max(TIGHT_DRAWS))
    share = DELTA * PASSED * Provenance().share
    same_delta = supac.MaurerLangfordSeeger(n, share)(risk, kl)
    of_ensemble, true_of_sets = case.of_ensemble()
    betting = [case.of_posterior(draws)[0][SEEGER] for draws in TIGHT_DRAWS]
    data = supac.MaurerLangfordSeeger(n, 0.8 * DELTA)
    old = [data(old_limit(case.means[:draws], 0.2 * DELTA), kl) for draws in TIGHT_DRAWS]
    plain = Regression(n=n, dim=4, noise=base.noise, precision=1.0 / 0.5**2)
    held_out = plain.held_out(rng).of_held_out(0.5 * DELTA)[0]["Chernoff"]
    return [true_of_sets, exact, same_delta, of_ensemble[SEEGER], held_out, *betting, *old]


def tight_rows(count: int, pool: KeptPool) -> list[list[str]]:
    """Return a row for each number of data: means over data sets."""
    rows = []
    for n in (20, 100, 400):
        values = np.array(pool.map(partial(tight, n), range(count), chunksize=10))
        mean, difference = values.mean(axis=0), values[:, 3] - values[:, 1]
        cells = [f"{each:.3f}" for each in mean]
        gap = f"{difference.mean():+.4f} ± {difference.std():.4f}"
        rows.append([f"n = {n}", *cells[:4], gap, *cells[4:]])
        print(*rows[-1], flush=True)
    return rows


TIGHT_HEAD = ["", "true risk", "exact bound, all of δ", "exact bound, same δ", "**20 sets**",
              "20 sets − exact", "half held out, δ/2",
              *(f"posterior, {m:,} draws" for m in TIGHT_DRAWS),
              *(f"version 0.1, {m:,} draws" for m in TIGHT_DRAWS)]  # fmt: skip


# Problems that come with supac


def starter(seed: int) -> list[float]:
    """Run the problem of `supac init`: 20 sets, then the posterior with 50 and 1,000 draws."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in starter_files("builtin").items():
            (Path(folder) / name).write_text(text)
        ready = read_problem(Path(folder) / "problem.toml")
        quiet = replace(ready.execution, progress=False)
        result = ready.minimize(seed=seed, execution=quiet)
        assert result.certificate is not None
        assert len(result.record.light_runs) <= ready.budget
        further = [
            ready.certify(result.record, draws=draws, seed=seed, execution=quiet).value
            for draws in (50, 1_000)
        ]
    certificate = result.certificate
    seeger = certificate.bounds[SEEGER]
    return [certificate.value, seeger, *further, certificate.mean_risk, certificate.kl]


def starter_rows(seeds: int, pool: KeptPool) -> list[list[str]]:
    """Return the file's own seed, and the mean and largest over others."""
    values = np.array(pool.map(starter, range(seeds)))
    parts = {"seed 0, as written": values[0], f"mean of {seeds} seeds": values.mean(axis=0),
             "largest": values.max(axis=0)}  # fmt: skip
    rows = [[name, *(f"{each:.3f}" for each in part)] for name, part in parts.items()]
    for row in rows:
        print("starter", *row, flush=True)
    return rows


DIGESTERS: dict[str, supac.Bound] = {
    "Catoni, λ = 0.002": supac.Catoni(0.002),
    SEEGER: supac.MaurerLangfordSeeger(196, DELTA, 3.0),
}


def digested(which: int) -> list[str]:
    """Calibrate ADM1 on its embedded data with one of two bounds."""
    name, bound = list(DIGESTERS.items())[which]
    digester = adm1.example()
    result = supac.minimize(
        digester.composite, digester.parameters, bound, budget=150,
        execution=replace(VECTORISED, on_failure="penalise"),
    )  # fmt: skip
    given = result.certificate
    assert given is not None
    numbers = [given.value, given.bounds[SEEGER], given.mean_risk, given.kl]
    return [name, *(f"{each:.3f}" for each in numbers), str(given.n), str(given.draws)]


def digester_rows(pool: KeptPool) -> list[list[str]]:
    """Calibrate ADM1 with each bound."""
    rows: list[list[str]] = pool.map(digested, range(len(DIGESTERS)))
    for row in rows:
        print("ADM1", *row, flush=True)
    return rows


def sections(count: int) -> dict[str, Callable[[KeptPool], list[str]]]:
    """Return the sections of the page by their headings: functions that make their lines."""
    few = max(count * 3 // 5, 10)
    return {
        "Violations": lambda pool: [
            *table(HEAD, [*settings_rows(count, pool), *coins_rows(count, pool),
                          *searches_rows(few, pool)]),
            "",
            "The predictors that guess have Gibbs posteriors of four temperatures, or the prior "
            f"itself, and ensembles with {Provenance().share:g}·δ. Blocks of AR(1) rows are only "
            "nearly independent. The true risk of a sequence is its mean conditional risk.",
        ],
        "Searches with a coarse model": lambda pool: [
            "A decay by its formula, and a coarse model by Euler's method; the misleading one has "
            "twice the rate. The certified sets are the fresh fine runs, of 20 runs in all.",
            "",
            *table(HEAD, coarse_rows(few // 3, pool)),
        ],
        "Broken on purpose": lambda pool: [
            *table(["condition", "what is tried", "violated", "violated, as supac does it",
                    "how"], doors_rows(few, pool)),
            "",
            "Seeger's bound and 20 sets, except for the repeated certificates: Catoni's and one.",
        ],
        "Tightness": lambda pool: [
            f"Seeger's bound, 4 parameters, means over {few} data sets; ± is the standard "
            "deviation over data sets and draws.",
            "",
            *table(TIGHT_HEAD, tight_rows(few, pool)),
        ],
        "Bands for new measurements": lambda pool: [
            f"Shares of {NEW} new measurements at new times in bands of a coverage of 0.8 and 0.9, "
            "with their standard errors over data sets, and the median of half the width in noise "
            "standard deviations. Each data set has a search of its own. Split conformal bands "
            "rest on as many more data that were held out. The last column has bands of the "
            "residuals that the search has seen, as if they were held out.",
            "",
            *table(BANDS_HEAD, bands_rows(few, pool)),
        ],
        "The problem of `supac init`": lambda pool: [
            "At most 60 runs in all, with the sets that are certified; then `certify --posterior`.",
            "",
            *table(["", "**its sets, no further run**", "the same by Seeger's bound",
                    "posterior, 50 draws",
                    "posterior, 1,000 draws", "mean risk of the sets", "mean log density ratio"],
                   starter_rows(10, pool)),
        ],
        "ADM1, embedded data": lambda pool: [
            "150 runs on outputs, seed 0. The risk is a root mean square of at most 3, certified "
            "through its mean square, by bets and by Seeger's bound; blocks are the 196 days.",
            "",
            *table(["minimised", "**by bets**", "by Seeger's bound",
                    "root mean square on the data", "mean log density ratio", "n", "sets"],
                   digester_rows(pool)),
        ],
    }  # fmt: skip


def written(text: str) -> dict[str, str]:
    """Return the sections of a page by their headings."""
    parts = [each.partition("\n") for each in text.split("\n## ")[1:]]
    return {heading: body.strip() for heading, _, body in parts}


def main() -> None:
    """Write the page, or the sections whose headings begin so; print them for few data sets."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    few, share = max(count * 3 // 5, 10), PASSED * Provenance().share
    head = (
        f"δ = {DELTA}: at most {100 * DELTA:g} % of the certificates may be violated. That of "
        f"an ensemble is of {SETS} sets, if no other number is given, and has {share:.3g}·δ; "
        f"that of a posterior has {DRAWS} draws, and {Provenance().share:g}·δ; that of "
        "held-out data has posteriors found on every other datum or block. The certificates in "
        "the last column are Seeger's, Chernoff's, or Catoni's of a sequence."
    )
    every = sections(count)
    asked = [each for each in every if each.startswith(tuple(sys.argv[2:] or [""]))]
    page = written(RESULTS.read_text())
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for heading in asked:
            lines = every[heading](KeptPool(processes, count, heading))
            made = fitted("\n".join(lines) + "\n").strip()
            page[heading] = made
            if few < 300:
                print(f"\n## {heading}\n\n{made}")
    if few >= 300:
        there = [heading for heading in every if heading in page]
        parts = [f"## {heading}\n\n{page[heading]}\n" for heading in there]
        RESULTS.write_text("\n".join([fitted(head + "\n").strip() + "\n", *parts]))


if __name__ == "__main__":
    main()
