"""Runs the HTTP APIs of a model folder on a port of this machine."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from bert_keras.errors import InputError, suggest_keyword_names
from bert_keras.files import StrPath
from bert_keras.serving.app import create_app
from bert_keras.serving.limits import Limits


class _Protocol(H11Protocol):
    def eof_received(self) -> bool:
        """Keeps the connection for the response if a client only closes its sending side."""
        is_waiting = self.cycle and not self.cycle.more_body and not self.cycle.response_complete
        if is_waiting:
            self.cycle.keep_alive = False  # uvicorn closes the connection after the response
        return bool(is_waiting)


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
            f"cannot listen on {host}, port {port}: {error}; choose another --host, or a --port "
            "from 1024 to 65535 that no other program uses"
        ) from None
    with listener:
        # Its connections inherit the option. asyncio sets it only on sockets with an explicit
        # protocol number. Without it, each response takes 40 ms longer.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            create_app(folder, versions=versions, limits=limits),
            http=_Protocol,
            log_config=None,
            access_log=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=limits.grace_seconds,  # pyright: ignore[reportArgumentType]
        )
        yield uvicorn.Server(config), listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
