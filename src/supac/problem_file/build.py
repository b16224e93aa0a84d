"""Build a problem from the checked tables of a problem file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from supac.exchange import KnownRuns
from supac.problem import Problem
from supac.problem.bounds import Bound, Catoni
from supac.problem.composite import Composite, Welsch
from supac.problem.observations import Observations
from supac.problem.parameters import Parameters
from supac.problem_file.assumptions import objections
from supac.problem_file.data import read_observations
from supac.problem_file.errors import FileErrors, no_file, suggestion
from supac.problem_file.fingerprints import named_file
from supac.problem_file.known import read_known
from supac.problem_file.problem import ProblemFile
from supac.problem_file.schema import BOUNDS, LOSSES, PRIORS, shape_of
from supac.problem_file.simulator import Simulate, kind_of, load_function, make_simulator
from supac.running.execution import Execution
from supac.search.supac import SuPAC

_DIGESTER_CEILING = 3.0  # upper limit of ADM1's loss


class Builder:
    """Build a problem from a document whose keys have been checked."""

    def __init__(self, document: dict[str, Any], path: Path, text: str, errors: FileErrors):
        self._document, self._path, self._text = document, path, text
        self._folder, self._errors = path.parent, errors

    def _table(self, name: str) -> dict[str, Any]:
        return dict(self._document.get(name, {}))

    def build(self) -> ProblemFile:
        """Return the problem, or raise the first errors that prevent the rest."""
        kind = kind_of(self._table("simulator"), self._errors)
        simulator = self._table("simulator")
        digester = simulator.get("builtin") == "adm1"
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
                observations = read_observations(self._table("data"), self._folder, self._errors)
            simulate = make_simulator(
                simulator, kind, parameters, observations, self._folder, self._errors
            )
            risk, vectorized = self._risk(simulate), simulate.vectorized
        bound = self._bound(risk, observations, digester=digester)
        run, table = self._table("run"), self._table("bound")
        options, first = self._options(risk, parameters, bound, run)
        if "known" in run:
            options["known"] = self._known(run["known"], risk, parameters, observations)
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
            first=first,
            seed=run.get("seed", 0),
            store=named_file(self._folder, run.get("store", f"{self._path.stem}.supac")),
            execution=self._execution(vectorized=vectorized),
            options=options,
            observations=observations,
        )

    def _parameters(self, *, optional: bool) -> Parameters | None:
        table = self._table("parameters")
        if not table:
            if optional:
                return None
            raise self._errors.fail(
                ("parameters",) if "parameters" in self._document else (),
                "there are no parameters: write a table [parameters] with a line for each, such as "
                'k = { prior = "lognormal", median = 1.0, log_sd = 0.5 }',
            )
        marginals = {}
        for name, entry in table.items():
            numbers = {each: float(entry[each]) for each in shape_of(entry["prior"])}
            try:
                make: Callable[..., Any] = PRIORS[entry["prior"]]
                marginals[name] = make(**numbers, unit=entry.get("unit", ""))
            except ValueError as error:
                self._errors.add(("parameters", name), str(error))
        self._errors.raise_any()
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
                self._errors.add(key, f"{name} is no parameter{hint}")
            elif name in seen:
                self._errors.add(key, f"{name} stands in the lists twice")
            seen.add(name)
        self._errors.raise_any()
        return blocks

    def _digester(self, given: Parameters | None) -> tuple[Composite, Parameters]:
        for name in ("data", "loss", "posterior"):
            if name in self._document and (name != "posterior" or given is None):
                self._errors.add((name,), "adm1 brings its own: remove this table")
        self._errors.raise_any()
        # Slow to import, and most users bring their own simulator.
        from supac.problem_file.digester import digester_risk, load_digester  # noqa: PLC0415

        problem = load_digester(self._table("simulator"), self._folder, self._errors)
        return digester_risk(problem, given, self._errors)

    def _risk(self, simulate: Simulate) -> Callable[..., Any]:
        """Return the risk: the loss of residuals, or the simulator itself."""
        if "loss" not in self._document:
            seen = simulate.observations
            return simulate if seen is None else Composite(simulate, Welsch(), seen)
        table = self._table("loss")
        if "python" in table:
            for other in set(table) - {"python"}:
                self._errors.add(("loss", other), "goes with kind, not with python: remove it")
            self._errors.raise_any()
            key = ("loss", "python")
            loss = load_function(table["python"], self._folder, key, self._errors)
            return Composite(simulate, loss, simulate.observations)
        kind = LOSSES[table.get("kind", "welsch")]
        wanted = [f.name for f in fields(kind)] if hasattr(kind, "__dataclass_fields__") else []
        options = {name: value for name, value in table.items() if name != "kind"}
        for other in set(options) - set(wanted):
            self._errors.add(
                ("loss", other), f'does not go with kind = "{table.get("kind", "welsch")}"'
            )
        self._errors.raise_any()
        return Composite(simulate, kind(**options), simulate.observations)

    def _bound(
        self, risk: Callable[..., Any], observations: Observations | None, *, digester: bool
    ) -> Bound:
        table = self._table("bound")
        name = table.get("kind", "catoni" if "temperature" in table else "maurer-langford-seeger")
        kind: Callable[..., Any] = BOUNDS[name]
        takes = {each.name for each in fields(BOUNDS[name])}  # type: ignore[arg-type]
        for other in set(table) - takes - {"kind", "delta", "n"}:
            self._errors.add(("bound", other), f"does not go with {name}: remove it")
        temperature = table.get("temperature", "auto")
        if "n" not in table and (kind is not Catoni or temperature == "auto"):
            self._errors.add(
                ("bound",),
                f"{name} needs n, the number of independent data"
                + ("" if "kind" in table else "; or, without a guarantee, temperature = 0.01"),
            )
        for key, words in objections(table.get("n"), table.get("ceiling"), risk, observations):
            self._errors.add(key, words)
        self._errors.raise_any()
        options = {key: value for key, value in table.items() if key not in ("kind", "delta", "n")}
        options.setdefault("ceiling", _DIGESTER_CEILING if digester else 1.0)
        if kind is Catoni:
            options["temperature"] = temperature
        if "n" in table:
            options |= {"n": table["n"], "delta": float(table.get("delta", 0.05))}
        elif "delta" in table:
            raise self._errors.fail(
                ("bound", "delta"),
                "is the probability that a guarantee for n data fails: add n, or remove delta",
            )
        return kind(**options)

    def _options(
        self, risk: Callable[..., Any], parameters: Parameters, bound: Bound, run: Mapping[str, Any]
    ) -> tuple[dict[str, Any], int]:
        """Return algorithm, validation and tolerance, and the size of the first batch."""
        sizes = {name: run[name] for name in ("first", "batch") if name in run}
        paper = run.get("algorithm") == "paper"
        algorithm = SuPAC.paper(**sizes) if paper else SuPAC(**sizes)
        loss = risk.loss if isinstance(risk, Composite) else None
        problem = Problem.within(parameters, bound, loss=loss)
        first = len(algorithm.ask(problem, algorithm.init(problem, 0)))
        if run["budget"] < first:
            raise self._errors.fail(
                ("run", "budget"),
                f"{run['budget']} is less than the first batch of {first} runs: raise it, or set "
                f"first = {run['budget']}",
            )
        if run.get("validation", 0) + first > run["budget"]:
            raise self._errors.fail(
                ("run", "validation"), f"leaves too little for the first batch of {first} runs"
            )
        options: dict[str, Any] = {"algorithm": algorithm}
        options |= {name: run[name] for name in ("validation", "tolerance") if name in run}
        return options, first

    def _known(
        self,
        name: str,
        risk: Callable[..., Any],
        parameters: Parameters,
        observations: Observations | None,
    ) -> KnownRuns:
        path = named_file(self._folder, name)
        try:
            return read_known(path, parameters, risk, observations)
        except (OSError, ValueError) as error:
            words = str(error)
            if isinstance(error, OSError):
                words = f"{path.name} cannot be read: {error.strerror}"
            words = no_file(path) if isinstance(error, FileNotFoundError) else words
            raise self._errors.fail(("run", "known"), words) from error

    def _execution(self, *, vectorized: bool) -> Execution:
        """Return the execution of the file."""
        table = self._table("execution")
        if "workers" in table and "dask" in table:
            raise self._errors.fail(("execution", "dask"), "goes without workers: keep one")
        if table.get("mode") == "async" and not {"workers", "dask"} & set(table):
            raise self._errors.fail(
                ("execution", "mode"), '"async" needs workers, such as workers = 4, or dask'
            )
        names = ("mode", "timeout", "retries", "max_failures")
        return Execution(
            workers=table.get("workers", table.get("dask")),
            on_failure=table.get("on_failure", "penalise"),
            vectorized=vectorized,
            **{name: table[name] for name in names if name in table},
        )
