"""A notebook, executed by a real kernel: what its cells show, and what the saved file keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def outputs() -> list[list[dict[str, Any]]]:
    """The outputs of each code cell."""
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    nbformat.validate(notebook)
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def test_every_value_has_html_and_a_line_of_text(outputs: list[list[dict[str, Any]]]) -> None:
    shown = [each[-1]["data"] for each in outputs if each and "data" in each[-1]]
    texts = [each["text/plain"].partition("(")[0] for each in shown]
    assert texts == ["Parameters", "Result", "BestRun", "Certificate"]
    assert all(len(each["text/plain"].splitlines()) == 1 for each in shown)
    assert all(each["text/html"].startswith('<div class="supac">') for each in shown)
    assert "<svg" in shown[1]["text/html"]


def test_progress_leaves_one_line(outputs: list[list[dict[str, Any]]]) -> None:
    (cell,) = [each for each in outputs if each and each[-1]["output_type"] == "execute_result"
               and each[-1]["data"]["text/plain"].startswith("Result")]  # fmt: skip
    progress, _ = cell
    assert progress["output_type"] == "display_data"
    assert "<progress" not in progress["data"]["text/html"]
    assert progress["data"]["text/plain"].count("\n") == 0
    assert "objective" in progress["data"]["text/plain"]


def test_nothing_else_is_printed(outputs: list[list[dict[str, Any]]]) -> None:
    streams = [each for cell in outputs for each in cell if each["output_type"] == "stream"]
    assert [each["name"] for each in streams] == ["stdout"]  # of print(result.summary())
    assert streams[0]["text"].startswith("A calibration\nstate")
    assert not any(line.endswith(" ") for line in streams[0]["text"].splitlines())
