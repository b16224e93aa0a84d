"""Numbers and texts as a page shows them; whatever comes from elsewhere is escaped here."""

from __future__ import annotations

import html
import math

MINUS = "\N{MINUS SIGN}"


def escape(text: object) -> str:
    """Text of unknown origin for HTML and SVG: names, units and messages are not ours.

    Control characters, which no page may hold, are shown as a replacement character.
    """
    plain = "".join(
        c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text)
    )
    return html.escape(plain, quote=True)


def number(value: float, digits: int = 3) -> str:
    """A number with so many digits; a power of ten where it is far from one."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0.0 else f"{MINUS}∞")
    if value != 0.0 and not 1e-4 <= abs(value) < 1e6:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        words = f"{mantissa}·10{int(power):d}".replace("·10", "·10^")
        return words.replace("-", MINUS)
    if abs(value) >= 10.0**digits:
        return f"{round(value):,}".replace("-", MINUS)
    return f"{value:.{digits}g}".replace("-", MINUS)


def percent(share: float) -> str:
    """A share of one."""
    digits = 1 if 0.0 < share < 0.1 else 0
    return f"{100.0 * share:.{digits}f} %"


def count_of(count: int, one: str, many: str) -> str:
    """`3 runs`, `1 run`."""
    return f"{count:,} {one if count == 1 else many}"


def listed(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
