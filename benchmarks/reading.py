"""Measures reading records: with TensorFlow, in NumPy, and in `fit`."""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import islice

import tensorflow as tf

from bert_keras import BertPretrainer
from bert_keras.data.objectives import masked_and_labelled
from bert_keras.data.record_file import FLOATS, common_schema, feature_type, record_files
from bert_keras.data.records import BLOCK, FILES_AT_ONCE, SHUFFLE_BUFFER, Records
from bert_keras.families import preset, presets
from bert_keras.training.losses import pretraining_losses
from bert_keras.training.optimizer import BertAdamW

BATCH_SIZE = 32
LEARNING_RATE = 1e-4
STEPS_TO_WARM_UP = 2


def with_tensorflow(files: list[str]) -> tf.data.Dataset:
    """Returns batches as version 0.2.0 read them."""
    spec = {
        name: tf.io.FixedLenFeature([n], tf.float32 if feature_type(name) == FLOATS else tf.int64)
        for name, n in common_schema(files).lengths.items()
    }
    names = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files), seed=1)
    records = names.interleave(
        tf.data.TFRecordDataset,
        cycle_length=min(len(files), FILES_AT_ONCE),
        block_length=BLOCK,
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    batches = records.shuffle(SHUFFLE_BUFFER, seed=1).repeat().batch(BATCH_SIZE)
    parsed = batches.map(lambda batch: tf.io.parse_example(batch, spec), tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.autotune.enabled = False
    return parsed.with_options(options).map(masked_and_labelled).prefetch(2)


def in_numpy(files: list[str]):
    return Records(files).batches(batch_size=BATCH_SIZE, seed=1, repeat=True)


def for_fit(files: list[str]) -> tf.data.Dataset:
    return in_numpy(files).for_fit()


def rates(batches, *, num_batches: int) -> tuple[float, float]:
    """Returns the records per second and per second of processor time."""
    iterator: Iterator = iter(batches)
    next(iterator)
    start, processor = time.perf_counter(), time.process_time()
    for _ in islice(iterator, num_batches):
        pass
    seconds = time.perf_counter() - start, time.process_time() - processor
    return num_batches * BATCH_SIZE / seconds[0], num_batches * BATCH_SIZE / seconds[1]


def fitted(model: BertPretrainer, batches: tf.data.Dataset, *, num_steps: int) -> float:
    """Returns the records a second of `fit`."""
    start = time.perf_counter()
    model.fit(batches, steps_per_epoch=num_steps, verbose=0)
    return num_steps * BATCH_SIZE / (time.perf_counter() - start)


def compare_readers(files: list[str], *, rounds: int, num_batches: int) -> float:
    """Prints the median rates of each reader and returns the rate of what `fit` takes."""
    readers: dict[str, Callable] = {
        "with TensorFlow (0.2.0)": with_tensorflow,
        "in NumPy": in_numpy,
        "in NumPy, as tf.data": for_fit,
    }
    measured: dict[str, list] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, reader in readers.items():
            measured[name].append(rates(reader(files), num_batches=num_batches))
    print(f"\n{'batches of ' + str(BATCH_SIZE):<30}{'records/s':>12}{'records/CPU s':>16}")
    for name, pairs in measured.items():
        wall, processor = map(statistics.median, zip(*pairs, strict=True))
        print(f"{name:<30}{wall:>12,.0f}{processor:>16,.0f}", flush=True)
    return wall


def compare_fit(files: list[str], name: str, *, supply: float, num_steps: int) -> None:
    model = BertPretrainer(preset(name))
    model.compile(optimizer=BertAdamW(LEARNING_RATE), loss=pretraining_losses())
    batches = for_fit(files)
    in_memory = batches.take(1).cache().repeat()
    fitted(model, in_memory, num_steps=STEPS_TO_WARM_UP)
    demand = fitted(model, in_memory, num_steps=num_steps)
    real = fitted(model, batches, num_steps=num_steps)
    print(f"{name:<30}{demand:>12,.1f}{real:>12,.1f}{supply / demand:>11,.0f}x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", help="a folder that `bert-tfrecords build` wrote")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--presets", nargs="*", default=[], choices=[*presets(), "all"])
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    files = record_files(arguments.records)
    supply = compare_readers(files, rounds=arguments.rounds, num_batches=arguments.batches)
    names = list(presets()) if "all" in arguments.presets else arguments.presets
    if names:
        title = "`fit`, records/s"
        print(f"\n{title:<30}{'from memory':>12}{'from files':>12}{'supply is':>12}")
    for name in names:
        compare_fit(files, name, supply=supply, num_steps=arguments.steps)


if __name__ == "__main__":
    main()
