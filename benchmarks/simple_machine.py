"""What does a prior on the discrepancy do to a parameter, its predictions, and a bound?

The simple machine of Brynjarsdóttir and O'Hagan (2014): the work done with effort x is
ζ(x) = .65·x/(1 + x/20), the model says θ·x, and eleven measurements from x = .2 to 4 have a noise
of .01. All is linear and normal given amplitude a and length ℓ of the discrepancy b, so that
posteriors are exact, by quadrature over a and ℓ. Counted over data sets is how often the central
90 % hold the true θ, and the true ζ(2.1), among the data, and ζ(6), half as far again; and how
often a bound on the mean loss of new data at the same x holds.

    python benchmarks/simple_machine.py            # a minute or less
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import norm

import supac
from pages import fitted
from supac.arrays import FloatArray
from supac.posterior.predicted_bands import mixture_quantile

TABLE = Path(__file__).parent / "results" / "simple-machine.md"
PAGE = Path(__file__).parents[1] / "docs" / "wrong-model.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
TRUE, BENT, NOISE = 0.65, 20.0, 0.01
X = np.linspace(0.2, 4.0, 11)
NEW = np.array([2.1, 6.0])
SPREAD_OF_RATE = 1.0  # prior standard deviation of θ, around 0
GRID = norm.ppf((np.arange(30) + 0.5) / 30)  # of log a and log ℓ, in prior standard deviations


def truth(x: FloatArray) -> FloatArray:
    """Return ζ."""
    return TRUE * x / (1.0 + x / BENT)


@dataclass(frozen=True)
class Belief:
    """Log-normal priors on amplitude and length, and if b and its slope are 0 at x = 0."""

    name: str
    amplitude: float = 0.0
    """Median; 0 for no discrepancy."""
    amplitude_log_sd: float = 1.0
    length: float = 1.0
    length_log_sd: float = 1.0
    starts_at_zero: bool = False

    @property
    def nodes(self) -> list[tuple[float, float]]:
        """Return amplitudes and lengths, all as probable."""
        if not self.amplitude:
            return [(0.0, 1.0)]
        amplitudes = self.amplitude * np.exp(self.amplitude_log_sd * GRID)
        lengths = self.length * np.exp(self.length_log_sd * GRID)
        return [(float(a), float(length)) for a in amplitudes for length in lengths]

    def kernel(self, x: FloatArray, a: float, length: float) -> FloatArray:
        """Return the covariance of b at x, with correlations exp(−½(x − x')²/ℓ²)."""
        r = x / length
        plain = np.exp(-0.5 * (r[:, None] - r) ** 2)
        if self.starts_at_zero:
            # Given b(0) = 0 and b'(0) = 0, whose covariances with b(x) are e(x) and e(x)·x/ℓ².
            e = np.exp(-0.5 * r**2)
            plain -= np.outer(e, e) * (1.0 + np.outer(r, r))
        return np.asarray(a**2 * plain)


# The spread of the measurements is .75, their range of x is 3.8: `discrepancy = "auto"`.
BELIEFS = (
    Belief("none"),
    Belief('`"auto"`', 0.075, 1.5, 0.76, 0.8),
    Belief("a ≈ .1, ℓ ≈ 4", 0.1, 1.0, 4.0, 0.3),
    Belief("a ≈ .3, ℓ ≈ 4", 0.3, 1.0, 4.0, 0.3),
    Belief("auto, b(0) = b'(0) = 0", 0.075, 1.5, 0.76, 0.8, True),
    Belief("a ≈ .1, ℓ ≈ 4, b(0) = b'(0) = 0", 0.1, 1.0, 4.0, 0.3, True),
)


def intervals(belief: Belief, data: FloatArray) -> FloatArray:
    """Return the central 90 % of θ, ζ(2.1) and ζ(6) for data sets (n, 11): (n, 3, 2)."""
    every = np.concatenate([X, NEW])
    count, logs, means, variances = len(X), [], [], []
    for a, length in belief.nodes:
        both = SPREAD_OF_RATE**2 * np.outer(every, every) + belief.kernel(every, a, length)
        own = both[:count, :count] + NOISE**2 * np.eye(count)
        factor = np.linalg.cholesky(own)
        white = np.linalg.solve(factor, data.T)
        logs.append(-0.5 * (white**2).sum(axis=0) - np.log(np.diag(factor)).sum())
        # Covariances with the data of θ, and of ζ at new x.
        cross = np.vstack([SPREAD_OF_RATE**2 * X, both[count:, :count]])
        along = np.linalg.solve(factor, cross.T)
        before = np.append(SPREAD_OF_RATE**2, np.diag(both)[count:])
        means.append((along.T @ white).T)
        variances.append(before - (along**2).sum(axis=0))
    weights = np.exp(np.array(logs) - np.max(logs, axis=0))
    weights /= weights.sum(axis=0)
    rng, found = np.random.default_rng(0), np.empty((len(data), 3, 2))
    deviations = np.sqrt(np.maximum(variances, 0.0))
    for i in range(len(data)):
        nodes = rng.choice(len(logs), 2_000 if len(logs) > 1 else 1, p=weights[:, i])
        centres = np.array(means)[nodes, i]
        for j, level in enumerate((0.05, 0.95)):
            found[i, :, j] = mixture_quantile(centres, deviations[nodes], level)
    return found


def bounds(data: FloatArray, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return how often a bound on the mean loss holds, the median bound, and mean loss.

    The bound of Maurer, Langford and Seeger for posteriors ∝ prior·exp(−loss/λ), the best of a
    series of λ, with the prior N(0, 1) of θ and the Welsch loss.
    """
    theta = np.linspace(0.3, 0.9, 2_001)
    prior = norm.pdf(theta, scale=SPREAD_OF_RATE) * (theta[1] - theta[0])
    loss, bound = supac.Welsch(), supac.MaurerLangfordSeeger(n=len(X), delta=0.05)
    fresh = truth(X) + NOISE * rng.standard_normal((400, len(X)))
    real = np.mean([loss((np.outer(theta, X) - y) / NOISE) for y in fresh], axis=0)
    held, values, losses = [], [], []
    for y in data:
        risk = loss((np.outer(theta, X) - y) / NOISE)
        best = (np.inf, 0.0)
        for temperature in np.geomspace(0.01, 3.0, 30):
            weights = prior * np.exp(-(risk - risk.min()) / temperature)
            weights = weights / weights.sum()
            kl = float(weights @ np.log(np.maximum(weights, 1e-300) / prior))
            best = min(best, (float(bound(float(weights @ risk), kl)), float(weights @ real)))
        held.append(best[1] <= best[0])
        values.append(best[0])
        losses.append(best[1])
    return float(np.mean(held)), float(np.median(values)), float(np.median(losses))


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200)
    sets = parser.parse_args().sets
    rng = np.random.default_rng(1)
    data = truth(X) + NOISE * rng.standard_normal((sets, len(X)))
    wanted = np.append(TRUE, truth(NEW))
    lines = [
        "| prior on b | holds θ | range of θ | holds ζ(2.1) | width | holds ζ(6) | width |",
        "|---" * 7 + "|",
    ]
    for belief in BELIEFS:
        found = intervals(belief, data)
        held = ((found[:, :, 0] <= wanted) & (wanted <= found[:, :, 1])).mean(axis=0)
        ends = np.median(found[:, 0], axis=0)
        width = np.median(found[:, :, 1] - found[:, :, 0], axis=0)
        cells = [
            belief.name,
            f"{100 * held[0]:.0f} %",
            f"{ends[0]:.3f} to {ends[1]:.3f}",
            *(f"{100 * held[1]:.0f} %", f"{width[1]:.3f}"),
            *(f"{100 * held[2]:.0f} %", f"{width[2]:.3f}"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    holds, value, real = bounds(data[: min(sets, 100)], rng)
    text = [
        "# The simple machine",
        "",
        f"`python benchmarks/simple_machine.py`: {sets} data sets, ranges and bands of 90 %; the "
        f"true θ is {TRUE}, ζ(2.1) is {wanted[1]:.3f} and ζ(6) is {wanted[2]:.3f}. Posteriors are "
        "exact; a and ℓ are log-normal.",
        "",
        *lines,
        "",
        f"A bound of 95 % on the mean loss of new data at the same x (Welsch, eleven data) held in "
        f"{100 * holds:.0f} % of {min(sets, 100)} data sets: it says at most {value:.2f}, and the "
        f"mean loss is {real:.2f} (medians).",
        "",
    ]
    TABLE.write_text(fitted("\n".join(text)), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    inner = fitted("\n".join(text[2:]))
    PAGE.write_text(f"{before}{BEGIN}\n\n{inner}\n{END}{after}", encoding="utf-8")
    print("\n".join(text[-2:]))


if __name__ == "__main__":
    main()
