"""Right models with known noise: of six the data leave combinations of parameters open (sloppy).

A simulator takes points (k, dim) and returns outputs (k, n), all at once, so that long chains with
the true simulator take seconds. Truths are drawn from the prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import supac
from supac import marginals
from supac.arrays import FloatArray

Outputs = Callable[[FloatArray], FloatArray]
Slope = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class CoverageProblem:
    """A simulator of what is measured, and one of another scenario, with the same parameters."""

    name: str
    prior: dict[str, tuple[float, float]]
    """Median and standard deviation of the logarithm of each parameter."""
    outputs: Outputs
    other: Outputs
    """Noiseless outputs of a scenario that was not measured."""
    noise: float
    sloppy: bool
    develops: bool
    """True if rules may be chosen on it."""

    @property
    def parameters(self) -> supac.Parameters:
        """Return the parameters with their priors."""
        return supac.Parameters({k: marginals.LogNormal(m, s) for k, (m, s) in self.prior.items()})

    def data(self, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return a latent truth (dim,), drawn from the prior, and measurements of it (n,)."""
        rng = np.random.default_rng([seed, 2_021])
        latent = rng.standard_normal(len(self.prior))
        clean = self.outputs(self.parameters.from_latent(latent[None]))[0]
        return latent, clean + self.noise * rng.standard_normal(len(clean))


def _rk4(slope: Slope, start: FloatArray, times: FloatArray, fine: int) -> FloatArray:
    """Integrate states (k, s) by `fine` steps between times: (len(times), k, s)."""
    y, t, found = start, 0.0, []
    for end in times:
        h = (end - t) / fine
        for _ in range(fine if end > t else 0):
            a = slope(y)
            b = slope(y + 0.5 * h * a)
            c = slope(y + 0.5 * h * b)
            y = y + h / 6.0 * (a + 2.0 * b + 2.0 * c + slope(y + h * c))
        t = float(end)
        found.append(y)
    return np.array(found)


def _columns(x: FloatArray) -> list[FloatArray]:
    """Return parameters as columns, each (k, 1)."""
    return [each[:, None] for each in x.T]


def _exponentials(count: int, noise: float) -> CoverageProblem:
    rates = np.geomspace(0.3, 3.0, count)

    def at(t: FloatArray) -> Outputs:
        def outputs(x: FloatArray) -> FloatArray:
            sizes, speeds = x[:, :count, None], x[:, count:, None] * rates[:, None]
            return np.asarray((sizes * np.exp(-speeds * t)).sum(axis=1) / (2 * count))

        return outputs

    names = [f"a{i}" for i in range(count)] + [f"k{i}" for i in range(count)]
    later = np.linspace(5.0, 12.0, 15)
    return CoverageProblem(
        f"exponentials ({2 * count})",
        dict.fromkeys(names, (1.0, 1.0)),
        at(np.linspace(0.0, 5.0, 151)),
        at(later),
        noise,
        sloppy=True,
        develops=True,
    )


def _saturation() -> CoverageProblem:
    def at(s: FloatArray) -> Outputs:
        def outputs(x: FloatArray) -> FloatArray:
            top, half, hill = _columns(x)
            return np.asarray(top * s**hill / (half**hill + s**hill))

        return outputs

    prior = {"top": (1.0, 0.7), "half": (1.0, 1.0), "hill": (1.0, 0.3)}
    low, high = np.geomspace(0.1, 2.0, 12), np.geomspace(5.0, 50.0, 30)
    return CoverageProblem(
        "Michaelis-Menten at saturation (3)", prior, at(high), at(low), 0.02, True, True
    )


