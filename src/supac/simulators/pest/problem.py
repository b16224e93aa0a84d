"""A PEST case as a calibration problem: parameters with priors, risk and bound."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from supac.families import gaussian
from supac.problem import Composite, Parameters, marginals
from supac.problem.bounds import Catoni
from supac.problem.likelihood import Measurements
from supac.problem.marginals import Marginal
from supac.simulators.pest.control import (
    Control,
    Observation,
    Parameter,
    PriorInformation,
    read_control,
)
from supac.simulators.pest.covariance import FloatArray
from supac.simulators.pest.errors import PestError, similar
from supac.simulators.pest.model import CaseModel


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Calibration problem of a control file.

    The risk is minus the mean log-likelihood of an observation, or an equation of the prior
    information, whose noise is 1/weight: half of PEST's objective function over their number, and a
    constant. With `bound`, the posterior is then the best approximation of Bayes' by the family.
    """

    control: Control
    model: CaseModel
    parameters: Parameters
    measurements: Measurements

    def __repr__(self) -> str:
        sizes = f"{len(self.parameters)} parameters, {self.measurements.measured} observations"
        return f"Problem({self.control.path.name}, {sizes})"

    @cached_property
    def risk(self) -> Composite:
        """Return the risk as simulator, loss and data."""
        return Composite(self.model, self.measurements.loss, self.measurements)

    @property
    def bound(self) -> Catoni:
        """Return mean risk + KL/n, for n observations; it guarantees nothing."""
        return Catoni(temperature=1.0 / self.measurements.measured)


def load(
    path: str | os.PathLike[str],
    priors: Mapping[str, Marginal] | None = None,
    *,
    copies: Sequence[str | os.PathLike[str]] | None = None,
    scratch: str | os.PathLike[str] | None = None,
    keep: Literal["none", "failed", "all"] = "none",
) -> Problem:
    """Load the case of a PEST control file.

    Parameters
    ----------
    path
        The control file, .pst of version 1 or 2.
    priors
        Priors of adjustable parameters, in place of those that their bounds amount to.
    copies
        Files and folders that a run needs; by default all in the folder of the case.
    scratch, keep
        As for `supac.Program`.

    """
    control = read_control(Path(path).absolute())
    deviations, correlation = _spread(control)
    chosen = {
        each.name: prior_of(each, control.sigma_range, deviation)
        for each, deviation in zip(control.adjustable, deviations, strict=True)
    }
    for name, prior in (priors or {}).items():
        if name not in chosen:
            words = f"{name} is no adjustable parameter of {control.path.name}"
            raise PestError(f"{words}{similar(name, chosen)}")
        chosen[name] = prior
    given = None if copies is None else [control.path.parent / each for each in copies]
    model = CaseModel(control, copies=given, scratch=scratch, keep=keep)
    latent = None
    if correlation is not None:
        latent = gaussian(np.zeros(len(correlation)), correlation)
    parameters = Parameters(chosen, latent=latent)
    return Problem(control, model, parameters, measurements_of(control))


def _spread(control: Control) -> tuple[list[float | None], FloatArray | None]:
    """Return the standard deviations of a prior covariance, and its correlations if it has any."""
    if control.covariance is None:
        return [None] * len(control.adjustable), None
    deviations = np.sqrt(np.diag(control.covariance))
    correlation = control.covariance / np.outer(deviations, deviations)
    alone = not np.any(np.tril(correlation, -1))
    return deviations.tolist(), None if alone else correlation


def prior_of(parameter: Parameter, sigma_range: float, deviation: float | None = None) -> Marginal:
    """Return the prior: normal around the value, or its logarithm, and cut at the bounds.

    The bounds are so many standard deviations apart, as in PEST++ and pyemu, unless a standard
    deviation is given, of the decadic logarithm for a log parameter.
    """
    base: Marginal
    if parameter.kind == "log":
        width = math.log(parameter.upper / parameter.lower) / sigma_range
        width = width if deviation is None else deviation * math.log(10.0)
        base = marginals.LogNormal(parameter.value, width)
    else:
        width = (parameter.upper - parameter.lower) / sigma_range
        base = marginals.Normal(parameter.value, width if deviation is None else deviation)
    return marginals.Truncated(base, parameter.lower, parameter.upper)


def measurements_of(control: Control) -> Measurements:
    """Return observations and prior information as measurements, a series for each group."""
    rows: list[Observation | PriorInformation] = list(control.observations)
    rows += control.prior_information
    names = list(dict.fromkeys(each.group for each in rows))
    series = [names.index(each.group) for each in rows]
    # Observations have no times: they are counted within their group.
    places = [float(series[:row].count(group)) for row, group in enumerate(series)]
    count = len(rows)
    return Measurements(
        names=tuple(names),
        series=np.array(series),
        times=np.array(places),
        values=np.array([each.value for each in rows]),
        noise=np.array([1.0 / each.weight for each in rows]),
        levels=np.full(count, -1),
        log_scale=np.zeros(count),
        laplace=np.zeros(count, dtype=bool),
        labels=tuple(each.name for each in rows),
    )
