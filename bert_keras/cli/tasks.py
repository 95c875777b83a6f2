"""The verbs of tasks: finetune, evaluate, predict, submission, features."""

import argparse
import json
from collections.abc import Callable

AddVerb = Callable[..., argparse.ArgumentParser]


def add_finetune(verb: AddVerb) -> None:
    sub = verb(
        "finetune",
        _finetune,
        "Fine-tune on a task, keep the best epoch; the same command continues an interrupted run.",
        "bert-keras finetune mrpc --data glue/MRPC --from bert-base-uncased --output runs/mrpc\n"
        "  bert-keras finetune squad2 --data squad --from bert-base-uncased --output runs/squad2\n"
        "  bert-keras finetune classification --train train.csv --dev dev.csv \\\n"
        "    --set text_columns=title,body label_column=topic --from runs/tiny/model --output "
        "runs/topics\n"
        "  bert-keras finetune rte --data glue/RTE --from bert-base-uncased --output runs/rte \\\n"
        "    --seeds 5 --learning-rates 5e-5 3e-5 2e-5\n"
        "  bert-keras finetune sst2 --data glue/SST-2 --from distilbert --teacher runs/sst2/model "
        "\\\n    --output runs/distilled",
    )
    sub.add_argument("task", metavar="TASK", help="a wrong name lists them all")
    sub.add_argument("--from", required=True, dest="pretrained", metavar="DIR",
                     help="OUTPUT/model of a run, or any checkpoint; see convert")  # fmt: skip
    add_teacher(sub)
    data = sub.add_mutually_exclusive_group(required=True)
    data.add_argument("--data", metavar="DIR", help="the task's official files, or tfds:NAME")
    data.add_argument("--train", metavar="FILE", help="a file of the task; with --dev")
    sub.add_argument("--dev", metavar="FILE", help="held-out examples, to score on")
    sub.add_argument("--output", required=True, metavar="DIR")
    sub.add_argument("--recipe", default="paper", metavar="NAME", help="default: paper; "
                     "small-models for hidden sizes under 768")  # fmt: skip
    sub.add_argument("--set", nargs="+", default=(), dest="changes", metavar="FIELD=VALUE",
                     help="change the recipe or the task, such as num_epochs=4 "
                     "max_length=256")  # fmt: skip
    sub.add_argument("--seeds", type=int, default=1, metavar="N", help="a run with each of the "
                     "seeds 1 to N, then median, best and spread")  # fmt: skip
    sub.add_argument("--learning-rates", type=float, nargs="*", metavar="RATE", help="runs with "
                     "each; those of the recipe where none is named")  # fmt: skip
    add_devices(sub)


def add_teacher(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--teacher", metavar="DIR", help="a model that does the same, to learn from "
                     "too; --set temperature, alpha_soft, alpha_labels, alpha_cosine")  # fmt: skip


def add_devices(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--strategy", default="auto", metavar="NAME", help="auto, one, mirrored, "
                     "multiworker or tpu; default: auto, all GPUs or the workers of "
                     "TF_CONFIG")  # fmt: skip
    sub.add_argument("--precision", default="auto", metavar="NAME", help="auto, float32, bfloat16 "
                     "or float16; default: auto, bfloat16 on TPUs and on GPUs that have "
                     "it")  # fmt: skip


def add_evaluate(verb: AddVerb) -> None:
    sub = verb(
        "evaluate",
        _evaluate,
        "Score a model, or a file of predictions, on labelled examples as the field scores it.",
        "bert-keras evaluate mrpc --model runs/mrpc/model --data glue/MRPC --report mrpc.html\n"
        "  bert-keras evaluate squad1 --predictions predictions.json --data dev-v1.1.json --json",
    )
    sub.add_argument("task", metavar="TASK")
    asked = sub.add_mutually_exclusive_group(required=True)
    asked.add_argument("--model", metavar="DIR", help="OUTPUT/model of a fine-tuning run")
    asked.add_argument("--predictions", metavar="FILE", help="as predict writes them")
    _add_data(sub, "dev")
    sub.add_argument("--json", action="store_true", help="print the scores as JSON")
    sub.add_argument("--report", metavar="PAGE", help="write an HTML page of scores and errors")


