"""How the site is built: `make docs`.

The sources of the site are the Markdown files of the repository where they lie, so that a link
works on a code host and in the site alike. What Sphinx wants beside them is added as they are read.
"""

from __future__ import annotations

import inspect
import re

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import supac

project = "supac"
author = "The SuPAC developers"
project_copyright = author
version = release = supac.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "VISION.md",
    "benchmarks/results/*.md",
    "experiments/*/README.md",
]
exclude_patterns = ["docs/_build", ".venv*", ".git", "demo"]
highlight_language = "text"
myst_heading_anchors = 3
myst_enable_extensions = ["html_image"]  # <img> with a width is copied to the site
smartquotes = False  # a value in quotes is meant as it is written

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # said once, where the base class declares it
autodoc_type_aliases = {
    name: name for name in ("FloatArray", "IntArray", "BoolArray", "Function", "Loss")
}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
napoleon_use_rtype = False
napoleon_use_param = False

html_theme = "furo"
html_title = "supac"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["site"]


def complete(app: Sphinx, name: str, source: list[str]) -> None:
    """What a page lacks for the site."""
    if name == root_doc:
        source[0] += contents(source[0])
    elif name == "docs/api":
        source[0] = re.sub(r"^- (`\w+`(?:,\s+`\w+`)*)", described, source[0], flags=re.M)
    elif name == "docs/examples":
        source[0] += "".join(map(shown, re.findall(r"\((\S+\.py)\)", source[0])))
    elif not name.startswith("docs/"):
        source[0] = f"---\norphan: true\n---\n\n{titled(name, source[0])}"


def contents(index: str) -> str:
    """The table of contents: the lists of links below each heading of the index."""
    tables = []
    for section in index.split("\n## ")[1:]:
        pages = re.findall(r"^- \[([^\]]+)\]\((\S+)\.md\)", section, flags=re.M)
        lines = [f":caption: {section.splitlines()[0]}", ":hidden:", ""]
        lines += [f"{title} <{page}>" for title, page in pages]
        tables.append("\n".join(["", "```{toctree}", *lines, "```", ""]))
    return "".join(tables)


def shown(script: str) -> str:
    """A script, in full."""
    name = script.rpartition("/")[2]
    return f"\n## {name}\n\n```{{literalinclude}} {script}\n:language: python\n```\n"


def titled(name: str, text: str) -> str:
    """Tables that a program wrote have no title of their own: the name of the file."""
    return text if text.startswith("# ") else f"# {name.rpartition('/')[2].capitalize()}\n\n{text}"


def described(names: re.Match[str]) -> str:
    """Docstrings in the place of a list of public names."""
    lines = ["```{eval-rst}"]
    for name in re.findall(r"\w+", names[1]):
        value = getattr(supac, name)
        lines += [".. currentmodule:: supac", ""]  # where a module was described, it is another
        if inspect.ismodule(value):
            lines += [f".. automodule:: supac.{name}", "   :members:", ""]
        elif inspect.isclass(value):
            lines += [f".. autoclass:: {name}", "   :members:", ""]
        else:
            lines += [f".. autofunction:: {name}", ""]
    return "\n".join([*lines, "```"])


def short(
    app: Sphinx, kind: str, name: str, value: object, options: object, *signature: str | None
) -> tuple[str | None, ...]:
    """Aliases of types by their names."""
    alias = r"TypeAliasForwardRef\('(\w+)'\)"
    return tuple(part and re.sub(alias, r"\1", part) for part in signature)


def plain(
    app: Sphinx, kind: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Docstrings are plain text: `code` in backticks, every other sign for itself."""
    # An empty comment keeps napoleon from taking what is before a colon for a type.
    text = "\n".join(["..", "", *lines] if kind in ("attribute", "property") else lines)
    parts = re.split(r"(`[^`\n]+(?:\n[^`\n]+)?`)", text)
    parts[::2] = [re.sub(r"([*|\\]|_(?=\W|$))", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"`{part}`" for part in parts[1::2]]
    lines[:] = "".join(parts).split("\n")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", complete)
    app.connect("autodoc-process-signature", short)
    app.connect("autodoc-process-docstring", plain, priority=100)  # before napoleon
