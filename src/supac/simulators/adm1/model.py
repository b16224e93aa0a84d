"""ADM1 as published: components, stoichiometry, kinetics, acid-base chemistry, gas transfer.

Anaerobic Digestion Model No. 1 (Batstone et al., 2002) in the formulation of the BSM2 benchmark
(Rosen and Jeppsson, 2006). Everything here is data: formulas are strings, and `compiler.py` turns
them into a fast kernel. Concentrations in kg COD/m³, S_IC, S_IN, S_cation, S_anion, S_H and
S_gas_co2 in kmol/m³, time in days, pressures in bar.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BIOMASS = ("X_su", "X_aa", "X_fa", "X_c4", "X_pro", "X_ac", "X_h2")

# What a kg of COD of each component holds: kmol of carbon and of nitrogen.
CARBON = {
    "S_su": "C_su", "S_aa": "C_aa", "S_fa": "C_fa", "S_va": "C_va", "S_bu": "C_bu",
    "S_pro": "C_pro", "S_ac": "C_ac", "S_ch4": "C_ch4", "S_I": "C_sI", "X_c": "C_xc",
    "X_ch": "C_ch", "X_pr": "C_pr", "X_li": "C_li", "X_I": "C_xI",
    **dict.fromkeys(BIOMASS, "C_bac"),
}  # fmt: skip
NITROGEN = {
    "S_aa": "N_aa", "S_I": "N_I", "X_c": "N_xc", "X_pr": "N_aa", "X_I": "N_I",
    **dict.fromkeys(BIOMASS, "N_bac"),
}  # fmt: skip

LIQUID = (
    "S_su", "S_aa", "S_fa", "S_va", "S_bu", "S_pro", "S_ac", "S_h2", "S_ch4", "S_IC", "S_IN", "S_I",
    "X_c", "X_ch", "X_pr", "X_li", *BIOMASS, "X_I", "S_cation", "S_anion",
)  # fmt: skip
GAS = ("S_gas_h2", "S_gas_ch4", "S_gas_co2")


@dataclass(frozen=True)
class Process:
    """A row of the Petersen matrix: what one unit of the rate makes of each component.

    The coefficients of S_IC and S_IN are not written: they close the carbon and the nitrogen
    balance of the row.
    """

    name: str
    rate: str
    yields: dict[str, str] = field(default_factory=dict)


PROCESSES = (
    Process("disintegration", "k_dis * X_c",
            {"X_c": "-1", "X_ch": "f_ch_xc", "X_pr": "f_pr_xc", "X_li": "f_li_xc",
             "X_I": "f_xI_xc", "S_I": "f_sI_xc"}),
    Process("hydrolysis of carbohydrates", "k_hyd_ch * X_ch", {"X_ch": "-1", "S_su": "1"}),
    Process("hydrolysis of proteins", "k_hyd_pr * X_pr", {"X_pr": "-1", "S_aa": "1"}),
    Process("hydrolysis of lipids", "k_hyd_li * X_li",
            {"X_li": "-1", "S_su": "1 - f_fa_li", "S_fa": "f_fa_li"}),
    Process("uptake of sugars", "k_m_su * monod(S_su, K_S_su) * X_su * I_IN * I_pH_aa",
            {"S_su": "-1", "X_su": "Y_su", "S_bu": "(1 - Y_su) * f_bu_su",
             "S_pro": "(1 - Y_su) * f_pro_su", "S_ac": "(1 - Y_su) * f_ac_su",
             "S_h2": "(1 - Y_su) * f_h2_su"}),
    Process("uptake of amino acids", "k_m_aa * monod(S_aa, K_S_aa) * X_aa * I_IN * I_pH_aa",
            {"S_aa": "-1", "X_aa": "Y_aa", "S_va": "(1 - Y_aa) * f_va_aa",
             "S_bu": "(1 - Y_aa) * f_bu_aa", "S_pro": "(1 - Y_aa) * f_pro_aa",
             "S_ac": "(1 - Y_aa) * f_ac_aa", "S_h2": "(1 - Y_aa) * f_h2_aa"}),
    Process("uptake of fatty acids",
            "k_m_fa * monod(S_fa, K_S_fa) * X_fa * I_IN * (I_pH_aa * inhibited(S_h2, K_I_h2_fa))",
            {"S_fa": "-1", "X_fa": "Y_fa", "S_ac": "(1 - Y_fa) * 0.7", "S_h2": "(1 - Y_fa) * 0.3"}),
    Process("uptake of valerate",
            "k_m_c4 * monod(S_va, K_S_c4) * X_c4 * (S_va / (S_bu + S_va + 1e-6)) * I_IN"
            " * (I_pH_aa * inhibited(S_h2, K_I_h2_c4))",
            {"S_va": "-1", "X_c4": "Y_c4", "S_pro": "(1 - Y_c4) * 0.54",
             "S_ac": "(1 - Y_c4) * 0.31", "S_h2": "(1 - Y_c4) * 0.15"}),
    Process("uptake of butyrate",
            "k_m_c4 * monod(S_bu, K_S_c4) * X_c4 * (S_bu / (S_bu + S_va + 1e-6)) * I_IN"
            " * (I_pH_aa * inhibited(S_h2, K_I_h2_c4))",
            {"S_bu": "-1", "X_c4": "Y_c4", "S_ac": "(1 - Y_c4) * 0.8", "S_h2": "(1 - Y_c4) * 0.2"}),
    Process("uptake of propionate",
            "k_m_pro * monod(S_pro, K_S_pro) * X_pro * I_IN"
            " * (I_pH_aa * inhibited(S_h2, K_I_h2_pro))",
            {"S_pro": "-1", "X_pro": "Y_pro", "S_ac": "(1 - Y_pro) * 0.57",
             "S_h2": "(1 - Y_pro) * 0.43"}),
    Process("uptake of acetate",
            "k_m_ac * monod(S_ac, K_S_ac) * X_ac * I_IN * (I_pH_ac * inhibited(S_nh3, K_I_nh3))",
            {"S_ac": "-1", "X_ac": "Y_ac", "S_ch4": "1 - Y_ac"}),
    Process("uptake of hydrogen", "(k_m_h2 * monod(S_h2, K_S_h2) * I_pH_h2) * X_h2 * I_IN",
            {"S_h2": "-1", "X_h2": "Y_h2", "S_ch4": "1 - Y_h2"}),
    *(Process(f"decay of {biomass}", f"k_dec * {biomass}", {biomass: "-1", "X_c": "1"})
      for biomass in BIOMASS),
)  # fmt: skip

# Inhibition by pH (a Hill function of S_H between an upper and a lower limit) and by lack of
# inorganic nitrogen; ions in equilibrium with S_H; gas phase. In the order of evaluation.
ALGEBRA = {
    "I_pH_aa": "hill(S_H, K_pH_aa, n_aa)",
    "I_pH_ac": "hill(S_H, K_pH_ac, n_ac)",
    "I_pH_h2": "hill(S_H, K_pH_h2, n_h2)",
    "I_IN": "S_IN / (S_IN + K_S_IN)",
    "S_nh3": "K_a_IN * S_IN / (K_a_IN + S_H)",
    "S_hco3": "K_a_co2 * S_IC / (K_a_co2 + S_H)",
    "p_h2": "RT / 16 * S_gas_h2",
    "p_ch4": "RT / 64 * S_gas_ch4",
    "p_co2": "RT * S_gas_co2",
    "q_gas": "k_p * positive(p_h2 + p_ch4 + p_co2 + p_h2o - p_atm)",
    "T_h2": "k_L_a * (S_h2 - 16 * K_H_h2 * p_h2)",
    "T_ch4": "k_L_a * (S_ch4 - 64 * K_H_ch4 * p_ch4)",
    "T_co2": "k_L_a * (S_IC - S_hco3 - K_H_co2 * p_co2)",
}

# Transfer out of the liquid and into the gas.
TRANSFER = {"S_h2": "T_h2", "S_ch4": "T_ch4", "S_IC": "T_co2"}
GAS_BALANCE = {
    "S_gas_h2": "V_liq / V_gas * T_h2 - q_gas / V_gas * S_gas_h2",
    "S_gas_ch4": "V_liq / V_gas * T_ch4 - q_gas / V_gas * S_gas_ch4",
    "S_gas_co2": "V_liq / V_gas * T_co2 - q_gas / V_gas * S_gas_co2",
}

CHARGE_BALANCE = (
    "S_cation + (S_IN - S_nh3) + S_H - S_hco3 - K_w / S_H - S_anion"
    " - K_a_ac / 64 * S_ac / (K_a_ac + S_H) - K_a_pro / 112 * S_pro / (K_a_pro + S_H)"
    " - K_a_bu / 160 * S_bu / (K_a_bu + S_H) - K_a_va / 208 * S_va / (K_a_va + S_H)"
)

# The thirty parameters that are calibrated, in this order. pH_UL:LL_* is the distance from the
# lower to the upper pH limit.
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

# Values that stay as they are: yields and contents, acidity, gas transfer.
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


# What changes in days, where a step takes hours: the rates' dependence on these is left out of the
# matrix of a step (not of the equations). Steps are cheaper for it and a little less exact, and
# refining them gains less than the method's order promises.
SLOW = (*BIOMASS, "S_IN")
