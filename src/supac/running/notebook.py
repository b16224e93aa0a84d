"""Progress of a call in a Jupyter notebook: one output, which is rewritten in place."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

_PAUSE = 0.2  # seconds between two drawings: a notebook is slower than a terminal


def in_notebook() -> bool:
    """Return True in a process with a kernel of Jupyter, which nothing else imports."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class NotebookDisplay:
    """A bar with words while the call lasts; then the last words alone, which a file may keep."""

    def __init__(self, total: float):
        self._total, self._completed, self._words = total, 0.0, ""
        self._lines: list[str] = []
        self._handle: Any = None
        self._drawn, self._ended = 0.0, False

    def start(self) -> None:
        """Show the bar."""
        from IPython.display import display  # noqa: PLC0415 - only there in a notebook

        self._handle = display(self, display_id=True)  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Leave one line of text."""
        self._ended = True
        self._refresh()

    def draw(self, completed: float, words: str) -> None:
        """Show the completed amount and a description."""
        self._completed, self._words = completed, words
        if time.monotonic() - self._drawn > _PAUSE:
            self._refresh()

    def say(self, words: str) -> None:
        """Show a line above the bar while the call lasts."""
        self._lines.append(words)
        self._refresh()

    def _refresh(self) -> None:
        self._drawn = time.monotonic()
        if self._handle is not None:
            self._handle.update(self)

    def __repr__(self) -> str:
        words = f"{self._completed:.0f} of {self._total:.0f}: {self._words}"
        return words if self._ended else "\n".join([*self._lines, words])

    def _repr_html_(self) -> str:
        text = "<br>".join(escape(line) for line in repr(self).splitlines())
        if self._ended:
            return f"<small>{text}</small>"
        bar = f'<progress max="{self._total:.0f}" value="{self._completed:.0f}"></progress>'
        return f"{bar} <small>{text}</small>"
