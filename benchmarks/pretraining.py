"""Measures what each change of a pretraining gives at equal processor time.

Each run trains in its own process on one thread, for as many steps as cost the processor time of
the reference. The cost of a step is measured in turns with the reference at the start of the run.
All runs are scored on the same masks of the same held-out records. A run appends a line of JSON to
RESULTS, and runs that have a line are not repeated.

    bert-tfrecords vocab wiki.txt books.txt --output vocab.txt --size 8000
    bert-tfrecords build wiki.txt books.txt --vocab vocab.txt --output records --held-out 0.02 \
        --objective full-sentences --max-predictions 0
    python benchmarks/pretraining.py records results.jsonl
    python benchmarks/pretraining.py records results.jsonl --only Muon --seed 2
    python benchmarks/pretraining.py records results.jsonl --table
"""

import argparse
import dataclasses
import datetime
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import keras
import tensorflow as tf
from keras import ops

from bert_keras.data.masking import Masker, MaskingPolicy
from bert_keras.data.objectives import MASKED, DynamicMasking, PretrainingExamples
from bert_keras.data.records import Records
from bert_keras.families import FAMILIES, presets
from bert_keras.runs.pretrain import build_pretrainer
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.pretraining_tasks import evaluate_pretrainer
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.training.losses import MaskedLMLoss

MODERN = dataclasses.replace(presets()["modern-tiny"], num_heads=4)
SIZES = {
    "modern, 4 heads": MODERN,
    "modern, 4 layers": dataclasses.replace(MODERN, num_layers=4),
    "modern, 256": dataclasses.replace(MODERN, hidden_size=256, intermediate_size=1024),
    "modern, gated": dataclasses.replace(MODERN, is_gated=True, intermediate_size=344),
}
FAMILIES["bert"].presets.update(SIZES)
REFERENCE = PretrainRecipe(
    size="modern, 4 heads",
    batch_size=32,
    num_steps=400,
    num_warmup_steps=40,
    learning_rate=3e-3,
    optimizer="muon",
    initializer_stddev=128**-0.5,
    dropout_rate=0.0,
    objective="masked-lm",
)
ADAM = {"bias_correction": True, "epsilon": 1e-8}
BERT = {"size": "L-2_H-128_A-4", "initializer_stddev": 0.02, "learning_rate": 2e-3}
# BERT's architecture with a better optimizer, schedule and standard deviation.
BERT_ADAM = {
    "size": "L-2_H-128_A-4",
    "learning_rate": 2e-3,
    "schedule": "warmup-stable-decay",
    "optimizer": "adamw",
    "adam": ADAM,
}
# Changes of the recipe. "phases" has the shares of the run and further changes for each.
VARIANTS: dict[str, dict] = {
    "reference": {},
    "AdamW": {"optimizer": "adamw"},
    "AdamW with bias correction and epsilon 1e-8": {"optimizer": "adamw", "adam": ADAM},
    "BERT as published": BERT | {"optimizer": "adamw"},
    "BERT as published, with Muon": BERT,
    "BERT, AdamW with bias correction": BERT_ADAM,
    "BERT, local attention, AdamW with bias correction": BERT_ADAM
    | {"initial_weights": "local-attention"},
    "BERT, local attention, Muon": BERT
    | {
        "initializer_stddev": 128**-0.5,
        "learning_rate": 1.5e-3,
        "schedule": "warmup-stable-decay",
        "initial_weights": "local-attention",
    },
    "bias correction and epsilon 1e-8": {"adam": ADAM},
    "learning rate 6e-3": {"learning_rate": 6e-3},
    "learning rate 1.2e-2": {"learning_rate": 1.2e-2},
    "beta_2 0.98": {"beta_2": 0.98},
    "beta_2 0.95": {"beta_2": 0.95},
    "z-loss 1e-4": {"z_loss": 1e-4},
    "warmup-stable-decay": {"schedule": "warmup-stable-decay"},
    "warmup-stable-decay, learning rate 6e-3": {
        "schedule": "warmup-stable-decay",
        "learning_rate": 6e-3,
    },
    "warmup-stable-decay, AdamW with bias correction and epsilon 1e-8": {
        "schedule": "warmup-stable-decay",
        "optimizer": "adamw",
        "adam": ADAM,
    },
    "warmup-stable-decay, bias correction and epsilon 1e-8": {
        "schedule": "warmup-stable-decay",
        "adam": ADAM,
    },
    "batch 16": {"batch_size": 16},
    "batch 64": {"batch_size": 64},
    "batch 16, then 64": {"phases": [(0.67, {"batch_size": 16}), (0.33, {"batch_size": 64})]},
    "mask rate 0.3": {"mask_rate": 0.3},
    "mask rate 0.3, then 0.15": {"phases": [(0.5, {"mask_rate": 0.3}), (0.5, {})]},
    "dropout 0.1": {"dropout_rate": 0.1},
    "64 tokens, then 128": {"phases": [(0.67, {"length": 64, "batch_size": 64}), (0.33, {})]},
    "bfloat16": {"policy": "mixed_bfloat16"},
    "2 heads": {"size": "modern-tiny"},
    "4 layers": {"size": "modern, 4 layers"},
    "hidden size 256": {"size": "modern, 256"},
    "hidden size 256, bfloat16": {"size": "modern, 256", "policy": "mixed_bfloat16"},
    "gated feed-forward": {"size": "modern, gated"},
}
TURNS, TURN_STEPS, NUM_SCORES = 4, 8, 3
# Fields that do not change the cost of a step.
FREE = {"learning_rate", "initializer_stddev", "initial_weights", "beta_2", "schedule", "adam"}


