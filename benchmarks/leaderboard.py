"""Pretrains with a recipe and prints the row of the run for docs/benchmarks/pretraining.md.

Repeat the command to continue an interrupted run; the processor time of all calls is added. The
held-out records are scored with 15 % masked tokens, whatever the mask rate of the recipe is.

    python benchmarks/leaderboard.py laptop-10min --records records --output runs/laptop-10min
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
from pretraining import held_out

from bert_keras.data.objectives import MASKED_AND_LABELLED
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.runs.objectives import evaluate_pretrainer, named_objective
from bert_keras.text.vocab import Vocabulary


def pretrain(recipe: str, *, records: str, output: str) -> float:
    """Runs `bert-keras pretrain`; returns the processor hours of all calls for this output."""
    spent = Path(f"{output}.seconds")
    command = [sys.executable, "-m", "bert_keras.cli", "pretrain", recipe]
    try:
        subprocess.run([*command, "--records", records, "--output", output], check=True)
    finally:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        before = float(spent.read_text()) if spent.exists() else 0.0
        spent.write_text(f"{before + usage.ru_utime + usage.ru_stime}")
    return float(spent.read_text()) / 3600


def characters_per_token(batches, vocabulary: Vocabulary) -> float:
    """Returns the mean number of characters of the predicted tokens, without "##"."""
    lengths = np.array([len(token.removeprefix("##")) for token in vocabulary.tokens])
    characters = predictions = 0.0
    for _, targets, weights in batches:
        characters += (lengths[targets["masked_lm"]] * weights["masked_lm"]).numpy().sum()
        predictions += weights["masked_lm"].numpy().sum()
    return characters / predictions


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("--records", required=True, help="a folder of plain ids")
    parser.add_argument("--output", required=True, help="the folder of the run")
    parser.add_argument("--machine", default=f"{os.cpu_count()} CPU cores")
    arguments = parser.parse_args()
    hours = pretrain(arguments.recipe, records=arguments.records, output=arguments.output)
    metadata = json.loads(Path(arguments.output, "model", "bert_keras.json").read_text())
    has_labels = metadata["model"] == BertPretrainer.architecture.name
    kind = BertPretrainer if has_labels else BertMaskedLM
    model = kind.from_pretrained(Path(arguments.output, "model"))
    batches = held_out(arguments.records, objective=MASKED_AND_LABELLED)
    objective = named_objective("bert" if has_labels else "masked-lm")
    scores = evaluate_pretrainer(model, batches, objective=objective)
    loss = scores["held_out_masked_lm_loss"]
    vocabulary = Vocabulary.from_file(Path(arguments.records, "vocab.txt"))
    next_sentence = scores.get("held_out_next_sentence_accuracy")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    columns = (
        commit.stdout.strip(),
        f"`{arguments.recipe}`",
        arguments.machine,
        f"{hours:.2f}",
        f"{loss:.3f}",
        f"{loss / characters_per_token(batches, vocabulary):.3f}",
        "" if next_sentence is None else f"{100 * next_sentence:.1f} %",
    )
    print("| " + " | ".join(columns) + " |")


if __name__ == "__main__":
    main()
