"""HTML elements: tables, figures, lists. Text is escaped unless it is `Markup`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from supac.report.words import escape


class Markup(str):
    """HTML that needs no escaping."""

    __slots__ = ()


def text(words: object) -> str:
    """Escape text unless it is `Markup`."""
    return words if isinstance(words, Markup) else escape(words)


def section(name: str, heading: str, *parts: str) -> str:
    """Return a section with a heading of the second level."""
    body = "\n".join(part for part in parts if part)
    return f'<section id="{name}">\n<h2>{escape(heading)}</h2>\n{body}\n</section>'


def paragraph(words: object, kind: str = "") -> str:
    """Return a paragraph, with a class of the style sheet."""
    return f"<p{_class(kind)}>{text(words)}</p>"


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[int] = (),
) -> str:
    """Return a table with row names in the first column; columns `numbers` are right-aligned.

    On a narrow page it scrolls on its own, also with the keyboard.
    """

    def cell(tag: str, i: int, words: object, scope: str = "") -> str:
        return f"<{tag}{scope}{_class('number' if i in numbers else '')}>{text(words)}</{tag}>"

    head = "".join(cell("th", i, words, ' scope="col"') for i, words in enumerate(headings))
    body = ""
    for first, *others in rows:
        cells = "".join(cell("td", i, words) for i, words in enumerate(others, start=1))
        body += "<tr>" + cell("th", 0, first, ' scope="row"') + cells + "</tr>"
    inside = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    label = escape(caption)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">'
        f"<table><caption>{label}</caption>{inside}</table></div>"
    )


def facts(rows: Iterable[tuple[str, object]]) -> str:
    """Return a list of names and descriptions."""
    parts = (f"<dt>{escape(name)}</dt><dd>{text(words)}</dd>" for name, words in rows)
    return f'<dl class="facts">{"".join(parts)}</dl>'


def figure(picture: str, caption: object, kind: str = "") -> str:
    """Return a picture with a caption."""
    return f"<figure{_class(kind)}>{picture}<figcaption>{text(caption)}</figcaption></figure>"


def items(rows: Iterable[object]) -> str:
    """Return a bulleted list."""
    return f"<ul>{''.join(f'<li>{text(row)}</li>' for row in rows)}</ul>"


def legend(*kinds: tuple[str, str]) -> str:
    """Return the legend of a picture: (class, text) pairs; the prior's lines are dashed."""
    parts = "".join(
        f'<span><span class="key {kind}" aria-hidden="true"></span>{escape(words)}</span>'
        for kind, words in kinds
    )
    return f'<p class="legend">{parts}</p>'


def details(summary: str, inside: str) -> str:
    """Return a part that is collapsed on the screen and shown in print."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def code(label: str, words: str) -> str:
    """Return preformatted text that scrolls on its own, also with the keyboard."""
    named = f'role="region" tabindex="0" aria-label="{escape(label)}"'
    return f"<pre {named}><code>{escape(words)}</code></pre>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
