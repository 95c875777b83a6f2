"""Measures the speed and memory of an exported version, run with a TF1 session as in TF Serving.

`python -m bert_keras.serving.tf_serving.measurement FOLDER` runs the warm-up requests of the
version in FOLDER and prints the fields of a `Measurement`.
"""

import ast
import contextlib
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from bert_keras.errors import InputError
from bert_keras.exporting.warmup import WARMUP, warmup_requests
from bert_keras.progress import progress
from bert_keras.serving.model import ServedModel, Tensors
from bert_keras.serving.rows import are_close

_GROWTH = 1.1  # a smaller factor between two rates (texts per second) counts as no growth
_LARGEST_BATCH = 128  # rows
_MAX_PARALLEL_BATCHES = 8  # batches at the same time
_SECONDS = 0.3  # for which each request is repeated, at least three times
_RUN_SECONDS = 3600.0  # time limit of one run
_TOLERANCE = 1e-5  # absolute and relative, of outputs with and without padding

Predict = Callable[[dict], Tensors]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Measurement of a version. The texts have medium length unless stated otherwise."""

    num_cores: int  # CPU cores of the machine
    num_words: int  # words of a text
    num_longest: int  # words of the longest text
    warm_up_seconds: float  # seconds to load the model and run its warm-up requests
    seconds: dict[int, float]  # seconds of a batch, by its size
    longest: float  # seconds of the longest text alone
    rates: dict[int, float]  # texts per second, by the number of batches that run at the same time
    initial_memory: int  # bytes of memory before the model was loaded
    peak_memory: int  # largest number of bytes of memory
    can_split: bool  # whether splitting a batch and joining the outputs changes no output
    can_pad: bool  # whether padding shorter token ids, as TF Serving does, changes no output

    @property
    def batch_size(self) -> int:
        """The smallest batch size with nearly the highest rate of texts."""
        return first_best({size: size / seconds for size, seconds in self.seconds.items()})

    @property
    def num_parallel_batches(self) -> int:
        """The smallest number of simultaneous batches with nearly the highest rate of texts."""
        return first_best(self.rates)


def measure_version(folder: str | os.PathLike) -> Measurement:
    """Measure a version on the CPU in a new process; this takes some seconds.

    Args:
        folder: saved_models/NAME/VERSION.

    Raises:
        InputError: If the version has no warm-up requests.
        RuntimeError: If the process fails, with the end of its stderr.
    """
    if not (Path(folder) / WARMUP).is_file():
        raise InputError(f"{folder} has no {WARMUP} with requests to measure; export it again")
    with progress(stage="measure", unit="models", total=1) as bar:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "bert_keras.serving.tf_serving.measurement", folder],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "PYTHONUTF8": "1"},
        )
        if done.returncode:
            raise RuntimeError(f"{folder} could not be measured: {done.stderr.strip()[-1000:]}")
        bar.update()
    return Measurement(**ast.literal_eval(done.stdout.splitlines()[-1]))


def first_best(rates: dict[int, float]) -> int:
    """Return the smallest number whose rate is within the factor `_GROWTH` of the highest rate.

    Args:
        rates: Texts per second, by batch size or by number of batches.
    """
    return min(number for number, rate in rates.items() if rate * _GROWTH > max(rates.values()))


def measure(folder: str | os.PathLike) -> dict:
    """Measure a version in this process.

    Args:
        folder: saved_models/NAME/VERSION.

    Returns:
        The fields of a `Measurement`.

    Raises:
        RuntimeError: If an output does not have one row for each row of its request, because TF
            Serving then cannot batch requests.
    """
    requests, initial_memory = warmup_requests(folder), _memory("VmRSS")
    num_cores = os.cpu_count() or 1
    start = time.perf_counter()
    with contextlib.closing(ServedModel(Path(folder), seconds=_RUN_SECONDS)) as model:

        def predict(request: dict) -> Tensors:
            return model.predict(request["signature"], request["inputs"])

        for request in requests:
            _check_rows(request, predict(request))
        warm_up_seconds = time.perf_counter() - start
        single_rows = _single_rows(requests, "serving_default")
        medium, longest = single_rows[len(single_rows) // 2], single_rows[-1]
        seconds = _seconds_by_size(predict, medium)
        size = first_best({size: size / seconds[size] for size in seconds})
        figures = {
            "num_cores": num_cores,
            "warm_up_seconds": warm_up_seconds,
            "num_words": _num_words(medium),
            "num_longest": _num_words(longest),
            "seconds": seconds,
            "longest": _seconds(predict, longest),
            "rates": {
                number: _rate(predict, _batch(medium, size), number)
                for number in (1, 2, 4, _MAX_PARALLEL_BATCHES)
                if number <= num_cores
            },
            "can_split": all(map(_has_fixed_rows, model.signatures.values())),
            "can_pad": all(_can_pad(predict, requests, name) for name in model.signatures),
        }
        predict(_batch(longest, size))
    return {**figures, "initial_memory": initial_memory, "peak_memory": _memory("VmHWM")}


def pad_with_first(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Pad an array with its first value, as TF Serving pads requests to the same length.

    This follows tensorflow_serving/batching/batching_util.cc.

    Args:
        values: The array to pad.
        shape: The target shape; its first dimension is ignored.
    """
    padding = np.subtract(shape, values.shape)
    padding[0] = 0
    return np.pad(values, [(0, n) for n in padding], constant_values=values.flat[0])


