"""Make one of the known runs again, and say if it comes out otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.calibration.fresh import run_fresh
from supac.cli.app import console
from supac.exchange.known import KnownRuns
from supac.problem.coarse import FINE
from supac.problem.composite import parts_of
from supac.problem.data import as_observations
from supac.problem_file import ProblemFile
from supac.record.run import Run, Status
from supac.running.execution import Execution

CHEAP = 1.0  # seconds of a run that a check makes again unasked
_SAME = 1e-2  # relative difference that rounding in a table may make
_ROUNDING = 1e-12  # of the largest value of a column: smaller ones are zero
_NOISES = 0.5  # of the noise: smaller differences matter little
_NOISY = 10.0  # times the difference of two runs at one point
_ABOUT_ZERO = 0.5  # relative difference of two runs from which on a factor says nothing
_ALIKE = 1e-2  # by which the ratios of outputs differ that are in another unit

Pair = tuple[Run, Run]
"""Two runs at one point."""


def known_runs_of(ready: ProblemFile) -> KnownRuns | None:
    """Return the known runs of a problem of which one can be made again."""
    known = ready.options.get("known")
    return known if isinstance(known, KnownRuns) and len(_good(known)) else None


def make_known_again(
    ready: ProblemFile,
    known: KnownRuns,
    where: Execution,
    pair: Pair | None = None,
    *,
    asked: bool = False,
) -> str:
    """Make the known run nearest to the prior's centre again, and say how it comes out.

    Returns a warning, "" if it comes out as it is known. If it does not, two runs at one point tell
    noise: those of `pair`, and a second one here, if runs are cheap or the user `asked` for them.
    """
    good = _good(known)
    latent = known.latent(ready.parameters)[good]
    row = int(good[np.argmin((latent**2).sum(axis=1))])

    def made() -> Run:
        (run,) = run_fresh(
            known.latent(ready.parameters)[row : row + 1],
            ready.risk,
            replace(where, retries=0, on_failure="drop", progress=False),
            "check",
            parameters=ready.parameters,
        )
        return run

    run = made()
    place = known.places[row] if known.places else f"run {row + 1} of {known.sources[row]}"
    if not run.ok:
        return f"made again, {place} fails: {run.message}"
    now = _values(known, run)
    by_risk = known.outputs is None or run.outputs is None
    then = known.risk[row : row + 1] if by_risk else np.asarray(known.outputs)[row]
    if len(then) != len(now):
        return f"{place} has {len(then)} outputs, but {len(now)} when made again"
    data = parts_of(ready.risk).data
    comparison = Comparison.of(data, then, now)
    pairs = [] if pair is None else [pair]
    differs = comparison.large(Spread.of((), len(now))).any()
    if differs and (asked or run.seconds < CHEAP):
        twin = made()
        if not twin.ok and not pairs:
            return f"{place} comes out otherwise when made again, and then fails: {twin.message}"
        pairs += [(run, twin)] if twin.ok else []
    elif differs and not pairs:
        return (
            f"{place} comes out otherwise when made again: --repeat-known makes it once more, to "
            "tell if that is noise"
        )
    values = [(_values(known, one), _values(known, other)) for one, other in pairs]
    words = comparison.words(Spread.of(values, len(now)))
    if words:
        return f"{place} comes out otherwise when made again: {words}"
    console.print(f"  a known run again comes out as in {place}", markup=False, highlight=False)
    return ""


def _good(known: KnownRuns) -> IntArray:
    """Return the places of successful runs of the fine model."""
    values = known.risk[:, None] if known.outputs is None else known.outputs
    ok = np.array([each is Status.OK for each in known.statuses], dtype=bool)
    fine = np.array(known.levels or [FINE] * len(known)) == FINE
    return np.flatnonzero(np.isfinite(values).any(axis=1) & ok & fine)


def _values(known: KnownRuns, run: Run) -> FloatArray:
    """Return what is compared of a run: its outputs, or its risk."""
    if known.outputs is None or run.outputs is None:
        return np.array([run.risk])
    return run.outputs


class Spread(NamedTuple):
    """Largest differences of two runs at one point, for each output; 0 if unknown."""

    relative: FloatArray
    absolute: FloatArray

    @classmethod
    def of(cls, pairs: Sequence[tuple[FloatArray, FloatArray]], count: int) -> Spread:
        """Return the differences within pairs of runs of `count` outputs.

        Two runs may agree by chance: an output that differs at all differs by no less than most do,
        and where most differ, every one does.
        """
        relative, absolute = np.zeros(count), np.zeros(count)
        for one, other in pairs:
            if len(one) == len(other) == count:
                size = np.maximum(np.maximum(np.abs(one), np.abs(other)), 1e-300)
                with np.errstate(invalid="ignore"):  # an output may be infinite
                    off = np.abs(one - other)
                    relative, absolute = np.fmax(relative, off / size), np.fmax(absolute, off)
        noisy = relative > 0.0
        if noisy.any():
            least = np.where(noisy | (noisy.mean() > 0.5), np.median(relative[noisy]), 0.0)
            relative = np.maximum(relative, least)
        return cls(relative, absolute)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Outputs of a known run, and of the same run made again."""

    names: Sequence[str]
    then: FloatArray
    now: FloatArray
    least: FloatArray
    """Differences that are rounding, or small beside the noise of the data."""
    zero: FloatArray
    """Values that are rounding."""

    @classmethod
    def of(cls, data: object, then: FloatArray, now: FloatArray) -> Comparison:
        """Compare these values, with the names and the noise of `data`."""
        count = len(now)
        then, now = (np.where(np.isfinite(each), each, np.nan) for each in (then, now))
        largest = np.fmax(np.abs(then), np.abs(now))
        zero = np.full(count, _ROUNDING * np.nanmax(largest, initial=0.0))
        least = zero.copy()
        names = list(getattr(data, "output_names", ()))
        seen = as_observations(data)
        if seen is not None and len(seen.noise) <= count:
            cells = len(seen.noise)
            names = list(seen.cell_names)
            columns = largest[:cells].reshape(len(seen.columns), -1)
            zero[:cells] = _ROUNDING * np.repeat(
                np.nanmax(columns, axis=1, initial=0.0), columns.shape[1]
            )
            noise = 0.0 if seen.logarithmic else _NOISES * np.nan_to_num(seen.noise)
            least[:cells] = np.maximum(zero[:cells], noise)
        names += [f"output_{i}" for i in range(len(names), count)]
        return cls(names, then, now, least, zero)

    def large(self, spread: Spread) -> BoolArray:
        """Return which outputs differ, where two runs at one point have these differences."""
        off, (small, size) = np.abs(self.now - self.then), self._sizes
        about_zero = np.where(spread.relative < _ABOUT_ZERO, 0.0, spread.absolute)
        noise = _NOISY * np.maximum(small * spread.relative, about_zero)
        limit = np.maximum(np.maximum(_SAME * size, noise), self.least)
        # An output that is missing now differs; one that was missing is not known.
        return np.isfinite(self.then) & ~(off <= limit)

    def words(self, spread: Spread) -> str:
        """Say by how much outputs differ; "" if by rounding or noise alone."""
        large = self.large(spread)
        if not large.any():
            return ""
        off = np.abs(self.now - self.then) / np.maximum(self._sizes[1], 1e-300)
        worst = int(np.argmax(np.where(large, np.nan_to_num(off, nan=np.inf), -1.0)))
        told = (
            f"{int(large.sum())} of {int(np.isfinite(self.then).sum())} outputs differ, as "
            f"{self.names[worst]}, {self.then[worst]:.4g} there and {self.now[worst]:.4g} now"
        )
        unit = self._factor(large, np.maximum(_ALIKE, _NOISY * spread.relative))
        if unit:
            return f"{told}. All are {unit:.4g} times as large now: is the table in another unit?"
        return (
            f"{told}. Are its columns in other units or another order, or is the simulator another?"
        )

    def _factor(self, large: BoolArray, alike: FloatArray) -> float:
        """Return the factor by which all outputs differ that are not zero; 0 if there is none."""
        nonzero = self._sizes[0] > self.zero
        hidden = nonzero & ~large  # by noise, or there is no factor
        if (large & ~nonzero).any() or hidden.sum() >= large.sum():
            return 0.0
        ratio = self.now[large] / self.then[large]
        usual = float(np.median(ratio))
        same = (np.abs(ratio / usual - 1.0) < alike[large]).all()
        return usual if same and (alike[hidden] >= _ABOUT_ZERO).all() else 0.0

    @property
    def _sizes(self) -> tuple[FloatArray, FloatArray]:
        """The smaller and the larger size of each output, then and now."""
        then, now = np.abs(self.then), np.abs(self.now)
        return np.minimum(then, now), np.maximum(then, now)
