"""A small PEtab problem whose simulations have a closed form, for tests to write and to break.

A substance is produced at the rate p and decays at the rate k: y' = p − k·y. Before the experiment
`after` it is produced until nothing changes, then no longer; in `plain` it begins at `start`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from supac.arrays import FloatArray

TRUTH = {"k": 0.4, "p": 2.0, "scale": 3.0, "sd": 0.1}
TIMES = (0.0, 1.0, 2.0, 5.0)
START, OFFSET, KNOWN_NOISE = 1.5, 0.25, 0.2

MODEL = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1">
  <model id="decay">
    <listOfCompartments>
      <compartment id="cell" size="2" spatialDimensions="3" constant="true"/>
    </listOfCompartments>
    <listOfSpecies>
      <species id="A" compartment="cell" initialConcentration="0" hasOnlySubstanceUnits="false"
        boundaryCondition="false" constant="false"/>
    </listOfSpecies>
    <listOfParameters>
      <parameter id="k" value="1" constant="true"/>
      <parameter id="p" value="1" constant="true"/>
      <parameter id="a0" value="7" constant="true"/>
      <parameter id="on" value="1" constant="true"/>
      <parameter id="double_A" constant="false"/>
    </listOfParameters>
    <listOfInitialAssignments>
      <initialAssignment symbol="A">
        <math xmlns="http://www.w3.org/1998/Math/MathML"><ci>a0</ci></math>
      </initialAssignment>
    </listOfInitialAssignments>
    <listOfRules>
      <assignmentRule variable="double_A">
        <math xmlns="http://www.w3.org/1998/Math/MathML">
          <apply><times/><cn>2</cn><ci>A</ci></apply></math>
      </assignmentRule>
    </listOfRules>
    <listOfReactions>
      <reaction id="made" reversible="false" fast="false">
        <listOfProducts>
          <speciesReference species="A" stoichiometry="1" constant="true"/>
        </listOfProducts>
        <kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML">
          <apply><times/><ci>on</ci><ci>p</ci><ci>cell</ci></apply></math></kineticLaw>
      </reaction>
      <reaction id="lost" reversible="false" fast="false">
        <listOfReactants>
          <speciesReference species="A" stoichiometry="1" constant="true"/>
        </listOfReactants>
        <kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML">
          <apply><times/><ci>k</ci><ci>A</ci><ci>cell</ci></apply></math></kineticLaw>
      </reaction>
    </listOfReactions>
  </model>
</sbml>
"""
PROBLEM = """format_version: 1
parameter_file: parameters.tsv
problems:
- sbml_files: [model.xml]
  condition_files: [conditions.tsv]
  observable_files: [observables.tsv]
  measurement_files: [measurements.tsv]
"""
PARAMETERS = """parameterId parameterScale lowerBound upperBound nominalValue estimate
k log10 0.01 10 0.4 1
p log10 0.01 100 2 1
start lin 0 10 1.5 0
scale log 0.1 30 3 1
offset lin 0 1 0.25 0
sd log10 0.01 10 0.1 1
"""
CONDITIONS = """conditionId on a0
plain 1 start
grown 1 start
after 0 start
"""
OBSERVABLES = """observableId observableFormula noiseFormula observableTransformation
logged observableParameter1_logged*A noiseParameter1_logged log10
shifted double_A/2+offset noiseParameter1_shifted lin
"""


def simulated(condition: str, k: float, p: float) -> FloatArray:
    """Return A at TIMES."""
    start, target = (p / k, 0.0) if condition == "after" else (START, p / k)
    return target + (start - target) * np.exp(-k * np.array(TIMES))


def rows() -> list[tuple[str, str, str, float, float, str, str]]:
    """Return the measurements, with noise, in the columns of the table."""
    rng, made = np.random.default_rng(1), []
    for condition in ("plain", "after"):
        true = simulated(condition, TRUTH["k"], TRUTH["p"])
        before = "grown" if condition == "after" else ""
        for time, value in zip(TIMES, true, strict=True):
            log = TRUTH["scale"] * value * 10 ** (TRUTH["sd"] * rng.standard_normal())
            plain = value + OFFSET + KNOWN_NOISE * rng.standard_normal()
            made.append(("logged", before, condition, log, time, "scale", "sd"))
            made.append(("shifted", before, condition, plain, time, "", f"{KNOWN_NOISE}"))
    return made


def negative_log_likelihood(k: float, p: float, scale: float, sd: float) -> float:
    """Compute minus the log-likelihood in closed form."""
    total = 0.0
    for observable, _, condition, value, time, _, _ in rows():
        true = simulated(condition, k, p)[TIMES.index(time)]
        noise, residual, slope = KNOWN_NOISE, value - true - OFFSET, 1.0
        if observable == "logged":
            noise, residual = sd, np.log10(value) - np.log10(scale * true)
            slope = value * np.log(10.0)
        total += 0.5 * (residual / noise) ** 2 + np.log(noise * slope) + 0.5 * np.log(2.0 * np.pi)
    return float(total)


def write(folder: Path) -> Path:
    """Write the files of the problem; return that of the problem."""
    header = "observableId preequilibrationConditionId simulationConditionId measurement time "
    header += "observableParameters noiseParameters"
    measured = "\n".join("\t".join(map(str, row)) for row in rows())
    files = {
        "problem.yaml": PROBLEM,
        "model.xml": MODEL,
        "parameters.tsv": PARAMETERS.replace(" ", "\t"),
        "conditions.tsv": CONDITIONS.replace(" ", "\t"),
        "observables.tsv": OBSERVABLES.replace(" ", "\t"),
        "measurements.tsv": header.replace(" ", "\t") + "\n" + measured + "\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder / "problem.yaml"
