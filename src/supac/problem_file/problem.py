"""A problem file as a value: the arguments of `minimize`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from supac.arrays import FloatArray
from supac.calibration.certify import certify
from supac.calibration.loop import Iteration
from supac.calibration.old_keywords import OldKeywords, with_old
from supac.calibration.search import Search
from supac.guarantee.basis import CertificateError, basis_of
from supac.guarantee.certificate import Certificate, Subject
from supac.guarantee.origin import Origin
from supac.guarantee.provenance import Provenance
from supac.problem import Observations, Parameters
from supac.problem.bounds import Bound
from supac.problem.composite import parts_of
from supac.problem_file.coarse import coarse_checksums, coarse_since
from supac.problem_file.data import data_files, data_tables, known_files
from supac.problem_file.errors import Source
from supac.problem_file.noise import unknown_columns
from supac.problem_file.python import PythonFunction
from supac.problem_file.schema import BOUNDS
from supac.problem_file.simulator import simulator_of
from supac.record.checksums import CODE
from supac.record.coarse_use import COARSE_SINCE
from supac.record.record import Record, read_store
from supac.record.result import Result
from supac.record.simulator_versions import (
    SimulatorVersion,
    made_by_others,
    versions_of,
    versions_with,
)
from supac.record.status import Status
from supac.record.store.file import StoreError, may_be_store
from supac.running.execution import Execution


@dataclass(frozen=True, eq=False)
class ProblemFile:
    """A problem read from a file, checked and ready to run."""

    path: Path
    text: str
    title: str
    parameters: Parameters
    risk: Callable[..., Any]
    """A `Composite` if there are outputs."""
    bound: Bound
    n: int | None
    """Number of independent data, if the file states it."""
    delta: float
    budget: int
    first: int
    """Number of runs of the first batch: the smallest budget."""
    seed: int
    store: Path
    execution: Execution = Execution()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Algorithm, known runs, provenance, validation and tolerance, as in `Search`."""
    observations: Observations | None = None
    simulators: tuple[SimulatorVersion, ...] = ()
    """Versions of the simulator that a continued store has runs of, with the present one."""
    coarse_since: int | None = None
    """Rounds of a continued store before its coarse model changed; None if it has not."""
    replaced: Origin | None = None
    """Search whose store is replaced by that of this one: what it has seen is known."""

    def __repr__(self) -> str:
        seen = self.observations
        parts = [self.path.name, f"{len(self.parameters)} parameters", f"{self.budget} runs"]
        parts += [] if seen is None else [f"data {', '.join(seen.columns)}"]
        return f"ProblemFile({', '.join(parts)})"

    def minimize(
        self,
        *,
        budget: int | None = None,
        execution: Execution | Any = None,
        store: str | os.PathLike[str] | None = None,
        seed: int | None = None,
        callback: Callable[[Iteration], object] | None = None,
        again: frozenset[Status] = frozenset(),
        **old: Unpack[OldKeywords],
    ) -> Result:
        """Run the problem; arguments replace settings of the file.

        `execution` may be other workers, such as 8; an `Execution` replaces all of the file's.
        Runs of the store that ended as one of `again` says are made again.
        """
        where, _ = with_old(self.with_workers(execution), old)
        target = Path(store or self.store)
        there = target.is_file() and target.stat().st_size > 0
        told = self.continuing(read_store(target)) if there else self
        return replace(
            self._search,
            budget=budget or self.budget,
            execution=where,
            store=target,
            seed=self.seed if seed is None else seed,
            callback=callback,
            description=told.description,
            again=again,
            coarse_since=told.coarse_since,
        ).run()

    @property
    def _search(self) -> Search:
        """The search of the file, as it is without a store."""
        return Search(
            self.risk,
            self.parameters,
            self.bound,
            self.budget,
            execution=self.execution,
            seed=self.seed,
            **{**self.options, "provenance": self._provenance},
        )

    @property
    def _provenance(self) -> Provenance:
        """Provenance of the file, and of a search that is replaced."""
        declared: Provenance = self.options.get("provenance", Provenance())
        if self.replaced is None:
            return declared
        told = self.parameters, self.parameters.prior, self.bound, self.risk
        return declared.joined(self.replaced.provenance_of(*told))

    @property
    def changed_after_a_result(self) -> list[str]:
        """Changes since the search whose runs are known, or that is replaced, in clauses.

        No bound holds after them. What held-out data, which no search has seen, say is certified.
        """
        declared, seen = self.options.get("provenance", Provenance()), self._search.known_provenance
        if seen.origin_change:
            return [seen.origin_change]
        if parts_of(self.risk).tested is not None:
            return [seen.test_change] if seen.test_change else []
        chosen = {
            "the prior": declared.prior_is_independent and not seen.prior_is_independent,
            "the loss, its ceiling or the noise": declared.loss_is_independent
            and not seen.loss_is_independent,
        }
        told = [f"{name} was chosen or changed" for name, changed in chosen.items() if changed]
        told += [seen.data_change] if seen.data_change else []
        return [f"{each} after a result on the same data" for each in told]

    def with_workers(self, given: Execution | Any) -> Execution:
        """Return a given execution, or the file's with other workers."""
        if given is None or isinstance(given, Execution):
            return given or self.execution
        return replace(self.execution, workers=given)

    @property
    def estimated_noise(self) -> dict[str, tuple[float, float]]:
        """Least and largest noise of the observed columns for which it is "unknown"."""
        seen, found = self.observations, dict[str, tuple[float, float]]()
        for table in data_tables(Source(self.text, self.path)).values():
            names = unknown_columns(table)
            for i, name in enumerate(() if seen is None else seen.columns):
                if seen is not None and name in names:
                    noise = seen.noise[i * seen.rows : (i + 1) * seen.rows]
                    found[name] = float(np.nanmin(noise)), float(np.nanmax(noise))
        return found

    def check_store(self) -> None:
        """Raise ProblemFileError if the file's store cannot be written."""
        words, store = "", self.store
        if not store.parent.is_dir():
            words = f"there is no folder {store.parent}: make it first"
        elif store.is_dir():
            words = f"{store} is a folder: name a file in it"
        elif not may_be_store(store):
            words = f"{store.name} exists and is not a store: choose another name"
        if words:
            raise Source(self.text, self.path).fail(("run", "store"), words)

    def certify(
        self,
        run: Record,
        *,
        n: int | None = None,
        delta: float | None = None,
        draws: int = 1_000,
        precision: float | None = None,
        subject: Subject = "posterior",
        bound: str | None = None,
        execution: Execution | Any = None,
        store: str | os.PathLike[str] | None = None,
        seed: int | None = None,
        **old: Unpack[OldKeywords],
    ) -> Certificate:
        """Certify the posterior of a search with fresh runs; arguments as in `certify`.

        `bound` is the name of another bound, as in a problem file.
        """
        drawn = self.seed if seed is None else seed
        if store is not None and Path(store).exists() and same_file(store, run.path):
            stored = read_store(store)  # with runs that were added since
            self._check_simulator(stored, run.fresh_draws(draws, drawn))
            run.description = stored.description
        chosen, share = self.bound, self.delta if delta is None else delta
        if bound is not None:
            basis = basis_of(self.risk, chosen, n=n)
            chosen = BOUNDS[bound].for_data(len(basis.weights), share, basis.ceiling)
        made = certify(
            run.known_posterior(),
            self.parameters,
            run.risk_as_stored(self.risk),
            chosen,
            n=n,
            delta=share,
            draws=draws,
            precision=precision,
            subject=subject,
            provenance=run.next_provenance(self.parameters, chosen, self.risk),
            execution=self.with_workers(execution),
            store=store,
            seed=run.seed_of_draws(drawn),
            **old,
        )
        return run.count_certificate(made)

    @property
    def description(self) -> str:
        """Path, text and checksums as JSON, from which a store alone can be resumed."""
        known: dict[str, Any] = {"problem_file": str(self.path), "text": self.text}
        known["files"] = self.files
        if self.coarse_since is not None:
            known[COARSE_SINCE] = self.coarse_since
        versions = {"simulators": [each.to_spec() for each in self.simulators]}
        return json.dumps(known | versions if self.simulators else known)

    def continuing(self, run: Record) -> ProblemFile:
        """Return the problem with the versions of the simulator that made the runs of a store."""
        made = [each.id for each in run.light_runs if each.task == 0]
        files = self.files
        versions = versions_with(versions_of(run.description), files, made)
        return replace(self, simulators=versions, coarse_since=coarse_since(run, files))

    def _check_simulator(self, run: Record, points: FloatArray) -> None:
        """Raise CertificateError if another simulator has made some of the runs at these points.

        Otherwise write to the store which simulator makes its further runs.
        """
        asked, versions = {x.tobytes() for x in points}, self.continuing(run).simulators
        ids = [
            each.id
            for each in run.light_runs
            if each.task == 0 and each.purpose == "certificate" and each.x.tobytes() in asked
        ]
        others = len(made_by_others(versions, ids))
        if others:
            raise CertificateError(
                f"{others} of the {len(ids)} runs that {run.file.name} has for this certificate "
                "were made by another version of the simulator: restore that version, or search "
                "anew with the present one, in another store"
            )
        known = versions_of(run.description)
        if known and versions != known and len(versions) > 1:
            told = json.loads(run.description)
            run.describe(json.dumps(told | {"simulators": [each.to_spec() for each in versions]}))

    @property
    def files(self) -> dict[str, str]:
        """Checksums of the files that the problem names, by their role."""
        return named_files(Source(self.text, self.path))


