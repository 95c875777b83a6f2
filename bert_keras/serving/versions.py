"""Loads and unloads the versions of a model as its folder changes, and selects one per request."""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.exporting.version_folder import is_version
from bert_keras.serving.batching import Batcher
from bert_keras.serving.limits import Limits
from bert_keras.serving.model import LoadError, ServedModel
from bert_keras.serving.monitoring import CODES
from bert_keras.serving.requests import DEFAULT_SIGNATURE, Call, Refusal

_POLL_SECONDS = 1.0  # default of TF Serving's --file_system_poll_wait_seconds
_STOP_SECONDS = 5.0  # for a version that is still loading when the server stops
_TIMEOUT_STATUS = 504  # HTTP status of a run that exceeded the time limit


def version_folders(model_folder: Path, numbers: Sequence[int] = ()) -> dict[int, Path]:
    """Returns the version folders of a model to serve, by number.

    Args:
        model_folder: saved_models/NAME.
        numbers: The versions to select, without the missing ones; if empty, only the latest.
    """
    folders = {
        int(child.name): child
        for child in model_folder.iterdir()
        if is_version(child.name) and child.is_dir()
    }
    return {n: folders[n] for n in numbers or sorted(folders)[-1:] if n in folders}


def chosen_versions(
    model_folder: str | os.PathLike, numbers: Sequence[int] = ()
) -> dict[int, Path]:
    """Same as `version_folders`, but raises InputError if a version to serve is missing."""
    folder = Path(model_folder)
    chosen = version_folders(folder, numbers) if folder.is_dir() else {}
    if missing := set(numbers) - chosen.keys():
        raise InputError(f"{folder} does not contain version {', '.join(map(str, missing))}")
    if not chosen:
        raise InputError(
            f"{folder} contains no version folder (1, 2, ...); give a folder saved_models/NAME, "
            "which bert-keras export writes"
        )
    return chosen


def load_version(folder: Path, *, limits: Limits, on_run: Callable[..., None]) -> Batcher:
    """Loads a version, runs its warm-up requests and starts its batcher.

    Args:
        folder: saved_models/NAME/VERSION.
        limits: Limits on batches and on the time of a run.
        on_run: Called after each run, as by `Batcher`.

    Raises:
        LoadError: TensorFlow cannot load the folder, or a warm-up request fails.
    """
    model = ServedModel(folder, seconds=limits.seconds)
    try:
        warm_up(model, folder)
    except Exception:
        model.close()
        raise
    return Batcher(model, limits=limits, on_run=on_run)


def warm_up(model: ServedModel, folder: Path) -> None:
    """Runs the requests in assets.extra/tf_serving_warmup_requests, if `folder` has this file.

    The first run of a signature is slow, because TensorFlow then allocates memory and chooses
    kernels. The warm-up requests move this cost to the start of the server.

    Raises:
        LoadError: The file is damaged or one of its requests fails, because TF Serving does not
            load such a version either. A request that exceeds the time limit is no failure.
    """
    from bert_keras.exporting.warmup import warmup_requests

    try:
        requests = warmup_requests(folder)
    except InputError as error:
        raise LoadError("DATA_LOSS", str(error)) from error
    for request in requests:
        name, inputs = request["signature"] or DEFAULT_SIGNATURE, request["inputs"]
        try:
            if model.inputs.get(name, {}).keys() != inputs.keys():
                raise Refusal(f"its inputs are {', '.join(sorted(inputs))}")
            model.predict(name, inputs)
        except Refusal as error:
            if error.status != _TIMEOUT_STATUS:
                code = CODES.get(error.status, "UNKNOWN")
                raise LoadError(code, f"a warm-up request of {name} fails: {error}") from error


@dataclass(eq=False)
class _Version:
    number: int
    state: str = "START"  # START, LOADING, AVAILABLE, UNLOADING or END, as in TF Serving
    error: tuple[str, str] = ("OK", "")  # error code and message of the last attempt to load it
    batcher: Batcher | None = None  # None unless the version is loaded
    num_users: int = 0  # requests that use the version now
    files: frozenset | None = None  # files of the folder at the last check; None once loaded
    failed_files: frozenset | None = None  # files of the folder when loading failed


