"""The files that `supac init` writes: a problem that runs, to be changed line by line."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

StarterKind = Literal["builtin", "python", "command", "umbridge", "adm1"]


def starter_files(kind: StarterKind) -> dict[str, str]:
    """Return the files of a first problem: name → text."""
    run = _template("run.toml")
    if kind == "adm1":
        run = run.replace("budget = 60 ", "budget = 150")
        return {"problem.toml": _template("adm1.toml").replace("@RUN@", run)}
    problem = _template("problem.toml").replace("@SIMULATOR@", _template(f"{kind}.toml"))
    made = {"problem.toml": problem.replace("@RUN@", run), "data.csv": _template("data.csv")}
    if kind in ("python", "command"):
        made["model.py"] = _template(f"{kind}.txt")
    return made


def _template(name: str) -> str:
    return files("supac.problem_file").joinpath("templates", name).read_text(encoding="utf-8")
