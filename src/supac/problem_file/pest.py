"""PEST cases, named in a problem file or run as they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from supac.arrays import FloatArray
from supac.problem import Composite, Parameters
from supac.problem_file.errors import GENERATED, Source, no_file, parse
from supac.problem_file.simulator import Simulator, listed
from supac.problem_file.values import NAMES, TEXT, one_of, setting
from supac.record.record import Record

PEST_FILES = (".par", ".jcb", ".cov")
"""Ends of the names of files that `write_for_pest` writes."""
_FEWEST, _A_PARAMETER = 60, 15  # runs


@dataclass(frozen=True)
class Pest(Simulator, kind="pest"):
    """A PEST control file: model, observations, weights and parameters."""

    suffixes = (".pst",)
    pest: str = setting(TEXT, "a PEST control file, which brings its model, data and parameters")
    copies: str | Sequence[str] | None = setting(
        NAMES, "files and folders that are copied to the folder of each run", words="none"
    )
    scratch: str | None = setting(TEXT, "folder for the folders of the runs", words="temporary")
    keep: Literal["none", "failed", "all"] = setting(
        one_of("none", "failed", "all"), "which of these folders are kept", "none"
    )

    @property
    def complete(self) -> str:
        """Name of the file, which brings its own data, loss and priors."""
        return self.pest

    @property
    def other_scenario(self) -> str:
        """A second control file."""
        return (
            "name a second control file, with the changed model and what it is to simulate, in the "
            'scenario: [simulator] and pest = "later.pst"'
        )

    def make_risk(
        self, source: Source, parameters: Parameters | None
    ) -> tuple[Composite, Parameters]:
        """Return minus the mean log-likelihood, with the priors of the file or the given ones."""
        # Slow to import, and few need it.
        from supac.simulators import pest  # noqa: PLC0415

        copies = None if self.copies is None else list(map(source.file, listed(self.copies)))
        for path in copies or ():
            if not path.exists():
                raise source.fail(("simulator", "copies"), no_file(path))
        try:
            problem = pest.load(
                source.file(self.pest),
                None if parameters is None else parameters.transforms,
                copies=copies,
                scratch=None if self.scratch is None else source.file(self.scratch),
                keep=self.keep,
            )
        except (pest.PestError, ImportError) as error:
            raise source.fail_elsewhere(("simulator", "pest"), str(error)) from error
        if parameters is not None and parameters.names != problem.parameters.names:
            names = ", ".join(problem.parameters.names)
            words = f"must be the adjustable ones of {self.pest}, in its order: {names}"
            raise source.fail(("parameters",), words)
        return problem.risk, parameters or problem.parameters

    def files(self, source: Source) -> dict[str, list[Path]]:
        """Return the control file, templates and instructions."""
        from supac.simulators import pest  # noqa: PLC0415

        try:
            control = pest.read_control(source.file(self.pest))
        except (pest.PestError, ImportError):
            return {}
        return {"data": list(control.files)}

    @classmethod
    def problem_text(cls, path: Path) -> str:
        """Return the problem file: the likelihood, with a budget for its parameters."""
        from supac.simulators import pest  # noqa: PLC0415

        control = pest.read_control(path)
        count = len(control.observations) + len(control.prior_information)
        name = json.dumps(path.name, ensure_ascii=False)
        return (
            f"{GENERATED}{path.name}: copy it to a file of its own, problem.toml, to change it.\n"
            f"title = {json.dumps(path.stem, ensure_ascii=False)}\n\n"
            f"[simulator]\npest = {name}\n\n"
            f"[bound]\ntemperature = {1.0 / count!r}  # one over the number of observations\n\n"
            f"[run]\nbudget = {max(_FEWEST, _A_PARAMETER * len(control.adjustable))}\n"
        )


def write_for_pest(run: Record, text: str, sets: FloatArray, target: Path) -> str:
    """Write parameter sets (n, dim) of a store's case for PEST; return what was written.

    `text` is the problem file of the store. A .par has their medians, a .jcb all of them, and a
    .cov their covariance, each on the scale that PEST has for it.
    """
    from supac.simulators import pest  # noqa: PLC0415

    table = parse(text, run.file).get("simulator", {}) if text else {}
    if "pest" not in table:
        raise ValueError(f"{run.file.name} is not of a PEST case: {target.suffix} needs one")
    # Beside the store, or where it was when the search began.
    began = Path(json.loads(run.description)["problem_file"]).parent
    places = [folder / table["pest"] for folder in (run.file.absolute().parent, began)]
    control = pest.read_control(next(filter(Path.is_file, places), places[0]))
    if target.suffix == ".par":
        pest.write_parameters(control, np.median(sets, axis=0), target)
        return f"the medians of {len(sets)} parameter sets"
    if target.suffix == ".cov":
        pest.write_covariance(control, sets, target)
        return f"the covariance of {len(sets)} parameter sets"
    pest.write_sets(control, sets, target)
    return f"{len(sets)} parameter sets"
