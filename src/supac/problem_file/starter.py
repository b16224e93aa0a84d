"""The files that `supac init` writes: a problem that runs, to be changed line by line."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

StarterKind = Literal["builtin", "python", "command", "umbridge", "adm1"]
StarterGoal = Literal["guarantee", "ranges"]
"""A bound with a certificate, or ranges as Bayes has them."""


def starter_files(kind: StarterKind, goal: StarterGoal = "guarantee") -> dict[str, str]:
    """Return the files of a first problem: name → text."""
    run = template("run.toml")
    if kind == "adm1" and goal != "guarantee":
        raise ValueError("goal must be guarantee for adm1, which brings its own loss and bound")
    if kind == "adm1":
        run = run.replace("budget = 60 ", "budget = 150")
        return {"problem.toml": template("adm1.toml").replace("@RUN@", run)}
    problem = template("problem.toml").replace("@SIMULATOR@", template(f"{kind}.toml"))
    problem = problem.replace("@GOAL@", template(f"{goal}.toml"))
    made = {"problem.toml": problem.replace("@RUN@", run), "data.csv": template("data.csv")}
    if kind in ("python", "command"):
        made["model.py"] = template(f"{kind}.txt")
    return made


def template(name: str) -> str:
    """Return the text of a template."""
    return files("supac.problem_file").joinpath("templates", name).read_text(encoding="utf-8")
