"""PEtab problems, named in a problem file or run as they are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from supac.problem import Composite, Parameters
from supac.problem_file.errors import GENERATED, Source
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
        """It is complete."""
        return self.petab

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
            raise source.fail(key, str(error)) from error
        return problem.risk, parameters or problem.parameters

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
        from supac.simulators import petab  # noqa: PLC0415

        description = petab.read(path)
        count = sum(each.estimated for each in description.parameters)
        name = json.dumps(path.name, ensure_ascii=False)
        temperature = 1.0 / max(len(description.measurements), 1)
        return (
            f"{GENERATED}{path.name}: copy it to a file of its own, problem.toml, to change it.\n"
            f"title = {json.dumps(path.stem, ensure_ascii=False)}\n\n"
            f"[simulator]\npetab = {name}\n\n"
            f"[bound]\ntemperature = {temperature!r}  # one over the number of measurements\n\n"
            f"[run]\nbudget = {max(_FEWEST, _A_PARAMETER * count)}\n"
        )
