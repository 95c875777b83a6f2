"""A local TF Serving: a folder of model versions comes in, its REST API answers on a port."""

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from bert_keras.errors import InputError
from bert_keras.serving.app import create_app
from bert_keras.serving.model import latest_version

__all__ = ["create_app", "running_server", "serve"]


def serve(
    model_folder: str | os.PathLike,
    *,
    port: int = 8501,
    host: str = "127.0.0.1",
    ready: Callable[[str], None] | None = None,
) -> None:
    """Answer on `host`:`port` until Ctrl-C; prints one line, and calls `ready(url)`, when it does.

    Raises InputError for a folder without a servable version and for a port that cannot be had.
    """
    latest_version(model_folder)  # what is missing is said before TensorFlow's slow import
    with _listening(host, port) as listener:
        server = _server(model_folder)
        url = _url(listener)
        name = Path(model_folder).resolve().name
        print(f"serving {url}/v1/models/{name}:predict (Ctrl-C stops)", flush=True)
        if ready:
            ready(url)
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


@contextlib.contextmanager
def running_server(model_folder: str | os.PathLike, *, port: int = 0) -> Iterator[str]:
    """A server in a thread of this process: yields its URL ("http://127.0.0.1:PORT"), then stops.

    Port 0 takes a free one. Raises InputError as `serve` does.
    """
    latest_version(model_folder)
    with _listening("127.0.0.1", port) as listener:
        server = _server(model_folder)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield _url(listener)
        finally:
            server.should_exit = True
            thread.join()


def _server(model_folder: str | os.PathLike) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            create_app(model_folder),
            log_config=None,
            access_log=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=5,
        )
    )


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens already, so that nobody takes the port while the model loads."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
        # asyncio sets this only on sockets that name their protocol; without it, 40 ms an answer.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OverflowError:
        raise InputError(f"port {port} does not exist; choose one from 1024 to 65535") from None
    except PermissionError:
        raise InputError(
            f"port {port} is not permitted for this user; choose one from 1024 to 65535"
        ) from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"port {port} on {host} is in use; stop the program that holds it or choose "
                "another with --port"
            ) from None
        raise InputError(f"cannot listen on {host}, port {port}: {error.strerror}") from None


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