def _seconds_by_size(predict: Predict, request: dict) -> dict[int, float]:
    """Measure doubled batch sizes until the rate of texts no longer grows."""
    seconds, size, best = {}, 1, 0.0
    while size <= _LARGEST_BATCH:
        seconds[size] = _seconds(predict, _batch(request, size))
        if size / seconds[size] < _GROWTH * best:
            break
        size, best = 2 * size, size / seconds[size]
    return seconds


def _seconds(predict: Predict, request: dict) -> float:
    predict(request)
    durations: list[float] = []
    while len(durations) < 3 or sum(durations) < _SECONDS:
        start = time.perf_counter()
        predict(request)
        durations.append(time.perf_counter() - start)
    return median(durations)


def _rate(predict: Predict, request: dict, number: int) -> float:
    """Return the rows per second if `number` copies of the request run at the same time."""
    num_batches, start = 0, time.perf_counter()
    with ThreadPoolExecutor(number) as pool:
        while num_batches < 2 * number or time.perf_counter() - start < _SECONDS:
            num_batches += len([*pool.map(predict, number * [request])])
    return num_batches * _rows(request) / (time.perf_counter() - start)


def _can_pad(predict: Predict, requests: list[dict], signature: str) -> bool:
    """Whether the outputs of a short request stay the same if TF Serving pads it."""
    single_rows = _single_rows(requests, signature)
    if not single_rows:
        return True
    short, long = single_rows[0], single_rows[-1]
    padded = {n: pad_with_first(v, long["inputs"][n].shape) for n, v in short["inputs"].items()}
    return are_close(predict(short), predict({**short, "inputs": padded}), tolerance=_TOLERANCE)


def _single_rows(requests: list[dict], signature: str) -> list[dict]:
    return [each for each in requests if each["signature"] == signature and _rows(each) == 1]


def _check_rows(request: dict, outputs: Tensors) -> None:
    for name, values in outputs.items():
        if values.shape[:1] != (_rows(request),):
            raise RuntimeError(
                f"the output {name} of {request['signature']} has the shape {values.shape} for "
                f"{_rows(request)} input rows; TF Serving cannot batch it"
            )


def _has_fixed_rows(signature) -> bool:
    """Whether the output rows have a fixed shape, so that the outputs of batches can be joined."""
    return all(d.size >= 0 for o in signature.outputs.values() for d in o.tensor_shape.dim[1:])


def _rows(request: dict) -> int:
    return len(next(iter(request["inputs"].values())))


def _batch(request: dict, size: int) -> dict:
    inputs = {name: np.repeat(values, size, axis=0) for name, values in request["inputs"].items()}
    return {**request, "inputs": inputs}


def _num_words(request: dict) -> int:
    return sum(len(b" ".join(values.flat).split()) for values in request["inputs"].values())


def _memory(name: str) -> int:
    """Return a memory figure of this process, in bytes.

    Args:
        name: VmRSS (current) or VmHWM (peak), from Linux' /proc/self/status. Without this file, the
            function returns the peak for either name.
    """
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = status.read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    print(measure(sys.argv[1]))
