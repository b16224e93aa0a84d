"""A server of one page, for this machine alone."""

from __future__ import annotations

import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from supac.cli.app import failed

_HOSTS = ("127.0.0.1", "localhost")
_WAITING = (
    b'<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="2">'
    b"<title>supac watch</title><p>Waiting for the run to begin."
)
_FAREWELL = 20.0  # seconds in which a browser may fetch the last page


class _Server(ThreadingHTTPServer):
    """A server that says nothing of browsers that leave before their answer."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a closed connection: the next request is answered all the same."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class PageServer:
    """Serve the latest page at one address of 127.0.0.1."""

    def __init__(self, port: int):
        self._page, self._fetched = _WAITING, threading.Event()
        try:
            self._server = _Server((_HOSTS[0], port), self._handler())
        except OSError as error:
            words = f"port {port} cannot be used ({error.strerror})"
            raise failed(f"{words}: choose another, or leave out --port for a free one") from error
        self.address = f"http://{_HOSTS[0]}:{self._server.server_address[1]}/"
        """Address for the browser."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def show(self, page: bytes) -> None:
        """Serve another page from now on."""
        self._page = page
        self._fetched.clear()

    def close(self) -> None:
        """Stop, when the last page has been fetched or nobody comes for it."""
        try:
            self._fetched.wait(_FAREWELL)
        except KeyboardInterrupt:  # in a hurry
            pass
        finally:
            self._server.shutdown()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Send the page."""
                page = owner._page
                if self._begin(page):
                    self.wfile.write(page)
                    if page is owner._page:
                        owner._fetched.set()

            def do_HEAD(self) -> None:
                """Send the headers of the page."""
                self._begin(owner._page)

            def _begin(self, page: bytes) -> bool:
                """Send headers; an error, and False, for any other address."""
                try:
                    host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
                    path = urlsplit(self.path).path
                except ValueError:
                    self.send_error(HTTPStatus.BAD_REQUEST)
                    return False
                # A page of another site must not read this one under a name of its own.
                if host not in _HOSTS or path != "/":
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return False
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.end_headers()
                return True

            def log_message(self, *words: object) -> None:
                """Say nothing."""

        return Handler
