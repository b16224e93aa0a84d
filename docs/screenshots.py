"""Pictures of the report and of the terminal for the documents: `make screenshots`.

They show the study of your-simulator.md, file by file and command by command as the page has it;
`fit` shows that of `supac init`, as start.md does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from browser import Page, open_browser
from supac.problem_file import starter_files
from supac.record.record import read_store
from supac.record.store.file import StoreError
from supac.report.live import make_live_page

DOCS = Path(__file__).parent
FILES = r"^\*\*`([^`]+)`\*\*\n\n```\w+\n(.*?)^```"
TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>
{stylesheet}
body {{ margin: 0; padding: 14px 18px; background: #12181f; color: #e6ebf0; width: max-content; }}
pre {{ font: 13px/1.4 ui-monospace, "DejaVu Sans Mono", monospace; margin: 0; }}
</style><pre>{code}</pre>"""

TROUBLE = """    time.sleep(0.4 + 0.8 * (1e4 * k1 % 1.0))
    if k2 > 0.9:
        raise RuntimeError(f"the solver did not converge at k2 = {k2:.3g}")
    if k1 < 0.45:
        time.sleep(60.0)
"""


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


def shoot(page: Page, name: str, height: int | None = None, of: str = "") -> None:
    """A picture of what the page shows, in few colours: the documents should stay small."""
    path = DOCS / "images" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    page.screenshot(path, height=height, of=of)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(128, method=Image.Quantize.MAXCOVERAGE, kmeans=3)
        few.save(path, optimize=True)
    print(f"wrote {path} ({path.stat().st_size // 1024} kB)")


def fit(page: Page, folder: Path) -> None:
    """A picture of the fit that the first commands of the documents lead to."""
    supac(folder, "init", "study")
    supac(folder, "run", "study/problem.toml")
    supac(folder, "report", "study/run.supac")
    page.look(folder / "study" / "run-report.html", width=740)
    shoot(page, "fit", of="#in-short .chart")


def live(page: Page, folder: Path) -> None:
    """Pictures of the live page: two workers, runs that fail and that are killed as they hang."""
    for name, text in starter_files("python").items():
        (folder / name).write_text(text)
    model, problem = folder / "model.py", folder / "problem.toml"
    whole, solution = model.read_text(), "    solution = solve_ivp"
    assert solution in whole
    model.write_text(f"import time\n{whole}".replace(solution, f"{TROUBLE}{solution}"))
    text = problem.read_text().replace("# workers = 4 ", "workers = 2 ")
    problem.write_text(text.replace("# timeout = 600.0", "timeout = 4.0 #"))
    program = [sys.executable, "-m", "supac", "run", "problem.toml", "-q"]
    with subprocess.Popen(program, cwd=folder) as run:
        store = folder / "run.supac"
        while not (store.exists() and store.stat().st_size and _moment(store)):
            assert run.poll() is None, "the run has ended before there was enough to see"
            time.sleep(0.2)
        path = folder / "run-live.html"
        path.write_text(make_live_page(read_store(store)))
        run.terminate()
    page.look(path, width=1280)
    page.click("#search circle.timed-out")
    page.value("window.scrollTo({top: 0, behavior: 'instant'})")
    shoot(page, "live", height=2200)
    page.click("#unpick")
    page.look(path, width=1280, dark=True)
    shoot(page, "live-dark", height=1500)
    page.look(path, width=360)
    shoot(page, "live-phone", height=2600)


def _moment(store: Path) -> bool:
    """Return True when there is enough to see, and runs are in progress."""
    with suppress(StoreError):
        record = read_store(store)
        begun = [each for each in record.timeline.values() if not each.ended > 0.0]
        return len(record.rounds) > 5 and len(begun) > 1
    return False


def main() -> None:
    """All of them; some alone if asked for `fit` or `live`."""
    asked = sys.argv[1:]
    for name, take in (("fit", fit), ("live", live)):
        if asked in ([], [name]):
            with tempfile.TemporaryDirectory() as folder, open_browser() as page:
                take(page, Path(folder))
    if not asked:
        study()


def study() -> None:
    """Pictures of the terminal and of the report, from your-simulator.md."""
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
