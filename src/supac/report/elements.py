"""The pieces of a page: tables, figures, lists. Cells are texts, escaped here, unless `Markup`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from supac.report.words import escape


class Markup(str):
    """HTML that we wrote ourselves."""

    __slots__ = ()


def text(words: object) -> str:
    """Escaped, unless it is ours."""
    return words if isinstance(words, Markup) else escape(words)


def section(name: str, heading: str, *parts: str) -> str:
    """A part of the page with a heading of the second level."""
    body = "\n".join(part for part in parts if part)
    return f'<section id="{name}">\n<h2>{escape(heading)}</h2>\n{body}\n</section>'


def paragraph(words: object, kind: str = "") -> str:
    """One, of a kind that the style knows."""
    return f"<p{_class(kind)}>{text(words)}</p>"


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[int] = (),
) -> str:
    """A table whose first column names its rows; `numbers` are columns set to the right.

    It scrolls by itself, with the keyboard too, where the page is too narrow for it.
    """

    def cell(tag: str, i: int, words: object, scope: str = "") -> str:
        return f"<{tag}{scope}{_class('number' if i in numbers else '')}>{text(words)}</{tag}>"

    head = "".join(cell("th", i, words, ' scope="col"') for i, words in enumerate(headings))
    lines = []
    for row in rows:
        first, *others = row
        cells = "".join(cell("td", i, words) for i, words in enumerate(others, start=1))
        name = cell("th", 0, first, ' scope="row"')
        lines.append(f"<tr>{name}{cells}</tr>")
    inside = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    label = escape(caption)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">'
        f"<table><caption>{label}</caption>{inside}</table></div>"
    )


def facts(rows: Iterable[tuple[str, object]]) -> str:
    """Names and what they stand for."""
    parts = (f"<dt>{escape(name)}</dt><dd>{text(words)}</dd>" for name, words in rows)
    return f'<dl class="facts">{"".join(parts)}</dl>'


def figure(picture: str, caption: object, kind: str = "") -> str:
    """A picture and what it shows."""
    return f"<figure{_class(kind)}>{picture}<figcaption>{text(caption)}</figcaption></figure>"


def items(rows: Iterable[object]) -> str:
    """A list."""
    return f"<ul>{''.join(f'<li>{text(row)}</li>' for row in rows)}</ul>"


def legend(*kinds: tuple[str, str]) -> str:
    """What the colours of a picture stand for; the prior's is dashed, as are its lines."""
    parts = "".join(
        f'<span><span class="key {kind}" aria-hidden="true"></span>{escape(words)}</span>'
        for kind, words in kinds
    )
    return f'<p class="legend">{parts}</p>'


def details(summary: str, inside: str) -> str:
    """What is shown when it is asked for; printed in any case."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def code(label: str, words: str) -> str:
    """Text as it was typed, which scrolls by itself, with the keyboard too."""
    named = f'role="region" tabindex="0" aria-label="{escape(label)}"'
    return f"<pre {named}><code>{escape(words)}</code></pre>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
