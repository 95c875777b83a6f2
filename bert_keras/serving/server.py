"""Runs the REST API of a model folder on a port of this machine."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette

from bert_keras.errors import InputError
from bert_keras.serving.app import create_app
from bert_keras.serving.http_timeouts import TimeoutProtocol, set_socket_options
from bert_keras.serving.limits import Limits

_GRACE_SECONDS = 20  # for running requests; Kubernetes waits 30 from SIGTERM to SIGKILL


def serve(
    model_folder: str | os.PathLike,
    *,
    port: int = 8501,
    host: str = "127.0.0.1",
    versions: Sequence[int] = (),
    labels: Mapping[str, int] | None = None,
    limits: Limits | None = None,
) -> None:
    """Serve a model until Ctrl-C or SIGTERM, then finish the running requests.

    `bert-keras serve` calls this function. It prints one line when the server accepts requests.
    `running_server` serves a model in the background.

    Args:
        model_folder: The folder saved_models/NAME, which holds one folder for each version.
        port: TCP port; 0 chooses a free one.
        host: Host name or IP address to listen on.
        versions: Numbers of the versions to serve. By default the server always serves the latest.
        labels: Maps each label to a version number.
        limits: Limits on requests and batches; the defaults of `Limits` if None.

    Raises:
        InputError: If the folder holds no version that TensorFlow can load, if a label names a
            version that is not served, or if the server cannot listen on the port.

    Example:

    ```python
    export("film-critic", "saved_models/film-critic/1")
    serve("saved_models/film-critic", port=8501)
    ```
    """
    with _listener(host, port) as listener:
        server = _server(create_app(model_folder, versions=versions, labels=labels, limits=limits))
        model_url = f"{_url(listener)}/v1/models/{quote(Path(model_folder).resolve().name)}"
        with _quiet_exit(server):
            print(f"serving {model_url}:predict (Ctrl-C stops)", flush=True)
            server.run(sockets=[listener])


@contextlib.contextmanager
def running_server(
    model_folder: str | os.PathLike,
    *,
    port: int = 0,
    versions: Sequence[int] = (),
    labels: Mapping[str, int] | None = None,
    limits: Limits | None = None,
) -> Iterator[str]:
    """Serve a model in a thread of this process until the `with` block ends.

    Args:
        model_folder: The folder saved_models/NAME, which holds one folder for each version.
        port: TCP port; 0 chooses a free one.
        versions: Numbers of the versions to serve. By default the server always serves the latest.
        labels: Maps each label to a version number.
        limits: Limits on requests and batches; the defaults of `Limits` if None.

    Yields:
        "http://127.0.0.1:PORT"

    Raises:
        InputError: As `serve` does.

    Example:

    ```python
    export("film-critic", "saved_models/film-critic/1")
    with running_server("saved_models/film-critic") as url:
        with Client(f"{url}/v1/models/film-critic") as client:
            print(client.predict(["a good film"]))
    ```
    """
    with _listener("127.0.0.1", port) as listener:
        server = _server(create_app(model_folder, versions=versions, labels=labels, limits=limits))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield _url(listener)
        finally:
            server.should_exit = True
            thread.join()


def _server(app: Starlette) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=TimeoutProtocol,
            log_config=None,
            access_log=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
    )


@contextlib.contextmanager
def _quiet_exit(server: uvicorn.Server) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the server without a traceback.

    This covers the time before the server runs and the end of its run: uvicorn catches the signal,
    finishes the running requests and then raises the signal again.
    """

    def end(*_) -> None:
        server.should_exit = True

    previous_handler = signal.signal(signal.SIGTERM, end)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def _listener(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that no other program takes the port while the model loads."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
        set_socket_options(listener)
        return listener
    except OverflowError:
        raise InputError(f"the port is {port}; expected one from 1024 to 65535") from None
    except (OSError, TypeError) as error:  # TypeError: an invalid host name
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            f"cannot listen on {host}, port {port}: {reason}; choose another --host, or a --port "
            "from 1024 to 65535 that no other program uses"
        ) from None


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
