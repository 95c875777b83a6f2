"""Measures reading records: parsed together or one by one, compared with the rate of `fit`."""

import argparse
import statistics
import time
from collections.abc import Callable

import tensorflow as tf

from bert_keras.data.records import common_schema, pretraining_dataset, record_files
from bert_keras.families import preset, presets
from bert_keras.models import BertPretrainer
from bert_keras.training.losses import pretraining_losses
from bert_keras.training.optimizer import BertAdamW

BATCH_SIZE = 32
LEARNING_RATE = 1e-4
STEPS_TO_WARM_UP = 2


def parsed_together(files: list[str]) -> tf.data.Dataset:
    spec = common_schema(files).parsing_spec()
    batches = tf.data.TFRecordDataset(files).repeat().batch(BATCH_SIZE)
    return batches.map(lambda records: tf.io.parse_example(records, spec), tf.data.AUTOTUNE)


def parsed_one_by_one(files: list[str]) -> tf.data.Dataset:
    spec = common_schema(files).parsing_spec()
    records = tf.data.TFRecordDataset(files).repeat()
    examples = records.map(lambda each: tf.io.parse_single_example(each, spec), tf.data.AUTOTUNE)
    return examples.batch(BATCH_SIZE)


def pipeline(files: list[str]) -> tf.data.Dataset:
    return pretraining_dataset(files, batch_size=BATCH_SIZE, seed=1, repeat=True)


def records_a_second(batches: tf.data.Dataset, *, num_batches: int) -> float:
    iterator = iter(batches)
    for _ in range(10):
        next(iterator)
    start = time.perf_counter()
    for _ in range(num_batches):
        next(iterator)
    return num_batches * BATCH_SIZE / (time.perf_counter() - start)


def fitted(model: BertPretrainer, batches: tf.data.Dataset, *, num_steps: int) -> float:
    """Returns the records a second of `fit`."""
    start = time.perf_counter()
    model.fit(batches, steps_per_epoch=num_steps, verbose=0)
    return num_steps * BATCH_SIZE / (time.perf_counter() - start)


def compare_readers(files: list[str], *, rounds: int, num_batches: int) -> float:
    """Prints the median rate of each reader and returns the rate of the pipeline."""
    readers: dict[str, Callable] = {
        "parsed one by one": parsed_one_by_one,
        "parsed together": parsed_together,
        "pipeline of `fit`, shuffled": pipeline,
    }
    rates: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, reader in readers.items():
            rates[name].append(records_a_second(reader(files), num_batches=num_batches))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(f"\n{'batches of ' + str(BATCH_SIZE):<30}{'records/s':>12}{'ratio':>8}")
    for name, rate in medians.items():
        print(f"{name:<30}{rate:>12,.0f}{rate / medians['parsed one by one']:>8.2f}", flush=True)
    return medians["pipeline of `fit`, shuffled"]


def compare_fit(files: list[str], name: str, *, supply: float, num_steps: int) -> None:
    model = BertPretrainer(preset(name))
    model.compile(optimizer=BertAdamW(LEARNING_RATE), loss=pretraining_losses())
    batches = pipeline(files)
    in_memory = batches.take(1).cache().repeat()
    fitted(model, in_memory, num_steps=STEPS_TO_WARM_UP)
    demand = fitted(model, in_memory, num_steps=num_steps)
    real = fitted(model, batches, num_steps=num_steps)
    print(f"{name:<30}{demand:>12,.1f}{real:>12,.1f}{supply / demand:>11,.0f}x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", help="a folder that `bert-tfrecords build` wrote")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=500)
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
