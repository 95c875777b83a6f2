"""Runs the REST API of a model folder on a port of this machine."""

import contextlib
import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import uvicorn
from starlette.applications import Starlette

from bert_keras.errors import InputError
from bert_keras.serving.app import create_app
from bert_keras.serving.http_timeouts import PunctualProtocol, tune
from bert_keras.serving.limits import Limits
from bert_keras.serving.version_folders import chosen_versions, model_name

__all__ = ["create_app", "running_server", "serve"]

_GRACE_SECONDS = 20  # for running requests; Kubernetes gives 30 from SIGTERM to SIGKILL


def serve(
    model_folder: str | os.PathLike,
    *,
    port: int = 8501,
    host: str = "127.0.0.1",
    versions: Sequence[int] = (),
    labels: Mapping[str, int] | None = None,
    limits: Limits | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve on `host`:`port` until Ctrl-C or SIGTERM, then finish what was begun.

    Prints one line, and calls `ready(url)`, when it accepts requests. The other arguments are those
    of `create_app`.

    Raises:
        InputError: for a folder without a servable version and for a port that is not free.
    """
    chosen_versions(model_folder, versions)  # reports what is missing before TensorFlow is imported
    with _listening(host, port) as listener:
        server = _server(create_app(model_folder, versions=versions, labels=labels, limits=limits))
        url = _url(listener)
        with _ending_quietly(server):
            name = model_name(model_folder)
            print(f"serving {url}/v1/models/{name}:predict (Ctrl-C stops)", flush=True)
            if ready:
                ready(url)
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
    """Serve in a thread of this process while the block lasts; yields "http://127.0.0.1:PORT".

    Port 0 takes a free one. Raises InputError as `serve` does.
    """
    chosen_versions(model_folder, versions)
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

    if threading.current_thread() is not threading.main_thread():
        yield  # which is the only one that signals reach
        return
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
    except PermissionError:
        raise InputError(
            f"port {port} is not permitted for this user; choose one from 1024 to 65535"
        ) from None
    except TypeError as error:
        raise InputError(f"cannot listen on {host!r}, which is no host's name ({error})") from None
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
