"""Runs the HTTP APIs of a model folder on a port of this machine."""

import asyncio
import contextlib
import logging
import resource
import socket
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn
from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol

from bert_keras.errors import InputError, suggest_keyword_names
from bert_keras.files import StrPath
from bert_keras.serving.app import create_app
from bert_keras.serving.limits import Limits


class _Protocol(H11Protocol):
    """Fixes uvicorn for half-closed clients, bytes that are not HTTP, and requests at shutdown."""

    def eof_received(self) -> bool:
        """Keeps the connection for the response if a client only closes its sending side."""
        is_waiting = self.cycle and not self.cycle.more_body and not self.cycle.response_complete
        if is_waiting:
            self.cycle.keep_alive = False  # uvicorn closes the connection after the response
        return bool(is_waiting)

    def send_400_response(self, msg: str) -> None:
        """Answers bytes that are not HTTP; a response that the application still makes is lost."""
        if self.cycle:
            self.cycle.disconnected = True  # the application sends nothing after status 400
        with contextlib.suppress(LocalProtocolError):  # a response has begun already
            super().send_400_response(msg)
        self.transport.close()

    def shutdown(self) -> None:
        if self.cycle:  # it may have an older list of headers, without `Connection: close`
            self.cycle.default_headers = self.server_state.default_headers
        super().shutdown()


class _Server(uvicorn.Server):
    """Ends idle connections, and calls accept() itself: asyncio logs an error for each failure."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # most systems set soft to 1024
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
        await super().startup(sockets=[])  # without asyncio.Server; see `_accept`
        tasks = [self._accept(listener) for listener in sockets or ()]
        self._running = asyncio.gather(self._end_idle_connections(), *tasks)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        new_protocol = partial(_Protocol, self.config, self.server_state, self.lifespan.state)
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                logging.getLogger(__name__).warning("cannot accept a connection: %s", error)
                await self._end_idle(seconds=0.5)
                continue
            connecting = loop.connect_accepted_socket(new_protocol, connection)
            # asyncio's references to tasks are weak; its callbacks refer to earlier tasks.
            self._last = loop.create_task(connecting)

    async def _end_idle_connections(self) -> None:
        while True:
            await self._end_idle(seconds=self.config.timeout_keep_alive)

    async def _end_idle(self, *, seconds: float) -> None:
        """Ends connections whose client sends no request and takes no response in `seconds`."""
        connections: Any = self.server_state.connections
        before = {c: (c.cycle, c.transport.get_write_buffer_size()) for c in connections}
        await asyncio.sleep(seconds)
        for connection, (cycle, num_unsent) in before.items():
            if connection.cycle is not cycle:
                continue
            is_stalled = 0 < num_unsent <= connection.transport.get_write_buffer_size()
            if is_stalled:
                connection.transport.abort()
            elif not cycle or cycle.response_complete:
                connection.timeout_keep_alive_handler()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.server_state.default_headers += [(b"connection", b"close")]
        for _ in range(10):  # in which the event loop reads the requests that have arrived
            await asyncio.sleep(0.01)
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running
        await super().shutdown(sockets)


@suggest_keyword_names
def serve(
    model_folder: StrPath,
    *,
    port: int = 8501,
    host: str = "127.0.0.1",
    versions: Sequence[int] = (),
    limits: Limits | None = None,
) -> None:
    """Serve a model until Ctrl-C or SIGTERM, then finish the running requests.

    Args:
        model_folder: The folder saved_models/NAME, which holds one folder for each version.
        port: TCP port; 0 chooses a free one.
        host: Host name or IP address to listen on.
        versions: Numbers of the versions to serve. By default the server always serves the latest.
        limits: Limits on requests and batches; the defaults of `Limits` if None.

    Raises:
        InputError: If the folder holds no version that TensorFlow can load, or if the server cannot
            listen on the port.

    Example:

    ```python
    export("films", "saved_models/films/1")
    serve("saved_models/films", port=8501)
    ```
    """
    with _server(model_folder, host, port, versions, limits) as (server, listener):
        model_url = f"{_url(listener)}/v1/models/{quote(Path(model_folder).resolve().name)}"
        print(f"serving {model_url}:predict (Ctrl-C stops)", flush=True)
        print(f"open {_url(listener)} in a browser to try it", flush=True)
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it after the last response
            server.run(sockets=[listener])


@suggest_keyword_names
@contextlib.contextmanager
def running_server(
    model_folder: StrPath,
    *,
    port: int = 0,
    versions: Sequence[int] = (),
    limits: Limits | None = None,
) -> Iterator[str]:
    """Serve a model in a thread of this process until the `with` block ends.

    Args:
        model_folder: As for `serve`.
        port: TCP port; 0 chooses a free one.
        versions: As for `serve`.
        limits: As for `serve`.

    Yields:
        "http://127.0.0.1:PORT"

    Example:

    ```python
    export("films", "saved_models/films/1")
    with running_server("saved_models/films") as url:
        with Client(f"{url}/v1/models/films") as client:
            print(client.predict(["a good film"]))
    ```
    """
    with _server(model_folder, "127.0.0.1", port, versions, limits) as (server, listener):
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield _url(listener)
        finally:
            server.should_exit = True
            thread.join()


@contextlib.contextmanager
def _server(
    folder: StrPath, host: str, port: int, versions: Sequence[int], limits: Limits | None
) -> Iterator[tuple[uvicorn.Server, socket.socket]]:
    """Yields a server and its socket, which exists before the long load of the model."""
    limits = limits or Limits()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError, TypeError) as error:  # the last for an invalid host name
        raise InputError(
            f"cannot listen on {host}, port {port}: {error}; choose another host, or another "
            "port (0 chooses a free one)"
        ) from None
    with listener:
        # Its connections inherit the option. asyncio sets it only on sockets with an explicit
        # protocol number. Without it, each response takes 40 ms longer.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setblocking(False)
        config = uvicorn.Config(
            create_app(folder, versions=versions, limits=limits),
            http=_Protocol,
            log_config=None,
            access_log=False,
            ws="none",
            lifespan="on",
            timeout_keep_alive=limits.idle_seconds,  # pyright: ignore[reportArgumentType]
            timeout_graceful_shutdown=limits.grace_seconds,  # pyright: ignore[reportArgumentType]
        )
        yield _Server(config), listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
