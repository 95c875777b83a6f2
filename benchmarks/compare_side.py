"""Runs the works of compare.py, with the bert_keras that PYTHONPATH names, for one size.

Each line of the input names a work. It is run once, and its seconds are printed. The models have
random weights. The folder in which the process starts holds corpus.txt.
"""

import contextlib
import functools
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf
from serving_load import Server, closed_loop
from train_batches import Work, synthetic_batches
from train_keras import ours

from bert_keras import BertClassifier, BertEncoder, Vocabulary, WordPieceTokenizer, preset
from bert_keras.serving.client import Client

PREDICTIONS, STEPS, CALLS = 20, 3, 5
CLIENTS, LOAD_SECONDS = 8, 2.0
NUM_TEXTS = 128
SEED = 1


def command(module: str, *arguments: object) -> None:
    """Runs a command line with the code of this side."""
    texts = map(str, arguments)
    subprocess.run([sys.executable, "-m", module, *texts], check=True, stdout=sys.stderr)


@functools.cache
def vocabulary() -> Path:
    command("tfrecords_tools.cli", "vocab", "corpus.txt", "--output", "vocab.txt", "--size", 8_000)
    return Path("vocab.txt")


def records() -> Callable[[], object]:
    """Builds records with the whole command `bert-tfrecords build`, its start included."""

    def run() -> None:
        shutil.rmtree("records", ignore_errors=True)
        options = ("--vocab", vocabulary(), "--output", "records")
        command("tfrecords_tools.cli", "build", "corpus.txt", *options)

    return run


def forward(size: str, rows: int) -> Callable[[], object]:
    """Calls the encoder several times."""
    model = BertEncoder(preset(size))
    model.build()
    function = tf.function(lambda inputs: model(inputs)["pooled_output"])
    inputs, _, _ = synthetic_batches(model.config, rows, 128, PREDICTIONS)[0]
    tensors = {name: tf.constant(array) for name, array in inputs.items()}
    return lambda: [function(tensors).numpy() for _ in range(CALLS)]


def train_step(size: str) -> Callable[[], object]:
    """Takes steps with `fit`."""
    config = preset(size)
    batches = synthetic_batches(config, 8, 128, PREDICTIONS)
    return ours(Work(config=config, batches=batches, steps=STEPS))


def one_text_each(running: Server, texts: list[str]) -> float:
    """Returns the seconds of a request of several clients that send one text a request."""
    load = closed_loop(running, texts, num_clients=CLIENTS, seconds=LOAD_SECONDS)
    if load.errors or not load.times:
        raise SystemExit(f"{load.errors} requests failed")
    return load.seconds / len(load.times)


def texts_together(running: Server, texts: list[str]) -> float:
    """Returns the seconds of a text of one client that sends 32 texts a request."""
    start, texts = time.perf_counter(), texts[:NUM_TEXTS]
    with Client(running.url) as client:
        client.predict(texts)
    return (time.perf_counter() - start) / len(texts)


@contextlib.contextmanager
def server(size: str, load: Callable[[Server, list[str]], float]):
    """Serves a classifier; yields a function that runs a load once and returns its seconds."""
    folder = Path(f"served-{load.__name__}")
    model = BertClassifier(preset(size), num_labels=2)
    tokenizer = WordPieceTokenizer(Vocabulary.from_file(vocabulary()))
    model.export(folder / "1", tokenizer=tokenizer, labels=("0", "1"), max_length=128)
    texts = [line for line in Path("corpus.txt").read_text("utf-8").splitlines() if line][:1_000]
    serve = [sys.executable, "-m", "bert_keras.cli", "serve", str(folder), "--port", "0"]
    with Server(serve) as running:
        yield lambda: load(running, texts)


def main() -> None:
    size = sys.argv[1]
    keras.utils.set_random_seed(SEED)
    builders = {
        "records": records,
        "forward 1x128": lambda: forward(size, 1),
        "forward 8x128": lambda: forward(size, 8),
        "train step 8x128": lambda: train_step(size),
        "server, 8 clients": lambda: stack.enter_context(server(size, one_text_each)),
        "server, 32 texts": lambda: stack.enter_context(server(size, texts_together)),
    }
    works: dict[str, Callable[[], object]] = {}
    results, sys.stdout = sys.stdout, sys.stderr  # messages of the works are not results
    with contextlib.ExitStack() as stack:
        for line in sys.stdin:
            name = line.strip()
            if name not in works:
                works[name] = builders[name]()
            start = time.perf_counter()
            value = works[name]()
            seconds = value if isinstance(value, float) else time.perf_counter() - start
            print(seconds, file=results, flush=True)


if __name__ == "__main__":
    main()
