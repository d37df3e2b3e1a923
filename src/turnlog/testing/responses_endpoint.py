"""A Responses endpoint on loopback that answers by a script and remembers every request: a model for tests.

    with ResponsesEndpoint() as endpoint:
        endpoint.script(text("Hello"), http(500))
        ...                                         # let an agent talk to endpoint.url
        endpoint.wait_for_requests(1)[0].input      # what the model was given

Each request takes the next answer; without one it is answered by a short text that tells its number.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final

from turnlog.testing.responses_answers import Act, Answer, Headers, Status, text

_WAIT_S: Final = 30.0
"""Seconds to wait for requests: an agent's process needs less than one to start."""


@dataclass(frozen=True, kw_only=True)
class AskedModel:
    """One request as it came. `headers` have lower-case names."""

    number: int
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def input(self) -> list[dict[str, Any]]:
        """The items the model was given."""
        given: list[dict[str, Any]] = self.body["input"]
        return given


class ResponsesEndpoint:
    """Serves while it is used as a context manager; at its end, whatever still hangs is let go."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._answers: deque[Answer] = deque()
        self._asked: list[AskedModel] = []
        self.closing = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="responses endpoint")

    @property
    def url(self) -> str:
        """The base address, as a provider's `base_url`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def asked(self) -> list[AskedModel]:
        """The requests so far."""
        with self._changed:
            return list(self._asked)

    def script(self, *answers: Answer) -> None:
        """Answer the next requests so."""
        with self._changed:
            self._answers.extend(answers)

    def forget_script(self) -> None:
        """Take back the answers that nobody has asked for."""
        with self._changed:
            self._answers.clear()

    def wait_for_requests(self, count: int, timeout: float = _WAIT_S) -> list[AskedModel]:
        """The requests once there are `count`; `TimeoutError` when they do not come."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._asked) >= count, timeout):
                raise TimeoutError(f"{len(self._asked)} of {count} requests within {timeout} s")
            return list(self._asked)

    def take(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, Answer]:
        """Remember a request; its number, and its answer."""
        with self._changed:
            number = len(self._asked) + 1
            self._asked.append(AskedModel(number=number, path=path, headers=headers, body=body))
            answer = self._answers.popleft() if self._answers else text(f"Answer {number}.")
            self._changed.notify_all()
            return number, answer

    def __enter__(self) -> ResponsesEndpoint:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, endpoint: ResponsesEndpoint) -> None:
        self.endpoint = endpoint
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of the endpoint: tests kill clients on purpose."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        self._streaming = False
        self.close_connection = True
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        headers = {name.lower(): value for name, value in self.headers.items()}
        number, answer = self.server.endpoint.take(self.path, headers, body)
        for act in answer(number):
            if not self._play(act):
                return

    def _play(self, act: Act) -> bool:
        """Do one act; whether the answer goes on."""
        match act:
            case dict():
                self._begin_stream()
                data = json.dumps(act, ensure_ascii=False)
                self.wfile.write(f"event: {act['type']}\ndata: {data}\n\n".encode())
                self.wfile.flush()
            case threading.Event():
                return self._wait(act)
            case Headers():
                self._begin_stream()
            case Status(status=status, body=body):
                self._send(status, "application/json", {"Content-Length": str(len(body))})
                self.wfile.write(body)
            case "reset":
                # Lingering for no time makes the close a reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                return False
            case "hang":
                self.server.endpoint.closing.wait()
                return False
            case "end":
                return False
        return True

    def _wait(self, gate: threading.Event) -> bool:
        while not gate.wait(0.02):
            if self.server.endpoint.closing.is_set():
                return False
        return True

    def _begin_stream(self) -> None:
        if not self._streaming:
            self._streaming = True
            self._send(200, "text/event-stream", {})

    def _send(self, status: int, kind: str, more: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Connection": "close", **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what was asked is in `asked`."""
