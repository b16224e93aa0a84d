"""The README and the docs are executed: what they show works."""

from __future__ import annotations

import ast
import inspect
import re
from contextlib import ExitStack
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot

import petab_example
import supac
from servers import serving

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*DOCUMENTS, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "VISION"))]
SERVER = "http://localhost:4242"


def blocks(path: Path, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), flags=re.M | re.S)


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if blocks(p)], ids=lambda p: p.name)
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of one document are one session."""
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {"__name__": "__main__"}
    if path.name == "petab.md":
        petab_example.write(tmp_path)
    for block in blocks(path):
        with ExitStack() as stack:
            url = stack.enter_context(serving())[0] if SERVER in block else SERVER
            exec(compile(block.replace(SERVER, url), str(path), "exec"), session)
    pyplot.close("all")


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if blocks(p, "py")], ids=lambda p: p.name)
def test_what_needs_a_cluster_is_spelled_right(path: Path) -> None:
    """Blocks that cannot run here, and files that other tests use: names and options exist."""
    for block in blocks(path, "py"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("supac."):
                resolve(node)
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("supac."):
                options = {each.arg: None for each in node.keywords if each.arg}
                bound = inspect.signature(resolve(node.func)).bind_partial(**options)
                assert "old" not in bound.arguments, "a keyword of version 0.1"


def resolve(node: ast.expr) -> Any:
    """The object that a dotted name stands for."""
    return reduce(getattr, ast.unparse(node).split(".")[1:], supac)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_lines_are_short(path: Path) -> None:
    """A line has at most 100 characters, unless it is one link, which cannot be divided."""
    lines = path.read_text().splitlines()
    long = [line for line in lines if len(line) > 100 and not re.fullmatch(r" *(- )?\S+", line)]
    assert not long, f"{path.name}: {long[0]}"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_no_page_names_a_commit(path: Path) -> None:
    text = re.sub(r"checksum of its files \w+", "", path.read_text())
    words = re.findall(r"\b[0-9a-f]{7,40}\b", text)
    assert not [word for word in words if re.search("[a-f]", word) and re.search(r"\d", word)]
