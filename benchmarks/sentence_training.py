"""Compares the training of sentence embeddings with sentence-transformers.

Both sides start from the same weights and train on the same batches of token ids in the same order
with AdamW at the same rates, without dropout. `stsb` trains on the pairs of STS-B with CoSENT, and
`mnli` on triplets of MNLI (premise, entailed and contradicted hypothesis) with in-batch negatives.
Both are scored by Spearman's correlation on the dev pairs of STS-B. The sides take turns on one
thread each. The first turn is not timed, because TensorFlow traces the step in it.

    python benchmarks/sentence_training.py stsb --data GLUE --from all-MiniLM-L6-v2
    python benchmarks/sentence_training.py mnli --data GLUE --from all-MiniLM-L6-v2 --steps 40
    python benchmarks/sentence_training.py stsb --data GLUE --from all-MiniLM-L6-v2 \
        --set initial_weights=random learning_rate=1e-4
"""

import argparse
import contextlib
import dataclasses
import io
import os
import tempfile
import time
from itertools import chain, islice
from pathlib import Path

os.environ |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}


import numpy as np
import sentence_transformers
import torch
import transformers
from sentence_transformers.sentence_transformer import losses, modules
from train_torch import adamw

from bert_keras import LinearWarmupDecay
from bert_keras.data.batches import training_batches
from bert_keras.data.encoded import Encoded
from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.predictor import Predictor
from bert_keras.downstream.table import table_rows
from bert_keras.runs.task_run import TaskRun

TASKS = {"stsb": "sentence-pairs", "mnli": "retrieval"}
SETTINGS = ("dropout_rate=0", "num_epochs=1")
LOSSES = {"stsb": losses.CoSENTLoss, "mnli": losses.MultipleNegativesRankingLoss}


@dataclasses.dataclass(frozen=True)
class Turn(Encoded):
    """Some batches of rows in a given order."""

    rows: Encoded
    batches: list[np.ndarray]

    def batch(self, rows):
        return self.rows.batch(rows)

    def shuffled_batches(self, **_):
        return iter(self.batches)


def write_triplets(sources: list[Path], path: Path) -> None:
    """Writes premises with an entailed and a contradicted hypothesis to a table."""
    hypotheses: dict[str, dict[str, str]] = {}
    columns = ("sentence1", "sentence2", "gold_label")
    for _, row in chain.from_iterable(table_rows(each, columns=columns) for each in sources):
        hypotheses.setdefault(row["sentence1"], {})[row["gold_label"]] = row["sentence2"]
    triplets = [
        (premise, each["entailment"], each["contradiction"])
        for premise, each in hypotheses.items()
        if {"entailment", "contradiction"} <= {*each} and all([premise, *each.values()])
    ]
    header = ("query", "positive", "negative")
    path.write_text("".join("\t".join(row) + "\n" for row in [header, *triplets]), "utf-8")


def prepared(arguments, folder: Path) -> TaskRun:
    task, files = named_task(TASKS[arguments.task]), None
    if arguments.task == "stsb":
        files = task.files(arguments.data / "STS-B")
    else:
        task = dataclasses.replace(task, negative_columns=("negative",), max_length=75)
        files = dict.fromkeys(("train", "dev"), folder / "triplets.tsv")
        names = ("train.tsv", "dev_matched.tsv")  # the scores are on STS-B
        write_triplets([arguments.data / "MNLI" / name for name in names], files["train"])
    changes = [*SETTINGS, *arguments.changes]
    with contextlib.redirect_stdout(io.StringIO()):
        run = TaskRun(
            task,
            pretrained=arguments.start,
            data=files,
            **dict(change.split("=", 1) for change in changes),
        )
    return run


