"""The option `supac run --check`: make one run."""

from __future__ import annotations

import numpy as np

from supac.calibration.fresh import run_fresh
from supac.cli.app import console, failed, user_code
from supac.problem import Composite
from supac.problem_file import ProblemFile
from supac.problem_file.python import PythonFunction
from supac.problem_file.simulator import Simulate
from supac.record.run import Run, Status
from supac.running.execution import Execution
from supac.running.terminal import duration


def check_problem(ready: ProblemFile) -> None:
    """Make one run at the prior's median, without a store."""
    risk, where = ready.risk, ready.execution
    console.print(f"{ready.path.name} is read. A run at the prior's median …")
    alone = Execution(
        timeout=where.timeout, retries=0, on_failure="drop", vectorized=where.vectorized
    )
    with user_code():
        (run,) = run_fresh(
            np.zeros((1, len(ready.parameters))), risk, alone, "check",
            parameters=ready.parameters, progress=False,
        )  # fmt: skip
    if not run.ok:
        raise failed(f"the run failed: {run.message}{_hint(ready, run)}")
    if isinstance(risk, Composite) and run.outputs is not None:
        compared = risk.residuals(run.outputs[None]).shape[1]
        console.print(f"  outputs compared  {compared}")
    console.print(f"  risk              {run.risk:.4g}")
    console.print(f"  it took           {duration(run.seconds)}\nno mistake found")


def _hint(ready: ProblemFile, run: Run) -> str:
    """Suggest a change of the file if it calls the simulator in the wrong way."""
    risk = ready.risk
    simulate = risk.simulate if isinstance(risk, Composite) else risk
    if not isinstance(simulate, Simulate):
        return ""
    function, names = simulate.function, ready.parameters.names
    called_by_array = isinstance(function, PythonFunction) and not simulate.names
    if called_by_array and run.message.startswith("TypeError") and len(names) > 1:
        assert isinstance(function, PythonFunction)
        if not function.missing_arguments(names):
            return '. It takes every parameter by its name: add arguments = "names" to [simulator]'
    if run.status is Status.INVALID and not isinstance(risk, Composite):
        return (
            ". Without [data] and [loss] it must return the risk itself: to have its outputs "
            "compared with what was measured, add [data]"
        )
    return ""
