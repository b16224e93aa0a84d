"""Write a result as JSON, and read it back.

    {"format": "supac result", "version": 2, …, "posterior": …, "history": {…}, …}

Distributions, parameters and bounds are written as in stores; an unknown number is null, an
infinite one "inf" or "-inf". "summary" holds the quantiles for readers without `supac`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from supac.arrays import FloatArray, frozen
from supac.codec import Spec, UnknownSpecError, from_spec, from_spec_or_name, to_spec
from supac.families import Distribution
from supac.guarantee.certificate import Certificate
from supac.problem import Parameters
from supac.record.ending import Ending, Estimate, StopReason, ValidationBatch
from supac.record.record import Counts, Record
from supac.record.result import Result
from supac.record.round import Round
from supac.record.run import Run, Status
from supac.search.algorithm import Info

FORMAT = "supac result"
VERSION = 2
_ENDS = {"p05": 0.05, "median": 0.5, "p95": 0.95}
_ESTIMATE = [each.name for each in fields(Estimate)]
_RUN = [each.name for each in fields(Run)]
_SETTINGS = ("on_failure", "prior", "bound", "loss", "data")
_OWN_CLASS = (
    "a parameter's prior, or that of all, is of a class of your own, {}, which no file can name: "
    "keep draws in your units instead, result.sample(n, seed), or result.posterior.theta for a "
    "script that has the class"
)


class ResultFormatError(ValueError):
    """A text that holds no result, or one that this version cannot read."""


def to_json(result: Result, certificate: Certificate | None, *, runs: bool) -> str:
    """Return a result as JSON, with or without its runs."""
    record = result.record
    told: dict[str, Spec] = {
        "format": FORMAT,
        "version": VERSION,
        "stop_reason": str(result.stop_reason),
        **{name: getattr(result, name) for name in _ESTIMATE},
        **{name: getattr(result, name) for name in ("known", "queries", "failed", "seconds")},
        "failure_loss": result.failure_loss,
        "notes": list(result.notes),
        "summary": _summary(result.posterior, result.prior, result.parameters),
        "posterior": _member(result.posterior),
        "start": _member(result.start, "start"),
        "parameters": _readable(result.parameters, _OWN_CLASS),  # without them draws are latent
        **{name: to_spec(record.settings.get(name)) for name in _SETTINGS},
        "prior": to_spec(result.prior),
        "history": {
            name: each.astype(np.float64).tolist() for name, each in record.history.items()
        },
        "certificate": None if certificate is None else json.loads(certificate.to_json()),
        "rounds": None,
        "validation": None,
        "runs": None,
    }
    if runs:
        told["rounds"] = [
            {"ids": each.ids, "drawn": each.drawn.tolist(), "proposal": _member(each.proposal)}
            for each in record.rounds
        ]
        told["validation"] = [
            {"ids": each.ids, "posterior": _member(each.posterior)} for each in result.validation
        ]
        every = record.runs
        told["runs"] = {name: [to_spec(getattr(run, name)) for run in every] for name in _RUN}
    # One line per key is compact, and still easy to read and to compare.
    lines = [
        f"{json.dumps(name)}: {json.dumps(_strict(value), ensure_ascii=False, allow_nan=False)}"
        for name, value in told.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def from_json(text: str) -> tuple[Record, Certificate | None]:
    """Return the record behind a result, and its certificate; ResultFormatError without one."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultFormatError(f"this is no JSON: {error}") from error
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise ResultFormatError('this is no result: it has no "format": "supac result"')
    _check_version(told.get("version"))
    try:
        return _record(_upgraded(told) if told["version"] == 1 else told)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ResultFormatError(f"this result is damaged: {error!r}") from error


def _check_version(version: object) -> None:
    if version is None:
        raise ResultFormatError("this result is damaged: it has no version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ResultFormatError(
            f"this result is damaged: its version must be a number from 1 on, not {version!r}"
        )
    if version > VERSION:
        raise ResultFormatError(
            f"the result has version {version} of its format, and this supac reads none after "
            f"{VERSION}: use a newer supac"
        )


