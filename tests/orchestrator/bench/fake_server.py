"""A server that streams what its script says, and notes how many ask at once."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Callable[[Mapping[str, Any]], Iterable[bytes]]


def sse(event: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def piece(text: str) -> bytes:
    return sse({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


def usage(tokens: int) -> bytes:
    return sse({"choices": [], "usage": {"completion_tokens": tokens}})


DONE = b"data: [DONE]\n\n"


class FakeServer:
    """`asked` holds the bodies of requests in the order of their arrival, `most` how many were there at once."""

    def __init__(
        self, script: Script, status: int = 200, metrics: Callable[[], str] = lambda: ""
    ) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.most = 0
        self._here = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.arrived(body)
                try:
                    self.send_response(status)
                    self.send_header("Connection", "close")
                    self.end_headers()
                    for part in script(body):
                        self.wfile.write(part)
                        self.wfile.flush()
                except ConnectionError:
                    pass  # it heard enough
                finally:
                    outer.left()

            def do_GET(self) -> None:
                text = metrics().encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> "FakeServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def arrived(self, body: Mapping[str, Any]) -> None:
        with self._lock:
            self.asked.append(body)
            self._here += 1
            self.most = max(self.most, self._here)

    def left(self) -> None:
        with self._lock:
            self._here -= 1
