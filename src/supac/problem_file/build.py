"""Build a problem from the checked tables of a problem file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from supac.guarantee.basis import CertificateError, basis_of
from supac.guarantee.gate import admitted, bound_to_certify
from supac.guarantee.provenance import Provenance
from supac.problem import Composite, Parameters, Problem
from supac.problem.bounds import Bound
from supac.problem.columns import as_column_loss
from supac.problem.composite import parts_of
from supac.problem.data import as_observations
from supac.problem.fields import Field
from supac.problem.losses import MeanSquare, RootMeanSquare, reason_of_no_ceiling
from supac.problem.marginals import Marginal
from supac.problem.observation import residual_loss_of
from supac.problem_file.coarse import refuse_coarse_model, with_coarse_model
from supac.problem_file.data import data_tables, held_out, read_known, read_observations
from supac.problem_file.errors import Source, suggestion
from supac.problem_file.experiments import Experiments, make_simulate, make_slopes
from supac.problem_file.inputs import read_inputs
from supac.problem_file.jacobian import with_jacobians
from supac.problem_file.noise import unknown_columns
from supac.problem_file.observed import (
    check_priors,
    column_loss,
    declare_automatic,
    likelihood_is_needed,
    observation_names,
)
from supac.problem_file.other_simulator import check_simulator
from supac.problem_file.place import execution_of
from supac.problem_file.problem import ProblemFile
from supac.problem_file.schema import BOUNDS, LOSSES, PRIORS, bound_kind, loss_kind, shape_of
from supac.problem_file.simulator import Simulate, load_function, simulator_of
from supac.running.execution import Execution
from supac.search.algorithm import MOST_PARAMETERS
from supac.search.supac import SuPAC

_FAR = 3.0  # noises: a residual above which all are alike for a guarantee


def build(source: Source) -> ProblemFile:
    """Return the problem, or raise the first errors that prevent the rest."""
    simulator = simulator_of(source)
    if not simulator.complete:
        declare_automatic(source)
    own = () if simulator.complete else observation_names(source)
    given = _parameters(source, own, optional=bool(simulator.complete))
    observations, vectorized = None, simulator.takes_many
    risk: Callable[..., Any]
    if simulator.complete:
        for name in ("data", "loss", "constraints", "posterior"):
            if name in source.document and (name != "posterior" or given is None):
                source.add((name,), f"{simulator.complete} brings its own: remove this table")
        refuse_coarse_model(source, simulator.complete)
        source.raise_any()
        risk, parameters = simulator.make_risk(source, given)
    else:
        assert given is not None
        parameters = given
        check_priors(source, parameters)
        if "data" in source.document:
            observations = read_observations(source)
        inputs = read_inputs(source, parameters, own)
        simulate = make_simulate(source, simulator, inputs, observations)
        risk, vectorized = _risk(source, simulate, own), simulate.vectorized
        slopes = make_slopes(source, simulator, inputs, observations)
        risk = with_jacobians(source, risk, slopes, returned=simulator.returns_jacobian)
        risk = with_coarse_model(source, risk, inputs, parameters, observations)
    bound = _bound(source, risk, simulator.ceiling)
    run, table = source.table("run"), source.table("bound")
    options, first = _options(source, risk, parameters, bound)
    if "shape" in source.table("posterior"):
        options["shape"] = source.table("posterior")["shape"]
    if "known" in run:
        options["known"] = read_known(source, parameters, risk, observations)
        check_simulator(source, options["known"])
    return ProblemFile(
        path=source.path,
        text=source.text,
        title=source.document.get("title", source.path.stem),
        parameters=parameters,
        risk=risk,
        bound=bound,
        n=table.get("n"),
        delta=float(table.get("delta", 0.05)),
        budget=run["budget"],
        first=first,
        seed=run.get("seed", 0),
        store=source.file(run.get("store", f"{source.path.stem}.supac")),
        execution=_execution(source, vectorized=vectorized),
        options=options,
        observations=observations,
    )


def _parameters(source: Source, last: tuple[str, ...], *, optional: bool) -> Parameters | None:
    """Return the parameters with a prior, the `last` ones at the end; None if there is no table."""
    given = source.table("parameters")
    table = {name: given[name] for name in sorted(given, key=last.__contains__)}
    if not table:
        if optional:
            return None
        raise source.fail(
            ("parameters",) if "parameters" in source.document else (),
            "there are no parameters: write a table [parameters] with a line for each, such as "
            'k = { prior = "lognormal", median = 1.0, log_sd = 0.5 }',
        )
    marginals: dict[str, Marginal | Field] = {}
    for name, entry in table.items():
        if not isinstance(entry, dict) or "prior" not in entry:
            if optional:
                source.add(("parameters", name), "must have a prior, since the model is complete")
            continue
        make: Callable[..., Any] = PRIORS[entry["prior"]]
        given = {each: entry[each] for each in shape_of(entry["prior"]) if each in entry}
        numbers = {k: float(v) if isinstance(v, int) else v for k, v in given.items()}
        try:
            prior = make(**numbers, unit=entry.get("unit", ""))
            marginals[name] = _field(prior, entry) if "field" in entry else prior
        except ValueError as error:
            source.add(("parameters", name), str(error))
        made = marginals.get(name)
        if isinstance(made, Field) and math.prod(made.shape) > MOST_PARAMETERS:
            words = f"has {math.prod(made.shape):,} points, and at most {MOST_PARAMETERS:,} can be"
            fix = "calibrated: make the grid coarser, and interpolate in the simulator"
            source.add(("parameters", name, "field"), f"{words} {fix}")
    source.raise_any()
    if not marginals:
        raise source.fail(("parameters",), "no parameter has a prior: nothing is sought")
    blocks = _blocks(source, tuple(marginals))
    try:
        return Parameters(marginals, blocks=blocks)
    except ValueError as error:
        raise source.fail(("parameters",), str(error)) from error


def _field(prior: Marginal, entry: Mapping[str, Any]) -> Field:
    """Return the field of a checked entry."""
    options = {name: entry[name] for name in ("covariance", "nugget") if name in entry}
    return Field(prior, entry["field"], entry["length"], **options)


def _blocks(source: Source, names: tuple[str, ...]) -> list[list[str]] | None:
    given = source.table("posterior").get("correlated", "all")
    if given == "all":
        return None
    blocks: list[list[str]] = [] if given == "none" else given
    key = ("posterior", "correlated")
    seen: set[str] = set()
    for name in (name for block in blocks for name in block):
        if name not in names:
            hint = suggestion(name, names) or f"; they are {', '.join(names)}"
            source.add(key, f"{name} is no parameter{hint}")
        elif name in seen:
            source.add(key, f"{name} stands in the lists twice")
        seen.add(name)
    source.raise_any()
    return blocks


def _risk(
    source: Source, simulate: Simulate | Experiments, own: tuple[str, ...]
) -> Callable[..., Any]:
    """Return the risk: the loss of residuals, or the simulator itself.

    The parameters `own` are scales, offsets and noise levels.
    """
    table, observations = source.table("loss"), simulate.observations
    if "loss" not in source.document and observations is None:
        return simulate
    loss: Callable[..., Any]
    if "python" in table:
        if "kind" in table:
            raise source.fail(("loss", "kind"), "goes without python: keep one of them")
        loss = load_function(table["python"], source, ("loss", "python"))
    else:
        make = LOSSES[loss_kind(table)]
        loss = make(**{name: value for name, value in table.items() if name != "kind"})
    train, test = (None, None) if observations is None else held_out(source, observations)
    if not own or observations is None or train is None:
        return Composite(simulate, loss, train, test)
    mine = loss if "loss" in source.document or not likelihood_is_needed(source) else None
    columns = column_loss(source, own, observations, mine)
    return Composite(simulate, columns.for_data(train), train, test, observation=len(own))


def _bound(source: Source, risk: Callable[..., Any], ceiling: float) -> Bound:
    table = source.table("bound")
    name = bound_kind(table)
    blocks = _independent_blocks(source, risk, name)
    table |= {"n": blocks} if blocks and "n" not in table else {}
    if "n" not in table and (name != "catoni" or table.get("temperature", "auto") == "auto"):
        hint = "" if "kind" in table else "; or, without a guarantee, temperature = 0.01"
        source.add(("bound",), f"{name} needs n, the number of independent data{hint}")
    largest = getattr(getattr(risk, "loss", None), "ceiling", None)
    given = table.get("ceiling")
    if largest is not None and given is not None and given < largest:
        source.add(("bound", "ceiling"), f"this loss goes up to {largest:g}: remove ceiling")
    source.raise_any()
    if "n" not in table and "delta" in table:
        raise source.fail(
            ("bound", "delta"),
            "is the probability that a guarantee for n data fails: add n, or remove delta",
        )
    options = {"ceiling": _usual_ceiling(risk, ceiling)} | {
        key: each for key, each in table.items() if key != "kind"
    }
    if "n" in table:
        options["delta"] = float(table.get("delta", 0.05))
    if name == "catoni":
        options.setdefault("temperature", "auto")
    make: Callable[..., Bound] = BOUNDS[name]
    bound = make(**options)
    if "n" in table:
        if _noise_is_estimated(source):
            words = (
                'with noise = "unknown" the loss is made from these data, and no guarantee holds: '
                "give the noise, or a temperature in place of n"
            )
            raise source.fail(("bound", "n"), words)
        _check_gate(source, risk, bound, largest)
    return bound


def _independent_blocks(source: Source, risk: Callable[..., Any], name: str) -> int:
    """Return the n that the blocks of the data are worth to a bound; 0 without blocks.

    Blocks of unequal size count for less than their number.
    """
    data = as_observations(parts_of(risk).data)
    labels = None if data is None else data.blocks_of_measured
    temperature = source.table("bound").get("temperature", "auto")
    if labels is None or not name or (name == "catoni" and temperature != "auto"):
        return 0
    kind = BOUNDS[name]
    count = len(np.unique(labels))
    try:
        return basis_of(risk, kind.for_data(count, 0.05, 1.0)).number(kind)
    except CertificateError:
        return count  # the gate says what is wrong


def _usual_ceiling(risk: Callable[..., Any], ceiling: float) -> float:
    """Return where a certificate caps the loss of a datum if nothing is said: at 3 noises."""
    loss = residual_loss_of(parts_of(risk).loss)
    if isinstance(loss, MeanSquare):
        return _FAR**2
    return _FAR if isinstance(loss, RootMeanSquare) else ceiling


def _noise_is_estimated(source: Source) -> bool:
    return any(map(unknown_columns, data_tables(source).values()))


def _without_n(risk: Callable[..., Any], reason: str) -> str:
    """Return why n cannot be, and for a likelihood what to write in its place."""
    loss, data = getattr(risk, "loss", None), getattr(risk, "data", None)
    if not reason_of_no_ceiling(loss):
        return reason
    count = getattr(data, "measured", 0)
    value = f"{1.0 / count:.3g} (1/{count}, one" if count else "… (one"
    own = as_column_loss(loss)
    blocks = "" if own is None or own.errors is None else ", and blocks that are independent"
    return (
        f"{reason.partition(';')[0]}, and nothing can be guaranteed for n data: in place of n and "
        f'delta, write kind = "catoni" and temperature = {value} over the number of data). For a '
        'guarantee, give the noise as a number, and a loss such as kind = "welsch" in [loss]'
        f"{blocks}"
    )


def _check_gate(
    source: Source, risk: Callable[..., Any], bound: Bound, largest: float | None
) -> None:
    """Raise ProblemFileError if n is given, but no certificate can be."""
    try:
        basis = basis_of(risk, bound)
        admitted(bound_to_certify(bound, basis), basis, 0.05, Provenance())
    except CertificateError as error:
        raise source.fail(("bound", "n"), _without_n(risk, str(error))) from error
    if not basis.declared and largest is None and "ceiling" not in source.table("bound"):
        message = (
            "with this loss, n needs a ceiling at which the loss of each datum is capped, chosen "
            'without looking at these data; or choose a loss that has one, such as "welsch"'
        )
        raise source.fail(("bound",), message)


def _options(
    source: Source, risk: Callable[..., Any], parameters: Parameters, bound: Bound
) -> tuple[dict[str, Any], int]:
    """Return algorithm, provenance, validation and tolerance; and the size of the first batch."""
    run = source.table("run")
    sizes = {name: run[name] for name in ("first", "batch") if name in run}
    algorithm = SuPAC.paper(**sizes) if run.get("algorithm") == "paper" else SuPAC(**sizes)
    loss = parts_of(risk).loss
    cost = parts_of(risk).jacobian_cost
    problem = replace(Problem.within(parameters, bound, loss=loss), jacobian_cost=cost)
    first, budget = len(algorithm.ask(problem, algorithm.init(problem, 0))), run["budget"]
    if budget < first:
        words = f"raise it, or set first = {budget}"
        message = f"{budget} is less than the first batch of {first} runs: {words}"
        raise source.fail(("run", "budget"), message)
    if run.get("validation", 0) + first > budget:
        message = f"leaves too little for the first batch of {first} runs"
        raise source.fail(("run", "validation"), message)
    seen = bool(run.get("prior_has_seen_data", False))
    estimated = _noise_is_estimated(source)
    provenance = Provenance(
        not seen,
        earlier=run.get("earlier_certificates", 0),
        loss_is_independent=not estimated,
        noise_is_estimated=estimated,
    )
    options: dict[str, Any] = {"algorithm": algorithm, "provenance": provenance}
    options |= {name: run[name] for name in ("validation", "tolerance") if name in run}
    return options, first


def _execution(source: Source, *, vectorized: bool) -> Execution:
    """Return the execution of the file."""
    given = source.table("execution").get("on_failure", "penalise")
    if source.table("constraints") and given != "penalise":
        message = 'must be "penalise" with [constraints]: a refused draw counts as the ceiling'
        raise source.fail(("execution", "on_failure"), message)
    return execution_of(source, Execution(vectorized=vectorized, on_failure="penalise"))
