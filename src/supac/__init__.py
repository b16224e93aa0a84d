"""Calibrate expensive simulators with PAC-Bayes guarantees."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from supac import marginals, simulators
from supac.algorithm import Algorithm, Info, Problem, State
from supac.bounds import (
    Bound,
    Catoni,
    MaurerLangfordSeeger,
    McAllester,
    Thiemann,
    TolstikhinSeldin,
)
from supac.certificate import Certificate, CertificateError, certify_draws
from supac.certify import certify
from supac.composite import (
    CappedSquare,
    Composite,
    MeanSquare,
    RootMeanSquare,
    SquareLoss,
    Welsch,
)
from supac.evaluate import EvaluationError
from supac.evaluations import Evaluations
from supac.exchange import KnownRuns, ResultFormatError, export, read_csv
from supac.execution import ExecutionError
from supac.families import (
    Bernoulli,
    Beta,
    DiagonalGaussian,
    Distribution,
    Divergence,
    Exponential,
    Family,
    FixedGaussian,
    Gamma,
    Gaussian,
    LowRankGaussian,
    Mixture,
    ParametricFamily,
    Pareto,
    Poisson,
    Product,
    ScaledGaussian,
    StudentT,
    bernoulli,
    beta,
    exponential,
    fixed_gaussian,
    gamma,
    gaussian,
    low_rank_gaussian,
    mixture,
    pareto,
    poisson,
    product,
    scaled_gaussian,
    split_mixture,
    student_t,
)
from supac.gradient import GradientDescent, Nesterov
from supac.held_out import PriorScores, evaluate_priors
from supac.journal import Iteration, StopReason
from supac.meta import ClosedForm, GradientStep, MetaInfo, MetaSuPAC, Plan, Reuse, Stage
from supac.meta_learn import MetaResult, TaskResult, meta_learn
from supac.minimize import minimize, reoptimize, resume
from supac.parameters import Parameters
from supac.result import Result, read_result
from supac.runs import Run, Status
from supac.simulators.per_worker import PerWorker
from supac.simulators.program import Program
from supac.simulators.umbridge import UMBridge
from supac.snapshot import Snapshot, read_store
from supac.steps import FixedStep, TrustRegion
from supac.store import (
    NotAStoreError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
    StoreTooNewError,
)
from supac.supac import SuPAC
from supac.surrogate import (
    GaussianProcess,
    Importance,
    OutputEmulator,
    Ridge,
    Surrogate,
    Uniform,
    Voronoi,
)
from supac.task import Task

if TYPE_CHECKING:
    from supac import plots
    from supac.frozen import Frozen
    from supac.problem_file import ProblemFile, ProblemFileError, read_problem
    from supac.report import write_report

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "Bernoulli",
    "Beta",
    "Bound",
    "CappedSquare",
    "Catoni",
    "Certificate",
    "CertificateError",
    "ClosedForm",
    "Composite",
    "DiagonalGaussian",
    "Distribution",
    "Divergence",
    "EvaluationError",
    "Evaluations",
    "ExecutionError",
    "Exponential",
    "Family",
    "FixedGaussian",
    "FixedStep",
    "Frozen",
    "Gamma",
    "Gaussian",
    "GaussianProcess",
    "GradientDescent",
    "GradientStep",
    "Importance",
    "Info",
    "Iteration",
    "KnownRuns",
    "LowRankGaussian",
    "MaurerLangfordSeeger",
    "McAllester",
    "MeanSquare",
    "MetaInfo",
    "MetaResult",
    "MetaSuPAC",
    "Mixture",
    "Nesterov",
    "NotAStoreError",
    "OutputEmulator",
    "Parameters",
    "ParametricFamily",
    "Pareto",
    "PerWorker",
    "Plan",
    "Poisson",
    "PriorScores",
    "Problem",
    "ProblemFile",
    "ProblemFileError",
    "Product",
    "Program",
    "Result",
    "ResultFormatError",
    "Reuse",
    "Ridge",
    "RootMeanSquare",
    "Run",
    "ScaledGaussian",
    "Snapshot",
    "SquareLoss",
    "Stage",
    "State",
    "Status",
    "StopReason",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "StoreMismatchError",
    "StoreTooNewError",
    "StudentT",
    "SuPAC",
    "Surrogate",
    "Task",
    "TaskResult",
    "Thiemann",
    "TolstikhinSeldin",
    "TrustRegion",
    "UMBridge",
    "Uniform",
    "Voronoi",
    "Welsch",
    "bernoulli",
    "beta",
    "certify",
    "certify_draws",
    "evaluate_priors",
    "exponential",
    "export",
    "fixed_gaussian",
    "gamma",
    "gaussian",
    "low_rank_gaussian",
    "marginals",
    "meta_learn",
    "minimize",
    "mixture",
    "pareto",
    "plots",
    "poisson",
    "product",
    "read_csv",
    "read_problem",
    "read_result",
    "read_store",
    "reoptimize",
    "resume",
    "scaled_gaussian",
    "simulators",
    "split_mixture",
    "student_t",
    "write_report",
]
_LATER = {
    "Frozen": "supac.frozen",
    "ProblemFile": "supac.problem_file",
    "ProblemFileError": "supac.problem_file",
    "read_problem": "supac.problem_file",
    "write_report": "supac.report",
}


def __getattr__(name: str) -> Any:
    """What only few need, problem files and pictures for instance, when it is asked for."""
    if name == "plots":
        return import_module("supac.plots")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'supac' has no attribute {name!r}")
