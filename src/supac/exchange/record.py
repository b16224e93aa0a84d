"""A result as JSON: all that is needed to use it elsewhere, and to read it back.

    {"format": "supac result", "version": 1, …, "posterior": …, "history": {…}, …}

Distributions, parameters and bounds are spelled as in stores; a number that is not known is null,
an infinite one "inf" or "-inf". What a reader without `supac` needs is under "summary".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from supac.arrays import FloatArray, frozen
from supac.codec import Spec, UnknownSpecError, from_spec, to_spec
from supac.families import Distribution
from supac.guarantee.certificate import Certificate
from supac.problem.bounds import Bound
from supac.problem.evaluations import Evaluations
from supac.problem.parameters import Parameters
from supac.record.run import Run, Status

FORMAT = "supac result"
VERSION = 1
_NUMBERS = (
    "objective", "mean_risk", "mean_risk_error", "effective_size", "kl", "kl_error", "seconds",
)  # fmt: skip
_ENDS = {"p05": 0.05, "median": 0.5, "p95": 0.95}


class ResultFormatError(ValueError):
    """A text that holds no result, or one that this version cannot read."""


def to_record(values: Mapping[str, Any], *, runs: bool) -> str:
    """The fields of a result, by their names, as JSON."""
    posterior, parameters = values["posterior"], values["parameters"]
    evaluations: Evaluations = values["evaluations"]
    record: dict[str, Spec] = {
        "format": FORMAT,
        "version": VERSION,
        "stop_reason": str(values["stop_reason"]),
        **{name: float(values[name]) for name in _NUMBERS},
        **{name: values[name] for name in ("validated", "known", "queries", "failed")},
        "on_failure": values["on_failure"],
        "notes": list(values["notes"]),
        "summary": _summary(posterior, values["prior"], parameters),
        "posterior": _spelled(posterior, "posterior"),
        "start": _spelled(values["start"], "start"),
        "prior": to_spec(values["prior"]),
        "parameters": _named(parameters),
        "bound": to_spec(values["bound"]),
        "history": {
            name: column.astype(np.float64).tolist() for name, column in values["history"].items()
        },
        "certificate": None,
        "runs": None,
    }
    if values["certificate"] is not None:
        record["certificate"] = json.loads(values["certificate"].to_json())
    if runs:
        record["runs"] = _runs_to_record(evaluations, values["failures"])
    # A line a key: short, and still easy to look at and to compare.
    lines = [
        f"{json.dumps(name)}: {json.dumps(_strict(value), ensure_ascii=False, allow_nan=False)}"
        for name, value in record.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def from_record(text: str) -> dict[str, Any]:
    """The fields of a result, by their names; ResultFormatError where the text holds none."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultFormatError(f"this is no JSON: {error}") from error
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise ResultFormatError('this is no result: it has no "format": "supac result"')
    _check_version(told.get("version"))
    try:
        return _fields(told)
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


def _fields(told: dict[str, Any]) -> dict[str, Any]:
    posterior, start = from_spec(told["posterior"]), from_spec(told["start"])
    if not (isinstance(posterior, Distribution) and isinstance(start, Distribution)):
        raise TypeError("posterior and start must be distributions")
    parameters = from_spec(told["parameters"])
    if isinstance(parameters, Parameters) and len(parameters) != posterior.dim:
        raise ValueError(f"{len(parameters)} parameters, but {posterior.dim} coordinates")
    prior, bound = _of_ours(told["prior"]), _of_ours(told["bound"])
    runs, certificate = told["runs"], told["certificate"]
    evaluations, failures = _runs_from_record(runs, posterior.dim)
    return {
        **{name: _from_number(told[name]) for name in _NUMBERS},
        "validated": int(told["validated"]),
        "known": int(told["known"]),
        "on_failure": str(told["on_failure"]),
        "counts": None if runs is not None else (int(told["queries"]), int(told["failed"])),
        "stop_reason": str(told["stop_reason"]),
        "notes": tuple(map(str, told["notes"])),
        "posterior": posterior,
        "start": start,
        "prior": prior if isinstance(prior, Distribution) else None,
        "parameters": parameters if isinstance(parameters, Parameters) else None,
        "bound": bound if isinstance(bound, Bound) else None,
        "history": {name: _from_numbers(column) for name, column in told["history"].items()},
        "certificate": None
        if certificate is None
        else Certificate.from_json(json.dumps(certificate)),
        "evaluations": evaluations,
        "failures": failures,
    }


