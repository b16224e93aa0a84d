"""Formatting of numbers and texts for the page, with escaping of all external text."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence

from supac.codec import from_spec_or_name, to_spec
from supac.codec.text import visible
from supac.problem.bounds import Declared

MINUS = "\N{MINUS SIGN}"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_WIDEST = 1e-3  # of a range whose numbers share a power of ten: smallest over largest


def escape(text: object) -> str:
    """Escape text for HTML and SVG, such as names, units and messages; show hidden characters."""
    return html.escape(visible(str(text).replace("\r\n", "\n")), quote=True)


def number(value: float, digits: int = 3) -> str:
    """Format a number with this many digits; with a power of ten if it is very small or large."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0.0 else f"{MINUS}∞")
    if value != 0.0 and not 1e-4 <= abs(value) < 1e6:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{float(mantissa):.{digits}g}{times_ten_to(int(power))}".replace("-", MINUS)
    if abs(value) >= 10.0**digits:
        return f"{round(value):,}".replace("-", MINUS)
    return f"{value:.{digits}g}".replace("-", MINUS)


def times_ten_to(power: int) -> str:
    """Return a power of ten such as ·10³."""
    return f"·10{str(power).translate(_RAISED)}"


def power_of(values: Sequence[float]) -> int:
    """Return the common power of ten of very small or large numbers, else 0."""
    largest = max(map(abs, values))
    return 0 if largest == 0.0 or 1e-2 <= largest < 1e5 else math.floor(math.log10(largest))


def common_power(quantiles: tuple[float, float, float]) -> int:
    """Return the common power of ten of a range; 0 if it is none for its smaller numbers."""
    sizes = [abs(value) for value in quantiles]
    return power_of(quantiles) if min(sizes) >= _WIDEST * max(sizes) else 0


def with_range(quantiles: tuple[float, float, float]) -> str:
    """Format quantiles as `median (low to high)`, with a common power of ten if needed."""
    power = common_power(quantiles)
    low, middle, high = (number(value / 10.0**power) for value in quantiles)
    return f"{middle} ({low} to {high})" + (times_ten_to(power) if power else "")


def at_most(value: float, digits: int = 3) -> str:
    """Format an upper limit, rounded up."""
    if not math.isfinite(value) or value == 0.0:
        return number(value, digits)
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
    # A number with no more digits than these must not be rounded up by its last bit.
    return number(math.ceil(value / unit - 1e-9) * unit, digits)


def percent(share: float) -> str:
    """Format a fraction as a percentage."""
    digits = 1 if 0.0 < share < 0.1 else 0
    return f"{100.0 * share:.{digits}f} %"


def count_of(count: int, one: str, many: str) -> str:
    """Return `3 runs` or `1 run`."""
    return f"{count:,} {one if count == 1 else many}"


def listed(words: list[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def objective_words(bound: object) -> str:
    """Return what a bound minimises: an expression, or whose bound it is and its numbers."""
    price, (n, delta, ceiling) = getattr(bound, "temperature", None), Declared.by(bound)
    if n is None:
        return str(bound) if price is None else f"mean risk + {price:.4g}·KL (Catoni’s)"
    names = re.sub(r"(?<=[a-z]{2})(?=[A-Z])", "–", type(bound).__name__)
    return (
        f"the bound of {names}{f', temperature {price},' if price else ''} for "
        f"{count_of(n, 'independent datum', 'independent data')}, δ = "
        f"{math.nan if delta is None else delta:g}, risks up to "
        f"{ceiling or math.inf:g}"
    )


def loss_name(loss: object) -> str:
    """Return a loss in words or as it is written, or the name of your own; "" for none."""
    if loss is None:
        return ""
    made = from_spec_or_name(to_spec(loss))
    name = str(getattr(made, "in_words", made))
    name = re.sub(r"<([\w.<>]+?) object(?: at 0x\w+)?>", r"\1", name)
    return re.sub(r"^supac\.[\w.]*?(\w+)$", r"\1()", name)
