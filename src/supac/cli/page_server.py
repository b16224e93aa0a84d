"""A server of one page, for this machine alone."""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from supac.cli.app import failed

_HOSTS = ("127.0.0.1", "localhost")
_WAITING = (
    b'<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="2">'
    b"<title>supac watch</title><p>Waiting for the run to begin."
)
_FAREWELL = 20.0  # seconds in which a browser may fetch the last page


class PageServer:
    """Serve the latest page at one address of 127.0.0.1."""

    def __init__(self, port: int):
        self._page, self._fetched = _WAITING, threading.Event()
        try:
            self._server = ThreadingHTTPServer((_HOSTS[0], port), self._handler())
        except OSError as error:
            words = f"port {port} cannot be used ({error.strerror})"
            raise failed(f"{words}: choose another, or leave out --port for a free one") from error
        self._server.daemon_threads = True
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
                # A page of another site must not read this one under a name of its own.
                host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
                if host not in _HOSTS or urlsplit(self.path).path != "/":
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                page = owner._page
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.end_headers()
                self.wfile.write(page)
                if page is owner._page:
                    owner._fetched.set()

            def log_message(self, *words: object) -> None:
                """Say nothing."""

        return Handler
