"""Make one of the known runs again, and say if it comes out otherwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.calibration.fresh import run_fresh
from supac.cli.app import console
from supac.exchange.known import KnownRuns
from supac.problem import Composite, Observations
from supac.problem_file import ProblemFile
from supac.record.run import Run, Status
from supac.running.execution import Execution

_SAME = 1e-2  # relative difference that rounding in a table may make
_NOISES = 0.5  # of the noise: smaller differences matter little
_NOISY = 10.0  # times the difference of two runs at one point
_ALIKE = 1e-2  # by which the ratios of outputs differ that are in another unit


def known_runs_of(ready: ProblemFile) -> KnownRuns | None:
    """Return the known runs of a problem of which one can be made again."""
    known = ready.options.get("known")
    return known if isinstance(known, KnownRuns) and len(_good(known)) else None


def make_known_again(
    ready: ProblemFile, known: KnownRuns, where: Execution, between: float = 0.0
) -> str:
    """Make the known run nearest to the prior's centre again, and say how it comes out.

    Returns a warning, "" if it comes out as it is known. `between` is the largest relative
    difference of two runs at one point.
    """
    good = _good(known)
    latent = known.latent(ready.parameters)[good]
    row = int(good[np.argmin((latent**2).sum(axis=1))])
    (run,) = run_fresh(
        known.latent(ready.parameters)[row : row + 1],
        ready.risk,
        replace(where, retries=0, on_failure="drop", progress=False),
        "check",
        parameters=ready.parameters,
    )
    place = known.places[row] if known.places else f"run {row + 1} of {known.sources[row]}"
    if not run.ok:
        return f"made again, {place} fails: {run.message}"
    words = _difference(ready, known, row, run, between)
    if words:
        return f"{place} comes out otherwise when made again: {words}"
    console.print(f"  a known run again comes out as in {place}", markup=False, highlight=False)
    return ""


def _good(known: KnownRuns) -> IntArray:
    """Return the places of successful runs."""
    values = known.risk[:, None] if known.outputs is None else known.outputs
    ok = np.array([each is Status.OK for each in known.statuses], dtype=bool)
    return np.flatnonzero(np.isfinite(values).any(axis=1) & ok)


def _difference(ready: ProblemFile, known: KnownRuns, row: int, run: Run, between: float) -> str:
    """Say by how much a run differs from the known one; "" if by rounding alone."""
    if known.outputs is None or run.outputs is None:
        then, now = known.risk[row : row + 1], np.array([run.risk])
        names, noise = ["risk"], None
    else:
        then, now = known.outputs[row], run.outputs
        names, noise = _names_and_noise(ready, len(now))
    seen = np.isfinite(then) & np.isfinite(now)
    off = np.abs(now - then)
    large = off > max(_SAME, _NOISY * between) * np.maximum(np.abs(now), np.abs(then))
    if noise is not None:
        large &= off > _NOISES * noise
    large &= seen
    if not large.any():
        return ""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = now[seen] / then[seen]
    worst = int(np.flatnonzero(large)[np.argmax(off[large])])
    words = (
        f"{int(large.sum())} of {int(seen.sum())} outputs differ, as {names[worst]}, "
        f"{then[worst]:.4g} there and {now[worst]:.4g} now"
    )
    usual = float(np.nanmedian(ratio)) if len(ratio) else np.nan
    if np.isfinite(usual) and (np.abs(ratio / usual - 1.0) < _ALIKE).all():
        return f"{words}. All are {usual:.4g} times as large now: is the table in another unit?"
    return f"{words}. Are its columns in other units or another order, or is the simulator another?"


def _names_and_noise(ready: ProblemFile, count: int) -> tuple[list[str], FloatArray | None]:
    """Return names of the outputs, and their noise if it is known."""
    data = ready.risk.data if isinstance(ready.risk, Composite) else None
    if isinstance(data, Observations) and not data.logarithmic and len(data.noise) <= count:
        names = [*data.cell_names, *(f"output_{i}" for i in range(len(data.noise), count))]
        noise = np.nan_to_num(np.resize(data.noise, count), nan=0.0)
        noise[len(data.noise) :] = 0.0
        return names, noise
    return list(getattr(data, "output_names", ())) or [f"output_{i}" for i in range(count)], None
