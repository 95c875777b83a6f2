"""An HTTP server on loopback with scripted responses, which records its requests."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# (status, headers, body); None closes the connection without a response.
Reply = tuple[int, dict[str, str], bytes] | None


@dataclass
class ServerLog:
    """`requests`: (method, path, body); `connections`: the client ports of the requests."""

    url: str
    requests: list[tuple[str, str, bytes]] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)

    @property
    def documents(self) -> list[dict]:
        return [json.loads(body) for *_, body in self.requests]


def json_reply(document: object, *, status: int = 200, **headers: str) -> Reply:
    headers = {"Content-Type": "application/json", **headers}
    return status, headers, json.dumps(document).encode()


@contextlib.contextmanager
def scripted_server(reply: Callable[[str, str, bytes], Reply]) -> Iterator[ServerLog]:
    """Calls `reply(method, path, body)` for each request, from many threads."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one packet; otherwise each response takes 40 ms longer
        log_message = lambda *_: None  # noqa: E731

        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server_log.requests.append((self.command, self.path, body))
            server_log.connections.append(self.client_address[1])
            replied = reply(self.command, self.path, body)
            if replied is None:
                self.close_connection = True
                return
            status, headers, content = replied
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server_log = ServerLog(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    with server:
        try:
            yield server_log
        finally:
            server.shutdown()
            thread.join()
