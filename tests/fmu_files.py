"""FMUs for tests, made when they are needed: nothing binary is kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCES = Path(__file__).with_name("fmus")


def build(source: Path, folder: Path, tool: str) -> Path:
    """An FMU of a Python file, in an empty folder, made by pythonfmu or pythonfmu3."""
    pytest.importorskip("fmpy", reason="fmpy is not installed: pip install 'supac[fmi]'")
    pytest.importorskip(tool, reason=f"{tool} is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", tool, "build", "-f", str(source), "-d", str(folder)]
    subprocess.run(words, check=True, capture_output=True, cwd=folder)
    return next(folder.glob("*.fmu"))


def van_der_pol(folder: Path) -> Path:
    """Co-simulation of FMI 2: parameter mu, outputs x and v."""
    return build(SOURCES / "van_der_pol.py", folder, "pythonfmu")


def van_der_pol_3(folder: Path) -> Path:
    """Co-simulation and model exchange of FMI 3, the same oscillator."""
    return build(SOURCES / "van_der_pol_3.py", folder, "pythonfmu3")


def chain_3(folder: Path) -> Path:
    """Co-simulation of FMI 3 with arrays: parameters k, mixing and weights, outputs x and y."""
    return build(SOURCES / "chain_3.py", folder, "pythonfmu3")


def ball(folder: Path, *options: str) -> Path:
    """Model exchange of FMI 2, with events of all kinds, units and an input.

    With the option -DFORGETFUL its reset does nothing.
    """
    fmpy = pytest.importorskip("fmpy", reason="fmpy is not installed: pip install 'supac[fmi]'")
    compiler = shutil.which("cc")
    if compiler is None or fmpy.platform != "linux64":
        pytest.skip("there is no C compiler, or no Linux, to make a model-exchange FMU of FMI 2")
    folder.mkdir(parents=True, exist_ok=True)
    library, headers = folder / "ball.so", Path(fmpy.__file__).with_name("c-code")
    words = ["-shared", "-fPIC", f"-I{headers}", str(SOURCES / "ball.c"), "-o", str(library), "-lm"]
    subprocess.run([compiler, *options, *words], check=True)
    made = folder / "ball.fmu"
    with zipfile.ZipFile(made, "w") as archive:
        archive.write(SOURCES / "ball.xml", "modelDescription.xml")
        archive.write(library, "binaries/linux64/ball.so")
    return made


def changed(
    fmu: Path,
    target: Path,
    *pairs: tuple[str, str],
    renamed: Callable[[str], str] = lambda name: name,
) -> Path:
    """A copy of an FMU with parts of its description replaced, and its files renamed."""
    with zipfile.ZipFile(fmu) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "modelDescription.xml":
                text = content.decode()
                for before, after in pairs:
                    assert before in text, before
                    text = text.replace(before, after)
                content = text.encode()
            new.writestr(renamed(name), content)
    return target
