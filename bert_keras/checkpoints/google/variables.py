"""Reads and writes the variables of a checkpoint in the format of TensorFlow 1's Saver.

The file PREFIX.index contains names, shapes and offsets; PREFIX.data-00000-of-00001 contains the
values.
"""

import contextlib
import errno
import glob
import os
import re
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

import numpy as np

from bert_keras.checkpoints.tensors import StoredTensor, refuse_lfs_pointer, tensor
from bert_keras.errors import InputError

OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"  # an entry that only tf.train.Checkpoint (TF2) writes
PATHS = "checkpoint"  # the file in which a Saver stores the name of its newest checkpoint


def checkpoint_prefix(path: Path) -> Path:
    """Returns the prefix of the checkpoint files at `path`.

    If `path` is a folder, this is the prefix of its only checkpoint, or of the checkpoint that its
    file `checkpoint` names. Otherwise it is `path` itself.

    Raises:
        InputError: The folder has no checkpoint, or several and none of them is named.
    """
    if not path.is_dir():
        return path
    matches = sorted(index.with_suffix("") for index in path.glob("*.index"))
    if not matches:
        raise InputError(
            f"{path} has no .index file; expected bert_model.ckpt.index and its .data file"
        )
    if len(matches) > 1 and (path / PATHS).is_file():
        # Parsed here, because TensorFlow prints a warning for a file that it cannot parse.
        text = (path / PATHS).read_text("utf-8", "replace")
        named = re.findall('^model_checkpoint_path: *"(.+)"', text, re.MULTILINE)
        names = [Path(name).name for name in named]
        matches = [prefix for prefix in matches if prefix.name in names] or matches
    if len(matches) > 1:
        raise InputError(
            f"{path} contains {len(matches)} checkpoints; give the path of one: "
            f"{', '.join(map(str, matches))}"
        )
    return matches[0]


def stored_variables(prefix: Path) -> dict[str, StoredTensor]:
    """Returns the variables of a checkpoint, sorted by name; `read` returns floats as float32.

    Raises:
        InputError: A file is missing, truncated, damaged, or not a TF1 checkpoint.
    """
    import tensorflow as tf

    try:
        reader = _reader(prefix)
    except (tf.errors.OpError, ValueError) as error:
        refuse_lfs_pointer(Path(f"{prefix}.index"))
        raise InputError(
            f"{prefix}.index is damaged or not of a checkpoint ({_reason(error)}); copy it again"
        ) from error
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    if OBJECTS in shapes:
        raise InputError(
            f"{prefix} is a checkpoint of TensorFlow 2 objects; expected one of TensorFlow 1 "
            "variables (for a run of bert-keras, give OUTPUT/model)"
        )
    _check_data(prefix)
    lock = Lock()  # the reader is not thread-safe

    def stored(name: str) -> StoredTensor:
        def read() -> np.ndarray:
            try:
                with lock:
                    array = reader.get_tensor(name)
            except (tf.errors.OpError, IndexError) as error:  # IndexError: the file is truncated
                raise InputError(
                    f"{prefix} is damaged at {name} ({_reason(error)}); copy it again"
                ) from error
            is_float = dtypes[name].is_floating
            return np.ascontiguousarray(array, np.float32) if is_float else array

        return StoredTensor(tuple(shapes[name]), read)

    return {name: stored(name) for name in sorted(shapes)}


def _reader(prefix: Path):
    """Opens a TensorFlow reader for the checkpoint.

    TensorFlow treats the prefix as a glob pattern. A path with special characters would not match
    itself, so the reader gets symbolic links to the files in a temporary folder. The folder is
    removed together with the reader.
    """
    import tensorflow as tf

    if not set("[\\") & set(str(prefix)):
        return tf.train.load_checkpoint(str(prefix))
    with contextlib.ExitStack() as stack:
        links = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for file in prefix.parent.glob(f"{glob.escape(prefix.name)}.*"):
            (links / f"linked{file.name.removeprefix(prefix.name)}").symlink_to(file.resolve())
        reader = tf.train.load_checkpoint(str(links / "linked"))
        weakref.finalize(reader, stack.pop_all().close)
    return reader


def _check_data(prefix: Path) -> None:
    shards = sorted(prefix.parent.glob(f"{glob.escape(prefix.name)}.data-?????-of-?????"))
    count = int(shards[0].name[-5:]) if shards else 1
    for number in range(count):
        shard = Path(f"{prefix}.data-{number:05}-of-{count:05}")
        if shard not in shards:
            raise InputError(
                f"{shard} is missing; add it, because {prefix.name}.index contains only names and "
                "shapes"
            )
        refuse_lfs_pointer(shard)


def _reason(error: Exception) -> str:
    return getattr(error, "message", str(error)).splitlines()[0]


def write_variables(
    prefix: Path, variables: Mapping[str, StoredTensor], *, integers: Mapping[str, int]
) -> None:
    """Writes a checkpoint, and the file `checkpoint` that names it.

    All values are in memory at the same time.

    Args:
        prefix: The path of the checkpoint without the suffixes of its files.
        variables: The float32 variables by name.
        integers: Values of int64 scalars by name, such as the global step.

    Raises:
        OSError: The files cannot be written.
    """
    import tensorflow as tf

    names = sorted([*variables, *integers])  # the order in which a Saver writes
    try:
        with tf.device("CPU"):
            tensors = [
                tf.constant(integers[name], tf.int64)
                if name in integers
                else tensor(variables[name].read())
                for name in names
            ]
            tf.raw_ops.SaveV2(
                prefix=str(prefix),
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                tensors=tensors,
            )
    except tf.errors.OutOfRangeError as error:  # the file exceeds the size limit
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(prefix.parent)) from error
    named = "".join(
        f'{field}: "{prefix.name}"\n'
        for field in ("model_checkpoint_path", "all_model_checkpoint_paths")
    )
    (prefix.parent / PATHS).write_text(named, encoding="utf-8")