def _record(told: dict[str, Any]) -> tuple[Record, Certificate | None]:
    posterior, start = from_spec(told["posterior"]), from_spec(told["start"])
    if not (isinstance(posterior, Distribution) and isinstance(start, Distribution)):
        raise TypeError("posterior and start must be distributions")
    parameters = from_spec(told["parameters"])
    if isinstance(parameters, Parameters) and len(parameters) != posterior.dim:
        raise ValueError(f"{len(parameters)} parameters, but {posterior.dim} coordinates")
    settings = {name: from_spec_or_name(told[name]) for name in _SETTINGS}
    settings |= {"start": start, "prior": parameters or settings["prior"], "budget": None}
    history = {name: _from_numbers(column) for name, column in told["history"].items()}
    runs = _runs(told["runs"], posterior.dim)
    rounds = _rounds(told, history)
    validation = tuple(
        ValidationBatch(tuple(each["ids"]), from_spec(each["posterior"]))
        for each in told["validation"] or ()
    )
    there = {run.id for run in runs}
    named = {run for each in rounds for run in each.ids}
    named |= {run for each in validation for run in each.ids}
    if told["runs"] is not None and not named <= there:
        raise ValueError(f"its rounds name runs that are not there: {sorted(named - there)[:3]}")
    numbers = {n: _from_number(told[n]) for n in (*_ESTIMATE, "failure_loss") if n != "validated"}
    ending = Ending(
        posterior=posterior,
        stop_reason=StopReason(told["stop_reason"]),
        notes=tuple(map(str, told["notes"])),
        validation=validation,
        validated=int(told["validated"]),
        **numbers,
    )
    counts = None
    if told["runs"] is None:
        queries, failed, known = (int(told[name]) for name in ("queries", "failed", "known"))
        counts = Counts(queries, failed, known, _from_number(told["seconds"]))
    certificate = told["certificate"]
    return (
        Record(settings, posterior.family, runs=runs, rounds=rounds, ending=ending, counts=counts),
        None if certificate is None else Certificate.from_json(json.dumps(certificate)),
    )


def _rounds(told: dict[str, Any], history: dict[str, FloatArray]) -> list[Round]:
    """Return rounds with their diagnostics; without runs, with ids that only count them."""
    queries = history.pop("queries").astype(int).tolist()
    infos = [
        Info(notes=(), **{name: float(column[i]) for name, column in history.items()})
        for i in range(len(queries))
    ]
    if told["rounds"] is None:
        ids = [tuple(range(a, b)) for a, b in zip([0, *queries], queries, strict=False)]
        return [
            Round(mine, np.ones(len(mine), dtype=bool), None, info)
            for mine, info in zip(ids, infos, strict=True)
        ]
    rounds = []
    for each, info in zip(told["rounds"], infos, strict=True):
        proposal, drawn = from_spec(each["proposal"]), np.array(each["drawn"], dtype=bool)
        if not isinstance(proposal, Distribution) or len(drawn) != len(each["ids"]):
            raise ValueError("a round without a proposal, or with other runs than it drew")
        rounds.append(Round(tuple(each["ids"]), drawn, proposal, info))
    return rounds


def _runs(told: dict[str, Any] | None, dim: int) -> list[Run]:
    if told is None:
        return []
    if {len(column) for column in told.values()} != {len(told["id"])} or set(told) != set(_RUN):
        raise ValueError("the columns of its runs differ in length")
    runs = []
    for values in zip(*(told[name] for name in _RUN), strict=True):
        run = dict(zip(_RUN, values, strict=True))
        outputs = run["outputs"]
        run |= {
            "x": _from_numbers(run["x"]),
            "status": Status(run["status"]),
            "risk": _from_number(run["risk"]),
            "seconds": _from_number(run["seconds"]),
            "outputs": None if outputs is None else _from_numbers(outputs),
        }
        if len(run["x"]) != dim:
            raise ValueError(f"run {run['id']} has {len(run['x'])} coordinates")
        runs.append(Run(**run))
    return runs


