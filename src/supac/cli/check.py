"""The run that `--check` makes, and what it tells of the problem file."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import numpy as np

from supac.arrays import FloatArray
from supac.calibration.ending import notes_of
from supac.calibration.fresh import run_fresh
from supac.calibration.jacobian_check import check_jacobian
from supac.cli.app import (
    console,
    failed,
    user_code,
    warn,
)
from supac.cli.known_again import CHEAP, known_runs_of, make_known_again
from supac.posterior.attainable import attainable_before
from supac.problem import Composite
from supac.problem.composite import as_composite, coarse_ones, parts_of
from supac.problem.data import as_observations
from supac.problem.observation import ObservedSimulator
from supac.problem_file import ProblemFile
from supac.problem_file.errors import is_number
from supac.problem_file.experiments import Experiments
from supac.problem_file.python import PythonFunction
from supac.problem_file.simulator import Simulate
from supac.record.run import Run, Status
from supac.report.account import NOWHERE_NEAR
from supac.running.execution import Execution
from supac.running.terminal import duration


def check_run(ready: ProblemFile, *, repeat_known: bool, elsewhere: bool = False) -> None:
    """Make one run at the prior's median, or at a draw if that is refused, without a store.

    It is made in this process, or `elsewhere`, on the workers.
    """
    risk, where, simulate = ready.risk, ready.execution, parts_of(ready.risk).simulate
    point, words = _allowed_point(ready, simulate)
    console.print(f"{ready.path.name} is read. A run at {words} …")
    alone = Execution(
        timeout=where.timeout,
        retries=0,
        on_failure="drop",
        vectorized=where.vectorized,
        progress=False,
        workers=where.workers if elsewhere else None,
        cluster=where.cluster if elsewhere else None,
    )
    with user_code():
        (run,) = run_fresh(point, risk, alone, "check", parameters=ready.parameters)
    if not run.ok:
        raise failed(f"the run failed: {run.message}{_hint(ready, run)}")
    again = None
    if run.seconds < CHEAP and not elsewhere:
        with user_code():
            (again,) = run_fresh(point, risk, alone, "check", parameters=ready.parameters)
    trouble = str(getattr(simulate, "check", lambda _: "")(ready.parameters.from_latent(point)[0]))
    if trouble:
        raise failed(trouble)
    found, own = "no mistake found", as_composite(risk)
    if own is not None and run.outputs is not None:
        residuals = own.residuals(run.outputs[None])
        compared = getattr(own.data, "measured", residuals.shape[1])
        console.print(f"  outputs compared  {compared}")
        _print_times(ready)
        off = float(np.median(np.abs(residuals)))
        if as_observations(own.data) is not None and off > NOWHERE_NEAR:
            found = "no other mistake found"
            words = f"{off:,.0f} noises: are data and simulator in the same units?"
            console.print(f"  typically off by  {words}", style="yellow", highlight=False)
    _print_noise(ready)
    console.print(f"  risk              {run.risk:.4g}")
    _print_hope(ready)
    if again is not None and _differ(run, again):
        words = "differs: the simulator is noisy, or its answers depend on earlier runs"
        console.print(f"  the same run      {words} (risk {again.risk:.4g})", style="yellow")
    _check_coarse(ready, point, run, alone)
    found = ("" if elsewhere else _check_jacobian(ready, point, run)) or found
    known = known_runs_of(ready)
    if known is not None and not elsewhere and (repeat_known or run.seconds < CHEAP):
        with user_code():
            pair = None if again is None or not again.ok else (run, again)
            trouble = make_known_again(ready, known, alone, pair, asked=repeat_known)
        if trouble:
            found = "no other mistake found"
            console.print(f"  known runs        {trouble}", style="yellow", markup=False)
    elif known is not None:
        console.print("  known runs        --repeat-known makes one of them again, to compare it")
    console.print(f"  it took           {duration(run.seconds)}\n{found}")
    for note in notes_of(risk):
        warn(note)


def _check_jacobian(ready: ProblemFile, point: FloatArray, run: Run) -> str:
    """Compare the Jacobian with differences where runs are cheap; return "" if they agree."""
    risk = as_composite(ready.risk)
    if risk is None or risk.jacobian is False or run.seconds >= CHEAP:
        return ""
    x = ready.parameters.from_latent(point)[0]
    try:
        with user_code():
            told = check_jacobian(
                risk, ready.parameters, x, vectorized=bool(ready.execution.vectorized)
            )
    except ValueError as error:
        raise failed(str(error)) from error
    console.print(f"  Jacobian          {told}", style="yellow" if told.wrong else None)
    return "no other mistake found" if told.wrong else ""


def _check_coarse(ready: ProblemFile, point: FloatArray, fine: Run, alone: Execution) -> None:
    """Make one run of the coarse model, if there is one, and compare its outputs."""
    own, coarse = as_composite(ready.risk), coarse_ones([ready.risk])[0]
    if own is None or coarse is None:
        return
    where = "the coarse model of [simulator.coarse]"
    with user_code():
        (run,) = run_fresh(point, coarse, alone, "check", parameters=ready.parameters)
    if not run.ok:
        raise failed(f"the run of {where} failed: {run.message}")
    if run.outputs is None or fine.outputs is None:
        return
    sizes = [each.outputs.shape[0] for each in (run, fine) if each.outputs is not None]
    if sizes[0] != sizes[1]:
        raise failed(f"{where} returns {sizes[0]} outputs, but the fine one {sizes[1]}")
    off = own.residuals(run.outputs[None]) - own.residuals(fine.outputs[None])
    given = _coarse_cost(own)
    cost = "its cost is measured" if given is None else f"counts as {given:g} fine runs"
    told = f"took {duration(run.seconds)}, {cost}; outputs differ by {_typical(off):.3g} noises"
    console.print(f"  coarse model      {told}", highlight=False)


def _typical(differences: FloatArray) -> float:
    """Return the median size of differences."""
    return float(np.nanmedian(np.abs(differences)))


def _coarse_cost(risk: Composite) -> float | None:
    """Return the cost of a coarse run in fine ones, if it is given."""
    return None if risk.coarse is None else risk.coarse.cost


def _print_times(ready: ProblemFile) -> None:
    """Print from when to when dates of the data reach, and from when they count."""
    seen = ready.observations
    if seen is not None and seen.times is not None and " since " in (seen.time_label or ""):
        words = f"{seen.times.min():g} to {seen.times.max():g} {seen.time_label}"
        console.print(f"  times             {words}", markup=False, highlight=False)


def _print_noise(ready: ProblemFile) -> None:
    """Print the noise that was estimated from the data."""
    for name, (low, high) in ready.estimated_noise.items():
        size = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        console.print(f"  estimated noise   {size} of {name}", markup=False, highlight=False)


def _print_hope(ready: ProblemFile) -> None:
    """Print the limit that can be hoped for, where that is known before any run."""
    hope = attainable_before(ready.risk, ready.bound, len(ready.parameters))
    if hope is not None:
        lines = textwrap.wrap(hope.sentence, console.width - 20)
        console.print(
            "  best limit        " + "\n                    ".join(lines), highlight=False
        )


def _differ(one: Run, other: Run) -> bool:
    """Return whether two runs at one point have different answers."""
    if one.outputs is None or other.outputs is None:
        return one.status is not other.status or not np.isclose(one.risk, other.risk, rtol=_SAME)
    return not np.allclose(one.outputs, other.outputs, rtol=_SAME, atol=0.0, equal_nan=True)


def _allowed_point(ready: ProblemFile, simulate: object) -> tuple[FloatArray, str]:
    """Return a latent point (1, dim) that no constraint refuses, and what it is."""
    median = np.zeros((1, len(ready.parameters)))
    refuses: Callable[[FloatArray], str] | None = getattr(simulate, "refuses", None)
    if refuses is None:
        return median, "the prior's median"
    points = np.vstack([median, ready.parameters.prior.sample(_DRAWS_TO_CHECK, 0)])
    for i, x in enumerate(ready.parameters.from_latent(points)):
        if not refuses(x):
            draw = "a draw of the prior, whose median breaks a constraint"
            return points[i : i + 1], draw if i else "the prior's median"
    words = f"all of {len(points)} draws of the prior break a constraint: mend [constraints]"
    raise failed(f"{ready.path.name}: {words}")


_DRAWS_TO_CHECK = 200
_SAME = 1e-9  # relative difference that is rounding


def _hint(ready: ProblemFile, run: Run) -> str:
    """Suggest a change of the file if it calls the simulator in the wrong way."""
    risk = ready.risk
    simulate = parts_of(risk).simulate
    if isinstance(simulate, ObservedSimulator):
        simulate = simulate.simulate
    if isinstance(simulate, Experiments):
        simulate = simulate.conditions[0]
    if not isinstance(simulate, Simulate):
        return ""
    if (
        isinstance(simulate.function, PythonFunction)
        and not simulate.by_name
        and len(ready.parameters) > 1
        and run.message.startswith("TypeError")
        and simulate.inputs is not None
        and not simulate.function.missing_arguments(simulate.inputs.arguments)
    ):
        return '. It takes every parameter by its name: add arguments = "names" to [simulator]'
    data = simulate.observations
    if (
        isinstance(simulate.function, PythonFunction)
        and run.message.startswith("ValueError: the simulator returned")
        and len(set(getattr(data, "experiments", None) or ())) > 1
    ):
        return (
            ". The tables [[data]] have the same settings, or none, so one run returns the rows of "
            "all of them: give the function an argument times without a default, and it is given "
            "their times; or give each table settings of its own"
        )
    texts = {} if simulate.inputs is None else simulate.inputs.fixed
    quoted = [name for name, value in texts.items() if isinstance(value, str) and is_number(value)]
    if quoted:
        return f". Numbers in quotes are passed as texts: {', '.join(quoted)}"
    return _hint_on_the_answer(risk, run)


def _hint_on_the_answer(risk: object, run: Run) -> str:
    """Suggest a change of the file for an answer that is no outputs, or has NaN in them."""
    plain = as_composite(risk) is None
    if not plain and "NaN or infinity" in run.message:
        return '. If a run may end before the data do, write after_end = "hold" in [data]'
    if run.status is Status.INVALID and plain:
        return (
            ". Without [data] and [loss] it must return the risk itself: to have its outputs "
            "compared with what was measured, add [data]"
        )
    return ""
