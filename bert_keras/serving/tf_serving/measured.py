"""An exported version comes in; how fast, and in how much memory, it answers goes out."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.export.warmup import WARMUP
from bert_keras.progress import progress

GROWTH = 1.1  # of texts a second: what grows by less does not grow


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Texts of `num_words`, middling ones, and of `num_longest`, on `num_cores`. `seconds` of a
    middling batch by its size, of one `longest` text, and until the model was loaded and `warm`;
    `rates`, middling texts a second by how many batches were computed at once. Bytes of memory
    `before` the model was loaded and at the `peak`.

    `splits`: a batch may be cut and its answers joined. `pads`: pieces of unlike lengths may be
    filled up as TF Serving does it. Both mean that the answers stay the same.
    """

    num_cores: int
    num_words: int
    num_longest: int
    warm: float
    seconds: dict[int, float]
    longest: float
    rates: dict[int, float]
    before: int
    peak: int
    splits: bool
    pads: bool

    @property
    def batch_size(self) -> int:
        """With a larger one no more texts are answered a second."""
        return first_best({size: size / seconds for size, seconds in self.seconds.items()})

    @property
    def num_at_once(self) -> int:
        """Batches: with more of them the same."""
        return first_best(self.rates)


def measured(folder: str | os.PathLike) -> Measured:
    """Of saved_models/NAME/VERSION, in some seconds, on the CPU, in a fresh process.

    Raises InputError for a version without warm-up requests; RuntimeError, with the last words of
    the process, where it does not answer.
    """
    if not (Path(folder) / WARMUP).is_file():
        raise InputError(f"{folder} holds no {WARMUP}, which it is measured with; export it anew")
    program = "bert_keras.serving.tf_serving.measuring"
    lines = []
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as notes,
        progress(stage="measure", unit="steps") as bar,
        subprocess.Popen(
            [sys.executable, "-P", "-m", program, os.fspath(folder)],
            stdout=subprocess.PIPE,
            stderr=notes,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "PYTHONUTF8": "1"},
        ) as process,
    ):
        for line in process.stdout:
            lines.append(line)
            bar.update()
        if process.wait():
            notes.seek(0)
            raise RuntimeError(f"{folder} could not be measured: {notes.read().strip()[-1000:]}")
    values = json.loads(lines[-1])
    for name in ("seconds", "rates"):
        values[name] = {int(number): value for number, value in values[name].items()}
    return Measured(**values)


def first_best(rates: dict[int, float]) -> int:
    """The smallest number whose rate hardly grows with a larger one."""
    return min(number for number, rate in rates.items() if rate * GROWTH > max(rates.values()))
