"""What a store holds, row by row: runs, rounds, the state and the configuration."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import numpy as np

from supac.arrays import BoolArray, FloatArray, frozen, points, vector
from supac.codec import Spec, from_spec, to_spec
from supac.families import Distribution, ParametricFamily
from supac.problem.evaluations import Evaluations
from supac.record.run import Purpose, Run, Status
from supac.record.store.file import damaged, digest, sound
from supac.search.algorithm import Batch, Info, LastStep, Momentum, State
from supac.surrogate import EmulatorState

# What a configuration holds; whatever else a file says is not passed on to anything.
_SETTINGS: dict[str, type | UnionType] = {
    "prior": dict, "bound": dict, "algorithm": dict, "start": dict | None, "loss": dict | None,
    "on_failure": str, "mode": str, "validation": int | None, "tolerance": float | int,
    "seed": int, "budget": int, "proxy": str | None, "vectorized": bool,
    "timeout": float | int | None, "retries": int, "max_failures": float | int,
}  # fmt: skip
FREE = ("budget", "vectorized", "timeout", "retries", "max_failures")
"""Settings that may change from one process to the next."""
_COLUMNS = "id, x, status, risk, outputs, seconds, message, attempts, source, purpose, checksum"


@dataclass(frozen=True, eq=False)
class Round:
    """One `tell`: which runs were told, where they came from, and what was learnt."""

    ids: tuple[int, ...]
    drawn: BoolArray
    proposal: Distribution
    info: Info


def read_config_of(db: sqlite3.Connection, path: Path) -> dict[str, Spec]:
    """The configuration."""
    meta = dict(db.execute("SELECT key, value FROM meta").fetchall())
    text = meta.get("config", "")
    if meta.get("checksum") != digest(text).hex():
        raise damaged(path, "its configuration")
    with sound(path, "its configuration"):
        config = json.loads(text)
        if set(config) != set(_SETTINGS):
            raise ValueError(f"its settings are {', '.join(map(str, config))}")
        for name, kind in _SETTINGS.items():
            if not isinstance(config[name], kind):
                raise TypeError(f"{name} is {config[name]!r:.60}")
        return config


def sealed(text: str) -> str:
    """A text that shows whether it was changed: `unsealed` gives it back."""
    return f"{digest(text).hex()} {text}"


def unsealed(words: str, path: Path, what: str) -> str:
    """The text; an error where it was changed."""
    checksum, _, text = words.partition(" ")
    if checksum != digest(text).hex():
        raise damaged(path, what)
    return text


def run_to_row(run: Run) -> tuple[Any, ...]:
    """A run as columns."""
    outputs = None if run.outputs is None else run.outputs.astype("<f8").tobytes()
    risk = None if np.isnan(run.risk) else float(run.risk) + 0.0  # SQLite knows no −0
    return (
        int(run.id), run.x.astype("<f8").tobytes(), str(run.status.value), risk, outputs,
        float(run.seconds), _text(run.message), int(run.attempts), _text(run.source),
        run.purpose,
    )  # fmt: skip


def _text(words: str) -> str:
    """As UTF-8 can hold it: a message may quote bytes of a file's name that are none."""
    return words.encode(errors="backslashreplace").decode()


def read_runs_of(db: sqlite3.Connection, path: Path) -> Iterator[Run]:
    """All runs, in the order of their ids."""
    for *row, checksum in db.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY id"):
        if checksum != digest(*row):
            raise damaged(path, f"run {row[0]}")
        with sound(path, f"run {row[0]}"):
            run = run_from_row(*row)
        yield run


def run_from_row(
    number: int, x: bytes, status: str, risk: float | None, outputs: bytes | None, *rest: Any
) -> Run:
    """The columns of `run_to_row` as a run again."""
    seconds, message, attempts, source, purpose = rest
    if purpose not in get_args(Purpose):
        raise ValueError(f"it was made for {purpose!r}")
    return Run(
        number,
        frozen(np.frombuffer(x, dtype="<f8")),
        Status(status),
        np.nan if risk is None else float(risk),
        None if outputs is None else frozen(np.frombuffer(outputs, dtype="<f8")),
        float(seconds), str(message), int(attempts), str(source), purpose,
    )  # fmt: skip


