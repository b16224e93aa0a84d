"""Problems: parameters with priors, bounds, losses, and the columns of past runs."""

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
from supac.problem.parameters import Parameters
from supac.problem.problem import Function, Loss, Problem

__all__ = [
    "Bound", "CappedSquare", "Catoni", "Composite", "Evaluations", "Function", "Loss",
    "MaurerLangfordSeeger", "McAllester", "MeanSquare", "Parameters", "Problem", "RootMeanSquare",
    "SquareLoss", "Thiemann", "TolstikhinSeldin", "Welsch",
]  # fmt: skip