def _upgraded(told: dict[str, Any]) -> dict[str, Any]:
    """Return a result of version 1 as one of version 2: its runs were kept as evaluations."""
    columns = told["runs"]
    new = told | {"loss": None, "data": None, "failure_loss": None, "rounds": None}
    new["validation"] = None
    if columns is None:
        return new
    ids, ok, learnt = range(len(columns["risk"])), columns["ok"], len(told["history"]["queries"])
    failed = {tuple(run["x"]): run for run in columns["failures"]}
    # It kept neither times nor sources of single runs; imported ones came first.
    rest = told["seconds"] - sum(run["seconds"] for run in columns["failures"])
    rows = []
    for i, k in enumerate(columns["iteration"]):
        known, status = i < told["known"], Status.OK if ok[i] else Status.INVALID
        plain = Run(
            i, np.empty(0), status, np.nan, source="earlier runs" if known else "",
            seconds=0.0 if known else rest / max(sum(ok[told["known"] :]), 1),
            purpose="validation" if 0 < learnt <= k else "search",
        )  # fmt: skip
        row = {name: to_spec(getattr(plain, name)) for name in _RUN} | {"x": columns["x"][i]}
        if ok[i]:
            outputs = columns["outputs"]
            row |= {"risk": columns["risk"][i], "outputs": outputs and outputs[i]}
        rows.append(row | failed.get(tuple(columns["x"][i]), {}) | {"id": i})
    batches = [
        {
            "ids": [i for i in ids if columns["iteration"][i] == k],
            "drawn": [columns["drawn"][i] for i in ids if columns["iteration"][i] == k],
            "proposal": proposal,
            "posterior": proposal,
        }
        for k, proposal in enumerate(columns["proposals"])
    ]
    losses = [risk for risk, good in zip(columns["risk"], ok, strict=True) if not good]
    new["failure_loss"] = next((loss for loss in losses if loss is not None), None)
    new |= {"rounds": batches[:learnt], "validation": batches[learnt:] if learnt else []}
    new["loss"] = None if columns["outputs"] is None else {"other": "a loss"}
    new["runs"] = {name: [row[name] for row in rows] for name in _RUN}
    return new


def _readable(value: Distribution | Parameters | None, words: str) -> Spec:
    """Return a spec that can be read back; `words` are those of the error, with the class."""
    spec = to_spec(value)
    try:
        from_spec(spec)
    except UnknownSpecError as error:
        raise ValueError(words.format(error)) from error
    return spec


def _member(member: Distribution | None, name: str = "posterior") -> Spec:
    return _readable(
        member,
        f"the {name} is of a family of your own, {{}}, which no file can name: keep its theta, "
        f"result.{name}.theta, instead",
    )


def _summary(
    posterior: Distribution, prior: object, parameters: Parameters | None
) -> list[dict[str, Spec]]:
    """Return prior and posterior quantiles of every parameter, in the user's units."""
    # Imported here: SciPy's distributions take longer to import than this package.
    from supac.problem.frozen import Frozen  # noqa: PLC0415

    after = Frozen(posterior, parameters)
    before = Frozen(prior, parameters) if isinstance(prior, Distribution) else None
    units = [""] * posterior.dim if parameters is None else parameters.units
    rows = []
    for i, (name, unit) in enumerate(zip(after.names, units, strict=True)):
        row: dict[str, Spec] = {"name": name, "unit": unit}
        for word, each in (("prior", before), ("posterior", after)):
            try:
                law = None if each is None else each.marginal(i)
            except TypeError:  # of a mixture of whole numbers, say
                law = None
            row[word] = law and {key: float(law.ppf(share)) for key, share in _ENDS.items()}
        rows.append(row)
    return rows


def _from_number(told: Spec) -> float:
    return np.nan if told is None else float(told)


def _from_numbers(told: Sequence[Spec]) -> FloatArray:
    return frozen(np.array([_from_number(each) for each in told], dtype=np.float64))


def _strict(spec: Spec) -> Spec:
    """Replace NaN by None and infinite floats by strings, as strict JSON requires."""
    if isinstance(spec, float) and not np.isfinite(spec):
        return None if np.isnan(spec) else str(spec)
    if isinstance(spec, list):
        return [_strict(each) for each in spec]
    if isinstance(spec, dict):
        return {key: _strict(each) for key, each in spec.items()}
    return spec
