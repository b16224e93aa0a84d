"""All public names of the package, which imports this module when the first is asked for."""

from typing import TYPE_CHECKING

from supac import families, simulators
from supac.calibration.certify import certify
from supac.calibration.jacobian_check import JacobianCheck, check_jacobian
from supac.calibration.loop import Iteration
from supac.calibration.minimize import minimize, reoptimize, resume
from supac.emulator import GaussianProcess, OutputEmulator
from supac.exchange.known import KnownRuns, read_csv
from supac.exchange.result_json import ResultFormatError, read_result
from supac.exchange.table import export
from supac.families import *  # noqa: F403 - all that is in its __all__
from supac.guarantee.bands import Bands
from supac.guarantee.basis import CertificateError
from supac.guarantee.certificate import Certificate
from supac.guarantee.ensemble import Ensemble
from supac.guarantee.posterior import certify_draws
from supac.guarantee.provenance import Provenance
from supac.meta import ClosedForm, GradientStep, MetaInfo, MetaSuPAC, Plan, Reuse, Stage
from supac.meta.learn import MetaResult, TaskResult, meta_learn
from supac.meta.scores import PriorScores, evaluate_priors
from supac.meta.task import Task
from supac.posterior.candidates import Candidate, Measurement
from supac.posterior.next_measurement import NextMeasurements
from supac.posterior.outputs import Outputs
from supac.posterior.prediction import Prediction, predict, read_prediction
from supac.posterior.sensitivity import Sensitivity
from supac.problem import Evaluations, Observations, Parameters, Problem, marginals
from supac.problem.bounds import (
    Bound,
    Catoni,
    MaurerLangfordSeeger,
    McAllester,
    Thiemann,
    TolstikhinSeldin,
)
from supac.problem.coarse import Coarse
from supac.problem.composite import Composite
from supac.problem.fields import Field
from supac.problem.losses import CappedSquare, MeanSquare, RootMeanSquare, SquareLoss, Welsch
from supac.record.ending import StopReason
from supac.record.record import Record, read_store
from supac.record.result import Result
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
from supac.running.jobs import BatchSystem, Slurm
from supac.running.runner import EvaluationError
from supac.search.algorithm import Algorithm, Info, State, TooManyStatisticsError
from supac.search.gradient import GradientDescent, HeavyBall, Nesterov
from supac.search.supac import SuPAC
from supac.search.trust import FixedStep, TrustRegion
from supac.simulators.automatic import with_jacobian
from supac.simulators.lost import RunLostError
from supac.simulators.output_file import OutputFile
from supac.simulators.per_worker import PerWorker
from supac.simulators.program import Program
from supac.simulators.umbridge import UMBridge
from supac.surrogate.estimator import BatchPlan, Estimator, RiskModel, Surrogate
from supac.surrogate.importance import FreshDraws, Importance, Ridge
from supac.surrogate.voronoi import ReusedVoronoi, Voronoi

if TYPE_CHECKING:
    from supac import plots
    from supac.problem.frozen import Frozen
    from supac.problem_file import ProblemFile, ProblemFileError, read_problem
    from supac.report import write_report
    from supac.simulators.fmi import FMU

__all__ = [
    "FMU", "Algorithm", "Bands", "BatchPlan", "BatchSystem", "Bound", "Candidate",
    "CappedSquare", "Catoni", "Certificate", "CertificateError", "ClosedForm", "Coarse",
    "Composite", "Ensemble", "Estimator", "EvaluationError", "Evaluations", "Execution",
    "ExecutionError",
    "Field", "FixedStep", "FreshDraws", "Frozen", "GaussianProcess", "GradientDescent",
    "GradientStep", "HeavyBall", "Importance", "Info", "Iteration", "JacobianCheck", "KnownRuns",
    "MaurerLangfordSeeger", "McAllester", "MeanSquare", "Measurement", "MetaInfo", "MetaResult",
    "MetaSuPAC", "Nesterov", "NextMeasurements", "NotAStoreError", "Observations",
    "OutputEmulator", "OutputFile", "Outputs", "Parameters", "PerWorker", "Plan", "Prediction",
    "PriorScores", "Problem", "ProblemFile", "ProblemFileError", "Program", "Provenance",
    "Record", "Result", "ResultFormatError", "Reuse", "ReusedVoronoi", "Ridge", "RiskModel",
    "RootMeanSquare", "Run", "RunLostError", "Sensitivity", "Slurm", "SquareLoss", "Stage",
    "State", "Status", "StopReason", "StoreBusyError", "StoreDamagedError", "StoreError",
    "StoreMismatchError", "StoreTooNewError", "SuPAC", "Surrogate", "Task", "TaskResult",
    "Thiemann", "TolstikhinSeldin", "TooManyStatisticsError", "TrustRegion", "UMBridge",
    "Voronoi", "Welsch", "certify", "certify_draws", "check_jacobian", "evaluate_priors",
    "export", "marginals", "meta_learn", "minimize", "plots", "predict", "read_csv",
    "read_prediction", "read_problem",
    "read_result", "read_store", "reoptimize", "resume", "simulators", "with_jacobian",
    "write_report",
]  # fmt: skip
__all__ += families.__all__

LATER = {
    "FMU": "supac.simulators.fmi",
    "Frozen": "supac.problem.frozen",
    "ProblemFile": "supac.problem_file",
    "ProblemFileError": "supac.problem_file",
    "plots": "supac.plots",
    "read_problem": "supac.problem_file",
    "write_report": "supac.report",
}
"""Modules of names that few need, and that are slow to import: imported when they are asked for."""
