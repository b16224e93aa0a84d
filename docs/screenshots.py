"""Pictures of the report and of the terminal for the documents: `make screenshots`.

They show the study of your-simulator.md, file by file and command by command as the page has it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from browser import Page, open_browser

DOCS = Path(__file__).parent
FILES = r"^\*\*`([^`]+)`\*\*\n\n```\w+\n(.*?)^```"
TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>
{stylesheet}
body {{ margin: 0; padding: 14px 18px; background: #12181f; color: #e6ebf0; width: max-content; }}
pre {{ font: 13px/1.4 ui-monospace, "DejaVu Sans Mono", monospace; margin: 0; }}
</style><pre>{code}</pre>"""


def supac(folder: Path, *words: str) -> str:
    """What a command writes on a terminal of 80 columns."""
    environment = os.environ | {"COLUMNS": "80", "FORCE_COLOR": "1", "OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-c", "from supac.cli import app; app()", *words]
    done = subprocess.run(
        program, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def terminal(page: Page, folder: Path, name: str, *commands: list[str]) -> None:
    """A picture of commands and what they say."""
    console = Console(record=True, width=80, file=open(os.devnull, "w"))  # noqa: SIM115
    for command in commands:
        console.print(Text(f"$ supac {' '.join(command)}", style="bold green"))
        console.print(Text.from_ansi(supac(folder, *command)))
    path = folder / "terminal.html"
    path.write_text(console.export_html(theme=MONOKAI, code_format=TERMINAL))
    page.look(path, width=700)
    shoot(page, name, page.value("Math.ceil(document.body.getBoundingClientRect().height)"))


def shoot(page: Page, name: str, height: int | None = None) -> None:
    """A picture of what the page shows, in few colours: the documents should stay small."""
    path = DOCS / "images" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    page.screenshot(path, height=height)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(128, method=Image.Quantize.MAXCOVERAGE)
        few.save(path, optimize=True)
    print(f"wrote {path} ({path.stat().st_size // 1024} kB)")


def main() -> None:
    """All of them."""
    with tempfile.TemporaryDirectory() as name, open_browser() as page:
        folder = Path(name)
        text = (DOCS / "your-simulator.md").read_text()
        for file, content in re.findall(FILES, text, flags=re.M | re.S):
            (folder / file).write_text(content)
        terminal(
            page,
            folder,
            "terminal",
            ["run", "problem.toml"],
            ["certify", "run.supac", "--draws", "500", "--out", "certificate.json"],
            ["report", "run.supac", "--certificate", "certificate.json"],
        )
        path = folder / "run-report.html"
        page.look(path)
        shoot(page, "report")
        page.look(path, dark=True)
        shoot(page, "report-dark", height=1400)
        page.look(path, width=360)
        shoot(page, "report-phone", height=2600)
        page.look(path, width=740, media="print")
        shoot(page, "report-print", height=1047)


if __name__ == "__main__":
    main()
