"""ADM1 as the simulator of a problem file: it has its own data, loss and priors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.problem.composite import Composite
from supac.problem.parameters import Parameters
from supac.problem_file.errors import FileErrors, suggestion
from supac.problem_file.fingerprints import named_file
from supac.simulators import adm1


@dataclass(frozen=True, eq=False)
class SomeParameters:
    """The digester as a function of some parameters, the others at their prior medians."""

    problem: adm1.Problem
    names: tuple[str, ...]

    def __call__(self, x: FloatArray) -> FloatArray:
        """Compute the outputs: (n, some) → (n, 9·days)."""
        every = self.problem.parameters
        full = np.repeat(every.from_latent(np.zeros((1, len(every)))), len(x), axis=0)
        full[:, [every.names.index(name) for name in self.names]] = x
        return self.problem.simulate(full)


def load_digester(table: Mapping[str, Any], folder: Path, errors: FileErrors) -> adm1.Problem:
    """Load the digester of a folder, or the embedded one."""
    variant = table.get("variant", "dae")
    try:
        given = table.get("digester")
        problem = adm1.load(named_file(folder, given), variant) if given else adm1.example(variant)
        problem.simulator.load()
    except ImportError as error:
        raise errors.fail(("simulator", "builtin"), str(error)) from error
    except (adm1.DigesterError, OSError) as error:
        raise errors.fail(("simulator", "digester"), str(error)) from error
    return problem


def digester_risk(
    problem: adm1.Problem, parameters: Parameters | None, errors: FileErrors
) -> tuple[Composite, Parameters]:
    """Return the risk and its parameters: those of the file, or all thirty."""
    if parameters is None:
        return problem.composite, problem.parameters
    every = problem.parameters.names
    for name in parameters.names:
        if name not in every:
            hint = suggestion(name, every) or f"; known are {', '.join(every)}"
            errors.add(("parameters", name), f"is not a parameter of adm1{hint}")
    errors.raise_any()
    few = SomeParameters(problem, parameters.names)
    return Composite(few, problem.composite.loss, problem.data), parameters
