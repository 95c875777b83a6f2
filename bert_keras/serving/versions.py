"""Loads and unloads the versions of a model as its folder changes, and selects one per request."""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.serving.calls import Call, Refusal
from bert_keras.serving.model import LoadError
from bert_keras.serving.servable import LoadedVersion
from bert_keras.serving.version_folders import (
    chosen_versions,
    file_states,
    select_versions,
    version_folders,
)

_POLL_SECONDS = 1.0  # default of TF Serving's --file_system_poll_wait_seconds
_STOP_SECONDS = 5.0  # for a version that is still loading when the server stops


@dataclass(eq=False)
class _Version:
    number: int
    state: str = "START"  # START, LOADING, AVAILABLE, UNLOADING or END, as in TF Serving
    error: tuple[str, str] = ("OK", "")  # error code and message of the last attempt to load it
    servable: LoadedVersion | None = None  # None unless the version is loaded
    num_users: int = 0  # requests that use the version now
    files: frozenset | None = None  # files of the folder at the last check; None once loaded
    failed_files: frozenset | None = None  # files of the folder when loading failed

    def status(self) -> dict[str, object]:
        status = dict(zip(("error_code", "error_message"), self.error, strict=True))
        return {"version": str(self.number), "state": self.state, "status": status}


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
        labels: Maps each label to a version number.
        load: Loads a version folder; raises LoadError if it cannot.

    Raises:
        InputError: If a version to serve at the start is missing or cannot be loaded, or if a label
            names a version that is not served.
    """

    def __init__(
        self,
        model_folder: str | os.PathLike,
        *,
        numbers: Sequence[int] = (),
        labels: Mapping[str, int] | None = None,
        load: Callable[[Path], LoadedVersion],
    ):
        self._folder = Path(model_folder).resolve()
        self.name = self._folder.name
        self._numbers = tuple(numbers)
        self._labels = dict(labels or {})
        self._load_folder = load
        self._versions: dict[int, _Version] = {}
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="versions", daemon=True)
        chosen = chosen_versions(self._folder, numbers)
        for label, number in self._labels.items():
            if number not in chosen:
                raise InputError(
                    f"the label {label} is for version {number}, which is not served; served "
                    f"versions: {', '.join(map(str, sorted(chosen)))} (see --versions)"
                )
        for number, folder in sorted(chosen.items()):
            self._load(number, folder)
            if message := self._versions[number].error[1]:
                self.close()
                raise InputError(
                    f"{folder} cannot be loaded as a SavedModel ({message}); export it again"
                )

    def watch(self) -> None:
        """Start a thread that checks the folder every second until `close`."""
        self._watcher.start()

    def _watch(self) -> None:
        while not self._stopped.wait(_POLL_SECONDS):
            try:
                self.check_folder()
            except OSError:
                pass  # the folder may be unreachable for a moment
            except Exception:  # a bug in this project must not end the thread
                logging.getLogger(__name__).exception(
                    "cannot check the versions in %s", self._folder
                )

    def check_folder(self) -> None:
        """Check the folder once: load new versions that are complete, unload the replaced ones."""
        selected = select_versions(version_folders(self._folder), self._numbers)
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
        """Whether to load the version now: it is not loaded and its files have stopped changing."""
        version = self._versions.setdefault(number, _Version(number))
        if version.servable:
            return False
        files, before = file_states(folder), version.files
        version.files = files
        return files == before and files != version.failed_files and bool(files)

    def _load(self, number: int, folder: Path) -> None:
        version = self._versions.setdefault(number, _Version(number))
        version.state, version.error = "LOADING", ("OK", "")
        files = file_states(folder)
        try:
            servable = self._load_folder(folder)
        except Exception as error:
            code = error.code if isinstance(error, LoadError) else "UNKNOWN"
            version.state, version.error, version.failed_files = "END", (code, str(error)), files
            if not isinstance(error, LoadError):
                raise  # a bug in this project
            return
        # A version that was still being written may be incomplete.
        if self._stopped.is_set() or file_states(folder) != files:
            servable.close()
            version.state = "START"
            return
        with self._changed:
            version.servable, version.state = servable, "AVAILABLE"
            version.files = version.failed_files = None

    def _unload(self, version: _Version) -> None:
        with self._changed:
            version.state = "UNLOADING"
            self._changed.wait_for(lambda: not version.num_users)
        if version.servable:
            version.servable.close()
        version.servable, version.state = None, "END"

    @contextlib.contextmanager
    def serving(self, call: Call) -> Iterator[tuple[int, LoadedVersion]]:
        """Keep the requested version open until the `with` block ends.

        Yields:
            The number and the `LoadedVersion` of the version that `call` requests.

        Raises:
            Refusal: If no such version is served.
        """
        with self._changed:
            version = self._requested_version(call)
            version.num_users += 1
        try:
            assert version.servable
            yield version.number, version.servable
        finally:
            with self._changed:
                version.num_users -= 1
                self._changed.notify_all()

    def _available(self) -> list[_Version]:
        versions = list(self._versions.values())  # a copy, as another thread may change the dict
        return [version for version in versions if version.state == "AVAILABLE"]

    def _requested_version(self, call: Call) -> _Version:
        number = call.version
        if call.label is not None:
            number = self._labels.get(call.label)
            if call.model != self.name or number is None:
                raise Refusal(f"Unrecognized servable version label: {call.label}")
        candidates = [each for each in self._available() if number in (None, each.number)]
        if call.model == self.name and candidates:
            return max(candidates, key=lambda each: each.number)
        name = call.model
        requested = f"Latest({name})" if number is None else f"Specific({name}, {number})"
        raise Refusal(f"Servable not found for request: {requested}", status=404)

    def statuses(self, call: Call) -> list[dict[str, object]]:
        """Return the states of the requested versions, newest first.

        Like TF Serving, it ignores a label in the request.

        Raises:
            Refusal: If the model has no such version (404).
        """
        versions = sorted(self._versions.items(), reverse=True) if call.model == self.name else ()
        states = [each.status() for number, each in versions if call.version in (None, number)]
        if not states:
            which = "any versions" if call.version is None else f"version {call.version}"
            raise Refusal(f"Could not find {which} of model {call.model}", status=404)
        return states

    def close(self) -> None:
        """Stop the thread of `watch` and close every version."""
        self._stopped.set()
        if self._watcher.is_alive():
            self._watcher.join(_STOP_SECONDS)
        for version in list(self._versions.values()):
            if version.servable:
                version.servable.close()
