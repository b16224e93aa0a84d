"""ADM1 as published: components, stoichiometry, kinetics, acid-base chemistry, gas transfer.

Anaerobic Digestion Model No. 1 (Batstone et al., 2002) in the formulation of the BSM2 benchmark
(Rosen and Jeppsson, 2006). The formulas and values are in `model.toml`; `compiler.py` turns the
formulas into a fast kernel. Concentrations in kg COD/m³, S_IC, S_IN, S_cation, S_anion, S_H and
S_gas_co2 in kmol/m³, time in days, pressures in bar.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

BIOMASS = ("X_su", "X_aa", "X_fa", "X_c4", "X_pro", "X_ac", "X_h2")
LIQUID = (
    "S_su", "S_aa", "S_fa", "S_va", "S_bu", "S_pro", "S_ac", "S_h2", "S_ch4", "S_IC", "S_IN", "S_I",
    "X_c", "X_ch", "X_pr", "X_li", *BIOMASS, "X_I", "S_cation", "S_anion",
)  # fmt: skip
GAS = ("S_gas_h2", "S_gas_ch4", "S_gas_co2")


@dataclass(frozen=True)
class Process:
    """Row of the Petersen matrix: yield of each component per unit of the rate."""

    name: str
    rate: str
    yields: dict[str, str]


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CARBON: dict[str, str] = _TABLES["carbon"] | dict.fromkeys(BIOMASS, "C_bac")
NITROGEN: dict[str, str] = _TABLES["nitrogen"] | dict.fromkeys(BIOMASS, "N_bac")
PROCESSES = (
    *(Process(**each) for each in _TABLES["process"]),
    *(Process(f"decay of {x}", f"k_dec * {x}", {x: "-1", "X_c": "1"}) for x in BIOMASS),
)
ALGEBRA: dict[str, str] = _TABLES["algebra"]
TRANSFER: dict[str, str] = _TABLES["transfer"]
BALANCE: dict[str, str] = _TABLES["balance"]

# Fixed values: yields and contents, acidity, gas transfer.
BSM2: dict[str, float] = _TABLES["fixed"]["bsm2"]
PAPER: dict[str, float] = BSM2 | _TABLES["fixed"]["paper"]
# Value at 298.15 K and enthalpy in J/mol of constants that depend on the temperature.
VAN_T_HOFF: dict[str, tuple[float, float]] = _TABLES["van_t_hoff"]
# kg COD in a kg of volatile solids.
COD_OF_SOLIDS: dict[str, float] = _TABLES["cod_of_solids"] | dict.fromkeys(BIOMASS, 1.42)

_CALIBRATED: dict[str, dict[str, Any]] = _TABLES["calibrated"]
CALIBRATED = tuple(_CALIBRATED)
UNITS: dict[str, str] = {name: row["unit"] for name, row in _CALIBRATED.items()}
BSM2_KINETICS: dict[str, float] = {name: row["value"] for name, row in _CALIBRATED.items()}
PAPER_KINETICS: dict[str, float] = BSM2_KINETICS | _TABLES["paper_kinetics"]
# The paper's prior: independent log-normals (median, standard deviation of the logarithm), and the
# groups of parameters that the posterior may correlate.
PRIOR: dict[str, tuple[float, float]] = {
    name: (PAPER_KINETICS[name], _TABLES["spread"][row["spread"]])
    for name, row in _CALIBRATED.items()
}
BLOCKS = tuple(
    tuple(block) for _, block in groupby(CALIBRATED, key=lambda name: _CALIBRATED[name]["block"])
)

# States that change in days, while a step takes hours: the matrix of a step (not the equations)
# leaves out their influence on the rates. Steps are cheaper and slightly less accurate, and
# refining them gains less than the order of the method.
SLOW = (*BIOMASS, "S_IN")
