"""Compares the scores of fine-tuning with transformers on every task.

Both sides start from the same weights, including the new head, and train on the same batches of
token ids in the same order with the settings of the recipe. transformers uses torch.optim.AdamW,
which equals our optimizer with bias_correction=true. The same scorer is used after every epoch, and
the best epoch counts. Each run is a new process.

    python benchmarks/scores.py mrpc stsb --data glue --from minilm --rate 1e-4
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIDES = ("bert_keras", "transformers")


def sampled(task, *, train_rows: int, dev_rows: int):
    """Returns the task with a sample of its examples, drawn with a fixed seed."""
    import numpy as np

    cls, most = type(task), {"train": train_rows, "dev": dev_rows}

    class Sampled(cls):
        def read(self, path, *, split="train"):
            examples = cls.read(self, path, split=split)
            if not 0 < most[split] < len(examples):
                return examples
            rows = np.random.default_rng(0).choice(len(examples), most[split], replace=False)
            return [examples[row] for row in np.sort(rows)]

    fields = {field.name: getattr(task, field.name) for field in dataclasses.fields(task)}
    return Sampled(**fields)


def settings(arguments, name: str):
    """Returns the task, its recipe and its files."""
    from bert_keras.downstream.catalog import named_task
    from bert_keras.runs.settings import task_recipes, with_changes

    recipe = task_recipes(name)[arguments.recipe]
    recipe = dataclasses.replace(recipe, learning_rate=arguments.rate or recipe.learning_rate)
    task, recipe = with_changes(named_task(name), recipe, changes=arguments.changes)
    task = sampled(task, train_rows=arguments.train_rows, dev_rows=arguments.dev_rows)
    return task, recipe, task.files(arguments.data)


def ours(task, recipe, files, pretrained: str) -> dict:
    from bert_keras.runs.finetune import finetune

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        scores = finetune(
            task, recipe, pretrained=pretrained, data=files, output=Path(folder) / "run"
        ).scores
    return {"score": scores[task.metric], "seconds": time.perf_counter() - start, "scores": scores}


def theirs(task, recipe, files, pretrained: str) -> dict:
    import torch
    import transformers
    from train_torch import adamw

    from bert_keras import LinearWarmupDecay
    from bert_keras.data.encoded import length_grouped_batches, longest_first_batches
    from bert_keras.runs.task_run import TaskRun

    start = time.perf_counter()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(recipe.seed)
    run = TaskRun(task, recipe, pretrained=pretrained, data=files)
    task, rows, dev, dev_rows = run.task, run.rows, run.dev_examples, run.dev_rows
    head = {
        "BertClassifier": "BertForSequenceClassification",
        "BertTokenClassifier": "BertForTokenClassification",
        "BertQuestionAnswering": "BertForQuestionAnswering",
        "BertMultipleChoice": "BertForMultipleChoice",
    }[task.model]
    with tempfile.TemporaryDirectory() as folder:
        run.model.save_pretrained(f"{folder}/model", format="huggingface")
        model = getattr(transformers, head).from_pretrained(f"{folder}/model")
    assert model.config.hidden_dropout_prob == recipe.dropout_rate
    optimizer = adamw(
        model, recipe.learning_rate, weight_decay=recipe.weight_decay_rate, fused=True
    )
    steps_per_epoch = -(-len(rows) // recipe.batch_size)
    num_steps = steps_per_epoch * recipe.num_epochs
    warmup = int(recipe.warmup_ratio * num_steps)
    rate = LinearWarmupDecay(1.0, num_steps=num_steps, num_warmup_steps=warmup)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(rate(step)))

    def forward(inputs):
        output = model(
            input_ids=torch.from_numpy(inputs["input_ids"]),
            attention_mask=torch.from_numpy(inputs["input_mask"]),
            token_type_ids=torch.from_numpy(inputs["segment_ids"]),
        )
        if task.model == "BertQuestionAnswering":
            return {"start": output.start_logits, "end": output.end_logits}
        return output.logits

    def loss_of(logits, targets, weights=None):
        from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

        if isinstance(logits, dict):
            return sum(
                cross_entropy(logits[name], torch.from_numpy(targets[name]).long())
                for name in logits
            ) / len(logits)
        targets = torch.from_numpy(targets)
        if task.problem_type == "regression":
            return mse_loss(logits.reshape(-1), targets.reshape(-1).float())
        if task.problem_type == "multi_label_classification":
            return binary_cross_entropy_with_logits(logits, targets.float())
        if weights is None:
            return cross_entropy(logits, targets.long())
        losses = cross_entropy(logits.transpose(1, 2), targets.long(), reduction="none")
        weights = torch.from_numpy(weights)
        return (losses * weights).sum() / weights.sum()

    def score() -> dict:
        model.eval()
        outputs = [None] * len(dev_rows)
        with torch.inference_mode():
            for batch in longest_first_batches(dev_rows.lengths, batch_size=32):
                logits = forward(dev_rows.batch(batch)[0])
                for index, row in enumerate(batch):
                    outputs[row] = (
                        {name: array[index].numpy() for name, array in logits.items()}
                        if isinstance(logits, dict)
                        else logits[index].numpy()
                    )
        model.train()
        return task.score(dev, task.predictions(dev, dev_rows, outputs))

    batches = length_grouped_batches(rows.lengths, batch_size=recipe.batch_size, seed=recipe.seed)
    model.train()
    history = []
    for step in range(1, num_steps + 1):
        inputs, *targets = rows.batch(next(batches))
        loss = loss_of(forward(inputs), *targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % steps_per_epoch == 0:
            history.append(score())
    best = max(history, key=lambda scores: scores[task.metric])
    return {"score": best[task.metric], "seconds": time.perf_counter() - start, "scores": best}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="+", metavar="TASK")
    parser.add_argument("--data", required=True, metavar="DIR")
    parser.add_argument("--from", required=True, dest="start", metavar="DIR")
    parser.add_argument("--recipe", default="paper")
    parser.add_argument("--rate", type=float, help="learning rate (default: the recipe's)")
    parser.add_argument("--set", nargs="+", default=[], dest="changes", metavar="FIELD=VALUE")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="SEED")
    parser.add_argument("--train-rows", type=int, default=0, help="sample size (default: all)")
    parser.add_argument("--dev-rows", type=int, default=0, help="sample size (default: all)")
    parser.add_argument("--log", metavar="FILE", help="appends one JSON line per run")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        task, recipe, files = settings(arguments, *arguments.tasks)
        side = ours if arguments.side == "bert_keras" else theirs
        print(json.dumps(side(task, recipe, files, arguments.start)))
        return
    print(f"{'task':<12}{'side':<14}{'median':>9}{'stdev':>9}{'best':>9}{'seconds':>9}")
    for name in arguments.tasks:
        runs = {side: [] for side in SIDES}
        for seed in arguments.seeds:
            for side in SIDES:
                command = [
                    sys.executable, __file__, name, "--side", side, "--data", arguments.data,
                    "--from", arguments.start, "--recipe", arguments.recipe,
                    "--train-rows", str(arguments.train_rows),
                    "--dev-rows", str(arguments.dev_rows),
                    *(["--rate", str(arguments.rate)] if arguments.rate else []),
                    "--set", *arguments.changes, f"seed={seed}",
                ]  # fmt: skip
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                runs[side].append(json.loads(done.stdout.splitlines()[-1]))
                if arguments.log:
                    line = {"task": name, "side": side, "seed": seed, **runs[side][-1]}
                    with open(arguments.log, "a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
        for side, results in runs.items():
            scores = [result["score"] for result in results]
            spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
            seconds = statistics.median(result["seconds"] for result in results)
            print(
                f"{name:<12}{side:<14}{statistics.median(scores):>9.4f}{spread:>9.4f}"
                f"{max(scores):>9.4f}{seconds:>9.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