def named_files(source: Source) -> dict[str, str]:
    """Return checksums of the files that a problem file names, by their role; no code is run."""
    named, simulator = source.table("loss").get("python"), simulator_of(source)
    loss = PythonFunction(source.path.parent, named) if named else None
    paths = {
        "data": data_files(source),
        "simulator": [],
        "loss": [] if loss is None else [loss.file],
        "known": known_files(source),
        **simulator.files(source),
    }
    code = {
        "simulator": simulator.code(source),
        "loss": "" if loss is None else loss.code,
        "known": _checksum_of_runs(paths["known"]),
    }
    sums = checksums(paths, code) | coarse_checksums(source)
    given = source.table("parameters").items()
    fixed = {n: e for n, e in given if not (isinstance(e, dict) and "prior" in e)}
    settings = [table.get("settings", {}) for table in data_tables(source).values()]
    ends = [f"{t['after_end']}" for t in data_tables(source).values() if "after_end" in t]
    told: list[Any] = [fixed, source.table("constraints"), *filter(None, settings), *ends]
    if any(told):
        sums["fixed"] = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return sums


def _checksum_of_runs(paths: list[Path]) -> str:
    """Return the SHA-256 of the runs of a store that are known; "" for tables.

    The file itself changes with each certificate that is counted in it.
    """
    if len(paths) != 1 or not (paths[0].is_file() and may_be_store(paths[0])):
        return ""
    try:
        runs = read_store(paths[0]).search_runs
    except (StoreError, OSError):
        return ""
    told = hashlib.sha256()
    for run in sorted(runs, key=lambda each: each.id):
        told.update(f"{run.id} {run.status} {run.risk!r}".encode() + run.x.tobytes())
    return told.hexdigest()


def same_file(path: str | os.PathLike[str], other: Path | None) -> bool:
    """Return True if two paths lead to the same file, however they are spelt."""
    return other is not None and Path(path).resolve() == other.resolve()


def checksums(paths: Mapping[str, list[Path]], code: Mapping[str, str]) -> dict[str, str]:
    """Return checksums of the files that exist by role, and of code that matters in them."""
    there = {role: [path for path in each if path.is_file()] for role, each in paths.items()}
    sums = {role: checksum(each) for role, each in there.items() if each}
    return sums | {role + CODE: each for role, each in code.items() if each}


def checksum(paths: list[Path]) -> str:
    """Return the SHA-256 of one file; of several, that of their checksums in this order."""
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    return sums[0] if len(sums) == 1 else hashlib.sha256("\n".join(sums).encode()).hexdigest()
