"""Which measurement next: the candidate that leaves the least variance of what is of interest.

With draws of the posterior and the outputs at them, the variance of a quantity q that is left after
measuring y = f(x) + noise is known in two ways:

- by the best linear prediction of q from y, Var q − c·S⁻¹·cᵀ with S the covariance of y and c that
  of q with y: exact if both are jointly normal, and else an upper limit of the mean variance left;
- by re-weighting: y is drawn, the draws are weighted by its likelihood, and the weighted variance
  of q is averaged over y. It holds for any posterior, if enough draws keep a weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.arrays import FloatArray, whole
from supac.posterior.candidates import Candidate, Draws, Quantity, candidates_of, columns_left_out
from supac.posterior.prediction import Prediction
from supac.record.calibrated import Calibrated
from supac.record.local_ranges import words_on_local_ranges

_MEASURED = 300  # measurements that are drawn for re-weighting
_FEWEST = 30.0  # draws that must keep a weight


@dataclass(frozen=True)
class Choice:
    """Worth of a candidate."""

    candidate: Candidate
    remaining: float
    """Expected share of the variance that is left, the mean over all quantities."""
    error: float
    """Its standard error."""
    linear: float
    """Share that is left by the best linear prediction."""
    reweighted: float
    """Share that is left by re-weighting; NaN if too few draws keep a weight."""
    deviations: tuple[float, ...]
    """Expected standard deviation of each quantity after the measurement."""

    def __repr__(self) -> str:
        left = f"{100.0 * self.remaining:.3g} ± {100.0 * self.error:.1g} % of the variance left"
        return f"Choice({self.candidate.words}: {left}, {self.method})"

    @property
    def method(self) -> str:
        """Method that `remaining` comes from."""
        return "linear" if np.isnan(self.reweighted) else "re-weighted"


def in_time(choices: Iterable[Choice]) -> list[Choice]:
    """Return choices in the order of their outputs and times, instead of what they are worth."""

    def key(choice: Choice) -> list[tuple[str, float]]:
        parts = choice.candidate.measurements
        return [(each.output, -np.inf if each.time is None else each.time) for each in parts]

    return sorted(choices, key=key)


@dataclass(frozen=True, eq=False)
class NextMeasurements:
    """Candidates in the order of what they are worth, the best first."""

    choices: tuple[Choice, ...]
    quantities: tuple[str, ...]
    """Names of what is to be known better."""
    before: FloatArray
    """Standard deviation of each quantity now."""
    draws: int
    together: tuple[Choice, ...] = ()
    """The best first measurement, then what goes best with it, and so on: the share left by all
    of them up to there, by linear prediction."""
    left_out: tuple[str, ...] = ()
    """Columns that are no candidates by default, since their noise is not known."""
    units: tuple[str, ...] = ()
    """Unit of each quantity, "" without one."""
    local: str = ""
    """Words on ranges that are local, so that more may be open than here; else ""."""

    def __repr__(self) -> str:
        of = ", ".join(self.quantities[:4]) + (", …" if len(self.quantities) > 4 else "")
        local = f"; {self.local}" if self.local else ""
        found = f"{len(self.choices)} candidates for {of}"
        return f"NextMeasurements({found}; best: {self.best!r}{local})"

    def _repr_html_(self) -> str:
        from supac.report.notebook_posterior import html_of_next  # noqa: PLC0415

        return html_of_next(self)

    @property
    def best(self) -> Choice:
        """The candidate that leaves the least variance."""
        return self.choices[0]

    def to_table(self, *, by_time: bool = False) -> dict[str, list[Any]]:
        """Return columns with one row a candidate: the best first, or by output and time."""
        choices = in_time(self.choices) if by_time else self.choices
        table: dict[str, list[Any]] = {
            "candidate": [each.candidate.words for each in choices],
            "output": [each.candidate.output for each in choices],
            "time": [each.candidate.time for each in choices],
            "remaining": [each.remaining for each in choices],
            "error": [each.error for each in choices],
            "method": [each.method for each in choices],
            "linear": [each.linear for each in choices],
        }
        for i, name in enumerate(self.quantities):
            table[f"sd of {name}"] = [each.deviations[i] for each in choices]
        return table

    def to_dict(self) -> dict[str, Any]:
        """Summarise for JSON."""
        names, now = self.quantities, self.before.tolist()
        return {
            "quantities": dict(zip(names, now, strict=True)),
            "draws": self.draws,
            "local": self.local,
            "candidates": self.to_table(),
            "together": [
                {"candidate": each.candidate.words, "remaining": each.remaining}
                for each in self.together
            ],
        }


def next_measurements(
    posterior: Calibrated,
    candidates: Iterable[Any] | None = None,
    quantity: Quantity | Sequence[Quantity] | None = None,
    *,
    prediction: Prediction | None = None,
    together: int = 0,
    draws: int | None = None,
    seed: int = 0,
) -> NextMeasurements:
    """Rank candidate measurements by the variance of a quantity that they would leave; no run.

    `candidates` are `Candidate`, or (output, time, noise) each; by default every output once more.
    `quantity` is a parameter, an output such as "A at 3", a function of points (n, dim) → (n,), or
    several of these; by default all parameters. Outputs are emulated at draws of the posterior;
    those of a `prediction` are taken from it, at its draws. With `together`, also find so many
    that are best one after the other, as long as each leaves less.
    """
    drawn = Draws.of(posterior, prediction, draws, seed)
    wanted = _listed(drawn.names if quantity is None else quantity)
    values = np.column_stack([drawn.quantity(each) for each in wanted])
    rng = np.random.default_rng([whole(seed, "seed", least=0), 0x4E59])
    every = candidates_of(candidates, drawn)
    choices = [_choice(each, drawn, values, rng) for each in every]
    order = sorted(range(len(every)), key=lambda i: (choices[i].remaining, i))
    names = [each if isinstance(each, str) else f"quantity {i}" for i, each in enumerate(wanted)]
    return NextMeasurements(
        tuple(choices[i] for i in order),
        tuple(names),
        values.std(axis=0, ddof=1),
        len(values),
        _greedy(every, drawn, values, min(whole(together, "together", least=0), len(every))),
        columns_left_out(every, drawn) if candidates is None else (),
        tuple(drawn.unit(each) for each in wanted),
        words_on_local_ranges(posterior.own_record),
    )


def _listed(given: Any) -> list[Quantity]:
    return [given] if isinstance(given, str) or callable(given) else list(given)


def _choice(
    candidate: Candidate, drawn: Draws, values: FloatArray, rng: np.random.Generator
) -> Choice:
    """Compute what a candidate leaves, by both methods."""
    outputs, errors, noise = _measured(candidate, drawn)
    linear = linear_remaining(values, outputs, errors, noise)
    weighted = reweighted_remaining(values, outputs, errors, noise, rng)
    chosen = linear if weighted is None else weighted[0]
    share = float(np.mean(chosen))
    explained = max(1.0 - share, 0.0)
    error = 2.0 * np.sqrt(explained) * share / np.sqrt(len(values))  # of a squared correlation
    if weighted is not None:
        error = float(np.hypot(error, weighted[1]))
    spread = values.std(axis=0, ddof=1)
    return Choice(
        candidate,
        share,
        float(error),
        float(np.mean(linear)),
        np.nan if weighted is None else share,
        tuple((np.sqrt(chosen) * spread).tolist()),
    )


def _measured(candidate: Candidate, drawn: Draws) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return outputs and emulation errors of the measurements, (n, g), and their noise (g,)."""
    found = [drawn.output(each) for each in candidate.measurements]
    return (
        np.column_stack([outputs for outputs, _, _ in found]),
        np.column_stack([errors for _, errors, _ in found]),
        np.array([noise for _, _, noise in found]),
    )