def add_predict(verb: AddVerb) -> None:
    sub = verb(
        "predict",
        _predict,
        "Write what a model answers, as the official scorer or server of the task reads it.",
        "bert-keras predict mrpc --model runs/mrpc/model --data glue/MRPC --output MRPC.tsv\n"
        "  bert-keras predict sst2 --server http://localhost:8501/v1/models/sst2 \\\n"
        "    --data glue/SST-2 --output SST-2.tsv",
    )
    sub.add_argument("task", metavar="TASK")
    asked = sub.add_mutually_exclusive_group(required=True)
    asked.add_argument("--model", metavar="DIR", help="OUTPUT/model of a fine-tuning run")
    asked.add_argument("--server", metavar="URL", help="http://HOST:PORT/v1/models/NAME of a "
                       "served model that tells classes or numbers of texts")  # fmt: skip
    _add_data(sub, "test")
    sub.add_argument("--output", required=True, metavar="FILE")


def add_submission(verb: AddVerb) -> None:
    sub = verb(
        "submission",
        _submission,
        "Pack the eleven prediction files of GLUE into the zip that its server takes.",
        "bert-keras submission predictions --output submission.zip",
    )
    sub.add_argument("folder", metavar="DIR", help="with CoLA.tsv, SST-2.tsv, ... AX.tsv")
    sub.add_argument("--output", required=True, metavar="FILE")


def add_features(verb: AddVerb) -> None:
    sub = verb(
        "features",
        _features,
        "Write the encoder's vectors of every text of a file, one text a line.",
        "bert-keras features --from bert-base-uncased --texts lines.txt --output lines.npz\n"
        "  bert-keras features --from bert-base-uncased --texts lines.txt --output lines.jsonl \\\n"
        "    --layers -1 -2 -3 -4 --of words",
    )
    sub.add_argument("--from", required=True, dest="pretrained", metavar="DIR")
    sub.add_argument("--texts", required=True, metavar="FILE", help="UTF-8, one text a line")
    sub.add_argument("--output", required=True, metavar="FILE", help=".npz, or .jsonl as Google's "
                     "extract_features.py writes it")  # fmt: skip
    sub.add_argument("--layers", type=int, nargs="+", metavar="N", help="0 the embeddings, 1 "
                     "the first; -1 the last (default: -1 -2 -3 -4, or as many as there "
                     "are)")  # fmt: skip
    sub.add_argument("--of", default="pieces", metavar="UNIT", help="pieces (default), words: the "
                     "first piece of each, or texts: the mean of all pieces")  # fmt: skip


def _add_data(sub: argparse.ArgumentParser, split: str) -> None:
    sub.add_argument("--data", required=True, metavar="FILE", help="a file of the task, or a "
                     "folder or tfds:NAME of which --split is taken")  # fmt: skip
    sub.add_argument("--split", default=split, help=f"default: {split}")
    sub.add_argument("--set", nargs="+", default=(), dest="changes", metavar="FIELD=VALUE",
                     help="change the task's settings")  # fmt: skip


