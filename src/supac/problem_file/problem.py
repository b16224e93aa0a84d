"""What a problem file says, as a value: the arguments of `minimize`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supac.calibration.certify import certify
from supac.calibration.minimize import minimize
from supac.guarantee.certificate import Certificate
from supac.problem.bounds import Bound
from supac.problem.parameters import Parameters
from supac.problem_file.assumptions import objections
from supac.problem_file.data import Observations
from supac.problem_file.errors import Complaints, parse
from supac.problem_file.fingerprints import fingerprints
from supac.problem_file.schema import BOUNDS
from supac.record.result import Result
from supac.record.snapshot import Snapshot
from supac.record.store import may_be_store


@dataclass(frozen=True, eq=False)
class ProblemFile:
    """A problem that was read from a file, checked and ready to run."""

    path: Path
    text: str
    title: str
    parameters: Parameters
    risk: Callable[..., Any]
    """A `Composite` where there are outputs."""
    bound: Bound
    n: int | None
    """How many independent data there are, where the file says so."""
    delta: float
    budget: int
    first: int
    """Runs of the first batch, which no smaller budget can pay for."""
    seed: int
    store: Path
    vectorized: bool
    execution: Mapping[str, Any] = field(default_factory=dict)
    """Where and how runs are made: options that `minimize` and `certify` share."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those of `minimize` alone."""
    observations: Observations | None = None

    def minimize(self, **changes: Any) -> Result:
        """Run the problem; any option of `minimize` may be changed."""
        settings: dict[str, Any] = {
            "budget": self.budget,
            "seed": self.seed,
            "store": self.store,
            "vectorized": self.vectorized,
            "description": self.description,
            **self.execution,
            **self.options,
            **changes,
        }
        return minimize(self.risk, self.parameters, self.bound, **settings)

    def check_store(self) -> None:
        """ProblemFileError where the runs cannot be kept in the store that the file names."""
        words, store = "", self.store
        if not store.parent.is_dir():
            words = f"there is no folder {store.parent}: make it first"
        elif store.is_dir():
            words = f"{store} is a folder: name a file in it"
        elif not may_be_store(store):
            words = f"{store.name} is there already, and no store: choose another name"
        if words:
            raise Complaints(self.path, self.text).fail(("run", "store"), words)

    def certify(
        self, run: Snapshot, *, n: int | None = None, bound: str | None = None, **changes: Any
    ) -> Certificate:
        """What is guaranteed of a run's posterior, from fresh runs; options as in `certify`.

        `bound` is the name of another one, as in a problem file.
        """
        count = self.data_behind(run, n)
        assert run.posterior is not None
        settings: dict[str, Any] = {
            "delta": self.delta,
            "vectorized": self.vectorized,
            "seed": self.seed,
            **self.execution,
            **changes,
        }
        chosen = self.bound
        if bound is not None:
            make: Callable[..., Bound] = BOUNDS[bound]
            price = {"temperature": "auto"} if bound == "catoni" else {}
            ceiling = getattr(self.bound, "ceiling", 1.0)
            chosen = make(n=count, delta=settings["delta"], ceiling=ceiling, **price)
        return certify(run.posterior, self.parameters, self.risk, chosen, n=count, **settings)

    def data_behind(self, run: Snapshot, n: int | None = None) -> int:
        """The number of data that a certificate counts; ValueError where there can be none."""
        count = n or self.n
        if count is None:
            most = "N" if self.observations is None else self.observations.measured
            raise ValueError(
                f"a certificate needs n, the number of independent data: give it, such as --n "
                f"{most}, or add it to [bound] in {self.path.name} and name that file: supac "
                f"certify {self.path.name}"
            )
        given = parse(self.text, self.path)["bound"].get("ceiling")
        for _, words in objections(count, given, self.risk, self.observations):
            raise ValueError(f"no certificate can be given: {words}")
        if run.posterior is None:
            raise ValueError(f"{run.path} has no posterior yet: nothing can be said of it")
        return count

    @property
    def description(self) -> str:
        """What the store keeps, so that the run can be gone on with from it alone."""
        known = {"problem_file": str(self.path), "text": self.text, "files": self.files}
        return json.dumps(known)

    @property
    def files(self) -> dict[str, str]:
        """The files that the problem names, by what they are for, with a checksum of each."""
        return fingerprints(parse(self.text, self.path), self.path.parent)
