"""A PEtab problem as a calibration problem: parameters with priors, risk and bound."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from supac.problem import CombinedMeasurements, Composite, Parameters, marginals
from supac.problem.bounds import Catoni
from supac.problem.likelihood import Measurements
from supac.problem.marginals import Marginal
from supac.simulators.petab.description import Description, Measurement, Parameter
from supac.simulators.petab.files import read_yaml
from supac.simulators.petab.layout import Layout
from supac.simulators.petab.model import FloatArray, Symbols
from supac.simulators.petab.simulator import Simulator
from supac.simulators.petab.tables import PEtabError, similar
from supac.simulators.petab.terms import Terms, observation_parameters
from supac.simulators.petab.version_1 import Version1
from supac.simulators.petab.version_2 import Version2

_MOST_SIMULATED = 40  # simulated parameters
_FLOOR = 1e-12  # least term in a logarithm, as a share of the smallest measurement
_LOG_SCALES = {"lin": 0.0, "log": 1.0, "log10": 1.0 / math.log(10.0)}


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Calibration problem of a PEtab file; x is in the user's units, not on parameterScale.

    The risk is minus the mean log-likelihood of a measurement. With `bound`, the posterior is then
    the best approximation of Bayes' by the family: mean risk + KL/n is −ELBO/n.
    """

    description: Description
    layout: Layout
    parameters: Parameters
    measurements: Measurements
    observation_parameters: tuple[str, ...] = ()
    """Parameters, the last ones, that enter after the simulation: they cost no run."""

    def __repr__(self) -> str:
        sizes = f"{len(self.parameters)} parameters, {self.measurements.measured} measurements"
        return f"Problem({self.description.path.name}, {sizes})"

    @cached_property
    def risk(self) -> Composite:
        """Return the risk as simulator, loss and data."""
        sbml = self.layout.symbols.text
        own = self.observation_parameters
        simulated = self.parameters.names[: len(self.parameters) - len(own)]
        simulate = Simulator(self.description, sbml, simulated, own)
        if not own:
            return Composite(simulate, self.measurements.loss, self.measurements)
        data = _combined(Terms(self.layout, own), self.measurements)
        return Composite(simulate, data.loss, data, observation=len(own))

    @property
    def bound(self) -> Catoni:
        """Return mean risk + KL/n, for n measurements; it guarantees nothing."""
        return Catoni(temperature=1.0 / self.measurements.measured)

    @property
    def nominal(self) -> FloatArray:
        """Return the nominal values of the parameters, NaN where the file has none: (dim,)."""
        known = {each.id: each.nominal for each in self.description.parameters}
        return np.array([known[name] for name in self.parameters.names])

    def negative_log_likelihood(self, x: FloatArray) -> float:
        """Compute minus the log-likelihood of all measurements at one point (dim,).

        It is n times the risk: a residual beyond 10 noises counts with a long tail.
        """
        return float(self.risk(x)) * self.measurements.measured

    @property
    def noise_parameters(self) -> tuple[str, ...]:
        """Names of the parameters on which the noise depends."""
        count = self.measurements.measured
        noisy = [each for each in self.layout.series if each.rows[0] >= count]
        used = {name for each in noisy for name in each.symbols}
        return tuple(name for name in self.parameters.names if name in used)


def load(
    path: str | os.PathLike[str],
    priors: Mapping[str, Marginal] | None = None,
    *,
    observation: bool | None = None,
) -> Problem:
    """Load a PEtab problem of version 1 or 2, whose model is SBML.

    Parameters
    ----------
    path
        The YAML file.
    priors
        The parameters to calibrate and their priors, in place of those of the file; all others
        have their nominal values.
    observation
        Put parameters that only formulas of observables and noise contain last, and declare them
        as observation parameters, which cost no run; False emulates what they do. By default they
        are declared if at most 40 others are simulated: of more, that helped at first only.

    """
    description = read(Path(path).absolute())
    known = {each.id: each for each in description.parameters}
    if priors is None:
        chosen = {each.id: prior_of(each) for each in known.values() if each.estimated}
    else:
        chosen = dict(priors)
    if not chosen:
        raise PEtabError(f"{description.path.name}: no parameter is estimated")
    description = _with_estimated(description, chosen)
    layout = Layout(description, Symbols.read(description.model))
    last = observation_parameters(layout)
    simulated = len(chosen) - len(last)
    declared = simulated <= _MOST_SIMULATED if observation is None else observation
    if not (simulated and declared):
        last = ()
    order = [*(name for name in chosen if name not in last), *last]
    parameters = Parameters({name: chosen[name] for name in order})
    return Problem(description, layout, parameters, _measurements(description, layout), last)


