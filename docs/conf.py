"""How the site is built: `make docs`.

The sources of the site are the Markdown files of the repository where they lie, so that a link
works on a code host and in the site alike. What Sphinx wants beside them is added as they are read.
"""

from __future__ import annotations

import inspect
import logging
import re
from importlib.resources import files
from itertools import chain, starmap
from pathlib import Path
from typing import Literal

from docutils import nodes
from fontTools import subset
from latex2mathml.converter import convert
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

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
myst_enable_extensions = [
    "dollarmath",  # $x$, and blocks of ```math, as code hosts show them
    "html_image",  # <img> with a width is copied to the site
]
myst_fence_as_directive = ["math"]
html_math_renderer = "mathml"
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


SIGNS = (
    *((0x20, 0x7F), (0xA0, 0x100), (0x2C6, 0x2DD), (0x300, 0x370), (0x370, 0x400)),
    *((0x2000, 0x2070), (0x2100, 0x2150), (0x2190, 0x2200), (0x2200, 0x2300), (0x2308, 0x230C)),
    *((0x27E6, 0x27EC), (0x1D400, 0x1D800)),
)
"""Ranges of characters that formulas may have: letters, operators, arrows, brackets."""


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


def mathml(formula: str, display: Literal["inline", "block"]) -> str:
    """Convert a formula to MathML, which browsers show without a script or a font of ours."""
    made = convert(" ".join(formula.split()), display=display)
    if "\\" in made:
        raise ValueError(f"latex2mathml does not know all of {formula!r}")
    # It takes the tilde for a letter.
    return made.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")


def visit_inline(html: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula in a line."""
    html.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(html: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula by itself, which scrolls where a page is narrow."""
    html.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def add_font(app: Sphinx, error: Exception | None) -> None:
    """Add the part of STIX Two Math that formulas need: few systems have a font for them."""
    if error is not None or app.builder.name != "html":
        return
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # a line for each part otherwise
    options = subset.Options(flavor="woff", layout_features=["*"], notdef_outline=True)
    options.drop_tables += ["DSIG"]
    source = files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"
    font = subset.load_font(str(source), options)
    chosen = subset.Subsetter(options)
    signs = chain(*starmap(range, SIGNS))
    chosen.populate(unicodes=list(signs))
    chosen.subset(font)
    subset.save_font(font, str(Path(app.outdir) / "_static" / "formulas.woff"), options)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("build-finished", add_font)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", complete)
    app.connect("autodoc-process-signature", short)
    app.connect("autodoc-process-docstring", plain, priority=100)  # before napoleon
