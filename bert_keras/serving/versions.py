"""Loads and unloads the versions of a model as its folder changes, and selects one per request."""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.files import StrPath, check_exists
from bert_keras.serving import version_folder
from bert_keras.serving.batching import Batcher
from bert_keras.serving.limits import Limits
from bert_keras.serving.model import LoadError, ServedModel, SessionModel
from bert_keras.serving.rest_api import CODES, Call, Refusal, read_predict
from bert_keras.serving.version_folder import FORMATS, LITERT, is_version, read_metadata


def chosen_versions(model_folder: StrPath, numbers: Sequence[int] = ()) -> dict[int, Path]:
    """Returns the folders of the versions `numbers` of saved_models/NAME, by default the latest."""
    folder = Path(model_folder)
    check_exists(folder, expected="saved_models/NAME of an export")
    chosen = _selected(folder, numbers) if folder.is_dir() else {}
    missing = sorted({*numbers} - chosen.keys())
    if missing or not chosen:
        expected = "saved_models/NAME of an export that does"
        parent = folder.parent if is_version(folder.name) else expected
        wanted = ", ".join(map(str, missing)) or "folder (1, 2, ...)"
        raise InputError(f"{folder} contains no version {wanted}; give {parent}")
    return chosen


def _selected(folder: Path, numbers: Sequence[int]) -> dict[int, Path]:
    folders = {int(p.name): p for p in folder.iterdir() if is_version(p.name) and p.is_dir()}
    return {n: folders[n] for n in numbers or sorted(folders)[-1:] if n in folders}


def load_version(folder: Path, *, limits: Limits, on_run: Callable[..., None]) -> Batcher:
    """Loads a version and runs the example of its export; LoadError if that fails."""
    if name := version_folder.damaged_file(folder):
        raise LoadError("DATA_LOSS", f"{name} is not the file that bert-keras export wrote")
    model = open_model(folder, seconds=limits.seconds)
    try:
        if example := read_metadata(folder).get("example"):
            request = read_predict({"instances": [example["instance"]]}, model.inputs)
            model.predict(*request)
    except Refusal as error:
        model.close()
        message = f"the example of the export fails: {error}"
        raise LoadError(CODES.get(error.status, "UNKNOWN"), message) from error
    return Batcher(model, limits=limits, on_run=on_run)


def open_model(folder: Path, *, format: str | None = None, seconds: float = 30.0) -> ServedModel:
    """Loads a version in a format of `FORMATS`, by default in LiteRT's if the folder has it."""
    if format == FORMATS[1] or (format is None and (folder / LITERT).is_file()):
        from bert_keras.serving.litert import LiteModel

        return LiteModel(folder)
    return SessionModel(folder, seconds=seconds)


@dataclass(eq=False)
class _Version:
    number: int
    files: frozenset | None  # files of the folder when it was loaded; None once it is unloaded
    state: str = "LOADING"  # LOADING, AVAILABLE, UNLOADING or END, as in TF Serving
    error: tuple[str, str] = ("OK", "")  # error code and message of the attempt to load it
    batcher: Batcher | None = None  # None unless the version is loaded
    num_users: int = 0  # requests that use the version now