def _growth() -> CoverageProblem:
    def at(times: FloatArray, feed: float) -> Outputs:
        def outputs(x: FloatArray) -> FloatArray:
            speed, half, gain, food, first = x.T

            def slope(y: FloatArray) -> FloatArray:
                mass, left = y[:, 0], np.maximum(y[:, 1], 0.0)
                growth = speed * left / (half + left) * mass
                return np.column_stack([growth, -growth / gain])

            start = np.column_stack([0.1 * first, feed * 5.0 * food])
            return np.asarray(_rk4(slope, start, times, 3)[:, :, 0].T)

        return outputs

    prior = {
        "speed": (0.8, 0.3), "half": (1.0, 0.8), "gain": (0.5, 0.5), "food": (1.0, 0.5),
        "first": (1.0, 0.5),
    }  # fmt: skip
    times = np.linspace(0.25, 10.0, 40)
    return CoverageProblem(
        "growth and yield (5)", prior, at(times, 1.0), at(times[::3], 3.0), 0.03, True, True
    )


def _drug() -> CoverageProblem:
    def at(times: FloatArray, doses: tuple[float, ...]) -> Outputs:
        def outputs(x: FloatArray) -> FloatArray:
            absorb, clear, volume, flow, deep = x.T
            out, there, back = clear / volume, flow / volume, flow / deep
            # Rates of the two phases, and the closed form of one oral dose at t = 0.
            total, product = out + there + back, out * back
            root = np.sqrt(np.maximum(total**2 - 4.0 * product, 1e-12))
            fast, slow = 0.5 * (total + root), 0.5 * (total - root)
            ka = absorb[:, None]
            found = np.zeros((len(x), len(times)))
            for dose in doses:
                t = np.maximum(times - dose, 0.0)
                for one, two in ((fast, slow), (slow, fast)):
                    a, b, c = one[:, None], two[:, None], back[:, None]
                    gap = np.where(np.abs(ka - a) < 1e-6, 1e-6, ka - a)
                    weight = ka * (c - a) / (gap * (b - a)) / volume[:, None]
                    found += weight * (np.exp(-a * t) - np.exp(-ka * t))
            return 10.0 * found

        return outputs

    prior = {
        "absorb": (1.0, 0.5), "clear": (1.0, 0.4), "volume": (5.0, 0.4), "flow": (1.0, 0.6),
        "deep": (10.0, 0.6),
    }  # fmt: skip
    return CoverageProblem(
        "two compartments (5)",
        prior,
        at(np.linspace(2.0, 14.0, 25), (0.0,)),
        at(np.linspace(25.0, 60.0, 12), (0.0, 12.0, 24.0)),
        0.02,
        True,
        True,
    )


def _linear() -> CoverageProblem:
    matrix = np.random.default_rng(7).standard_normal((40, 6))
    other = np.random.default_rng(8).standard_normal((12, 6))
    return CoverageProblem(
        "linear in logarithms (6)",
        dict.fromkeys("abcdef", (1.0, 1.0)),
        lambda x: np.log(x) @ matrix.T,
        lambda x: np.log(x) @ other.T,
        1.0,
        False,
        True,
    )


def _decay() -> CoverageProblem:
    def at(t: FloatArray) -> Outputs:
        def outputs(x: FloatArray) -> FloatArray:
            size, speed, rest = _columns(x)
            return np.asarray(size * np.exp(-speed * t) + rest)

        return outputs

    prior = {"size": (2.0, 0.5), "speed": (0.8, 0.5), "rest": (0.5, 0.5)}
    return CoverageProblem(
        "decay (3)", prior, at(np.linspace(0.0, 6.0, 30)), at(np.linspace(6.0, 9.0, 8)), 0.05,
        False, True,
    )  # fmt: skip


def _logistic() -> CoverageProblem:
    def at(t: FloatArray) -> Outputs:
        def outputs(x: FloatArray) -> FloatArray:
            speed, most, first = _columns(x)
            return np.asarray(most / (1.0 + (most / (0.1 * first) - 1.0) * np.exp(-speed * t)))

        return outputs

    prior = {"speed": (0.8, 0.3), "most": (3.0, 0.4), "first": (1.0, 0.5)}
    return CoverageProblem(
        "logistic growth (3)", prior, at(np.linspace(0.0, 12.0, 30)),
        at(np.linspace(12.0, 16.0, 8)), 0.1, False, True,
    )  # fmt: skip


