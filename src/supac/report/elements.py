"""HTML elements: sections, tables, lists. Text is escaped unless it is `Markup`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from string import Template

from supac.report.words import escape


class Markup(str):
    """HTML that needs no escaping."""

    __slots__ = ()


def fill(template: str, **parts: object) -> Markup:
    """Fill the `$parts` of a template; they are escaped unless they are `Markup`."""
    return Markup(Template(template).substitute({n: text(words) for n, words in parts.items()}))


def text(words: object) -> str:
    """Escape text unless it is `Markup`."""
    return words if isinstance(words, Markup) else escape(words)


def prose(words: str) -> Markup:
    """Escape a text in which commands stand between backquotes, and set these as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words)))


def joined(parts: Iterable[object], before: str = "", after: str = "") -> Markup:
    """Return parts one after the other, each between two tags."""
    return Markup("".join(f"{before}{text(part)}{after}" for part in parts))


def read_part(name: str) -> str:
    """Read a file of this package."""
    return files("supac.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _sections() -> dict[str, str]:
    """Return the templates in sections.html by the names above them."""
    return dict(re.findall(r"<!-- (.+?) -->\n(.*?</section>)", read_part("sections.html"), re.S))


def section(name: str, **parts: object) -> Markup:
    """Fill a section of sections.html; a line that is one part is left out if that is empty."""
    lines = _sections()[name].splitlines()
    return fill("\n".join(line for line in lines if parts.get(line[1:], line) != ""), **parts)


def paragraph(words: object) -> Markup:
    """Return a paragraph."""
    return Markup(f"<p>{text(words)}</p>")


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[int] = (),
    stacked: bool = False,
) -> Markup:
    """Return a table with row names in the first column; columns `numbers` are right-aligned.

    On a narrow page it scrolls on its own, also with the keyboard; if `stacked`, its cells stand
    below each other instead, each with its heading.
    """

    def cell(tag: str, i: int, words: object) -> str:
        kind = ' class="number"' if i in numbers else ""
        kind += f' data-heading="{escape(headings[i])}"' if stacked and tag == "td" else ""
        return f"<{tag}{kind}>{text(words)}</{tag[:2]}>"

    head = "".join(cell('th scope="col"', i, words) for i, words in enumerate(headings))
    body = ""
    for first, *others in rows:
        cells = "".join(cell("td", i, words) for i, words in enumerate(others, start=1))
        body += "<tr>" + cell('th scope="row"', 0, first) + cells + "</tr>"
    return fill(
        '<div class="scroll" role="region" tabindex="0" aria-label="$caption"><table$kind>'
        "<caption>$caption</caption><thead><tr>$head</tr></thead><tbody>$body</tbody></table></div>",
        caption=caption,
        kind=Markup(' class="stacked"' if stacked else ""),
        head=Markup(head),
        body=Markup(body),
    )


def facts(rows: Iterable[tuple[str, object]]) -> Markup:
    """Return a list of names and descriptions."""
    parts = "".join(f"<dt>{escape(name)}</dt><dd>{text(words)}</dd>" for name, words in rows)
    return Markup(f'<dl class="facts">{parts}</dl>')


def figure(picture: Markup, caption: object) -> Markup:
    """Return a picture with a caption."""
    return Markup(f"<figure>{picture}<figcaption>{text(caption)}</figcaption></figure>")


def items(rows: Sequence[object]) -> Markup:
    """Return a bulleted list; nothing without rows."""
    return Markup(f"<ul>{joined(rows, '<li>', '</li>')}</ul>" if rows else "")


def legend(**kinds: str) -> Markup:
    """Return the legend of a picture: the text of each class; the prior's lines are dashed."""
    parts = "".join(
        f'<span><span class="key {kind}" aria-hidden="true"></span>{escape(words)}</span>'
        for kind, words in kinds.items()
    )
    return Markup(f'<p class="legend">{parts}</p>')


def code(label: str, words: str) -> Markup:
    """Return preformatted text that scrolls on its own, also with the keyboard."""
    named = f'role="region" tabindex="0" aria-label="{escape(label)}"'
    return Markup(f"<pre {named}><code>{escape(words)}</code></pre>")