class Versions:
    """Loads new versions of a model and unloads the replaced ones, as TF Serving does.

    A version is loaded once two successive checks find the same files, so that no version is loaded
    while it is being copied. A version that cannot be loaded is tried again when its files change.
    The old version serves requests until the new one is available. It is closed after the requests
    that use it have ended. `numbers` are the versions to serve, by default the latest one.
    """

    def __init__(
        self, model_folder: StrPath, *, numbers: Sequence[int] = (), load: Callable[[Path], Batcher]
    ):
        self._folder = Path(model_folder).resolve()
        self.name = self._folder.name
        self._numbers, self._load_folder = tuple(numbers), load
        self._versions: dict[int, _Version] = {}
        self._files: dict[int, frozenset] = {}  # of each folder, at the last check
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._watcher: threading.Thread | None = None
        for number, folder in sorted(chosen_versions(self._folder, numbers).items()):
            self._load(number, folder, _file_states(folder))
            if message := self._versions[number].error[1]:
                self.close()
                raise InputError(f"{folder} cannot be served: {message}; export it again")

    def watch(self, *, seconds: float = 1.0) -> None:
        """Starts a thread that checks the folder every `seconds`, by default as TF Serving."""

        def check_repeatedly() -> None:
            while not self._stopped.wait(seconds):
                try:
                    with contextlib.suppress(OSError):  # the folder is unreachable for a moment
                        self.check_folder()
                except Exception:  # an unexpected one must not end the thread
                    logging.getLogger(__name__).exception("cannot check %s", self._folder)

        self._watcher = threading.Thread(target=check_repeatedly, name="versions", daemon=True)
        self._watcher.start()

    def check_folder(self) -> None:
        """Checks the folder once: loads new versions that are complete, unloads replaced ones."""
        selected = _selected(self._folder, self._numbers)
        for number, folder in selected.items():
            version, files = self._versions.get(number), _file_states(folder)
            is_complete = files and files == self._files.get(number)
            self._files[number] = files
            is_tried = version and (version.batcher or version.files == files)
            if is_complete and not is_tried:
                self._load(number, folder, files)
        available = {version.number: version for version in self._available()}
        if available.keys() & selected or not selected:
            for number in available.keys() - selected:
                self._unload(available[number])

    def _load(self, number: int, folder: Path, files: frozenset) -> None:
        version = self._versions[number] = _Version(number, files)
        try:
            batcher = self._load_folder(folder)
        except LoadError as error:
            version.state, version.error = "END", (error.code, str(error))
        except Exception as error:
            version.state, version.error = "END", ("UNKNOWN", str(error))
            raise
        else:
            if self._stopped.is_set():
                batcher.close()
            else:
                version.batcher, version.state = batcher, "AVAILABLE"

    def _unload(self, version: _Version) -> None:
        with self._changed:
            version.state = "UNLOADING"
            self._changed.wait_for(lambda: not version.num_users)
        if version.batcher:
            version.batcher.close()
        version.batcher, version.files, version.state = None, None, "END"

    @contextlib.contextmanager
    def serving(self, call: Call) -> Iterator[tuple[int, Batcher]]:
        """Keeps the version that `call` requests open; yields its number and its `Batcher`."""
        with self._changed:
            candidates = [each for each in self._available() if call.version in (None, each.number)]
            if call.model != self.name or not candidates:
                number = "" if call.version is None else f", {call.version}"
                which = f"{'Specific' if number else 'Latest'}({call.model}{number})"
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

    def inputs(self) -> dict[str, dict[str, str]]:
        """Returns the dtypes of the inputs of each signature of an available version."""
        batchers = [version.batcher for version in self._available()]
        return batchers[-1].model.inputs if batchers and batchers[-1] else {}

    @property
    def is_available(self) -> bool:
        """Whether a version answers requests."""
        return bool(self._available())

    def statuses(self, call: Call) -> list[dict[str, object]]:
        """Returns the states of the requested versions, newest first."""
        versions = sorted(self._versions.items(), reverse=True) if call.model == self.name else ()
        states = []
        for number, each in versions:
            if call.version in (None, number):
                status = dict(zip(("error_code", "error_message"), each.error, strict=True))
                states.append({"version": str(number), "state": each.state, "status": status})
        if not states:
            which = "any versions" if call.version is None else f"version {call.version}"
            raise Refusal(f"Could not find {which} of model {call.model}", status=404)
        return states

    def close(self) -> None:
        """Stops the thread of `watch` and closes every version."""
        self._stopped.set()
        if self._watcher:
            self._watcher.join(5.0)  # seconds, as a version may still be loading
        for version in list(self._versions.values()):
            if version.batcher:
                version.batcher.close()


def _file_states(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Returns the path, size in bytes and modification time in ns of every file in `folder`."""
    states = set()
    for path in (os.path.join(parent, n) for parent, _, names in os.walk(folder) for n in names):
        with contextlib.suppress(OSError):  # removed meanwhile
            status = os.stat(path)
            states.add((path, status.st_size, status.st_mtime_ns))
    return frozenset(states)
