"""Measures loading a checkpoint into a model, compared with reading the file and with KerasHub.

Every turn is a new process that loads twice. The first load measures the peak of the memory above
the memory before it, the second one the time. All file pages are in the cache of the system.
"""

import argparse
import contextlib
import gc
import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

NAMES = ("bert_keras, own folder", "bert_keras, Hugging Face folder", "transformers", "keras_hub")


def write_folders(size: str, folder: Path) -> None:
    import keras_hub

    from bert_keras import BertEncoder, preset

    encoder = BertEncoder(preset(size, activation="gelu_tanh"))
    encoder.build()
    with contextlib.redirect_stdout(io.StringIO()):
        for name, format in zip(NAMES, ("bert-keras", "huggingface"), strict=False):
            encoder.save_pretrained(folder / name, format=format)
        backbone = keras_hub.models.BertBackbone.from_preset(str(folder / NAMES[1]))
        backbone.save_to_preset(str(folder / NAMES[3]))


def loader(name: str, folder: Path):
    if name == "transformers":
        import transformers

        return lambda: transformers.AutoModel.from_pretrained(folder / NAMES[1])

    if name == "keras_hub":
        import keras_hub

        return lambda: keras_hub.models.BertBackbone.from_preset(str(folder / name))
    from bert_keras import BertEncoder

    return lambda: BertEncoder.from_pretrained(folder / name)


def one_turn(name: str, folder: Path) -> dict:
    load = loader(name, folder)
    path = max((folder / (NAMES[1] if name == "transformers" else name)).iterdir(), key=_size)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _kilobytes("VmHWM")
    with contextlib.redirect_stdout(io.StringIO()):
        load()
        memory = 1024 * (_kilobytes("VmHWM") - before) / path.stat().st_size
        gc.collect()
        read, seconds = _seconds(path.read_bytes), _seconds(load)
    return {"read": read, "load": seconds, "memory": memory}


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _size(path: Path) -> int:
    return path.stat().st_size


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="base")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.turn:
        print(json.dumps(one_turn(arguments.turn[0], Path(arguments.turn[1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_folders(arguments.size, Path(folder))
        turns = {name: [] for name in NAMES}
        for _ in range(arguments.rounds):
            for name in NAMES:
                command = [sys.executable, __file__, "--turn", name, folder]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                turns[name].append(json.loads(done.stdout.splitlines()[-1]))
    print(f"{arguments.size:<34}{'read':>9}{'load':>9}{'ratio':>8}{'extra memory / file':>22}")
    for name, results in turns.items():
        median = {name: statistics.median(turn[name] for turn in results) for name in results[0]}
        print(
            f"{name:<34}{median['read']:>7.3f} s{median['load']:>7.3f} s"
            f"{median['load'] / median['read']:>8.2f}{median['memory']:>22.2f}"
        )


if __name__ == "__main__":
    main()
