"""Runs the REST API of a model folder on a port of this machine."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from bert_keras.errors import InputError
from bert_keras.serving.app import create_app
from bert_keras.serving.http_timeouts import PunctualProtocol, tune
from bert_keras.serving.limits import Limits

_GRACE_SECONDS = 20  # for running requests; Kubernetes gives 30 from SIGTERM to SIGKILL


def serve(
    model_folder: str | os.PathLike,
    *,
    port: int = 8501,
    host: str = "127.0.0.1",
    versions: Sequence[int] = (),
    labels: Mapping[str, int] | None = None,
    limits: Limits | None = None,
) -> None:
    """Serves a model over HTTP until Ctrl-C or SIGTERM, then finishes the requests that it has
    begun.

    It prints one line when it accepts requests.

    Args:
        model_folder: saved_models/NAME with version folders.
        port: The port; 0 takes a free one.
        host: The address to listen on.
        versions: The versions to serve; by default always the newest.
        labels: Further names of versions.
        limits: Sizes and times; by default those of `Limits`.

    Raises:
        InputError: The folder holds no version that can be served, or the port is not free.
    """
    with _listening(host, port) as listener:
        server = _server(create_app(model_folder, versions=versions, labels=labels, limits=limits))
        model_url = f"{_url(listener)}/v1/models/{Path(model_folder).resolve().name}"
        with _ending_quietly(server):
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
    """Serves a model in a thread of this process while the block lasts, and yields the URL
    "http://127.0.0.1:PORT". Port 0 takes a free one. The other arguments and the errors are those
    of `serve`.
    """
    with _listening("127.0.0.1", port) as listener:
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
            http=PunctualProtocol,
            log_config=None,
            access_log=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
    )


@contextlib.contextmanager
def _ending_quietly(server: uvicorn.Server) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the server without a traceback: before it runs, and when uvicorn,
    which caught one and finished what was begun, raises it once more."""

    def end(*_) -> None:
        server.should_exit = True

    before = signal.signal(signal.SIGTERM, end)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens already, so that nobody takes the port while the model loads."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
        tune(listener)
        return listener
    except OverflowError:
        raise InputError(f"port {port} does not exist; choose one from 1024 to 65535") from None
    except (OSError, TypeError) as error:  # TypeError: a name that no host can have
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            f"cannot listen on {host}, port {port}: {reason}; choose another --host, or a --port "
            "from 1024 to 65535 that no other program holds"
        ) from None


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
