"""What is asked: parameters with their priors, the bound, the loss, and past runs as columns."""

from supac.problem.bounds import (
    Bound,
    Catoni,
    MaurerLangfordSeeger,
    McAllester,
    Thiemann,
    TolstikhinSeldin,
)
from supac.problem.composite import (
    CappedSquare,
    Composite,
    MeanSquare,
    RootMeanSquare,
    SquareLoss,
    Welsch,
)
from supac.problem.evaluations import Evaluations
from supac.problem.observations import Data, Observations
from supac.problem.parameters import Parameters
from supac.problem.problem import Function, Loss, Problem

__all__ = [
    "Bound",
    "CappedSquare",
    "Catoni",
    "Composite",
    "Data",
    "Evaluations",
    "Function",
    "Loss",
    "MaurerLangfordSeeger",
    "McAllester",
    "MeanSquare",
    "Observations",
    "Parameters",
    "Problem",
    "RootMeanSquare",
    "SquareLoss",
    "Thiemann",
    "TolstikhinSeldin",
    "Welsch",
]
