"""What `supac init` writes: a problem that runs as it is, to be changed line by line."""

from __future__ import annotations

from typing import Literal

StarterKind = Literal["builtin", "python", "command", "umbridge", "adm1"]

_DATA = """\
time,A,B
0.25,1.597,0.390
0.5,1.290,0.614
0.75,1.005,0.849
1,0.769,1.010
1.5,0.496,1.020
2,0.281,1.061
3,0.137,0.830
4,0.122,0.653
5,-0.002,0.440
6,-0.022,0.374
8,0.026,0.133
10,0.018,0.112
"""

_FUNCTION = '''\
"""A simulator as a Python function: two reactions in a row, A -> B -> C."""

import csv
from pathlib import Path

from scipy.integrate import solve_ivp

with open(Path(__file__).with_name("data.csv")) as file:
    TIMES = [float(row["time"]) for row in csv.DictReader(file)]


def simulate(initial, k1, k2):
    """Called once a run, with every parameter by its name, in its unit."""

    def rates(time, state):
        a, b = state
        return [-k1 * a, k1 * a - k2 * b]

    solution = solve_ivp(rates, (0.0, TIMES[-1]), [initial, 0.0], t_eval=TIMES, rtol=1e-6)
    if not solution.success:
        raise RuntimeError(solution.message)  # recorded as a failed run
    a, b = solution.y
    return {"A": a, "B": b}  # the observed columns, each as long as the data
'''

_PROGRAM = '''\
"""A simulator as a program: reads input.json, writes output.json. Any language will do."""

import json
from math import exp

TIMES = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10]

with open("input.json") as file:
    x = json.load(file)  # {"initial": 2.1, "k1": 0.9, "k2": 0.3}

a, b, time, step = x["initial"], 0.0, 0.0, 1e-3
A, B = [], []
for until in TIMES:
    while time < until - 0.5 * step:  # an integrator of one line: exact for A, midpoint for B
        next_a = a * exp(-x["k1"] * step)
        middle = b + 0.5 * step * (x["k1"] * a - x["k2"] * b)
        b += step * (x["k1"] * 0.5 * (a + next_a) - x["k2"] * middle)
        a, time = next_a, time + step
    A.append(a)
    B.append(b)

with open("output.json", "w") as file:
    json.dump({"A": A, "B": B}, file)  # the observed columns, each as long as the data
'''

_HEAD = """\
# A problem for supac. Try it:   supac run problem.toml
# Lines that begin with # are comments: remove the # of a setting to switch it on.

title = "Two reactions in a row, A to B to C"

# What is uncertain, and what is known of it before the data: a prior for each parameter.
# normal (mean, sd), lognormal (median, log_sd), uniform and loguniform (lower, upper),
# halfnormal (scale), logitnormal (lower, upper, median, logit_sd).
[parameters]
initial = { prior = "uniform", lower = 0.5, upper = 5.0, unit = "mol/L" }
k1 = { prior = "lognormal", median = 0.5, log_sd = 0.8, unit = "1/h" }
k2 = { prior = "lognormal", median = 0.5, log_sd = 0.8, unit = "1/h" }

# What makes a run.
[simulator]
"""

_SIMULATORS = {
    "builtin": """\
builtin = "reaction"                   # comes with supac, so that this file can be tried
# python = "model:simulate"            # or: the function `simulate` of model.py, beside this file
# arguments = "names"                  #     called with every parameter by its name
# command = ["./model", "--fast"]      # or: a program that reads input.json, writes output.json
# umbridge = "http://localhost:4242"   # or: a model behind an UM-Bridge server
""",
    "python": """\
python = "model:simulate"    # the function `simulate` of model.py, beside this file
arguments = "names"          # called with every parameter by its name
""",
    "command": """\
command = ["{python}", "model.py"]   # {python} is the Python that supac runs in
# keep = "failed"                    # leave the folders of failed runs to be looked at
""",
    "umbridge": """\
umbridge = "http://localhost:4242"   # start your server first
model = "forward"                    # the name of the model there
# config = { level = 2 }             # what the model is told beside the parameters
""",
}

_MIDDLE = """\

# What was measured, and how well it is known.
[data]
file = "data.csv"
observed = ["A", "B"]        # the columns that the simulator predicts
noise = 0.05                 # the usual error of one measurement, in its unit

# How bad a misfit is: 0 for none, 1 for one of many times the noise.
[loss]
kind = "welsch"
width = 3.0                  # the misfit, in units of the noise, from which more hardly matters

# What is minimised: a bound on the mean loss over new data, made of the mean loss on these data and
# of how far the posterior moves away from the prior. It holds with probability 1 - delta.
[bound]
kind = "maurer-langford-seeger"
n = 24                       # how many *independent* measurements there are. Those of one batch
                             # often err together: then n is less, and the guarantee humbler
delta = 0.05
"""

_END = """\

[run]
budget = 60                  # runs of the simulator
seed = 0                     # same seed, same result
store = "run.supac"          # every run is kept here; `supac resume run.supac` goes on from it

[execution]
# workers = 4                # processes on this machine
# timeout = 600.0            # seconds after which a run is killed
on_failure = "penalise"      # a failed run counts as the worst loss and is recorded
max_failures = 0.5           # stop when more than this share of the runs has failed
"""

_DIGESTER = """\
# A problem for supac. Try it:   supac run problem.toml

title = "An anaerobic digester (ADM1)"

# ADM1 brings its data, its loss and priors for its thirty parameters. To calibrate only some,
# name them here with priors of your own; the others stay at their medians.
# [parameters]
# k_m_ac = { prior = "lognormal", median = 8.0, log_sd = 0.3, unit = "1/d" }
# K_S_ac = { prior = "lognormal", median = 0.15, log_sd = 0.3, unit = "kg COD/m3" }

[simulator]
builtin = "adm1"
# digester = "plant"         # a folder with your plant's data; without it, synthetic ones

# Risks lie between 0 and 3. The price of a nat of KL, fixed before the data were seen.
[bound]
kind = "catoni"
temperature = 0.002
"""


def starter_files(kind: StarterKind) -> dict[str, str]:
    """The files of a first problem by their names."""
    if kind == "adm1":
        return {"problem.toml": _DIGESTER + _END.replace("budget = 60 ", "budget = 150")}
    files = {"problem.toml": _HEAD + _SIMULATORS[kind] + _MIDDLE + _END, "data.csv": _DATA}
    if kind == "python":
        files["model.py"] = _FUNCTION
    if kind == "command":
        files["model.py"] = _PROGRAM
    return files
