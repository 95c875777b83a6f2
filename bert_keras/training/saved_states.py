"""Writes, lists and reads the saved states of a run."""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError

from bert_keras.errors import InputError
from bert_keras.files import write_text

_STATE_FILE = re.compile(r"step-(\d+)\.(index|data-\d+-of-\d+)")
# Errors that do not mean damaged files.
_NOT_DAMAGED = (tf.errors.PermissionDeniedError, tf.errors.ResourceExhaustedError)
_UNREADABLE = (tf.errors.OpError, IndexError, UnicodeDecodeError, DecodeError)


def saved_steps(folder: Path) -> list[int]:
    """Returns the steps whose states are in a folder, in ascending order."""
    names = (_STATE_FILE.fullmatch(path.name) for path in folder.glob("step-*"))
    return sorted({int(name[1]) for name in names if name})


class SavedStates:
    """The states of a run, one `step-N` per saved step.

    The files on disk decide which states exist. The file `checkpoint` is written for TensorFlow's
    own tools, and never read.

    Args:
        checkpoint: The variables of a state.
        folder: The folder of the states. It is created when the first state is written.
        keep: The number of newest states to keep.
    """

    def __init__(self, checkpoint: tf.train.Checkpoint, folder: Path, *, keep: int):
        _ = checkpoint.save_counter  # creates a variable, which all workers must do together
        self.checkpoint, self.folder, self.keep = checkpoint, folder, keep
        self._readable = folder
        if re.search(r"[*?\[\]\\]", os.fspath(folder)):  # TensorFlow would read it as a pattern
            self._link = tempfile.TemporaryDirectory()
            self._readable = Path(self._link.name, "states")
            self._readable.symlink_to(folder.absolute())

    def restore(self, *, is_chief: bool) -> None:
        """Loads the newest state that can be read, if there is any state.

        Newer states that cannot be read are reported on stderr, and the first worker renames their
        files to `damaged-step-N`.

        Raises:
            InputError: The newest readable state is of another model, or none can be read.
        """
        damaged: dict[int, str] = {}  # the reason by step
        for step in reversed(saved_steps(self.folder)):
            try:
                self.checkpoint.restore(self._prefix(step)).assert_consumed()
            except _NOT_DAMAGED:
                raise
            except _UNREADABLE as error:
                damaged[step] = _first_line(error)
            except (AssertionError, ValueError) as error:
                raise InputError(
                    f"{self.folder / f'step-{step}'} has other weights than the model of this run, "
                    "for example because the checkpoint from which the run started was replaced, "
                    "or because it was saved by another version of bert-keras; choose another "
                    "output folder to train from the start"
                ) from error
            else:
                self._set_aside(damaged, restored=step, renames=is_chief)
                return
        if damaged:
            raise InputError(
                f"none of the {len(damaged)} saved states in {self.folder} can be read (the "
                f"newest: {next(iter(damaged.values()))}); choose another output folder to train "
                "from the start"
            )

    def save(self, step: int) -> None:
        """Writes the state of a step, then deletes the oldest states over `keep`.

        Raises:
            OSError: The state cannot be written. Older states are not changed.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.checkpoint.write(self._prefix(step))
        finally:
            for half_written in self.folder.glob("*_temp"):
                shutil.rmtree(half_written)
        steps = saved_steps(self.folder)
        for old in steps[: -self.keep]:
            for path in self._files(old):
                path.unlink()
        listing = [f'model_checkpoint_path: "step-{step}"']
        listing += [f'all_model_checkpoint_paths: "step-{each}"' for each in steps[-self.keep :]]
        write_text(self.folder / "checkpoint", "\n".join(listing) + "\n")

    def _prefix(self, step: int) -> str:
        return os.fspath(self._readable / f"step-{step}")

    def _files(self, step: int) -> list[Path]:
        return [*self.folder.glob(f"step-{step}.*")]

    def _set_aside(self, damaged: dict[int, str], *, restored: int, renames: bool) -> None:
        for step, reason in damaged.items():
            print(
                f"WARNING: {self.folder / f'step-{step}'} cannot be read ({reason}); the run "
                f"continues from step-{restored}, and the files are renamed to damaged-step-{step}",
                file=sys.stderr,
            )
            for path in self._files(step) if renames else ():
                path.rename(path.with_name(f"damaged-{path.name}"))


def _first_line(error: Exception) -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"\{\{.*?\}\} ?| \[Op:\w+\]", "", line)  # TensorFlow's names of operations