class Versions:
    """Loads new versions of a model and unloads those that they replace, as TF Serving does.

    A version is loaded once two successive checks find the same files, so that no version is loaded
    while it is being copied. A version that cannot be loaded is tried again when its files change.
    The old version serves requests until the new one is available. It is closed after the requests
    that use it have ended.

    Args:
        model_folder: saved_models/NAME.
        numbers: Numbers of the versions to serve (TF Serving's policy "specific"). If empty, the
            latest version is served.
        load: Loads a version folder; raises LoadError if it cannot.

    Raises:
        InputError: A version to serve at the start is missing or cannot be loaded.
    """

    def __init__(
        self,
        model_folder: str | os.PathLike,
        *,
        numbers: Sequence[int] = (),
        load: Callable[[Path], Batcher],
    ):
        self._folder = Path(model_folder).resolve()
        self.name = self._folder.name
        self._numbers = tuple(numbers)
        self._load_folder = load
        self._versions: dict[int, _Version] = {}
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="versions", daemon=True)
        for number, folder in sorted(chosen_versions(self._folder, numbers).items()):
            self._load(number, folder)
            if message := self._versions[number].error[1]:
                self.close()
                raise InputError(
                    f"{folder} cannot be loaded as a SavedModel ({message}); export it again"
                )

    def watch(self) -> None:
        """Starts a thread that checks the folder every second until `close`."""
        self._watcher.start()

    def _watch(self) -> None:
        while not self._stopped.wait(_POLL_SECONDS):
            try:
                self.check_folder()
            except OSError:
                pass  # the folder may be unreachable for a moment
            except Exception:  # an unexpected one must not end the thread
                logging.getLogger(__name__).exception(
                    "cannot check the versions in %s", self._folder
                )

    def check_folder(self) -> None:
        """Checks the folder once: loads new versions that are complete, unloads replaced ones."""
        selected = version_folders(self._folder, self._numbers)
        for number, folder in selected.items():
            if self._is_ready_to_load(number, folder):
                self._load(number, folder)
        for number in self._versions.keys() - selected.keys():
            if self._versions[number].state == "START":
                del self._versions[number]  # removed before its copy was complete
        available = {version.number: version for version in self._available()}
        if available.keys() & selected or not selected:
            for number in available.keys() - selected:
                self._unload(available[number])

    def _is_ready_to_load(self, number: int, folder: Path) -> bool:
        """Returns whether the version is not loaded and its files have stopped changing."""
        version = self._versions.setdefault(number, _Version(number))
        if version.batcher:
            return False
        files, before = _file_states(folder), version.files
        version.files = files
        return files == before and files != version.failed_files and bool(files)

    def _load(self, number: int, folder: Path) -> None:
        version = self._versions.setdefault(number, _Version(number))
        version.state, version.error = "LOADING", ("OK", "")
        files = _file_states(folder)
        try:
            batcher = self._load_folder(folder)
        except Exception as error:
            code = error.code if isinstance(error, LoadError) else "UNKNOWN"
            version.state, version.error, version.failed_files = "END", (code, str(error)), files
            if not isinstance(error, LoadError):
                raise
            return
        # A version that was still being written may be incomplete.
        if self._stopped.is_set() or _file_states(folder) != files:
            batcher.close()
            version.state = "START"
            return
        with self._changed:
            version.batcher, version.state = batcher, "AVAILABLE"
            version.files = version.failed_files = None

    def _unload(self, version: _Version) -> None:
        with self._changed:
            version.state = "UNLOADING"
            self._changed.wait_for(lambda: not version.num_users)
        if version.batcher:
            version.batcher.close()
        version.batcher, version.state = None, "END"

    @contextlib.contextmanager
    def serving(self, call: Call) -> Iterator[tuple[int, Batcher]]:
        """Keeps the requested version open until the `with` block ends.

        Yields:
            The number and the `Batcher` of the version that `call` requests.

        Raises:
            Refusal: No such version is served (404).
        """
        with self._changed:
            candidates = [each for each in self._available() if call.version in (None, each.number)]
            if call.model != self.name or not candidates:
                version = call.version
                which = f"Latest({call.model})"
                if version is not None:
                    which = f"Specific({call.model}, {version})"
                raise Refusal(f"Servable not found for request: {which}", status=404)
            version = max(candidates, key=lambda each: each.number)
            version.num_users += 1
        try:
            assert version.batcher
            yield version.number, version.batcher
        finally:
            with self._changed:
                version.num_users -= 1
                self._changed.notify_all()

    def _available(self) -> list[_Version]:
        versions = list(self._versions.values())  # a copy, as another thread may change the dict
        return [version for version in versions if version.state == "AVAILABLE"]

    def statuses(self, call: Call) -> list[dict[str, object]]:
        """Returns the states of the requested versions, newest first.

        Raises:
            Refusal: The model has no such version (404).
        """
        versions = sorted(self._versions.items(), reverse=True) if call.model == self.name else ()
        states = [
            {
                "version": str(number),
                "state": each.state,
                "status": {"error_code": each.error[0], "error_message": each.error[1]},
            }
            for number, each in versions
            if call.version in (None, number)
        ]
        if not states:
            which = "any versions" if call.version is None else f"version {call.version}"
            raise Refusal(f"Could not find {which} of model {call.model}", status=404)
        return states

    def close(self) -> None:
        """Stops the thread of `watch` and closes every version."""
        self._stopped.set()
        if self._watcher.is_alive():
            self._watcher.join(_STOP_SECONDS)
        for version in list(self._versions.values()):
            if version.batcher:
                version.batcher.close()


def _file_states(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Returns the path, size in bytes and modification time in ns of every file in `folder`.

    Two calls return different sets while the folder is still being copied. A folder that no longer
    exists gives an empty set.
    """
    states = set()
    for parent, _, names in os.walk(folder):
        for path in (os.path.join(parent, name) for name in names):
            with contextlib.suppress(OSError):
                status = os.stat(path)
                states.add((path, status.st_size, status.st_mtime_ns))
    return frozenset(states)
