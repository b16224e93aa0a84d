"""From the text of a problem file to what it says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from supac.algorithm import Problem
from supac.bounds import Bound, Catoni
from supac.composite import Composite, Welsch
from supac.exchange import read_csv
from supac.parameters import Parameters
from supac.problem_file.check import check
from supac.problem_file.data import Observations, read_observations
from supac.problem_file.errors import Complaint, Complaints, ProblemFileError, parse, suggestion
from supac.problem_file.problem import ProblemFile
from supac.problem_file.schema import BOUNDS, LOSSES, PRIORS, shape_of
from supac.problem_file.simulator import Simulate, kind_of, load_function, make_simulator
from supac.snapshot import Snapshot
from supac.supac import SuPAC

_DIGESTER_CEILING = 3.0  # what ADM1's loss is capped at


def read_problem(path: str | os.PathLike[str]) -> ProblemFile:
    """Read and check a problem file; ProblemFileError with everything that is wrong with it."""
    text, place = _text_of(Path(path).absolute())
    return make_problem(text, place)


def _text_of(path: Path) -> tuple[str, Path]:
    """The text of a file, and where it is."""
    try:
        return path.read_text(encoding="utf-8-sig"), path
    except FileNotFoundError as error:
        message = "there is no such file; `supac init` writes one to begin with"
        raise ProblemFileError(path, [Complaint(message)]) from error
    except UnicodeDecodeError as error:
        raise ProblemFileError(path, [Complaint(f"is not text in UTF-8: {error}")]) from error
    except OSError as error:
        raise ProblemFileError(path, [Complaint(f"cannot be read: {error.strerror}")]) from error


def store_of(path: Path) -> Path:
    """The store that is meant: of a problem file its own, and otherwise the path itself."""
    if path.suffix != ".toml":
        return path
    text, place = _text_of(path.absolute())
    run = parse(text, place).get("run", {})
    name = run.get("store") if isinstance(run, dict) else None
    return path.parent / (name if isinstance(name, str) else f"{path.stem}.supac")


def title_of(run: Snapshot) -> str:
    """What the problem file of a store calls it; "" where there is none."""
    try:
        path, text, _ = _remembered(run)
        return str(parse(text, path).get("title", path.stem))
    except ValueError:
        return ""


def files_of(run: Snapshot) -> dict[str, str]:
    """The checksums of the files behind a store's problem when it was begun."""
    return _remembered(run)[2]


def problem_of(run: Snapshot, *, as_begun: bool = False) -> ProblemFile:
    """The problem file that a store was made from: beside the store, or else where it was.

    It must still say the same, so that a store that someone sent runs nothing by itself;
    `as_begun` trusts the text in the store.
    """
    path, text, _ = _remembered(run)
    places = [run.path.absolute().parent / path.name, path]
    place = next((each for each in places if each.is_file()), None)
    if not as_begun and (place is None or _text_of(place)[0] != text):
        what = f"{path} is gone" if place is None else f"{place} is not as it was"
        raise ValueError(
            f"{what} since {run.path} was begun with it. Name a problem file to use that (supac "
            "resume problem.toml, supac certify --problem problem.toml), or trust the text in the "
            "store with --as-begun"
        )
    return make_problem(text, place or (path if path.parent.is_dir() else places[0]))


