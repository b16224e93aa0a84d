"""ADM1 as a problem file's simulator: it brings its own data, loss and priors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.problem.composite import Composite
from supac.problem.parameters import Parameters
from supac.problem_file.errors import Complaints, suggestion
from supac.problem_file.fingerprints import named_file
from supac.simulators import adm1


@dataclass(frozen=True, eq=False)
class SomeParameters:
    """The digester where only some of its parameters vary, the others at their prior medians."""

    problem: adm1.Problem
    names: tuple[str, ...]

    def __call__(self, x: FloatArray) -> FloatArray:
        """Outputs: (n, some) → (n, 9·days)."""
        every = self.problem.parameters
        full = np.repeat(every.from_latent(np.zeros((1, len(every)))), len(x), axis=0)
        full[:, [every.names.index(name) for name in self.names]] = x
        return self.problem.simulate(full)


def load_digester(table: Mapping[str, Any], folder: Path, complaints: Complaints) -> adm1.Problem:
    """The embedded digester, or that of a folder."""
    try:
        if "digester" in table:
            problem = adm1.load(named_file(folder, table["digester"]), table.get("variant", "dae"))
        else:
            problem = adm1.example(table.get("variant", "dae"))
        problem.simulator.load()
    except ImportError as error:
        raise complaints.fail(("simulator", "builtin"), str(error)) from error
    except (adm1.DigesterError, OSError) as error:
        raise complaints.fail(("simulator", "digester"), str(error)) from error
    return problem


def digester_risk(
    problem: adm1.Problem, parameters: Parameters | None, complaints: Complaints
) -> tuple[Composite, Parameters]:
    """The risk, and its thirty parameters or those that the file gives."""
    if parameters is None:
        return problem.composite, problem.parameters
    every = problem.parameters.names
    for name in parameters.names:
        if name not in every:
            hint = suggestion(name, every) or f"; known are {', '.join(every)}"
            complaints.add(("parameters", name), f"is no parameter of adm1{hint}")
    complaints.raise_any()
    few = SomeParameters(problem, parameters.names)
    return Composite(few, problem.composite.loss, problem.data), parameters