class Peer:
    """sentence-transformers with the weights of our model."""

    def __init__(self, run: TaskRun, folder: Path, *, loss: type, num_steps: int):
        run.model.encoder.save_pretrained(
            folder / "encoder", format="huggingface", tokenizer=run.checkpoint.tokenizer
        )
        encoder = modules.Transformer(str(folder / "encoder"))
        pooling = modules.Pooling(run.model.config.hidden_size, "mean")
        parts = [encoder, pooling, modules.Normalize()]
        self.model = sentence_transformers.SentenceTransformer(modules=parts, device="cpu")
        self.loss, recipe = loss(self.model), run.recipe
        self.optimizer = adamw(
            self.model, recipe.learning_rate, weight_decay=recipe.weight_decay_rate, fused=True
        )
        warmup = int(recipe.warmup_ratio * num_steps)
        rate = LinearWarmupDecay(1.0, num_steps=num_steps, num_warmup_steps=warmup)
        rates = [float(rate(step)) for step in range(num_steps + 1)]
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, rates.__getitem__)

    def train(self, turn: Turn) -> None:
        self.model.train()
        for rows in turn.batches:
            inputs, targets = turn.batch(rows)
            loss = self.loss(self.features(inputs), torch.from_numpy(targets))
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()

    def features(self, inputs: dict) -> list[dict]:
        """Returns the inputs of each column, padded to the longest text of the column."""
        columns = []
        for column in range(inputs["input_ids"].shape[1]):
            length = int(inputs["input_mask"][:, column].sum(axis=1).max())
            names = {"input_ids": "input_ids", "input_mask": "attention_mask"}
            columns.append(
                {
                    theirs: torch.from_numpy(inputs[ours][:, column, :length]).long()
                    for ours, theirs in names.items()
                }
            )
        return columns

    def vectors(self, encoded: Encoded) -> np.ndarray:
        self.model.eval()
        with torch.inference_mode():
            parts = [
                torch.stack(
                    [self.model(each)["sentence_embedding"] for each in self.features(inputs)], 1
                )
                for inputs, _ in map(encoded.batch, np.array_split(np.arange(len(encoded)), 40))
            ]
        return torch.cat(parts).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=[*TASKS])
    parser.add_argument("--data", required=True, type=Path, metavar="GLUE")
    parser.add_argument("--from", required=True, dest="start", metavar="DIR")
    parser.add_argument("--steps", type=int, help="steps of the run (default: one epoch)")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--set", nargs="+", default=[], dest="changes", metavar="FIELD=VALUE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        compare(arguments, Path(name))


def compare(arguments, folder: Path) -> None:
    run = prepared(arguments, folder)
    num_steps = arguments.steps or run.steps_per_epoch
    peer = Peer(run, folder, loss=LOSSES[arguments.task], num_steps=run.num_steps)
    recipe = run.recipe
    batches = run.rows.shuffled_batches(batch_size=recipe.batch_size, seed=recipe.seed)
    batches = list(islice(batches, num_steps))
    task = named_task("sentence-pairs")
    pairs = task.read(arguments.data / "STS-B" / "dev.tsv", split="dev")
    dev, predictor = task.encode(pairs, run.checkpoint.tokenizer), Predictor(run.trained)

    def spearmans() -> list[float]:
        vectors = predictor(dev)[0], peer.vectors(dev)
        return [
            100 * task.score(pairs, task.predictions(pairs, dev, each))["spearman"]
            for each in vectors
        ]

    def ours(turn: Turn) -> None:
        batches = training_batches(turn, batch_size=recipe.batch_size, seed=recipe.seed)
        steps = len(turn.batches)
        run.trained.fit(batches.for_fit(), steps_per_epoch=steps, shuffle=False, verbose=0)

    print(f"{len(run.rows):,} rows, {num_steps} steps of {recipe.batch_size}, {recipe}")
    print(f"{'':<24}{'ours':>12}{'sentence-transformers':>24}{'difference':>12}")
    before = spearmans()
    print(
        f"{'Spearman before':<24}{before[0]:>12.4f}{before[1]:>24.4f}{before[0] - before[1]:>12.4f}"
    )
    seconds = []
    for part in np.array_split(np.arange(num_steps), arguments.turns):
        turn = Turn(run.rows, [batches[step] for step in part])
        times = [time.process_time()]
        for side in (ours, peer.train):
            side(turn)
            times.append(time.process_time())
        seconds.append(np.diff(times) / len(part))
    show("Spearman after", *spearmans())
    first, timed = seconds[0], np.array(seconds[1:])
    steps = np.median(timed, axis=0) * 1000
    print(f"{'processor ms a step':<24}{steps[0]:>12.1f}{steps[1]:>24.1f}")
    print(f"{'of the first turn':<24}{1000 * first[0]:>12.1f}{1000 * first[1]:>24.1f}")
    print(f"time ratio, median of {len(timed)} turns: {np.median(timed[:, 0] / timed[:, 1]):.3f}")


def show(name: str, ours: float, theirs: float) -> None:
    print(f"{name:<24}{ours:>12.4f}{theirs:>24.4f}{ours - theirs:>12.4f}", flush=True)


if __name__ == "__main__":
    main()
