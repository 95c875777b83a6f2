"""Pretrains with a recipe and prints the row of the run for docs/benchmarks/archive/pretraining.md.

Repeat the command to continue an interrupted run; the processor time of all calls is added. The
held-out records are scored with 15 % masked tokens, whatever the mask rate of the recipe is. With
--glue, the model and the same encoder with random weights are fine-tuned on SST-2 and MNLI; with
--blimp, the model scores minimal pairs. With several --seeds, each seed has its row, and the last
row has the means.

    python benchmarks/leaderboard.py laptop-10min --records records --output runs/laptop-10min
    python benchmarks/leaderboard.py laptop-10min --records records --output runs/laptop-10min \
        --glue glue --seeds 1 2 3
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
from pretraining import held_out

from bert_keras.data.objectives import MASKED_AND_LABELLED
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.runs.evaluate import evaluate
from bert_keras.runs.pretraining_tasks import evaluate_pretrainer, pretraining_task
from bert_keras.text.vocab import Vocabulary

TASKS = {"sst2": "SST-2", "mnli": "MNLI"}  # the folder of each task
# The columns after the machine, with the number of values of each.
COLUMNS = (
    *(("{:.2f}", 1), ("{:.3f}", 1), ("{:.3f}", 1), ("{:.1f} %", 1)),
    *(("{:.1f} / {:.1f}", 2) for _ in TASKS),
    ("{:.1f}", 1),
)


def bert_keras(*arguments: str) -> None:
    """Runs the command line `bert-keras`."""
    subprocess.run([sys.executable, "-m", "bert_keras.cli", *arguments], check=True)


def children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def pretrain(arguments: argparse.Namespace, *, output: str, seed: int) -> float | None:
    """Runs `bert-keras pretrain`; returns the processor hours of the calls here that trained."""
    spent = Path(f"{output}.seconds")
    is_finished = Path(output, "scores.json").exists()
    start = children_seconds()
    try:
        folders = ("--records", arguments.records, "--output", output)
        changes = ("--set", *arguments.changes, f"seed={seed}")
        bert_keras("pretrain", arguments.recipe, *folders, *changes)
    finally:
        if not is_finished:
            before = float(spent.read_text()) if spent.exists() else 0.0
            spent.write_text(f"{before + children_seconds() - start}")
    return float(spent.read_text()) / 3600 if spent.exists() else None


def finetune(
    task: str, weights: str, arguments: argparse.Namespace, *, output: str, seed: int
) -> float:
    """Runs `bert-keras finetune`, which does not repeat a finished run; returns the accuracy."""
    folder, data = f"{output}-{task}-{weights}", f"{arguments.glue}/{TASKS[task]}"
    bert_keras(
        *("finetune", task, "--data", data, "--from", f"{output}/model", "--output", folder),
        *("--recipe", arguments.finetuning),
        *("--set", f"initial_weights={weights}", f"seed={seed}"),
    )
    return 100 * json.loads(Path(folder, "scores.json").read_text())["accuracy"]


def characters_per_token(batches, vocabulary: Vocabulary) -> float:
    """Returns the mean number of characters of the predicted tokens, without "##"."""
    lengths = np.array([len(token.removeprefix("##")) for token in vocabulary.tokens])
    characters = predictions = 0.0
    for _, targets, weights in batches:
        characters += (lengths[targets["masked_lm"]] * weights["masked_lm"]).sum()
        predictions += weights["masked_lm"].sum()
    return characters / predictions


def held_out_scores(model: Path, records: str) -> list[float | None]:
    """Returns masked-LM loss, nats per character and next-sentence accuracy (if trained)."""
    metadata = json.loads((model / "bert_keras.json").read_text())
    has_labels = metadata["model"] == BertPretrainer.kind.model
    kind = BertPretrainer if has_labels else BertMaskedLM
    batches = held_out(records, objective=MASKED_AND_LABELLED)
    task = pretraining_task("bert" if has_labels else "masked-lm")
    scores = evaluate_pretrainer(kind.from_pretrained(model), batches, task=task)
    loss = scores["held_out_masked_lm_loss"]
    vocabulary = Vocabulary.from_file(Path(records, "vocab.txt"))
    accuracy = 100 * scores["held_out_next_sentence_accuracy"] if has_labels else None
    return [loss, loss / characters_per_token(batches, vocabulary), accuracy]


def measure(arguments: argparse.Namespace, seed: int) -> list[float | None]:
    """Trains and scores one seed; returns the values of `COLUMNS`, None for missing values."""
    output = arguments.output if seed == 1 else f"{arguments.output}-seed-{seed}"
    hours = pretrain(arguments, output=output, seed=seed)
    values = [hours, *held_out_scores(Path(output, "model"), arguments.records)]
    for task in TASKS:
        for weights in ("pretrained", "random"):
            options = {"output": output, "seed": seed}
            values.append(finetune(task, weights, arguments, **options) if arguments.glue else None)
    blimp = None
    if arguments.blimp:
        scores = evaluate(f"{output}/model", task="blimp", data=arguments.blimp)
        blimp = 100 * scores["accuracy"]
    return [*values, blimp]


def print_row(arguments: argparse.Namespace, seed: str, values: list[float | None]) -> None:
    """Prints a row of the table, with a dash for missing values."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    recipe = " ".join((f"`{arguments.recipe}`", *arguments.changes))
    cells = [commit.stdout.strip(), recipe, arguments.machine, seed]
    rest = iter(values)
    for form, count in COLUMNS:
        numbers = [next(rest) for _ in range(count)]
        cells.append("–" if None in numbers else form.format(*numbers))
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("--records", required=True, help="a folder of plain ids")
    parser.add_argument("--output", required=True, help="the folder of the run of seed 1")
    parser.add_argument(
        "--set", dest="changes", metavar="FIELD=VALUE", nargs="+", default=[], help="of the recipe"
    )
    parser.add_argument("--glue", help="a folder with SST-2 and MNLI")
    parser.add_argument("--blimp", help="a folder with the .jsonl files of BLiMP")
    parser.add_argument("--finetuning", default="laptop", help="the recipe for both tasks")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--machine", default=f"{os.cpu_count()} CPU cores")
    arguments = parser.parse_args()
    rows = []
    for seed in arguments.seeds:
        rows.append(measure(arguments, seed))
        print_row(arguments, str(seed), rows[-1])
    if len(rows) > 1:
        means = [
            None if None in column else statistics.mean(column)
            for column in zip(*rows, strict=True)
        ]
        print_row(arguments, f"mean of {len(rows)}", means)


if __name__ == "__main__":
    main()
