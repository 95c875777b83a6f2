"""Measures how fast, and in how much memory, an exported version answers TF Serving's way.

`python -m bert_keras.serving.tf_serving.measurement FOLDER` is the program that measures: it sends
the version's own warm-up requests to it, prints an empty line a step, and the figures as JSON in
the last line.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
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

_GROWTH = 1.1  # of texts a second; smaller growth counts as none
_LARGEST_BATCH = 128
_MAX_AT_ONCE = 8
_SECONDS = 0.3  # of asking the same, and three times at least
_TOLERANCE = 1e-5

Ask = Callable[[dict], dict[str, np.ndarray]]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured of a version. Its texts are of medium length unless stated otherwise."""

    num_cores: int
    num_words: int  # of a text
    num_longest: int  # words of the longest text
    warm: float  # seconds until the model was loaded and had answered its warm-up requests
    seconds: dict[int, float]  # of a batch, by its size
    longest: float  # seconds of the longest text
    rates: dict[int, float]  # texts a second, by the number of batches computed at once
    before: int  # bytes of memory before the model was loaded
    peak: int  # bytes of memory at most
    splits: bool  # a batch may be cut and its answers joined: they stay the same
    pads: bool  # token ids of unlike lengths may be padded as TF Serving does it: the same

    @property
    def batch_size(self) -> int:
        """The size beyond which no more texts are answered a second."""
        return first_best({size: size / seconds for size, seconds in self.seconds.items()})

    @property
    def num_at_once(self) -> int:
        """The number of batches beyond which no more texts are answered a second."""
        return first_best(self.rates)


def measured(folder: str | os.PathLike) -> Measured:
    """Measure saved_models/NAME/VERSION, in some seconds, on the CPU, in a fresh process.

    Raises:
        InputError: for a version without warm-up requests.
        RuntimeError: with the end of the process's stderr, where it fails.
    """
    if not (Path(folder) / WARMUP).is_file():
        raise InputError(f"{folder} holds no {WARMUP}, which it is measured with; export it anew")
    lines = []
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as notes,
        progress(stage="measure", unit="steps") as bar,
        subprocess.Popen(
            [sys.executable, "-P", "-m", "bert_keras.serving.tf_serving.measurement", folder],
            stdout=subprocess.PIPE,
            stderr=notes,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "PYTHONUTF8": "1"},
        ) as process,
    ):
        for line in process.stdout or ():
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
    """The smallest number whose rate grows by less than `_GROWTH` with a larger one."""
    return min(number for number, rate in rates.items() if rate * _GROWTH > max(rates.values()))


def measure(folder: str | os.PathLike, *, step: Callable[[], None]) -> dict:
    """Return the fields of a `Measured`; calls `step` after each measurement.

    Raises:
        RuntimeError: where an answer has not a row for each row of its request, which TF Serving
            needs to batch them.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the ops that the graph holds

    v1 = tf.compat.v1
    requests, before, num_cores = warmup_requests(folder), _memory("VmRSS"), os.cpu_count() or 1
    start = time.perf_counter()
    with v1.Session(graph=v1.Graph()) as session:
        signatures = v1.saved_model.loader.load(session, ["serve"], os.fspath(folder)).signature_def
        ask = _asker(session, signatures)
        for request in requests:
            _check_rows(request, ask(request))
            step()
        warm = time.perf_counter() - start
        alone = [r for r in requests if r["signature"] == "serving_default" and _rows(r) == 1]
        middling, longest = alone[len(alone) // 2], alone[-1]
        seconds = _seconds_by_size(ask, middling, step=step)
        size = first_best({size: size / seconds[size] for size in seconds})
        rates = {
            number: _rate(ask, _batch(middling, size), number, step=step)
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
            "splits": all(map(_has_fixed_rows, signatures.values())),
            "pads": all(_pads(ask, requests, name) for name in signatures),
        }
        ask(_batch(longest, size))
    return {**figures, "before": before, "peak": _memory("VmHWM")}


def filled_up(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Pad requests of unlike lengths as TF Serving does to batch them: with the first value of each
    (tensorflow_serving/batching/batching_util.cc)."""
    widths = [(0, whole - own) for whole, own in zip(shape[1:], values.shape[1:], strict=True)]
    return np.pad(values, [(0, 0), *widths], constant_values=values.flat[0])


def _asker(session, signatures) -> Ask:
    asked = {}
    for name, signature in signatures.items():
        if signature.inputs:
            fetches = {output: info.name for output, info in signature.outputs.items()}
            feeds = [info.name for info in signature.inputs.values()]
            asked[name] = session.make_callable(fetches, feed_list=feeds)

    def ask(request: dict) -> dict[str, np.ndarray]:
        inputs = signatures[request["signature"]].inputs
        return asked[request["signature"]](*[request["inputs"][name] for name in inputs])

    return ask


def _seconds_by_size(ask: Ask, request: dict, *, step: Callable[[], None]) -> dict[int, float]:
    """Up to the size that no longer answers more texts a second."""
    seconds, size, best = {}, 1, 0.0
    while size <= _LARGEST_BATCH:
        seconds[size] = _seconds(ask, _batch(request, size))
        step()
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


def _rate(ask: Ask, request: dict, number: int, *, step: Callable[[], None]) -> float:
    """Rows a second with so many of the request at once."""
    num_batches, start = 0, time.perf_counter()
    with ThreadPoolExecutor(number) as pool:
        while num_batches < 2 * number or time.perf_counter() - start < _SECONDS:
            num_batches += len([*pool.map(ask, number * [request])])
    step()
    return num_batches * _rows(request) / (time.perf_counter() - start)


def _pads(ask: Ask, requests: list[dict], signature: str) -> bool:
    """Whether a short request gets the same outputs with the padding that it would get."""
    alone = [r for r in requests if r["signature"] == signature and _rows(r) == 1]
    if not alone:
        return True
    short, long = alone[0], alone[-1]
    filled = {n: filled_up(v, long["inputs"][n].shape) for n, v in short["inputs"].items()}
    given, found = ask(short), ask({**short, "inputs": filled})
    return all(_alike(given[name], found[name]) for name in given)


def _alike(given: np.ndarray, found: np.ndarray) -> bool:
    if given.shape != found.shape:
        return False
    if given.dtype.kind == "f":
        return np.allclose(given, found, rtol=_TOLERANCE, atol=_TOLERANCE)
    return bool((given == found).all())


def _check_rows(request: dict, outputs: dict[str, np.ndarray]) -> None:
    for name, values in outputs.items():
        if values.shape[:1] != (_rows(request),):
            raise RuntimeError(
                f"{request['signature']} answers {_rows(request)} rows with {name} of the shape "
                f"{values.shape}; TF Serving cannot batch it"
            )


def _has_fixed_rows(signature) -> bool:
    """Whether the answers of any two batches can be joined."""
    return all(d.size >= 0 for o in signature.outputs.values() for d in o.tensor_shape.dim[1:])


def _rows(request: dict) -> int:
    return len(next(iter(request["inputs"].values())))


def _batch(request: dict, size: int) -> dict:
    inputs = {name: np.repeat(values, size, axis=0) for name, values in request["inputs"].items()}
    return {**request, "inputs": inputs}


def _num_words(request: dict) -> int:
    return sum(len(b" ".join(values.flat).split()) for values in request["inputs"].values())


def _memory(name: str) -> int:
    """Bytes; where Linux does not tell them, the most that the process ever had."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = status.read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], step=lambda: print(flush=True))))
