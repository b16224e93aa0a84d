"""Calibrate expensive simulators with PAC-Bayes guarantees."""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from supac import simulators
from supac.calibration.certify import certify
from supac.calibration.loop import Iteration
from supac.calibration.minimize import minimize, reoptimize, resume
from supac.calibration.predict import Prediction, predict
from supac.emulator import GaussianProcess, OutputEmulator
from supac.exchange import KnownRuns, ResultFormatError, export, read_csv
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
from supac.guarantee.certificate import Certificate, CertificateError, certify_draws
from supac.meta import ClosedForm, GradientStep, MetaInfo, MetaSuPAC, Plan, Reuse, Stage
from supac.meta.learn import MetaResult, TaskResult, meta_learn
from supac.meta.scores import PriorScores, evaluate_priors
from supac.meta.task import Task
from supac.problem import Problem, marginals
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
from supac.problem.observations import Observations
from supac.problem.parameters import Parameters
from supac.record.ending import StopReason
from supac.record.record import Record, read_store
from supac.record.result import Result, read_result
from supac.record.run import Run, Status
from supac.record.store.file import (
    NotAStoreError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
    StoreTooNewError,
)
from supac.running import ExecutionError
from supac.running.execution import Execution
from supac.running.runner import EvaluationError
from supac.search.algorithm import Algorithm, Info, State, TooManyStatisticsError
from supac.search.gradient import GradientDescent, Nesterov
from supac.search.steps import FixedStep, TrustRegion
from supac.search.supac import SuPAC
from supac.simulators.per_worker import PerWorker
from supac.simulators.program import Program
from supac.simulators.umbridge import UMBridge
from supac.surrogate import BatchPlan, FreshDraws, Importance, Ridge, Surrogate, Voronoi

if TYPE_CHECKING:
    from supac import plots
    from supac.problem.frozen import Frozen
    from supac.problem_file import ProblemFile, ProblemFileError, read_problem
    from supac.report import write_report

__version__ = "0.2.0"

__all__ = [
    "Algorithm",
    "BatchPlan",
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
    "Execution",
    "ExecutionError",
    "Exponential",
    "Family",
    "FixedGaussian",
    "FixedStep",
    "FreshDraws",
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
    "Observations",
    "OutputEmulator",
    "Parameters",
    "ParametricFamily",
    "Pareto",
    "PerWorker",
    "Plan",
    "Poisson",
    "Prediction",
    "PriorScores",
    "Problem",
    "ProblemFile",
    "ProblemFileError",
    "Product",
    "Program",
    "Record",
    "Result",
    "ResultFormatError",
    "Reuse",
    "Ridge",
    "RootMeanSquare",
    "Run",
    "ScaledGaussian",
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
    "TooManyStatisticsError",
    "TrustRegion",
    "UMBridge",
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
    "predict",
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
    "Frozen": "supac.problem.frozen",
    "ProblemFile": "supac.problem_file",
    "ProblemFileError": "supac.problem_file",
    "read_problem": "supac.problem_file",
    "write_report": "supac.report",
}


_RENAMED = {"Snapshot": "Record", "Uniform": "FreshDraws"}


def __getattr__(name: str) -> Any:
    """Import rarely used names, such as problem files and plots, on demand."""
    if name == "plots":
        return import_module("supac.plots")
    if name in _RENAMED:
        new = _RENAMED[name]
        warnings.warn(f"supac.{name} is now supac.{new}", DeprecationWarning, stacklevel=2)
        return globals()[new]
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'supac' has no attribute {name!r}")
