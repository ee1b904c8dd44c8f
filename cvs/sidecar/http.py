"""Serves health, metrics and the status page: plain WSGI, read-only, one thread a request.

Paths: `/` page, `/status.json`, `/metrics`, `/healthz` (the process answers), `/readyz` (every view is
served).
"""

import threading
from collections.abc import Callable, Iterable
from importlib.resources import files
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import msgspec

from cvs.errors import MissingEnvironmentError
from cvs.sidecar.metrics import exposition
from cvs.sidecar.status import StatusBoard

StartResponse = Callable[[str, list[tuple[str, str]]], Any]
Answer = tuple[str, str, bytes]

SECURITY_HEADERS = [
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
]
ASSETS = {
    "/": ("status.html", "text/html; charset=utf-8"),
    "/status.css": ("status.css", "text/css; charset=utf-8"),
    "/status.js": ("status.js", "text/javascript; charset=utf-8"),
}


class StatusApplication:
    """The WSGI application; its only state is the board it reads."""

    def __init__(self, board: StatusBoard) -> None:
        self._board = board

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        status, content_type, body = self.answer(environ["REQUEST_METHOD"], environ.get("PATH_INFO", "/"))
        headers = [("Content-Type", content_type), ("Content-Length", str(len(body))), *SECURITY_HEADERS]
        start_response(status, headers)
        return [body]

    def answer(self, method: str, path: str) -> Answer:
        """Return status line, content type and body for a path."""
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", "text/plain", b"only GET\n"
        if path in ASSETS:
            name, content_type = ASSETS[path]
            return "200 OK", content_type, (files("cvs.sidecar") / "page" / name).read_bytes()
        if path == "/metrics":
            return "200 OK", "text/plain; version=0.0.4; charset=utf-8", exposition(self._board)
        if path == "/status.json":
            return "200 OK", "application/json", msgspec.json.encode(self._board.status)
        if path == "/healthz":
            return "200 OK", "text/plain", b"ok\n"
        if path == "/readyz":
            return self._ready()
        return "404 Not Found", "text/plain", b"not here: try /, /status.json, /metrics, /healthz, /readyz\n"

    def _ready(self) -> Answer:
        status = self._board.status
        if status.ready:
            return "200 OK", "text/plain", b"ready\n"
        waiting = [f"{v.name}: {v.state}" for v in status.views if v.state not in ("live", "paused")]
        body = "\n".join(waiting or ["no view yet"]) + "\n"
        return "503 Service Unavailable", "text/plain", body.encode()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- because the base class names it
        """Say nothing: requests of a scraper are not news."""


class StatusServer:
    """The running server; `port` is the one it really got."""

    def __init__(self, board: StatusBoard, *, host: str, port: int) -> None:
        try:
            self._server = make_server(
                host, port, StatusApplication(board), server_class=_Server, handler_class=_Quiet
            )
        except OSError as fault:
            raise MissingEnvironmentError(
                f"the status page cannot listen: {fault.strerror}",
                where=f"{host}:{port}",
                next_step="set another [http] port, or 0 to switch it off",
            ) from fault
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="status-page")
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and end the thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
