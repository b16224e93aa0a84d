"""Meta-learning of a prior from many related tasks."""

from supac.meta.inner import Inner, Plan, Reuse
from supac.meta.learner import Answers, MetaSuPAC, Stage
from supac.meta.state import MetaInfo, MetaState, TaskState
from supac.meta.step import (
    ClosedForm,
    GradientStep,
    Lesson,
    MetaStep,
    best_prior,
    meta_gradient,
    prior_of,
)
from supac.meta.task import Environment

__all__ = [
    "Answers", "ClosedForm", "Environment", "GradientStep", "Inner", "Lesson", "MetaInfo",
    "MetaState", "MetaStep", "MetaSuPAC", "Plan", "Reuse", "Stage", "TaskState", "best_prior",
    "meta_gradient", "prior_of",
]  # fmt: skip
