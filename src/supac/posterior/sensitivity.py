"""Which parameters matter: combinations that the data determine, and Sobol indices of outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from supac.arrays import FloatArray, IntArray, whole
from supac.families import as_distribution
from supac.posterior.emulation import RISK, EmulatedOutputs, risk_of
from supac.posterior.observed_moments import OutputMoments, moments_of
from supac.posterior.outputs import Outputs
from supac.posterior.sobol import PickFreeze, indices_of
from supac.problem import Parameters, names_of
from supac.record.calibrated import Calibrated
from supac.record.local_ranges import words_on_local_ranges
from supac.record.many_parameters import Directions
from supac.search.algorithm import one_thread

Risk = Callable[[FloatArray, FloatArray], FloatArray]
Under = Literal["posterior", "prior"]
ALL = "all outputs"
_BATCHES = 8  # of points, from whose differences the error of sampling is known
_PATHS = 16  # functions that the runs leave possible
_RISK_PATHS = 6
_POINTS = 120_000  # of all indices together
_NUMBERS = 100_000_000  # emulated outputs behind the risk


@dataclass(frozen=True, eq=False)
class Indices:
    """Sobol indices of some outputs; arrays are (outputs, parameters)."""

    outputs: tuple[str, ...]
    first: FloatArray
    first_error: FloatArray
    total: FloatArray
    total_error: FloatArray
    """Standard errors, of the emulator and of the sampled points together."""

    def __repr__(self) -> str:
        return f"Indices({len(self.outputs)} outputs, {self.first.shape[1]} parameters)"

    def row(self, output: str) -> dict[str, FloatArray]:
        """Return the indices of one output and their errors, (parameters,) each."""
        if output not in self.outputs:
            raise ValueError(f"there is no output {output!r}; they are {', '.join(self.outputs)}")
        i = self.outputs.index(output)
        names = ("first", "first_error", "total", "total_error")
        return {name: getattr(self, name)[i] for name in names}


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Sensitivities of the outputs to the parameters, and what the data determine of these."""

    under: Under
    """Distribution over which the parameters vary."""
    parameters: tuple[str, ...]
    """Names of the parameters; a field is one."""
    table: Outputs
    """Names and times of the outputs."""
    indices: Indices
    """Of each output that varies."""
    columns: Indices
    """Of each column over all its rows, of all outputs in units of their noise, and of the risk."""
    unexplained: FloatArray
    """Share of each output's variance that the emulator gets wrong, leaving out one run: (m,)."""
    runs: int
    """Number of runs behind the emulator."""
    directions: Directions | None
    """Combinations of parameters, those that the data determine best first."""
    names: tuple[str, ...] = field(default=(), repr=False)
    """Names of the coordinates of the directions."""
    local: str = ""
    """Words on ranges that are local, so that parameters may vary more; else ""."""

    def __repr__(self) -> str:
        overall = self.columns.row(ALL)["total"] if ALL in self.columns.outputs else np.zeros(0)
        order = np.argsort(-overall)[:4]
        told = ", ".join(f"{self.parameters[i]} {overall[i]:.2f}" for i in order)
        of = f"total indices of {ALL}: {told}{', …' if len(overall) > 4 else ''}; " if told else ""
        local = f"; {self.local}" if self.local else ""
        return f"Sensitivity(over the {self.under}; {of}from {self.runs} runs{local})"

    def _repr_html_(self) -> str:
        from supac.report.notebook_posterior import html_of_sensitivity  # noqa: PLC0415

        return html_of_sensitivity(self)

    def combinations(self, most: int = 8, parts: int = 3) -> list[dict[str, Any]]:
        """Describe the best determined directions: width, and shares of the parameters in each.

        A share is the squared loading: those of independent parameters sum to 1. Only the `parts`
        largest are named, and none below 0.01; "others" is the sum of all that are not.
        """
        if self.directions is None:
            return []
        found = []
        for i in range(min(most, len(self.directions))):
            one = self.directions[i]
            largest = one.largest(self.names, parts)
            loads = [(name, load) for name, load in largest if load**2 >= 0.01]
            shares = [
                {"name": name, "loading": load, "share": load**2, "sign": "+" if load > 0 else "−"}
                for name, load in loads
            ]
            named = sum(load**2 for _, load in loads)
            others = max(float((one.loadings**2).sum()) - named, 0.0)
            found.append(
                {"width": one.width, "shift": one.shift, "parameters": shares, "others": others}
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Summarise for JSON."""

        def rows(of: Indices) -> dict[str, Any]:
            return {
                output: {
                    name: {
                        kind: float(getattr(of, kind)[i, j])
                        for kind in ("first", "first_error", "total", "total_error")
                    }
                    for j, name in enumerate(self.parameters)
                }
                for i, output in enumerate(of.outputs)
            }  # fmt: skip

        return {
            "under": self.under,
            "runs": self.runs,
            "unexplained": float(np.mean(self.unexplained)),
            "local": self.local,
            "directions": self.combinations(len(self.parameters)),
            "determined": None if self.directions is None else self.directions.degrees,
            "columns": rows(self.columns),
            "outputs": rows(self.indices),
        }

    def to_table(self) -> dict[str, list[Any]]:
        """Return columns with one row for each output and parameter."""
        parts = (self.columns, self.indices)
        cells = [(of, i, j) for of in parts for i in range(len(of.outputs))
                 for j in range(len(self.parameters))]  # fmt: skip
        table: dict[str, list[Any]] = {
            "output": [of.outputs[i] for of, i, _ in cells],
            "parameter": [self.parameters[j] for _, _, j in cells],
        }
        for kind in ("first", "first_error", "total", "total_error"):
            table[kind] = [float(getattr(of, kind)[i, j]) for of, i, j in cells]
        return table


def sensitivity(
    posterior: Calibrated,
    *,
    under: Under = "posterior",
    points: int | None = None,
    seed: int = 0,
) -> Sensitivity:
    """Compute which parameters matter, from the runs of a search; no run is made.

    The outputs are emulated from the runs. Sobol indices are over the posterior, or the prior:
    there fewer runs were made, and errors are larger. `points` is the number of points of each
    index.
    """
    if under not in ("posterior", "prior"):
        raise ValueError(f'under must be "posterior" or "prior", not {under!r}')
    record = posterior.own_record
    over = record.known_posterior() if under == "posterior" else as_distribution(record.prior)
    if over is None:
        raise ValueError("the file has only the name of the prior, over which nothing can be drawn")
    names, groups = factors_of(record.parameters, over.dim)
    limit = max(_POINTS // (2 * len(groups) + 1), 8 * _BATCHES)
    n = min(8_192, limit) if points is None else whole(points, "points", least=8 * _BATCHES)
    rng = np.random.default_rng([whole(seed, "seed", least=0), 0x50B0])
    sets = [PickFreeze.draw(over, groups, n // _BATCHES, rng) for _ in range(_BATCHES)]
    with one_thread():
        emulated = EmulatedOutputs.of(record, over)
        observed = moments_of(emulated, record, sets)
        parts, told = _parts(emulated, risk_of(record, emulated), sets, rng, observed)
    variance = parts[:, :, 0].mean(axis=(0, 1))
    wrong = observed.missed / np.maximum(variance, 1e-300)
    return Sensitivity(
        under=under,
        parameters=names,
        table=observed.table,
        indices=_indices(observed.names, parts, wrong),
        columns=_of_columns(observed, parts, told, wrong),
        unexplained=wrong,
        runs=emulated.runs,
        directions=record.directions,
        names=names_of(record.parameters, over.dim),
        local=words_on_local_ranges(record) if under == "posterior" else "",
    )


def factors_of(parameters: Parameters | None, dim: int) -> tuple[tuple[str, ...], list[IntArray]]:
    """Return names and coordinates of the parameters; a field is one of them."""
    fields = {} if parameters is None else parameters.fields
    inside: dict[int, str] = {}
    for name in fields:
        assert parameters is not None
        place = parameters.columns(name)
        inside |= dict.fromkeys(range(place.start, place.stop), name)
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(names_of(parameters, dim)):
        groups.setdefault(inside.get(i, name), []).append(i)
    return tuple(groups), [np.array(each) for each in groups.values()]


def _parts(
    emulated: EmulatedOutputs,
    risk: Risk | None,
    sets: list[PickFreeze],
    rng: np.random.Generator,
    observed: OutputMoments,
) -> tuple[FloatArray, FloatArray | None]:
    """Compute variances and numerators of all outputs, (paths, batches, 1 + 2·groups, m).

    And of the risk, with m = 1 and fewer paths.
    """
    paths = emulated.paths(_PATHS, rng)
    outputs, risks = [], []
    per_set = len(sets[0].points) * emulated.table.width * _RISK_PATHS
    few = max(min(len(sets), _NUMBERS // max(per_set, 1)), 2)
    for i, each in enumerate(sets):
        scores = paths(each.points)
        outputs.append([observed.parts(emulated, values, each) for values in scores])
        if risk is not None and i < few:
            told = [risk(emulated.outputs(v), each.points)[:, None] for v in scores[:_RISK_PATHS]]
            risks.append([each.moments(values).along(np.eye(1)) for values in told])
    found = np.array(risks).swapaxes(0, 1) if risks else None
    return np.array(outputs).swapaxes(0, 1), found


def _indices(names: tuple[str, ...], parts: FloatArray, wrong: FloatArray) -> Indices:
    """Return indices of parts (paths, batches, 1 + 2·groups, m), and their errors.

    The spread over paths is what the runs leave open, that of a jackknife over batches of points is
    the error of sampling, and `wrong` (m,) is the share of the variance that the emulator misses
    when a run is left out: it may belong to any of the inputs.
    """
    batches = parts.shape[1]
    by_path = np.array([indices_of(each.sum(axis=0)) for each in parts])
    every = parts.sum(axis=1)
    left = [
        np.mean([indices_of(each) for each in every - parts[:, i]], axis=0) for i in range(batches)
    ]
    sampled = np.sqrt((batches - 1) * np.var(left, axis=0))
    error = np.hypot(np.hypot(by_path.std(axis=0, ddof=1), sampled), wrong)
    mean, half = by_path.mean(axis=0), by_path.shape[1] // 2
    return Indices(names, mean[:half].T, error[:half].T, mean[half:].T, error[half:].T)


def _of_columns(
    observed: OutputMoments, parts: FloatArray, risk: FloatArray | None, wrong: FloatArray
) -> Indices:
    """Return indices of each column, of all outputs, and of the risk."""
    deviation, count = observed.deviation, len(observed.names)
    weights, names = [], []
    for i, name in enumerate(observed.table.columns):
        mine = observed.column == i
        if mine.any() and observed.by_column:
            weights.append(np.where(mine, deviation**2, 0.0))
            names.append(name)
    if count > 1:
        known = np.isfinite(observed.noise) & (observed.noise > 0.0)
        every = deviation / np.where(known, observed.noise, deviation)
        weights.append(every**2 if known.all() else np.ones(count))
        names.append(ALL)
    sizes = np.array(weights) * parts[:, :, 0].mean(axis=(0, 1))
    missed = sizes @ wrong / sizes.sum(axis=1)
    made = _indices(tuple(names), parts @ np.array(weights).T, missed)
    if risk is None:
        return made
    last = _indices((RISK,), risk, missed[-1:])
    kinds = ("first", "first_error", "total", "total_error")
    return Indices(
        (*made.outputs, RISK),
        *(np.concatenate([getattr(made, k), getattr(last, k)]) for k in kinds),
    )
