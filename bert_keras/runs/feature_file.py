"""Tokens and vectors of one text after another in; a file that others read out, whole or not."""

import contextlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from bert_keras.errors import InputError
from bert_keras.storage import whole_file

# Bytes of a number; those of .jsonl as measured: "-0.123456, ".
SIZES = {".npz": 4, ".jsonl": 10.5}


def number_size(path: str | os.PathLike) -> float:
    """Bytes that one number takes; raises InputError for a name that ends in no known format."""
    if (ending := Path(path).suffix) not in SIZES:
        raise InputError(
            f"{path} ends in {ending!r}; expected .npz (NumPy's) or .jsonl (as extract_features.py)"
        )
    return SIZES[ending]


@contextlib.contextmanager
def feature_file(
    path: str | os.PathLike, *, layers: Sequence[int]
) -> Iterator[Callable[[int, Sequence[str], np.ndarray], None]]:
    """A way to write text after text: its number from 0, M tokens, vectors float32 [M, K, D].

    `.npz`: arrays "0", "1" and so on of the vectors, as they are, and "tokens_0", "tokens_1"; numpy
    reads one text without the rest. `.jsonl`: the lines of google-research/bert
    extract_features.py, numbers rounded to six digits: 2.6 times as large, and slow to read.
    """
    write = {".npz": _npz, ".jsonl": _jsonl}[Path(path).suffix]
    with whole_file(path) as beside, write(beside, layers) as add:
        yield add


@contextlib.contextmanager
def _npz(path: Path, layers: Sequence[int]):
    def add(number: int, tokens: Sequence[str], vectors_MKD: np.ndarray) -> None:
        for name, array in ((f"{number}", vectors_MKD), (f"tokens_{number}", np.array(tokens))):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)

    with zipfile.ZipFile(path, "w") as archive:
        yield add


@contextlib.contextmanager
def _jsonl(path: Path, layers: Sequence[int]):
    def add(number: int, tokens: Sequence[str], vectors_MKD: np.ndarray) -> None:
        # "linex_index" is how the original spells it, and what its readers ask for.
        file.write(f'{{"linex_index": {number}, "features": [')
        for place, (token, vectors_KD) in enumerate(zip(tokens, vectors_MKD, strict=True)):
            values = [[round(number, 6) for number in each] for each in vectors_KD.tolist()]
            told = [{"index": i, "values": v} for i, v in zip(layers, values, strict=True)]
            file.write(", " * bool(place) + json.dumps({"token": token, "layers": told}))
        file.write("]}\n")

    with path.open("w", encoding="utf-8") as file:
        yield add