def linear_remaining(
    values: FloatArray, outputs: FloatArray, errors: FloatArray, noise: FloatArray
) -> FloatArray:
    """Compute the share of each value's variance (n, q) that linear prediction leaves: (q,).

    Corrected for the number of draws, as an adjusted R² is.
    """
    n, g = outputs.shape
    centred, y = values - values.mean(axis=0), outputs - outputs.mean(axis=0)
    inner = y.T @ y / (n - 1) + np.diag(noise**2 + (errors**2).mean(axis=0))
    cross = y.T @ centred / (n - 1)
    explained = np.einsum("ij,ij->j", cross, np.linalg.solve(inner, cross))
    share = 1.0 - explained / np.maximum(values.var(axis=0, ddof=1), 1e-300)
    return np.clip(share * (n - 1) / max(n - g - 1, 1), 0.0, 1.0)


def reweighted_remaining(
    values: FloatArray,
    outputs: FloatArray,
    errors: FloatArray,
    noise: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, float] | None:
    """Compute the same by re-weighting, and its standard error; None if too few draws count.

    A draw does not count for the measurement that is made of it.
    """
    n = len(values)
    spread = np.sqrt(noise**2 + errors**2)
    rows = rng.permutation(n)[:_MEASURED]
    found, effective = np.empty((len(rows), values.shape[1])), np.empty(len(rows))
    for i, row in enumerate(rows.tolist()):
        y = outputs[row] + spread[row] * rng.standard_normal(outputs.shape[1])
        away = (y - outputs) / spread
        log_weight = -0.5 * (away**2).sum(axis=1) - np.log(spread).sum(axis=1)
        log_weight[row] = -np.inf
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        effective[i] = 1.0 / (weight @ weight)
        centred = values - weight @ values
        found[i] = weight @ centred**2 * effective[i] / max(effective[i] - 1.0, 1e-9)
    if np.quantile(effective, 0.1) < _FEWEST:
        return None
    shares = found / np.maximum(values.var(axis=0, ddof=1), 1e-300)
    error = float(shares.mean(axis=1).std(ddof=1) / np.sqrt(len(rows)))
    return np.clip(shares.mean(axis=0), 0.0, 1.0), error


def _greedy(
    every: Sequence[Candidate], drawn: Draws, values: FloatArray, count: int
) -> tuple[Choice, ...]:
    """Choose candidates one after the other, each the best beside those before.

    It ends where another would leave no less, as far as the draws can tell.
    """
    parts = [_measured(each, drawn) for each in every]
    chosen: list[int] = []
    made: list[Choice] = []
    for _ in range(count):
        left = [i for i in range(len(every)) if i not in chosen]
        shares = []
        for i in left:
            mine = [parts[j] for j in (*chosen, i)]
            joined = [np.concatenate(each, axis=-1) for each in zip(*mine, strict=True)]
            shares.append(linear_remaining(values, joined[0], joined[1], joined[2]))
        best = int(np.argmin([share.mean() for share in shares]))
        share = float(shares[best].mean())
        if made and share >= made[-1].remaining:
            break
        chosen.append(left[best])
        spread = tuple((np.sqrt(shares[best]) * values.std(axis=0, ddof=1)).tolist())
        made.append(Choice(every[left[best]], share, np.nan, share, np.nan, spread))
    return tuple(made)
