"""A proxy before real nodes that can lose one answer (the request arrives, the connection breaks before the reply) or
keep it back."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class LossyProxy:
    """Forwards between clients and nodes; after `lose_answer_to(mark)` the next request with the mark is answered
    by a broken connection, although the node received it and executed it; after `keep_answer_to` it comes late."""

    def __init__(self, routes: Mapping[str, str], port: int) -> None:
        self.lost = 0
        self._routes, self._port = routes, port
        self._mark: bytes | None = None
        self._kept_seconds = 0.0
        self._listeners: list[socket.socket] = []
        self._open: list[socket.socket] = []

    def lose_answer_to(self, mark: bytes) -> None:
        self._mark = mark

    def keep_answer_to(self, mark: bytes, seconds: float) -> None:
        self._mark, self._kept_seconds = mark, seconds

    def start(self) -> None:
        for address, node in self._routes.items():
            listener = socket.create_server((address, self._port))
            self._listeners.append(listener)
            threading.Thread(target=self._accept, args=(listener, node), daemon=True).start()

    def stop(self) -> None:
        for thing in (*self._listeners, *self._open):
            _break(thing)

    def _accept(self, listener: socket.socket, node: str) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((node, self._port))
                self._open += [client, server]
                doomed = threading.Event()
                threading.Thread(target=self._requests, args=(client, server, doomed), daemon=True).start()
                threading.Thread(target=self._answers, args=(server, client, doomed), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._mark is not None and self._mark in data:
                    self._mark = None
                    doomed.set()
                server.sendall(data)
        _break(client), _break(server)

    def _answers(self, server: socket.socket, client: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if doomed.is_set():
                    self.lost += 1
                    if not self._kept_seconds:
                        break
                    time.sleep(self._kept_seconds)
                    doomed.clear()
                client.sendall(data)
        _break(client), _break(server)


def _break(thing: socket.socket) -> None:
    with contextlib.suppress(OSError):
        thing.shutdown(socket.SHUT_RDWR)
    thing.close()


@contextmanager
def lossy(routes: Mapping[str, str], port: int) -> Iterator[LossyProxy]:
    """Run a proxy: each key is an address to listen on, its value the node behind it."""
    proxy = LossyProxy(routes, port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
