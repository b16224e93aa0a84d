"""PEtab problems, named in a problem file or run as they are."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from supac.problem import Composite, Parameters
from supac.problem_file.errors import GENERATED, Source
from supac.problem_file.schema import PRIORS, shape_of
from supac.problem_file.simulator import Simulator
from supac.problem_file.values import TEXT, setting

_FEWEST, _A_PARAMETER = 100, 20  # runs


@dataclass(frozen=True)
class PEtab(Simulator, kind="petab"):
    """A PEtab problem: model, data, noise and priors."""

    suffixes = (".yaml", ".yml")
    petab: str = setting(TEXT, "a PEtab problem, which brings its model, data, noise and priors")

    @property
    def complete(self) -> str:
        """Name of the file, which brings its own data, loss and priors."""
        return self.petab

    @property
    def other_scenario(self) -> str:
        """A second PEtab problem."""
        return (
            "name a second PEtab problem, whose measurement table has the wanted times and "
            'conditions, in the scenario: [simulator] and petab = "later.yaml"'
        )

    def make_risk(
        self, source: Source, parameters: Parameters | None
    ) -> tuple[Composite, Parameters]:
        """Return minus the mean log-likelihood, of the file's parameters or of the given ones."""
        # Slow to import, and few need it.
        from supac.simulators import petab  # noqa: PLC0415

        key = ("simulator", "petab")
        try:
            priors = None if parameters is None else parameters.transforms
            problem = petab.load(source.file(self.petab), priors)
        except (petab.PEtabError, ImportError) as error:
            raise source.fail_elsewhere(key, str(error)) from error
        if parameters is None:
            return problem.risk, problem.parameters
        order = problem.parameters.names
        marginals = {name: parameters.marginals[name] for name in order}
        return problem.risk, Parameters(marginals, parameters.blocks)

    def files(self, source: Source) -> dict[str, list[Path]]:
        """Return the model, and the files that say what was measured and how."""
        from supac.simulators import petab  # noqa: PLC0415

        try:
            description = petab.read(source.file(self.petab))
        except (petab.PEtabError, ImportError):
            return {}
        model = description.model
        return {"simulator": [model], "data": [p for p in description.files if p != model]}

    @classmethod
    def problem_text(cls, path: Path) -> str:
        """Return the problem file: the likelihood, with a budget for its parameters."""
        first = f"{GENERATED}{path.name}: `supac init --petab` writes a file to change.\n"
        return first + _tables(path, path.name)


def petab_starter_files(path: Path, folder: Path) -> dict[str, str]:
    """Return a problem file for a PEtab problem, with the priors as lines to be changed."""
    from supac.simulators import petab  # noqa: PLC0415

    problem = petab.load(path)
    lines = []
    for name, prior in problem.parameters.marginals.items():
        for kind in (each for each, made in PRIORS.items() if type(prior) is made):
            numbers = ", ".join(f"{each} = {getattr(prior, each)!r}" for each in shape_of(kind))
            lines.append(f'{name} = {{ prior = "{kind}", {numbers} }}')
    place = os.path.relpath(path.absolute(), folder.absolute())
    text = _tables(path, place) + "\n[execution]\nworkers = 1  # processes that make runs\n"
    if len(lines) == len(problem.parameters):
        text += (
            "\n# The priors of the PEtab problem, in units, not logarithms: narrow them where more "
            "is known.\n# A parameter that is not listed has its nominal value; without this "
            "table all are as in\n# the PEtab problem.\n[parameters]\n" + "\n".join(lines) + "\n"
        )
    return {"problem.toml": text}


def _tables(path: Path, place: str) -> str:
    """Return title, simulator, bound and run of a PEtab problem that lies at a place."""
    from supac.simulators import petab  # noqa: PLC0415

    description = petab.read(path)
    count = sum(each.estimated for each in description.parameters)
    temperature = 1.0 / max(len(description.measurements), 1)
    return (
        f"title = {json.dumps(path.stem, ensure_ascii=False)}\n\n"
        f"[simulator]\npetab = {json.dumps(place, ensure_ascii=False)}\n\n"
        f"[bound]\ntemperature = {temperature!r}  # one over the number of measurements\n\n"
        f"[run]\nbudget = {max(_FEWEST, _A_PARAMETER * count)}\n"
    )
