"""Simulators that come with supac: a reaction, and ADM1 with its own data, loss and priors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from supac.arrays import FloatArray
from supac.problem import Composite, Observations, Parameters
from supac.problem_file.errors import Source, suggestion
from supac.problem_file.inputs import Inputs
from supac.problem_file.simulator import Simulate, Simulator
from supac.problem_file.values import TEXT, one_of, setting
from supac.simulators.reaction import OUTPUTS, PARAMETERS, Reaction

if TYPE_CHECKING:
    from supac.simulators import adm1

_DIGESTER = ("dig_info.json", "init_state.json", "feed.csv", "obs.csv")


@dataclass(frozen=True)
class BuiltIn(Simulator, kind="builtin"):
    """A model that comes with supac."""

    builtin: str = setting(one_of("reaction", "adm1"), "a model that comes with supac")
    digester: str | None = setting(
        TEXT, "for adm1, the folder with the plant's data", words="synthetic data"
    )
    variant: Literal["dae", "split"] = setting(
        one_of("dae", "split"), "for adm1, how pH is solved", "dae"
    )

    @property
    def complete(self) -> str:
        """ADM1, which brings its own data, loss and priors; "" for other models."""
        return self.builtin if self.builtin == "adm1" else ""

    @property
    def takes_many(self) -> bool:
        """ADM1 simulates many digesters side by side."""
        return True

    @property
    def ceiling(self) -> float:
        """Upper limit of ADM1's loss; else 1."""
        return 3.0 if self.complete else 1.0

    def make(self, source: Source, parameters: Inputs, data: Observations | None) -> Simulate:
        """Return the reaction, for its parameters and data in any order."""
        if set(parameters.names) != set(PARAMETERS):
            raise source.fail(
                ("parameters",),
                f"the built-in reaction has the parameters {', '.join(PARAMETERS)}, not "
                f"{', '.join(parameters.names)}",
            )
        if data is None or data.columns != OUTPUTS or data.times is None:
            raise source.fail(
                ("data", "observed") if data is not None else ("simulator", "builtin"),
                'the built-in reaction needs data with a column time and observed = ["A", "B"]',
            )
        model = Reaction(data.times, parameters.names)
        return Simulate(model, observations=data, vectorized=True)

    def make_risk(
        self, source: Source, parameters: Parameters | None
    ) -> tuple[Composite, Parameters]:
        """Return the risk of the digester and its parameters: those of the file, or all thirty."""
        problem = self._load(source)
        if parameters is None:
            return problem.composite, problem.parameters
        every = problem.parameters.names
        for name in parameters.names:
            if name not in every:
                hint = suggestion(name, every) or f"; known are {', '.join(every)}"
                source.add(("parameters", name), f"is not a parameter of adm1{hint}")
        source.raise_any()
        few = SomeParameters(problem, parameters.names)
        return Composite(few, problem.composite.loss, problem.data), parameters

    def _load(self, source: Source) -> adm1.Problem:
        """Load the digester of a folder, or the embedded one."""
        # Slow to import, and most users bring their own simulator.
        from supac.simulators import adm1  # noqa: PLC0415

        try:
            if self.digester is None:
                problem = adm1.example(self.variant)
            else:
                problem = adm1.load(source.file(self.digester), self.variant)
            problem.simulator.load()
        except ImportError as error:
            raise source.fail(("simulator", "builtin"), str(error)) from error
        except (adm1.DigesterError, OSError) as error:
            raise source.fail(("simulator", "digester"), str(error)) from error
        return problem

    def files(self, source: Source) -> dict[str, list[Path]]:
        """Return the data of the plant."""
        if self.digester is None:
            return {}
        plant = source.file(self.digester)
        folders = (plant, plant / "train_data")
        return {"data": [folder / name for folder in folders for name in _DIGESTER]}


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
