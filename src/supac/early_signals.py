"""Signals of batch systems that come before a search listens to them, or after.

Python takes a second to import what a search needs, and by default dies of them meanwhile.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

CAN_BE_CONTINUED = 3
"""Exit code of a search that was stopped."""
NAMES = {signal.SIGTERM: "SIGTERM", signal.SIGUSR1: "SIGUSR1"}
"""Signals of batch systems before they end a job; the process ends by them if nobody listens."""
_COMMANDS = ("run", "resume")


def listen(words: list[str]) -> None:
    """Let a command that makes a search end in good order by signals, from its first line on."""
    if words[:1] and words[0] in _COMMANDS:
        for number in NAMES:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, leave)


def leave(number: int, frame: FrameType | None) -> None:
    """End with the exit code of a search that can be continued: no run is in progress."""
    name = NAMES[signal.Signals(number)]
    again = "with --continue " if sys.argv[1:2] == ["run"] else ""
    print(f"{name}: stopped; the same command {again}goes on", file=sys.stderr, flush=True)
    raise SystemExit(CAN_BE_CONTINUED)