@keras.saving.register_keras_serializable(package="benchmarks")
class ZLoss(MaskedLMLoss):
    """The masked-LM loss plus a weight times log(sum(exp(logits)))^2 (Chowdhery et al. 2022)."""

    z_weight = 0.0

    def call(self, y_true, y_pred):
        log_z = ops.logsumexp(ops.cast(y_pred, "float32"), axis=-1)
        return super().call(y_true, y_pred) + self.z_weight * ops.square(log_z)


class Training:
    """A model with its optimizer, and the batches of one phase after another."""

    def __init__(self, changes: dict, *, records: str, num_steps: int, seed: int):
        changes = dict(changes)
        self.phases = changes.pop("phases", [(1.0, {})])
        keras.config.set_dtype_policy(changes.pop("policy", "float32"))
        z_weight = changes.pop("z_loss", 0.0)
        adam = changes.pop("adam", {})
        changes |= {"num_steps": num_steps, "num_warmup_steps": num_steps // 10, "seed": seed}
        self.recipe, self.records = dataclasses.replace(REFERENCE, **changes), records
        self.model = build_pretrainer(self.inputs(self.recipe))
        optimizer = self.model.optimizer
        for name, value in adam.items():
            setattr(optimizer, name, value)
        if z_weight:
            loss = ZLoss()
            loss.z_weight = z_weight
            metrics = self.inputs(self.recipe).task.metrics()
            self.model.compile(optimizer, loss={"masked_lm": loss}, weighted_metrics=metrics)

    def inputs(self, recipe: PretrainRecipe, length: int = 128) -> PretrainInputs:
        folder = self.records if length == 128 else f"{self.records}-{length}"
        return PretrainInputs(recipe, records=folder)

    def batches(self, phase: int):
        """Returns an iterator over the training batches of a phase."""
        changes = dict(self.phases[phase][1])
        length = changes.pop("length", 128)
        recipe = dataclasses.replace(self.recipe, **changes, seed=self.recipe.seed + 100 * phase)
        return iter(self.inputs(recipe, length).training_batches().for_fit())

    def fit(self, batches, steps: int) -> float:
        """Takes steps; returns their processor seconds."""
        self.model.make_train_function()
        start = time.process_time()
        for _ in range(steps):
            self.model.train_function(batches)
        return time.process_time() - start


def relative_cost(changes: dict, **options) -> float:
    """Returns the processor time of a step of a variant, in steps of the reference."""
    sides = [Training(each, num_steps=1000, **options) for each in ({}, changes)]
    costs = []
    for phase, (share, _) in enumerate(sides[1].phases):
        batches = [side.batches(min(phase, len(side.phases) - 1)) for side in sides]
        ratios = []
        for turn in range(TURNS + 1):
            pair = [side.fit(data, TURN_STEPS) for side, data in zip(sides, batches, strict=True)]
            ratios += [pair[1] / pair[0]] if turn else []  # the first turn traces
        costs.append(share * statistics.median(ratios))
    return sum(costs)


def held_out(records: str, *, objective: PretrainingExamples = MASKED):
    """Returns the held-out batches with one set of masks for all variants."""
    inputs = PretrainInputs(REFERENCE, records=records)
    masker = Masker(MaskingPolicy(), inputs.vocabulary)
    return Records(inputs.held_out_files).batches(
        batch_size=128,
        drop_remainder=False,
        masking=DynamicMasking(masker, seed=1),
        objective=objective,
    )


def run(name: str, *, records: str, num_steps: int, seed: int) -> dict:
    """Trains a variant; returns the line of its results."""
    changes, options = VARIANTS[name], {"records": records, "seed": seed}
    cost = 1.0 if FREE.issuperset(changes) else relative_cost(changes, **options)
    steps = round(num_steps / cost)
    training = Training(changes, num_steps=steps, **options)
    data, task = held_out(records), training.inputs(training.recipe).task
    scores, seconds, done = [], 0.0, 0
    counts = [max(1, round(NUM_SCORES * share)) for share, _ in training.phases]
    for phase, count in enumerate(counts):
        batches = training.batches(phase)
        for _ in range(count):
            last = steps * (len(scores) + 1) // sum(counts)
            seconds += training.fit(batches, last - done)
            done = last
            values = evaluate_pretrainer(training.model, data, task=task)
            scores.append([done, round(seconds, 1), round(values["held_out_masked_lm_loss"], 4)])
    return {
        "name": name,
        "seed": seed,
        "reference_steps": num_steps,
        "steps": steps,
        "relative_cost": round(cost, 3),
        "seconds": round(seconds, 1),
        "loss": scores[-1][-1],
        "scores": scores,
        "skipped": int(training.model.optimizer.skipped),
        "date": f"{datetime.date.today()}",
    }


def print_table(lines: list[dict]) -> None:
    """Prints the mean loss over seeds, as a table in Markdown."""
    print("| change | cost of a step | steps | held-out loss | seeds |\n|---|---|---|---|---|")
    for key in dict.fromkeys((line["name"], line["reference_steps"]) for line in lines):
        same = [line for line in lines if (line["name"], line["reference_steps"]) == key]
        cost = statistics.mean(line["relative_cost"] for line in same)
        steps = statistics.mean(line["steps"] for line in same)
        losses = [line["loss"] for line in same]
        print(
            f"| {key[0]} | {cost:.2f} | {steps:,.0f} | {statistics.mean(losses):.3f} "
            f"| {len(losses)} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", help="a folder of plain ids; RECORDS-64 has rows of 64 tokens")
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", nargs="+", default=[*VARIANTS], choices=VARIANTS)
    parser.add_argument("--steps", type=int, default=400, help="of the reference")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print the results and end")
    parser.add_argument("--one", choices=VARIANTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    options = {"num_steps": arguments.steps, "seed": arguments.seed}
    if arguments.one:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        line = run(arguments.one, records=arguments.records, **options)
        with arguments.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return
    lines = []
    if arguments.results.exists():
        lines = [json.loads(line) for line in arguments.results.read_text().splitlines()]
    if arguments.table:
        print_table(lines)
        return
    done = {(line["name"], line["reference_steps"], line["seed"]) for line in lines}
    for name in arguments.only:
        if (name, arguments.steps, arguments.seed) not in done:
            print(name, flush=True)
            subprocess.run([sys.executable, *sys.argv, "--one", name], check=True)


if __name__ == "__main__":
    main()