def _remembered(run: Snapshot) -> tuple[Path, str, dict[str, str]]:
    """The problem file's path and text, and the checksums of the files behind it."""
    try:
        known = json.loads(run.description)
        return Path(known["problem_file"]), str(known["text"]), dict(known["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{run.path} was not made by `supac run`: its simulator is not known. Go on from the "
            "script that made it, or say which problem file it belongs to"
        ) from error


def make_problem(text: str, path: Path) -> ProblemFile:
    """The problem of a text; relative paths in it begin in the folder of `path`."""
    document = parse(text, path)
    complaints = Complaints(path, text)
    check(document, complaints)
    complaints.raise_any()
    return _Reader(document, path, text, complaints).read()


class _Reader:
    """Makes the parts one after the other, from a document whose keys have been checked."""

    def __init__(self, document: dict[str, Any], path: Path, text: str, complaints: Complaints):
        self._document, self._path, self._text = document, path, text
        self._folder, self._complaints = path.parent, complaints

    def _table(self, name: str) -> dict[str, Any]:
        return dict(self._document.get(name, {}))

    def read(self) -> ProblemFile:
        kind = kind_of(self._table("simulator"), self._complaints)
        digester = self._table("simulator").get("builtin") == "adm1"
        given = self._parameters(optional=digester)
        observations = None
        risk: Callable[..., Any]
        if digester:
            risk, parameters = self._digester(given)
            vectorized = True
        else:
            assert given is not None
            parameters = given
            if "data" in self._document:
                observations = read_observations(
                    self._table("data"), self._folder, self._complaints
                )
            simulate = make_simulator(
                self._table("simulator"),
                kind,
                parameters,
                observations,
                self._folder,
                self._complaints,
            )
            risk, vectorized = self._risk(simulate), simulate.vectorized
        bound = self._bound(observations, digester=digester)
        run, table = self._table("run"), self._table("bound")
        options = self._options(risk, parameters, bound, run)
        return ProblemFile(
            path=self._path,
            text=self._text,
            title=self._document.get("title", self._path.stem),
            parameters=parameters,
            risk=risk,
            bound=bound,
            n=table.get("n"),
            delta=float(table.get("delta", 0.05)),
            budget=run["budget"],
            seed=run.get("seed", 0),
            store=self._folder / run.get("store", f"{self._path.stem}.supac"),
            vectorized=vectorized,
            execution=self._execution(),
            options=options,
            observations=observations,
        )

    def _parameters(self, *, optional: bool) -> Parameters | None:
        table = self._table("parameters")
        if not table:
            if optional:
                return None
            raise self._complaints.fail(
                ("parameters",) if "parameters" in self._document else (),
                "there are no parameters: write a table [parameters] with a line for each, such as "
                'k = { prior = "lognormal", median = 1.0, log_sd = 0.5 }',
            )
        marginals = {}
        for name, entry in table.items():
            wanted = shape_of(entry["prior"])
            key = ("parameters", name)
            extra = [each for each in entry if each not in {*wanted, "prior", "unit"}]
            missing = [each for each in wanted if each not in entry]
            if extra or missing:
                words = f"{entry['prior']} takes {', '.join(wanted)}"
                words += f"; {', '.join(extra)} is none of them" if extra else ""
                words += f"; {', '.join(missing)} is missing" if missing else ""
                self._complaints.add((*key, *extra[:1]), words)
                continue
            numbers = {each: float(entry[each]) for each in wanted}
            try:
                make: Callable[..., Any] = PRIORS[entry["prior"]]
                marginals[name] = make(**numbers, unit=entry.get("unit", ""))
            except ValueError as error:
                self._complaints.add(key, str(error))
        self._complaints.raise_any()
        return Parameters(marginals, blocks=self._blocks(tuple(table)))

    def _blocks(self, names: tuple[str, ...]) -> list[list[str]] | None:
        given = self._table("posterior").get("correlated", "all")
        if given == "all":
            return None
        blocks: list[list[str]] = [] if given == "none" else given
        seen: set[str] = set()
        for name in (name for block in blocks for name in block):
            key = ("posterior", "correlated")
            if name not in names:
                hint = suggestion(name, names) or f"; they are {', '.join(names)}"
                self._complaints.add(key, f"{name} is no parameter{hint}")
            elif name in seen:
                self._complaints.add(key, f"{name} stands in the lists twice")
            seen.add(name)
        self._complaints.raise_any()
        return blocks

    def _digester(self, given: Parameters | None) -> tuple[Composite, Parameters]:
        for name in ("data", "loss", "posterior"):
            if name in self._document and (name != "posterior" or given is None):
                self._complaints.add((name,), "adm1 brings its own: remove this table")
        self._complaints.raise_any()
        # Slow to import, and most users bring their own simulator.
        from supac.problem_file.digester import digester_risk, load_digester  # noqa: PLC0415

        problem = load_digester(self._table("simulator"), self._folder, self._complaints)
        return digester_risk(problem, given, self._complaints)

    def _risk(self, simulate: Simulate) -> Callable[..., Any]:
        """The risk: of residuals by a loss, or the simulator's own answer."""
        if "loss" not in self._document:
            return simulate if simulate.observations is None else Composite(simulate, Welsch())
        table = self._table("loss")
        if "python" in table:
            for other in set(table) - {"python"}:
                self._complaints.add(("loss", other), "goes with kind, not with python: remove it")
            self._complaints.raise_any()
            key = ("loss", "python")
            loss = load_function(table["python"], self._folder, key, self._complaints)
            return Composite(simulate, loss)
        kind = LOSSES[table.get("kind", "welsch")]
        wanted = [f.name for f in fields(kind)] if hasattr(kind, "__dataclass_fields__") else []
        options = {name: value for name, value in table.items() if name != "kind"}
        for other in set(options) - set(wanted):
            self._complaints.add(
                ("loss", other), f'does not go with kind = "{table.get("kind", "welsch")}"'
            )
        self._complaints.raise_any()
        return Composite(simulate, kind(**options))

    def _bound(self, observations: Observations | None, *, digester: bool) -> Bound:
        table = self._table("bound")
        name = table.get("kind", "catoni" if "temperature" in table else "maurer-langford-seeger")
        kind: Callable[..., Any] = BOUNDS[name]
        takes = {each.name for each in fields(BOUNDS[name])}  # type: ignore[arg-type]
        for other in set(table) - takes - {"kind", "delta", "n"}:
            self._complaints.add(("bound", other), f"does not go with {name}: remove it")
        temperature = table.get("temperature", "auto")
        if "n" not in table and (kind is not Catoni or temperature == "auto"):
            self._complaints.add(
                ("bound",),
                f"{name} needs n, the number of independent data"
                + ("" if "kind" in table else "; or, without a guarantee, temperature = 0.01"),
            )
        self._check_ceiling(table, observations)
        self._complaints.raise_any()
        options = {key: value for key, value in table.items() if key not in ("kind", "delta", "n")}
        options.setdefault("ceiling", _DIGESTER_CEILING if digester else 1.0)
        if kind is Catoni:
            options["temperature"] = temperature
        if "n" in table:
            options |= {"n": table["n"], "delta": float(table.get("delta", 0.05))}
        elif "delta" in table:
            raise self._complaints.fail(("bound", "delta"), "goes with n: give both or neither")
        return kind(**options)

    def _check_ceiling(self, table: Mapping[str, Any], observations: Observations | None) -> None:
        """What the bound assumes of the data and of the loss, as far as the file tells."""
        measured = None if observations is None else observations.measured
        if measured is not None and table.get("n", 0) > measured:
            self._complaints.add(
                ("bound", "n"),
                f"n = {table['n']}, but {measured} numbers were measured: n counts independent "
                "data, and cannot be more than there are",
            )
        loss = self._table("loss")
        unlimited = loss.get("kind") in ("mean-square", "root-mean-square") or "python" in loss
        if unlimited and "n" in table and "ceiling" not in table:
            self._complaints.add(
                ("bound",),
                "with this loss, n needs a ceiling, the largest possible risk; the losses "
                '"welsch" and "capped-square" have one of themselves',
            )
        limited = bool(loss or observations) and not unlimited
        if limited and table.get("ceiling", 1.0) < 1.0:
            self._complaints.add(("bound", "ceiling"), "this loss goes up to 1: leave ceiling out")

    def _options(
        self, risk: Callable[..., Any], parameters: Parameters, bound: Bound, run: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Of `minimize` alone."""
        sizes = {name: run[name] for name in ("first", "batch") if name in run}
        paper = run.get("algorithm") == "paper"
        algorithm = SuPAC.paper(**sizes) if paper else SuPAC(**sizes)
        loss = risk.loss if isinstance(risk, Composite) else None
        problem = Problem.within(parameters, bound, loss=loss)
        first = len(algorithm.ask(problem, algorithm.init(problem, 0)))
        if run["budget"] < first:
            raise self._complaints.fail(
                ("run", "budget"),
                f"{run['budget']} is less than the first batch of {first} runs: raise it, or set "
                f"first = {run['budget']}",
            )
        if run.get("validation", 0) + first > run["budget"]:
            raise self._complaints.fail(
                ("run", "validation"), f"leaves too little for the first batch of {first} runs"
            )
        table = self._table("execution")
        options: dict[str, Any] = {
            "algorithm": algorithm,
            "on_failure": table.get("on_failure", "penalise"),
        }
        options |= {name: table[name] for name in ("mode", "max_failures") if name in table}
        if "validation" in run:
            options["validation"] = run["validation"]
        if "known" in run:
            try:
                options["known"] = read_csv(self._folder / run["known"], parameters)
            except (OSError, ValueError) as error:
                raise self._complaints.fail(("run", "known"), str(error)) from error
        return options

    def _execution(self) -> dict[str, Any]:
        """Of `minimize` and `certify`."""
        table = self._table("execution")
        if "workers" in table and "dask" in table:
            raise self._complaints.fail(("execution", "dask"), "goes without workers: keep one")
        if table.get("mode") == "async" and not {"workers", "dask"} & set(table):
            raise self._complaints.fail(
                ("execution", "mode"), '"async" needs workers, such as workers = 4, or dask'
            )
        options: dict[str, Any] = {"executor": table.get("workers", table.get("dask"))}
        options |= {name: table[name] for name in ("timeout", "retries") if name in table}
        return options