def _finetune(arguments) -> None:
    import dataclasses
    import os

    from bert_keras.distribution.strategy import workers
    from bert_keras.errors import InputError
    from bert_keras.runs.changes import changed
    from bert_keras.runs.distillation import Distillation
    from bert_keras.runs.finetune import finetune
    from bert_keras.runs.recipes import named_recipe, task_recipes
    from bert_keras.runs.study import study
    from bert_keras.tasks.catalog import named_task

    task = named_task(arguments.task)
    recipe = named_recipe(task_recipes(task.name), arguments.recipe)
    teacher = arguments.teacher and Distillation.of_task(arguments.teacher)
    recipe, task, teacher = changed(recipe, task, teacher, changes=arguments.changes)
    if arguments.data:
        if arguments.dev:
            raise InputError("--dev came with --data; name both files with --train and --dev")
        files = task.files(arguments.data)
        train, dev = files["train"], files["dev"]
    elif not arguments.dev:
        raise InputError("--train came without --dev; name the file of held-out examples")
    else:
        train, dev = arguments.train, arguments.dev

    def run(recipe, output) -> dict:
        return finetune(
            task,
            recipe,
            pretrained=arguments.pretrained,
            train=train,
            dev=dev,
            output=output,
            features=os.path.join(arguments.output, "features"),
            distillation=teacher,
        )

    rates = arguments.learning_rates
    if arguments.seeds == 1 and rates is None:
        print_scores(run(recipe, arguments.output), arguments.output)
        return
    if len(workers()) > 1:
        raise InputError("a study of several runs trains on one machine; unset TF_CONFIG")
    rates = (recipe.learning_rate,) if rates is None else tuple(rates) or recipe.learning_rates
    recipes = {rate: dataclasses.replace(recipe, learning_rate=rate) for rate in rates}
    summary = study(
        lambda rate, seed, folder: run(dataclasses.replace(recipes[rate], seed=seed), folder),
        seeds=arguments.seeds,
        learning_rates=rates,
        metric=task.metric,
        output=arguments.output,
    )
    print(f"{summary}\nreport: {os.path.join(arguments.output, 'report.html')}")


def _evaluate(arguments) -> None:
    from bert_keras.reports import evaluation_page
    from bert_keras.runs.evaluate import answers_of_file, answers_of_model
    from bert_keras.storage import check_place

    if arguments.report:
        check_place(arguments.report)
    data = _file(arguments)
    if arguments.model:
        answers = answers_of_model(
            arguments.task,
            model=arguments.model,
            data=data,
            split=arguments.split,
            changes=arguments.changes,
        )
    else:
        answers = answers_of_file(
            arguments.task,
            predictions=arguments.predictions,
            data=data,
            changes=arguments.changes,
        )
    scores = answers.scores()
    if arguments.report:
        evaluation_page(
            answers.task,
            answers.examples,
            answers.predictions,
            scores=scores,
            path=arguments.report,
        )
    if arguments.json:
        print(json.dumps(scores, indent=2))
    else:
        print_table(scores)
        if arguments.report:
            print(f"report: {arguments.report}")


def _predict(arguments) -> None:
    from bert_keras.runs.evaluate import answers_of_model
    from bert_keras.serving.predictions import answers_of_server
    from bert_keras.storage import check_place

    check_place(arguments.output)
    asked = {"data": _file(arguments), "split": arguments.split, "changes": arguments.changes}
    if arguments.server:
        answers = answers_of_server(arguments.task, server=arguments.server, **asked)
    else:
        answers = answers_of_model(arguments.task, model=arguments.model, **asked)
    answers.write(arguments.output)
    print(f"{len(answers.examples):,} predictions: {arguments.output}")


def _submission(arguments) -> None:
    from bert_keras.tasks.glue.submission import submission_zip

    submission_zip(arguments.folder, arguments.output)
    print(arguments.output)


def _features(arguments) -> None:
    from bert_keras.runs.features import write_features

    write_features(
        arguments.pretrained,
        arguments.texts,
        arguments.output,
        layers=arguments.layers,
        of=arguments.of,
    )
    print(arguments.output)


def _file(arguments) -> str:
    """The file that --data and --split name."""
    import os

    from bert_keras.errors import InputError
    from bert_keras.tasks.catalog import named_task

    if not (os.path.isdir(arguments.data) or arguments.data.startswith("tfds:")):
        return arguments.data
    files = named_task(arguments.task).files(arguments.data)
    if arguments.split not in files:
        raise InputError(
            f"{arguments.data} has no split {arguments.split!r}; it has {', '.join(files)}"
        )
    return files[arguments.split]


def print_scores(scores: dict, output: str) -> None:
    """The scores of a run, and where to look further."""
    if not scores:
        print("the first worker writes the scores and the model")
        return
    print_table(scores)
    print(f"model: {output}/model   curves: tensorboard --logdir {output}/logs")


def print_table(scores: dict) -> None:
    for name, value in scores.items():
        print(
            f"{name:<34}{value:>12,.4f}" if isinstance(value, float) else f"{name:<34}{value:>12,}"
        )
