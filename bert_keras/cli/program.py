"""Defines the program `bert-keras`, to which each command belongs, and the options of several."""

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from bert_keras.arguments import Program, checked, one_of, option
from bert_keras.checkpoints.formats import detect_format
from bert_keras.checkpoints.hub import locate
from bert_keras.distribution import PRECISIONS, STRATEGIES
from bert_keras.downstream.catalog import DESCRIPTIONS, ZERO_SHOT
from bert_keras.errors import InputError, print_field, printable, require
from bert_keras.files import check_output

PROGRAM = Program(
    "bert-keras",
    description="Pretrain BERT on records, fine-tune it, export it and serve it.",
    epilog="bert-tfrecords writes the records. `bert-keras demo` runs every stage once, and\n"
    "`bert-keras list tasks` lists the tasks to fine-tune on.",
)
command, command_parser, main = PROGRAM.command, PROGRAM.parser, PROGRAM.main


def _check_model(name: str) -> None:
    if name in DESCRIPTIONS | ZERO_SHOT and not os.path.exists(name):
        raise InputError(f"{name!r} is a task; expected a model, and --task {name}")


# Types of arguments
FILE = checked(check_output)
PAGE = checked(partial(check_output, suffix=".html"))
TASK_NAME = one_of(lambda: DESCRIPTIONS | ZERO_SHOT, what="task")

MODEL_HELP = "OUTPUT/model of a run, or a checkpoint (bert-keras list models)"
MODEL = option("model", "MODEL", MODEL_HELP, type=checked(_check_model))
TASK_HELP = "name of a task, see bert-keras list tasks"
STRATEGY = "auto for all GPUs, one, mirrored, multiworker or tpu"
DEVICES = (
    option("--strategy", "NAME", STRATEGY, "auto", choices=(*STRATEGIES,)),
    option("--precision", "NAME", ", ".join(PRECISIONS), "auto", choices=PRECISIONS),
)


def values(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Returns the values of options as keyword arguments."""
    return {name: getattr(options, name) for name in names}


def print_table(scores: dict) -> None:
    """Prints a line for each score; the three scores of a type of entities share a line."""
    from bert_keras.reports.evaluation import accuracy_error

    error = accuracy_error(scores, num_examples=scores.get("dev_rows", sys.maxsize))
    width = max([34, *(len(name) + 1 for name in scores)])
    for name, value in scores.items():
        entity_type, _, score = name.rpartition(" ")
        if entity_type and score in ("precision", "recall"):
            continue
        text = f"{value:>12,.4f}" if isinstance(value, float) else f"{value:>12,}"
        if entity_type and score == "f1":
            precision, recall = (scores[f"{entity_type} {n}"] for n in ("precision", "recall"))
            text += f"   precision {precision:.4f}   recall {recall:.4f}"
        if name == "accuracy" and error is not None:
            text += f" ± {error:.4f}"  # the standard error
        print(f"{printable(name):<{width}}{text}")


def start_keras(
    options: argparse.Namespace, *, backends: Sequence[str] = ("tensorflow", "jax")
) -> None:
    """Finds the checkpoints of a command, then imports TensorFlow if it is Keras' backend."""
    for name in {"model", "pretrained", "teacher"} & set(vars(options)):
        if path := getattr(options, name):
            detect_format(locate(path))
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if backend not in backends:
        raise InputError(f"KERAS_BACKEND is {backend}; set KERAS_BACKEND={' or '.join(backends)}")
    if backend == "jax":  # a second run need not compile the same programs
        folder = os.path.join(os.path.expanduser("~"), ".cache", "bert_keras", "jax")
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", folder)
        os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(2**30))  # bytes
    if backend == "tensorflow":
        require("tensorflow", what="Keras without KERAS_BACKEND=jax")
        with _silent_stderr():
            tensorflow = importlib.import_module("tensorflow")
        tensorflow.get_logger().setLevel("ERROR")
        # Sums on CPUs in one order. On GPUs, TensorFlow would reject some operations, Keras XLA.
        if not tensorflow.config.list_physical_devices("GPU"):
            os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discards stderr, because no setting silences TensorFlow's C++ code during the import."""
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


@contextlib.contextmanager
def devices(
    options: argparse.Namespace, *, hidden_size: int = 0, trains_several: bool = False
) -> Iterator[None]:
    """Sets the dtype policy and enters the strategy's scope, as the options `DEVICES` state."""
    import keras

    from bert_keras.distribution import strategy

    if trains_several:
        strategy.check_one_machine()  # the strategy would wait for the other workers
    scope = strategy.strategy_scope(options.strategy)
    policy = strategy.named_policy(options.precision, hidden_size=hidden_size)
    keras.config.set_dtype_policy(policy)
    if options.precision == "auto" and policy != "float32":
        print_field("precision", f"{policy}; --precision float32 turns it off")
    try:
        with scope:
            if (count := strategy.num_devices()) > 1:
                print_field("replicas", str(count))
            yield
    except KeyboardInterrupt as interrupt:
        interrupt.args = interrupt.args or ("the same command continues the run",)
        raise
