"""Results in the files of PEST: parameter values, ensembles and covariances."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt

from supac.simulators.pest.control import Control, load_pyemu
from supac.simulators.pest.plain import load_pst

FloatArray = npt.NDArray[np.float64]


def write_parameters(control: Control, values: FloatArray, target: Path) -> None:
    """Write one parameter set (dim,) as a .par file, with fixed and tied parameters."""
    full = control.complete(_named(control, values))
    rows = [f"{e.name} {full[e.name]!r} {e.scale!r} {e.offset!r}" for e in control.parameters]
    target.write_text("\n".join(["single point", *rows, ""]), encoding="utf-8")


def write_sets(control: Control, sets: FloatArray, target: Path) -> None:
    """Write parameter sets (n, dim) as an ensemble of pyemu and PEST++: .csv, or binary .jcb."""
    pyemu = load_pyemu()
    import pandas as pd  # noqa: PLC0415 - comes with pyemu

    rows = [control.complete(_named(control, each)) for each in sets]
    frame = pd.DataFrame(rows, columns=[each.name for each in control.parameters])
    frame.index = pd.Index([str(row) for row in range(len(frame))], name="real_name")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ensemble = pyemu.ParameterEnsemble(pst=load_pst(pyemu, control.path), df=frame)
        if target.suffix == ".jcb":
            ensemble.to_binary(str(target))
        else:
            ensemble.to_csv(str(target))


def write_covariance(control: Control, sets: FloatArray, target: Path) -> None:
    """Write the covariance of parameter sets (n, dim), on PEST's scale: log₁₀ of log parameters."""
    pyemu = load_pyemu()
    logarithmic = [each.kind == "log" for each in control.adjustable]
    scaled = np.where(logarithmic, np.log10(np.where(logarithmic, sets, 1.0)), sets)
    names = [each.name for each in control.adjustable]
    matrix = np.atleast_2d(np.cov(scaled, rowvar=False))
    pyemu.Cov(x=matrix, names=names).to_ascii(str(target))


def _named(control: Control, values: FloatArray) -> dict[str, float]:
    names = [each.name for each in control.adjustable]
    return dict(zip(names, map(float, values), strict=True))