def read(path: Path) -> Description:
    """Read the tables of a problem; PEtabError if that is impossible."""
    document = read_yaml(path)
    version = str(document.get("format_version", ""))
    if version.split(".", maxsplit=1)[0] not in ("1", "2"):
        found = f"not {version}" if version else "but it is missing"
        raise PEtabError(f"{path.name}: format_version must be 1 or 2, {found}; is this PEtab?")
    reader = Version1 if version[0] == "1" else Version2
    return reader(path, document).read()


def _with_estimated(description: Description, chosen: Mapping[str, Any]) -> Description:
    """Return the problem with these parameters, and no others, as the estimated ones."""
    known = {each.id: each for each in description.parameters}
    for name in chosen:
        if name not in known:
            file = description.parameters[0].row.file
            raise PEtabError(f"{name} is not in {file}{similar(name, known)}")
    parameters = tuple(replace(each, estimated=each.id in chosen) for each in known.values())
    for each in parameters:
        if not each.estimated and not math.isfinite(each.nominal):
            raise each.row.fail(f"{each.id} is not estimated and needs a value", "nominalValue")
    return replace(description, parameters=parameters)


def prior_of(parameter: Parameter) -> Marginal:
    """Return the prior of a parameter: uniform on its scale between the bounds if none is given."""
    try:
        return _prior(parameter)
    except ValueError as error:
        raise parameter.row.fail(f"the prior of {parameter.id} is impossible: {error}") from error


def _prior(parameter: Parameter) -> Marginal:
    lower, upper = parameter.lower, parameter.upper
    base = {"lin": 0.0, "log": 1.0, "log10": math.log(10.0)}[parameter.scale]
    kind, numbers = parameter.prior, parameter.numbers
    if not kind:
        return marginals.LogUniform(lower, upper) if base else marginals.Uniform(lower, upper)
    if kind.startswith("scale-"):
        kind = kind.removeprefix("scale-")
        if base:  # from the scale of the parameter to natural logarithms
            kind, numbers = f"log-{kind}", (numbers[0] * base, numbers[1] * base)
            if kind == "log-uniform":
                numbers = (math.exp(numbers[0]), math.exp(numbers[1]))
    first, second = numbers
    if kind == "uniform":
        return marginals.Uniform(max(first, lower), min(second, upper))
    if kind == "log-uniform":
        return marginals.LogUniform(max(first, lower), min(second, upper))
    makers: dict[str, Callable[[], Marginal]] = {
        "normal": lambda: marginals.Normal(first, second),
        "laplace": lambda: marginals.Laplace(first, second),
        "log-normal": lambda: marginals.LogNormal(math.exp(first), second),
        "log-laplace": lambda: marginals.LogLaplace(math.exp(first), second),
    }
    return marginals.Truncated(makers[kind](), lower, upper)


def _measurements(description: Description, layout: Layout) -> Measurements:
    """Return the measurements, in series of one observable in one experiment."""
    rows = description.measurements
    if not rows:
        raise PEtabError(f"{description.path.name}: there is no measurement")
    repeated: dict[str, set[int]] = {each.observable: set() for each in rows}
    for each in rows:
        repeated[each.observable].add(each.experiment)

    def name(each: Measurement) -> str:
        several = len(repeated[each.observable]) > 1
        experiment = description.experiments[each.experiment].name
        return f"{each.observable} ({experiment})" if several else each.observable

    names = list(dict.fromkeys(map(name, rows)))
    scales = [description.observables[each.observable] for each in rows]
    return Measurements(
        names=tuple(names),
        series=np.array([names.index(name(each)) for each in rows]),
        times=np.array([each.time for each in rows]),
        values=np.array([each.value for each in rows]),
        noise=layout.noise,
        levels=layout.levels,
        log_scale=np.array([_LOG_SCALES[each.scale] for each in scales]),
        laplace=np.array([each.distribution == "laplace" for each in scales]),
    )


def _combined(terms: Terms, measurements: Measurements) -> CombinedMeasurements:
    """Return measurements that are combined from terms."""
    places, own, factors, products = map(np.array, zip(*terms.parts, strict=True))
    floors = _floors(terms, measurements)
    return CombinedMeasurements(measurements, places, own, factors, products, terms.powers, floors)


def _floors(terms: Terms, measurements: Measurements) -> FloatArray:
    """Return least values of terms whose logarithm is emulated, 0 for others.

    These are factors of noise levels and of values that are compared as logarithms.
    """
    in_scale = measurements.log_scale > 0.0
    alone = np.bincount([place for place, *_ in terms.parts]) == 1
    logarithmic = np.ones(terms.size, dtype=bool)
    for place, term, _, _ in terms.parts:
        is_level = place >= measurements.measured
        if term >= 0 and not (alone[place] and (is_level or in_scale[place])):
            logarithmic[term] = False
    sizes = np.abs(measurements.values)
    least = float(sizes[sizes > 0.0].min(initial=1.0))
    return np.where(logarithmic, _FLOOR * least, 0.0)
