"""Measures the speed and memory of an exported version, run with a TF1 session as in TF Serving.

`python -m bert_keras.serving.tf_serving.measurement FOLDER` runs the warm-up requests of the
version in FOLDER and prints the fields of a `Measured`.
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
from bert_keras.export.warmup import WARMUP, warmup_requests
from bert_keras.progress import progress
from bert_keras.serving.model import ServedModel, Tensors
from bert_keras.serving.rows import are_close

_GROWTH = 1.1  # a smaller factor between two rates (texts per second) counts as no growth
_LARGEST_BATCH = 128  # rows
_MAX_AT_ONCE = 8  # batches at the same time
_SECONDS = 0.3  # for which each request is repeated, at least three times
_RUN_SECONDS = 3600.0  # time limit of one run
_TOLERANCE = 1e-5  # absolute and relative, of outputs with and without padding

Ask = Callable[[dict], Tensors]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Measurement of a version. The texts have medium length unless stated otherwise."""

    num_cores: int  # CPU cores of the machine
    num_words: int  # words of a text
    num_longest: int  # words of the longest text
    warm: float  # seconds to load the model and run its warm-up requests
    seconds: dict[int, float]  # seconds of a batch, by its size
    longest: float  # seconds of the longest text alone
    rates: dict[int, float]  # texts per second, by the number of batches that run at the same time
    before: int  # bytes of memory before the model was loaded
    peak: int  # largest number of bytes of memory
    splits: bool  # whether the outputs stay the same if a batch is split and its outputs are joined
    pads: bool  # whether the outputs stay the same if TF Serving pads shorter token ids

    @property
    def batch_size(self) -> int:
        """The smallest batch size with nearly the highest rate of texts."""
        return first_best({size: size / seconds for size, seconds in self.seconds.items()})

    @property
    def num_at_once(self) -> int:
        """The smallest number of simultaneous batches with nearly the highest rate of texts."""
        return first_best(self.rates)


def measured(folder: str | os.PathLike) -> Measured:
    """Measure a version on the CPU in a new process; this takes some seconds.

    Args:
        folder: saved_models/NAME/VERSION.

    Raises:
        InputError: If the version has no warm-up requests.
        RuntimeError: If the process fails, with the end of its stderr.
    """
    if not (Path(folder) / WARMUP).is_file():
        raise InputError(f"{folder} holds no {WARMUP}, which it is measured with; export it anew")
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
    return Measured(**ast.literal_eval(done.stdout.splitlines()[-1]))


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
        The fields of a `Measured`.

    Raises:
        RuntimeError: If an output does not have one row for each row of its request, because TF
            Serving then cannot batch requests.
    """
    requests, before, num_cores = warmup_requests(folder), _memory("VmRSS"), os.cpu_count() or 1
    start = time.perf_counter()
    with contextlib.closing(ServedModel(Path(folder), seconds=_RUN_SECONDS)) as model:

        def ask(request: dict) -> Tensors:
            return model.predict(request["signature"], request["inputs"])

        for request in requests:
            _check_rows(request, ask(request))
        warm = time.perf_counter() - start
        alone = [r for r in requests if r["signature"] == "serving_default" and _rows(r) == 1]
        middling, longest = alone[len(alone) // 2], alone[-1]
        seconds = _seconds_by_size(ask, middling)
        size = first_best({size: size / seconds[size] for size in seconds})
        rates = {
            number: _rate(ask, _batch(middling, size), number)
            for number in (1, 2, 4, _MAX_AT_ONCE)
            if number <= num_cores
        }
        figures = {
            "num_cores": num_cores,
            "warm": warm,
            "num_words": _num_words(middling),
            "num_longest": _num_words(longest),
            "seconds": seconds,
            "longest": _seconds(ask, longest),
            "rates": rates,
            "splits": all(map(_has_fixed_rows, model.signatures.values())),
            "pads": all(_pads(ask, requests, name) for name in model.signatures),
        }
        ask(_batch(longest, size))
    return {**figures, "before": before, "peak": _memory("VmHWM")}


def filled_up(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Pad an array with its first value, as TF Serving pads requests to the same length.

    This follows tensorflow_serving/batching/batching_util.cc.

    Args:
        values: The array to pad.
        shape: The target shape; its first dimension is ignored.
    """
    widths = [(0, whole - own) for whole, own in zip(shape[1:], values.shape[1:], strict=True)]
    return np.pad(values, [(0, 0), *widths], constant_values=values.flat[0])


def _seconds_by_size(ask: Ask, request: dict) -> dict[int, float]:
    """Measure doubled batch sizes until the rate of texts no longer grows."""
    seconds, size, best = {}, 1, 0.0
    while size <= _LARGEST_BATCH:
        seconds[size] = _seconds(ask, _batch(request, size))
        if size / seconds[size] < _GROWTH * best:
            break
        size, best = 2 * size, size / seconds[size]
    return seconds


def _seconds(ask: Ask, request: dict) -> float:
    ask(request)
    taken: list[float] = []
    while len(taken) < 3 or sum(taken) < _SECONDS:
        start = time.perf_counter()
        ask(request)
        taken.append(time.perf_counter() - start)
    return median(taken)


def _rate(ask: Ask, request: dict, number: int) -> float:
    """Return the rows per second if `number` copies of the request run at the same time."""
    num_batches, start = 0, time.perf_counter()
    with ThreadPoolExecutor(number) as pool:
        while num_batches < 2 * number or time.perf_counter() - start < _SECONDS:
            num_batches += len([*pool.map(ask, number * [request])])
    return num_batches * _rows(request) / (time.perf_counter() - start)


def _pads(ask: Ask, requests: list[dict], signature: str) -> bool:
    """Whether the outputs of a short request stay the same if TF Serving pads it."""
    alone = [r for r in requests if r["signature"] == signature and _rows(r) == 1]
    if not alone:
        return True
    short, long = alone[0], alone[-1]
    filled = {n: filled_up(v, long["inputs"][n].shape) for n, v in short["inputs"].items()}
    return are_close(ask(short), ask({**short, "inputs": filled}), tolerance=_TOLERANCE)


def _check_rows(request: dict, outputs: Tensors) -> None:
    for name, values in outputs.items():
        if values.shape[:1] != (_rows(request),):
            raise RuntimeError(
                f"{request['signature']} answers {_rows(request)} rows with {name} of the shape "
                f"{values.shape}; TF Serving cannot batch it"
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