def read_rounds(db: sqlite3.Connection, path: Path, family: ParametricFamily) -> Iterator[Round]:
    """All rounds, in their order."""
    for row in _round_rows(db, path):
        with sound(path, f"round {row[0]}"):
            told = round_from_row(family, *row[1:])
        yield told


def read_infos(db: sqlite3.Connection, path: Path) -> Iterator[tuple[tuple[int, ...], Info]]:
    """What each round was told and learnt, without the family that its proposal is of."""
    for number, ids, *_, info in _round_rows(db, path):
        with sound(path, f"round {number}"):
            told = tuple(np.frombuffer(ids, dtype="<i8").tolist())
            learnt = info_from_spec(json.loads(info))
        yield told, learnt


def _round_rows(db: sqlite3.Connection, path: Path) -> Iterator[list[Any]]:
    query = "SELECT iteration, ids, drawn, proposal, info, checksum FROM rounds ORDER BY iteration"
    for *row, checksum in db.execute(query):
        if checksum != digest(*row):
            raise damaged(path, f"round {row[0]}")
        yield row


def round_to_row(number: int, told: Round, family: ParametricFamily) -> tuple[Any, ...]:
    """A round as columns."""
    return (
        number,
        np.array(told.ids, dtype="<i8").tobytes(),
        np.asarray(told.drawn, dtype="?").tobytes(),
        json.dumps(member_to_spec(told.proposal, family)),
        json.dumps(info_to_spec(told.info)),
    )


def round_from_row(
    family: ParametricFamily, ids: bytes, drawn: bytes, proposal: str, info: str
) -> Round:
    """The columns of `round_to_row` after its number as a round again."""
    if len(ids) != 8 * len(drawn):
        raise ValueError(f"{len(ids)} bytes of ids for {len(drawn)} runs")
    return Round(
        tuple(np.frombuffer(ids, dtype="<i8").tolist()),
        np.frombuffer(drawn, dtype="?"),
        member_from_spec(json.loads(proposal), family),
        info_from_spec(json.loads(info)),
    )


def member_to_spec(member: Distribution, family: ParametricFamily) -> Spec:
    """Its θ, and its family unless that is the run's own."""
    other = None if member.family == family else to_spec(member.family)
    return {"family": other, "theta": pack(member.theta)}


def member_from_spec(spec: Spec, family: ParametricFamily) -> Distribution:
    """The distribution again."""
    kind = family if spec["family"] is None else from_spec(spec["family"])
    if not isinstance(kind, ParametricFamily) or kind.dim != family.dim:
        raise ValueError(f"{kind!r} is no family of {family.dim} coordinates")
    return Distribution(kind, unpack(spec["theta"]))


def info_to_spec(info: Info) -> Spec:
    """What an iteration reported, as JSON."""
    return {each.name: to_spec(getattr(info, each.name)) for each in fields(Info)}


def info_from_spec(spec: Spec) -> Info:
    """The same again."""
    numbers = {name: float(value) for name, value in spec.items() if name != "notes"}
    return Info(**numbers, notes=tuple(str(note) for note in spec["notes"]))


def state_to_spec(state: State) -> Spec:
    """Return all of a state but its seed and its evaluations, as JSON."""
    batch, family = state.batch, state.posterior.family
    return {
        "theta": pack(state.posterior.theta),
        "memory": {name: pack(np.asarray(value)) for name, value in _memory_of(state).items()},
        "batch": None
        if batch is None
        else {
            "x": pack(batch.x),
            "proposal": member_to_spec(batch.proposal, family),
            "drawn": batch.drawn.tolist(),
            "expected": None if batch.expected is None else pack(batch.expected),
        },
    }


def _memory_of(state: State) -> dict[str, Any]:
    """Name the typed parts of a state as version 0.1 did."""
    memory: dict[str, Any] = {}
    if state.emulator is not None:
        emulator = state.emulator
        memory |= {"phi": emulator.hyperparameters, "wrong": emulator.outliers}
        memory |= {"inflation": emulator.inflation, "delta": [emulator.threshold]}
        memory |= {"restarted": [emulator.restarted], "fitted": [emulator.fitted]}
    if state.last_step is not None:
        step = state.last_step
        memory |= {"radius": [step.radius], "previous": step.previous, "gain": [step.gain]}
    if state.momentum is not None:
        memory |= {"phi": state.momentum.coordinates, "velocity": state.momentum.velocity}
    return memory


