"""The page of a case study: its files and commands, and the numbers that are written into it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

import supac
from cases.tools import Found
from pages import fitted
from supac.arrays import FloatArray
from supac.plots.canvas import POSTERIOR, PRIOR, TRUTH
from supac.report.words import with_range

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = DOCS / "cases"
_STEP = r"(?:^\*\*`([^`]+)`\*\*\n\n)?^```(\w+)\n(.*?)^```"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
COLOURS = (POSTERIOR, TRUTH, "#6b7280", "#7c3aed")


class Page:
    """A document with files, commands and blocks that are written anew."""

    def __init__(self, name: str):
        self.path = DOCS / f"{name}.md"
        self.text = self.path.read_text()

    def follow(self, folder: Path) -> None:
        """Write the files of the page into a folder, and run its commands there, in their order."""
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": tools, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
        said = []
        for name, language, text in re.findall(_STEP, self.text, flags=re.M | re.S):
            if name:
                (folder / name).write_text(text)
            elif language == "sh":
                for line in text.splitlines():
                    print(f"$ {line}", flush=True)
                    done = subprocess.run(
                        line, shell=True, cwd=folder, env=environment, capture_output=True,
                        text=True, check=False,
                    )  # fmt: skip
                    if done.returncode:
                        sys.exit(f"{line}\n{done.stdout}\n{done.stderr}")
                    said.append(done.stdout)
        (folder / "said.txt").write_text("\n".join(said))

    def run(self, folder: Path) -> dict[str, Any]:
        """Run the Python blocks of the page as one session in a folder, and return its names."""
        session: dict[str, Any] = {"__name__": "__main__"}
        with contextlib.chdir(folder):
            for block in re.findall(r"^```python\n(.*?)^```", self.text, flags=re.M | re.S):
                exec(compile(block, str(self.path), "exec"), session)
        return session

    def write(self, **blocks: str) -> None:
        """Replace the blocks of these names."""
        text = self.path.read_text()  # which may have been edited since
        for name, block in blocks.items():
            begin, end = (f"<!-- {name}: {word} -->" for word in ("begin", "end"))
            before, _, rest = text.partition(begin)
            _, found, after = rest.partition(end)
            if not found:
                sys.exit(f"{self.path} has no block {name}")
            text = f"{before}{begin}\n\n{fitted(block)}\n\n{end}{after}"
        self.path.write_text(text)
        print(f"wrote {self.path}")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ranged(ends: FloatArray) -> str:
    """Return a median with its range: (3,)."""
    low, middle, high = (rounded(float(each)) for each in ends)
    return f"{middle} ({low} to {high})"


def rounded(value: float) -> str:
    """Return three digits of a number, and all before the point."""
    if 0.0 < abs(value) < 0.01:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits}·10{str(int(power)).translate(_RAISED)}"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def learnt_of(record: supac.Record) -> str:
    """Return prior and posterior of each parameter as a table."""
    rows = [
        (
            each.name,
            each.unit,
            with_range(each.prior),
            with_range(each.posterior),
            f"{each.width:.2f}",
        )
        for each in record.parameter_changes
    ]
    return table(("parameter", "unit", "before", "after", "width"), rows)


def draw_ranges(axes: Sequence[Axes], found: Sequence[Found], labels: Sequence[str]) -> None:
    """Draw 5 % to 95 % of some parameters by tool, one axis a parameter."""
    for i, (each, label) in enumerate(zip(axes, labels, strict=True)):
        for row, one in enumerate(found):
            low, middle, high = one.ends[:, i]
            each.plot([low, high], [-row, -row], color=COLOURS[row], lw=5, solid_capstyle="butt")
            each.plot([middle], [-row], "o", color="white", mec=COLOURS[row], ms=6)
        each.set_yticks(-np.arange(len(found)), [one.tool for one in found])
        each.set_ylim(-len(found) + 0.4, 0.6)
        each.set_xlabel(label)
        each.spines[["top", "right"]].set_visible(False)


def figure_of(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with some panels side by side."""
    figure = Figure(figsize=(9.0, 3.1), layout="constrained")
    return figure, list(np.ravel(figure.subplots(1, count)))


def draw_bands(
    axes: Axes,
    x: FloatArray,
    drawn: Mapping[str, FloatArray],
    measured: FloatArray | None = None,
) -> None:
    """Draw 90 % of simulations before and after, and data if there are any."""
    for kind, (colour, alpha) in {"prior": (PRIOR, 0.3), "posterior": (POSTERIOR, 0.55)}.items():
        if kind in drawn:
            low, middle, high = np.nanquantile(drawn[kind], (0.05, 0.5, 0.95), axis=0)
            label = "before" if kind == "prior" else "after"
            axes.fill_between(x, low, high, color=colour, alpha=alpha, lw=0, label=label)
            axes.plot(x, middle, color=colour, lw=1)
    if measured is not None:
        axes.plot(x, measured, ".", color=TRUTH, ms=2.5 if len(x) > 60 else 5, label="measured")
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, name: str) -> None:
    """Write a picture of the documents, in few colours: they should stay small."""
    path = PICTURES / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(64, method=Image.Quantize.MAXCOVERAGE, kmeans=3).save(
            path, optimize=True
        )
    print(f"wrote {path} ({path.stat().st_size // 1024} kB)")
