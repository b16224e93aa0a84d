"""ADM1 as published: components, stoichiometry, kinetics, acid-base chemistry, gas transfer.

Anaerobic Digestion Model No. 1 (Batstone et al., 2002) in the formulation of the BSM2 benchmark
(Rosen and Jeppsson, 2006). The formulas are in `model.toml`; `compiler.py` turns them into a fast
kernel. Concentrations in kg COD/m³, S_IC, S_IN, S_cation, S_anion, S_H and
S_gas_co2 in kmol/m³, time in days, pressures in bar.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

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


_FORMULAS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CARBON: dict[str, str] = _FORMULAS["carbon"] | dict.fromkeys(BIOMASS, "C_bac")
NITROGEN: dict[str, str] = _FORMULAS["nitrogen"] | dict.fromkeys(BIOMASS, "N_bac")
PROCESSES = (
    *(Process(**each) for each in _FORMULAS["process"]),
    *(Process(f"decay of {x}", f"k_dec * {x}", {x: "-1", "X_c": "1"}) for x in BIOMASS),
)
ALGEBRA: dict[str, str] = _FORMULAS["algebra"]
TRANSFER: dict[str, str] = _FORMULAS["transfer"]
GAS_BALANCE: dict[str, str] = _FORMULAS["gas_balance"]
CHARGE_BALANCE: str = _FORMULAS["charge_balance"]

# The thirty calibrated parameters, in this order. pH_UL:LL_* is the distance from the lower to the
# upper pH limit.
CALIBRATED = (
    "k_dis", "k_hyd_ch", "k_hyd_pr", "k_hyd_li", "k_m_su", "K_S_su", "k_m_aa", "K_S_aa",
    "pH_UL:LL_aa", "pH_LL_aa", "k_m_fa", "K_S_fa", "K_I_h2_fa", "k_m_c4", "K_S_c4", "K_I_h2_c4",
    "k_m_pro", "K_S_pro", "K_I_h2_pro", "k_m_ac", "K_S_ac", "pH_UL:LL_ac", "pH_LL_ac", "K_I_nh3",
    "k_m_h2", "K_S_h2", "pH_UL:LL_h2", "pH_LL_h2", "k_dec", "K_S_IN",
)  # fmt: skip
UNITS = {
    **dict.fromkeys(("k_dis", "k_hyd_ch", "k_hyd_pr", "k_hyd_li", "k_dec"), "1/d"),
    **{name: "1/d" for name in CALIBRATED if name.startswith("k_m")},
    **{name: "kg COD/m³" for name in CALIBRATED if name.startswith(("K_S", "K_I_h2"))},
    **dict.fromkeys(("K_S_IN", "K_I_nh3"), "kmol/m³"),
    **{name: "pH" for name in CALIBRATED if name.startswith("pH")},
}

# Fixed values: yields and contents, acidity, gas transfer.
BSM2 = {
    "f_sI_xc": 0.1, "f_xI_xc": 0.2, "f_ch_xc": 0.2, "f_pr_xc": 0.2, "f_li_xc": 0.3,
    "f_fa_li": 0.95, "f_h2_su": 0.19, "f_bu_su": 0.13, "f_pro_su": 0.27, "f_ac_su": 0.41,
    "f_h2_aa": 0.06, "f_va_aa": 0.23, "f_bu_aa": 0.26, "f_pro_aa": 0.05, "f_ac_aa": 0.40,
    "Y_su": 0.1, "Y_aa": 0.08, "Y_fa": 0.06, "Y_c4": 0.06, "Y_pro": 0.04, "Y_ac": 0.05,
    "Y_h2": 0.06,
    "N_xc": 0.0376 / 14, "N_I": 0.06 / 14, "N_aa": 0.007, "N_bac": 0.08 / 14,
    "C_xc": 0.02786, "C_sI": 0.03, "C_ch": 0.0313, "C_pr": 0.03, "C_li": 0.022, "C_xI": 0.03,
    "C_su": 0.0313, "C_aa": 0.03, "C_fa": 0.0217, "C_bu": 0.025, "C_pro": 0.0268,
    "C_ac": 0.0313, "C_bac": 0.0313, "C_va": 0.024, "C_ch4": 0.0156,
    "K_a_va": 10**-4.86, "K_a_bu": 10**-4.82, "K_a_pro": 10**-4.88, "K_a_ac": 10**-4.76,
    "k_p": 5e4, "k_L_a": 200.0, "p_atm": 1.013,
}  # fmt: skip
# The paper's code differs in contents, in the last digits of the acidities and in the pressure.
PAPER = BSM2 | {
    "N_xc": 0.002, "N_I": 0.002, "N_bac": 0.006, "C_xc": 0.03, "C_ch": 0.03, "C_li": 0.023,
    "C_su": 0.03, "K_a_va": 1.38038426e-5, "K_a_bu": 1.513561248e-5, "K_a_pro": 1.3182567e-5,
    "K_a_ac": 1.7378008287e-5, "p_atm": 1.01325,
}  # fmt: skip
# Published values of the calibrated parameters; the paper's prior has its medians there, but for
# the lower pH limit of acetate uptake.
BSM2_KINETICS = dict(zip(CALIBRATED, (
    0.5, 10.0, 10.0, 10.0, 30.0, 0.5, 50.0, 0.3, 1.5, 4.0, 6.0, 0.4, 5e-6, 20.0, 0.2, 1e-5,
    13.0, 0.1, 3.5e-6, 8.0, 0.15, 1.0, 6.0, 0.0018, 35.0, 7e-6, 1.0, 5.0, 0.02, 1e-4,
), strict=True))  # fmt: skip
PAPER_KINETICS = BSM2_KINETICS | {"pH_LL_ac": 5.0}


# States that change in days, while a step takes hours: the matrix of a step (not the equations)
# leaves out their influence on the rates. Steps are cheaper and slightly less accurate, and
# refining them gains less than the order of the method.
SLOW = (*BIOMASS, "S_IN")