def state_from_spec(spec: Spec, start: State, evaluations: Evaluations) -> State:
    """Return the state again, bit for bit."""
    family, batch = start.posterior.family, None
    if spec["batch"] is not None:
        planned = spec["batch"]
        x = points(unpack(planned["x"]), "x", family.dim)
        expected = planned["expected"]
        batch = Batch(
            x,
            member_from_spec(planned["proposal"], family),
            vector(planned["drawn"], "drawn", len(x)).astype(bool),
            None if expected is None else unpack(expected).reshape(len(x)),
        )
    memory = {name: unpack(array) for name, array in spec["memory"].items()}
    posterior = Distribution(family, unpack(spec["theta"]))
    return State(start.seed, posterior, evaluations, batch, **_parts_of(memory))


def _parts_of(memory: dict[str, FloatArray]) -> dict[str, Any]:
    """Return the typed parts of a state from the names of `_memory_of`."""
    parts: dict[str, Any] = {}
    if "radius" in memory:
        radius, gain = float(memory["radius"][0]), float(memory["gain"][0])
        parts["last_step"] = LastStep(radius, memory["previous"], gain)
    if "wrong" in memory:
        parts["emulator"] = EmulatorState(
            memory["phi"],
            memory["wrong"] > 0.5,
            memory["inflation"],
            float(memory["delta"][0]),
            int(memory["restarted"][0]),
            int(memory["fitted"][0]),
        )
    if "velocity" in memory:
        parts["momentum"] = Momentum(memory["phi"], memory["velocity"])
    return parts


def read_posterior(
    db: sqlite3.Connection, path: Path, family: ParametricFamily
) -> Distribution | None:
    """That of the state after the last round; None before the first."""
    row = db.execute("SELECT value, checksum FROM state").fetchone()
    if row is None:
        return None
    if row[1] != digest(row[0]):
        raise damaged(path, "its state")
    with sound(path, "its state"):
        return Distribution(family, unpack(json.loads(row[0])["theta"]))


def pack(array: FloatArray) -> Spec:
    """An array as JSON, bit for bit."""
    data = np.ascontiguousarray(array, dtype="<f8")
    return [base64.b64encode(data.tobytes()).decode(), list(np.shape(array))]


def unpack(spec: Spec) -> FloatArray:
    """The same again."""
    data, shape = spec
    return np.frombuffer(base64.b64decode(data), dtype="<f8").reshape(shape)


def width_of(rounds: Sequence[Round], runs: Mapping[int, Run]) -> int | None:
    """How many outputs the first good run has, those that were learnt from first."""
    told = [run for each in rounds for run in each.ids]
    ids = [*told, *sorted(set(runs) - set(told))]
    good = [runs[run] for run in ids if run in runs]
    return next(
        (len(r.outputs) for r in good if r.outputs is not None and r.status is Status.OK), None
    )


def retold(
    rounds: Sequence[Round],
    runs: Mapping[int, Run],
    before: Evaluations,
    width: int | None,
    failure_loss: float,
) -> Evaluations:
    """All that rounds have told, in their order."""
    told = before
    for each in rounds:
        mine = [runs[run] for run in each.ids]
        risk, outputs = columns(mine, width, failure_loss)
        x = points([run.x for run in mine], "x", before.x.shape[1])
        told = told.append(x, risk, each.proposal, outputs, each.drawn)
    return told


def columns(
    runs: Sequence[Run], width: int | None, failure_loss: float
) -> tuple[FloatArray, FloatArray | None]:
    """Risks (n,) and outputs (n, m) of runs."""
    risk = np.array([run.risk if run.status is Status.OK else failure_loss for run in runs])
    if width is None:
        return risk, None
    nothing = np.full(width, np.nan)
    good = [run.outputs if run.status is Status.OK else None for run in runs]
    return risk, np.array([nothing if outputs is None else outputs for outputs in good])
