"""Convert the state of meta-learning to JSON and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from supac.codec import Spec
from supac.families import Distribution
from supac.meta.state import MetaInfo, MetaState, TaskState
from supac.problem import Evaluations
from supac.record import encoding
from supac.search.algorithm import State


def meta_state_to_spec(state: MetaState) -> Spec:
    """Return a state between two visits as JSON, without its evaluations."""
    return {
        "prior": encoding.pack(state.prior),
        "visit": state.visit,
        "passes": state.passes,
        "left": list(state.left),
        "history": [asdict(each) for each in state.history],
        "priors": [encoding.pack(each) for each in state.priors],
        "tasks": [None if each is None else _task_to_spec(each) for each in state.tasks],
    }


def _task_to_spec(task: TaskState) -> Spec:
    return {
        "seed": task.state.seed,
        "state": encoding.state_to_spec(task.state),
        "info": encoding.info_to_spec(task.info),
        "spent": task.spent,
        "rounds": task.rounds,
        "objective": task.objective,
        "weight": task.weight,
        "prior": None if task.prior is None else encoding.pack(task.prior),
    }


def meta_state_from_spec(
    spec: Spec, seed: int, prior: Distribution, told: Sequence[Evaluations]
) -> MetaState:
    """Invert `meta_state_to_spec`; `told` are the evaluations of each task."""
    tasks = [
        None if each is None else _task_from_spec(each, prior, evaluations)
        for each, evaluations in zip(spec["tasks"], told, strict=True)
    ]
    return MetaState(
        seed=seed,
        prior=encoding.unpack(spec["prior"]),
        tasks=tuple(tasks),
        visit=int(spec["visit"]),
        passes=int(spec["passes"]),
        left=tuple(int(each) for each in spec["left"]),
        history=tuple(MetaInfo(**each) for each in spec["history"]),
        priors=tuple(encoding.unpack(each) for each in spec["priors"]),
    )


def _task_from_spec(spec: Spec, prior: Distribution, evaluations: Evaluations) -> TaskState:
    start = State(int(spec["seed"]), prior, Evaluations.none(prior.dim))
    return TaskState(
        state=encoding.state_from_spec(spec["state"], start, evaluations),
        info=encoding.info_from_spec(spec["info"]),
        spent=int(spec["spent"]),
        rounds=int(spec["rounds"]),
        objective=float(spec["objective"]),
        weight=float(spec["weight"]),
        prior=None if spec["prior"] is None else encoding.unpack(spec["prior"]),
    )
