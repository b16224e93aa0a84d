"""A headless Chromium that tests and screenshots drive through its own debugging pipe."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from waiting import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class NoBrowserError(RuntimeError):
    """There is no browser, and what to do."""


def find_browser() -> str | None:
    """The path of an installed browser."""
    given = os.environ.get("SUPAC_BROWSER", "")
    return next((path for name in (given, *NAMES) if name and (path := shutil.which(name))), None)


class Page:
    """One page; what it complained of and asked the network for is kept."""

    def __init__(self, read: int, write: int):
        self._read, self._write = read, write
        self._number, self._rest, self._session = 0, b"", ""
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            self._events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def look(
        self,
        path: Path | str,
        *,
        width: int = 1100,
        height: int = 900,
        dark: bool = False,
        media: str = "",
        motion: str = "no-preference",
    ) -> None:
        """Open a file or an address in a window of this width, in the light or the dark theme."""
        # A browser shows a page of its own for a missing file.
        place = path if isinstance(path, str) else path.resolve(strict=True).as_uri()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self._events.clear()
        # The page before this one may be loading itself anew: its events are not waited for.
        loader = self.call("Page.navigate", url=place)["loaderId"]
        while not any(_is_loaded(event, loader) for event in self._events):
            self._events.append(self._next())

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of an element, which is brought into sight."""
        x, y = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def write(self, selector: str, words: str) -> None:
        """Click into a field and type."""
        self.click(selector)
        self.call("Input.insertText", text=words)

    @property
    def requests(self) -> list[str]:
        """The addresses that the page asked for, itself included."""
        name = "Network.requestWillBeSent"
        found = [event["params"] for event in self._events if event.get("method") == name]
        return [str(each["request"]["url"]) for each in found]

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the console."""
        kinds = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [json.dumps(e["params"]) for e in self._events if e.get("method") in kinds]

    def screenshot(
        self, path: Path, *, height: int | None = None, of: str = "", margin: int = 8
    ) -> None:
        """Write the whole page, its upper part, or one element at twice its size, as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        clip["height"] = min(size["height"], height or size["height"])
        if of:
            left, top, width, tall = self.value(
                f"(() => {{ const b = document.querySelector({json.dumps(of)})"
                ".getBoundingClientRect();"
                "return [b.left + scrollX, b.top + scrollY, b.width, b.height] })()"
            )
            clip |= {"x": left - margin, "y": top - margin, "scale": 2}
            clip |= {"width": width + 2 * margin, "height": tall + 2 * margin}
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(taken["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        printed = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        return base64.b64decode(printed["data"])


def _is_loaded(event: dict[str, Any], loader: str) -> bool:
    """Return True for the event that ends the loading of a document, by its loader's id."""
    params = event.get("params", {})
    return (event.get("method"), params.get("name"), params.get("loaderId")) == (
        "Page.lifecycleEvent", "load", loader,
    )  # fmt: skip


@contextmanager
def open_browser() -> Iterator[Page]:
    """A page of a new browser; NoBrowserError where none is installed."""
    program = find_browser()
    if program is None:
        raise NoBrowserError("no Chromium: install one, or name it in SUPAC_BROWSER")
    command_in, command_out = os.pipe()
    answer_in, answer_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
        ]  # fmt: skip
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (command_in, answer_out)]

        def connect() -> None:
            """The browser reads commands from its descriptor 3 and answers on 4."""
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        process = subprocess.Popen(
            command,
            close_fds=False,
            preexec_fn=connect,  # noqa: PLW1509 - it only renames descriptors
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (command_in, answer_out, *ends):
            os.close(end)
        try:
            yield Page(answer_in, command_out)
        finally:
            os.close(command_out)
            os.close(answer_in)
            process.terminate()
            process.wait(timeout=PATIENCE)


def open_or_skip(stack: ExitStack) -> Page:
    """A page of a browser; the tests skip without one, unless SUPAC_BROWSER_REQUIRED=1."""
    import pytest  # noqa: PLC0415 - pictures for the documents need none

    try:
        return stack.enter_context(open_browser())
    except NoBrowserError as error:
        if os.environ.get("SUPAC_BROWSER_REQUIRED") == "1":
            raise
        pytest.skip(str(error))
