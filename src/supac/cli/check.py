"""`supac run --check`: one run, judged as any other."""

from __future__ import annotations

import numpy as np

from supac.arrays import FloatArray
from supac.cli.app import console, failed, user_code
from supac.problem.composite import Composite
from supac.problem_file import ProblemFile
from supac.problem_file.python import PythonFunction
from supac.problem_file.simulator import Simulate
from supac.record.run import Status
from supac.running import Answer, Request, Simulator, open_pool
from supac.running.evaluate import simulator_of
from supac.running.progress import duration


def check_problem(ready: ProblemFile) -> None:
    """One run at the prior's median."""
    risk, parameters = ready.risk, ready.parameters
    simulator = simulator_of(risk, vectorized=ready.vectorized, parameters=parameters)
    console.print(f"{ready.path.name} is read. A run at the prior's median …")
    median = parameters.from_latent(np.zeros((1, len(parameters))))[0]
    with user_code():
        answer = _answer(simulator, median, ready.execution.get("timeout"))
    if answer.status is not Status.OK or answer.values is None:
        raise failed(f"the run failed: {answer.without_error().message}{_hint(ready, answer)}")
    value = answer.values
    if isinstance(risk, Composite):
        console.print(f"  outputs compared  {value.size}")
        with user_code():
            value = np.asarray(risk.loss(value[None]))
    console.print(f"  risk              {float(value.ravel()[0]):.4g}")
    console.print(f"  it took           {duration(answer.seconds)}\nno mistake found")


def _answer(simulator: Simulator, x: FloatArray, timeout: float | None) -> Answer:
    """Of this process, or of a child that is killed where it takes too long."""
    pool = open_pool(None, [simulator], timeout=timeout, retries=0)
    try:
        pool.submit(Request(0, x))
        while True:
            for answer in pool.collect(1.0):
                return answer
    finally:
        pool.close()


def _hint(ready: ProblemFile, answer: Answer) -> str:
    """What may be meant, where the file calls the simulator in another way than it is written."""
    risk = ready.risk
    simulate = risk.simulate if isinstance(risk, Composite) else risk
    if not isinstance(simulate, Simulate):
        return ""
    function, names = simulate.function, ready.parameters.names
    called_by_array = isinstance(function, PythonFunction) and not simulate.names
    if called_by_array and answer.message.startswith("TypeError") and len(names) > 1:
        assert isinstance(function, PythonFunction)
        if not function.missing_arguments(names):
            return '. It takes every parameter by its name: add arguments = "names" to [simulator]'
    if answer.status is Status.INVALID and not isinstance(risk, Composite):
        return (
            ". Without [data] and [loss] it must return the risk itself: to have its outputs "
            "compared with what was measured, add [data]"
        )
    return ""