def _spelled(member: Distribution, name: str) -> Spec:
    """The spec of a distribution that can be read back."""
    spec = to_spec(member)
    try:
        from_spec(spec)
    except UnknownSpecError as error:
        raise ValueError(
            f"the {name} is of a family of your own, {error}, which no file can name: keep its "
            f"theta, result.{name}.theta, instead"
        ) from error
    return spec


def _named(parameters: Parameters | None) -> Spec:
    """The spec of parameters that can be read back: without them, draws would be latent."""
    spec = to_spec(parameters)
    try:
        from_spec(spec)
    except UnknownSpecError as error:
        raise ValueError(
            f"a parameter's prior, or that of all, is of a class of your own, {error}, which no "
            "file can name: keep draws in your units instead, result.sample(n, seed), or "
            "result.posterior.theta for a script that has the class"
        ) from error
    return spec


def _of_ours(spec: Spec) -> Any:
    """The value of a spec; None where the file only knows its name."""
    try:
        return from_spec(spec)
    except UnknownSpecError:
        return None


def _summary(
    posterior: Distribution, prior: object, parameters: Parameters | None
) -> list[dict[str, Spec]]:
    """Quantiles of every parameter before and after, in the user's units."""
    # Here, since SciPy's distributions take longer to import than all of this package.
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


def _runs_to_record(evaluations: Evaluations, failures: Sequence[Run]) -> dict[str, Spec]:
    outputs = evaluations.outputs
    return {
        "x": evaluations.x.tolist(),
        "risk": evaluations.risk.tolist(),
        "iteration": evaluations.iteration.tolist(),
        "drawn": evaluations.drawn.tolist(),
        "ok": evaluations.ok.tolist(),
        "outputs": None if outputs is None else outputs.tolist(),
        "proposals": [_spelled(each, "posterior") for each in evaluations.proposals],
        "failures": [
            {each.name: to_spec(getattr(run, each.name)) for each in fields(Run)}
            for run in failures
        ],
    }


def _runs_from_record(told: dict[str, Any] | None, dim: int) -> tuple[Evaluations, tuple[Run, ...]]:
    if told is None:
        return Evaluations.none(dim), ()
    outputs = told["outputs"]
    risk = _from_numbers(told["risk"])
    evaluations = Evaluations(
        x=frozen(np.array(told["x"], dtype=np.float64).reshape(len(risk), dim)),
        risk=risk,
        iteration=frozen(np.array(told["iteration"], dtype=np.intp)),
        drawn=frozen(np.array(told["drawn"], dtype=bool)),
        ok=frozen(np.array(told["ok"], dtype=bool)),
        proposals=tuple(from_spec(each) for each in told["proposals"]),
        outputs=None if outputs is None else frozen(np.stack([*map(_from_numbers, outputs)])),
    )
    lengths = {len(getattr(evaluations, each)) for each in ("x", "iteration", "drawn", "ok")}
    if lengths != {len(risk)} or (outputs is not None and len(outputs) != len(risk)):
        raise ValueError("the columns of its runs differ in length")
    if evaluations.iteration.max(initial=-1) >= len(evaluations.proposals):
        raise ValueError("its runs have iterations without a proposal")
    return evaluations, tuple(_run(each) for each in told["failures"])


def _run(told: dict[str, Any]) -> Run:
    outputs = told["outputs"]
    values = told | {
        "x": _from_numbers(told["x"]),
        "status": Status(told["status"]),
        "risk": _from_number(told["risk"]),
        "outputs": None if outputs is None else _from_numbers(outputs),
    }
    return Run(**values)


def _from_number(told: Spec) -> float:
    return np.nan if told is None else float(told)


def _from_numbers(told: Sequence[Spec]) -> FloatArray:
    return frozen(np.array([_from_number(each) for each in told], dtype=np.float64))


def _strict(spec: Spec) -> Spec:
    """The same with every float as JSON can hold it."""
    if isinstance(spec, float) and not np.isfinite(spec):
        return None if np.isnan(spec) else str(spec)
    if isinstance(spec, list):
        return [_strict(each) for each in spec]
    if isinstance(spec, dict):
        return {key: _strict(each) for key, each in spec.items()}
    return spec