def _oscillator() -> CoverageProblem:
    def at(t: FloatArray) -> Outputs:
        def outputs(x: FloatArray) -> FloatArray:
            size, speed, damping, rest = _columns(x)
            return np.asarray(size * np.exp(-0.2 * damping * t) * np.cos(speed * t) + rest)

        return outputs

    prior = {"size": (1.0, 0.5), "speed": (1.5, 0.15), "damping": (1.0, 0.5), "rest": (1.0, 0.5)}
    return CoverageProblem(
        "damped oscillator (4)", prior, at(np.linspace(0.0, 8.0, 40)),
        at(np.linspace(8.0, 11.0, 8)), 0.1, False, True,
    )  # fmt: skip


def _epidemic() -> CoverageProblem:
    def at(times: FloatArray) -> Outputs:
        def outputs(x: FloatArray) -> FloatArray:
            contacts, recovery, told, first = x.T

            def slope(y: FloatArray) -> FloatArray:
                new, gone = contacts * y[:, 0] * y[:, 1], recovery * y[:, 1]
                return np.column_stack([-new, new - gone, new])

            ill = 1e-3 * first
            start = np.column_stack([1.0 - ill, ill, ill])
            return np.asarray(100.0 * told[:, None] * _rk4(slope, start, times, 4)[:, :, 2].T)

        return outputs

    prior = {
        "contacts": (0.6, 0.2), "recovery": (0.25, 0.3), "told": (0.3, 0.5), "first": (1.0, 0.7),
    }  # fmt: skip
    # Only the beginning is seen, which grows by contacts − recovery.
    return CoverageProblem(
        "early epidemic (4)", prior, at(np.linspace(1.0, 14.0, 14)),
        at(np.linspace(20.0, 60.0, 9)), 0.05, True, False,
    )  # fmt: skip


def _reactions() -> CoverageProblem:
    def at(t: FloatArray, factor: float) -> Outputs:
        def outputs(x: FloatArray) -> FloatArray:
            amount, first, second = _columns(x)
            second = second + 1e-6 * (np.abs(second - first) < 1e-6)
            before, after = np.exp(-first * t), np.exp(-second * t)
            made = first / (second - first) * (before - after)
            return np.asarray(factor * amount * np.hstack([before, made]))

        return outputs

    prior = {"amount": (2.0, 0.5), "first": (0.5, 0.6), "second": (0.15, 0.6)}
    return CoverageProblem(
        "two reactions (3)", prior, at(np.geomspace(0.25, 10.0, 12), 1.0),
        at(np.linspace(12.0, 30.0, 7), 2.0), 0.05, False, False,
    )  # fmt: skip


def _peak() -> CoverageProblem:
    def at(t: FloatArray) -> Outputs:
        def outputs(x: FloatArray) -> FloatArray:
            height, place, width, ground, slope = _columns(x)
            bell = np.exp(-0.5 * ((t - place) / width) ** 2)
            return np.asarray(height * bell + ground + 0.1 * slope * t)

        return outputs

    prior = {
        "height": (3.0, 0.4), "place": (5.0, 0.15), "width": (0.8, 0.3), "ground": (1.0, 0.5),
        "slope": (1.0, 0.5),
    }  # fmt: skip
    return CoverageProblem(
        "peak on a slope (5)", prior, at(np.linspace(0.0, 10.0, 50)),
        at(np.linspace(10.5, 15.0, 8)), 0.1, False, False,
    )  # fmt: skip


# Sloppy and determined ones in turn, so that any first part of the data sets is balanced.
PROBLEMS = (
    _saturation(),
    _decay(),
    _growth(),
    _linear(),
    _exponentials(3, 0.01),
    _reactions(),
    _drug(),
    _logistic(),
    _epidemic(),
    _peak(),
    _exponentials(4, 0.003),
    _oscillator(),
)
