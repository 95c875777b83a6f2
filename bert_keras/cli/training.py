"""Defines the commands that train: demo, pretrain, finetune and reproduce."""

import argparse
import dataclasses
import os
from shlex import quote
from typing import Any

import bert_keras.cli.program as program
from bert_keras.arguments import checked, count, flag, one_of, option, required
from bert_keras.checkpoints import keras_hub_preset
from bert_keras.checkpoints.formats import detect_format, stored_config
from bert_keras.checkpoints.hub import locate
from bert_keras.distribution import has_workers
from bert_keras.downstream.table import is_tfds
from bert_keras.errors import InputError, print_field
from bert_keras.experiments.experiments import EXPERIMENTS
from bert_keras.experiments.scales import SCALES
from bert_keras.families import preset
from bert_keras.files import StrPath, check_exists, check_folder
from bert_keras.kinds.known import KINDS
from bert_keras.runs import settings
from bert_keras.runs.outcome import check_run
from bert_keras.runs.recipes import FINETUNE, PRETRAIN, FinetuneRecipe
from bert_keras.text.fast_tokenizer import records_vocabulary
from tfrecords_tools.corpus import corpus_files

# Default recipe of a fine-tuning run -> the models that it is for
DEFAULTS = {"paper": " (hidden sizes from 768)", "small-models": " (smaller sizes, if different)"}


class SettingsHelp(argparse.Action):
    """Prints the help text with the settings of the task or recipe that precedes --help."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, *_: Any) -> None:
        task, recipe, shown = getattr(namespace, "task", None), namespace.recipe, set()
        others = {"teacher": "teacher", "changes": ()}
        for name, use in ({recipe: ""} if recipe else DEFAULTS if task else {}).items():
            if task:
                found = settings.finetune_settings(str(task), name, pretrained="", **others)
            else:
                found = settings.pretrain_settings(name, **others)
            for one in found:
                title = f"--set FIELD=VALUE of {type(one).__name__}"
                if hasattr(one, "batch_size"):
                    title += f" in the recipe {name}{use}"
                group, fields = parser.add_argument_group(title), settings.describe_settings(one)
                for field, text in fields.items():
                    if field not in shown:  # small-models shows only its differences from paper
                        group.add_argument(field, metavar=field, help=text.replace("%", "%%"))
                shown |= fields.keys()
        parser.print_help()
        parser.exit()


LISTED = "show this help; after the task or the recipe, also the settings for --set"
HELP = (("-h", "--help"), {"action": SettingsHelp, "nargs": 0, "help": LISTED})
RECIPES = "name of a recipe, see bert-keras list recipes"
BY_SIZE = f"{RECIPES} (default: small-models for hidden sizes below 768, otherwise paper)"
HEADING = "hyperparameters (default: as in the recipe)"
HYPERPARAMETERS = (
    option("--learning-rate", "RATE", "largest learning rate, such as 3e-5", type=float),
    option("--batch-size", "N", "rows of a step, of all devices together", type=count),
    option("--seed", "N", "seed of all random numbers", type=int),
    option("--set", "FIELD=VALUE", "other settings, see -h", [], dest="changes", nargs="+"),
)
RATES = "learning rates to compare (without values: the rates of the recipe)"
TABLES = "table5 (tasks), table6 (sizes), c1 (steps), c2 (masking) or labels (labelled examples)"
FROM = "checkpoint to start from: a folder, or a name as in bert-keras list models"
SPECIAL = (
    "distillation, devices and errors",
    option("--teacher", "MODEL", "model of the same kind to distil from; see --set alpha_soft"),
    *program.DEVICES,
)


def _changes(options: argparse.Namespace, *names: str) -> list[str]:
    """Returns the values of --set, and of the options for single settings, as FIELD=VALUE."""
    names = ("learning_rate", "batch_size", "seed", *names)
    given = program.values(options, *names).items()
    return [*options.changes, *(f"{name}={value}" for name, value in given if value is not None)]


def _require_output(options: argparse.Namespace) -> None:
    if not (options.output or options.dry_run):
        raise InputError("--output DIR is missing; name a new folder")


def _print_scores(scores: dict, output: str, *, which: str = "") -> None:
    if not scores:
        print("the first worker writes the scores and the model")
        return
    program.print_table(scores)
    if (rows := scores.get("dev_rows", 200)) < 200 and "accuracy" in scores and "f1" not in scores:
        rate = (scores["accuracy"] * rows + 1) / (rows + 2)  # strictly between 0 and 1
        error = 100 * (rate * (1 - rate) / rows) ** 0.5
        print_field("note", f"accuracy has a standard error of {error:.1f} points, {rows} dev rows")
    print_field("model", f"{output}/model{which}")
    print_field("curves", f"tensorboard --logdir {quote(output)}/logs")


@program.command(
    option("--corpus", "FILE", "text files; a blank line ends a document", [], nargs="+"),
    option("--from", "CHECKPOINT", "checkpoint to use instead of pretraining", dest="pretrained"),
    option("-o --output", "DIR", "folder of all demos", "demo"),
    option("--steps", "N", "number of pretraining steps", dest="num_steps", type=count),
    option("--seed", "N", "seed of all random numbers", 1),
    examples="  bert-keras demo --steps 300",
)
def demo(options: argparse.Namespace) -> None:
    """Run every stage once, from text to a served prediction, in minutes on two CPU cores."""
    if options.corpus:
        corpus_files(options.corpus)  # raises InputError if one does not exist
    program.start_keras(options, backends=("tensorflow",))
    from bert_keras.cli.demo import demo

    demo(**program.values(options, "corpus", "pretrained", "output", "num_steps", "seed"))


@program.command(
    option("recipe", "RECIPE", RECIPES, type=one_of(PRETRAIN.keys, what="recipe")),
    HELP,
    "data, model and output",
    required("--records", "DIR", "folder that bert-tfrecords build wrote"),
    option("--from", "CHECKPOINT", FROM, dest="pretrained"),
    option("-o --output", "DIR", "folder of the run (required without --dry-run)"),
    flag("--dry-run", "train ten steps, print the cost of the run and write nothing"),
    HEADING,
    option("--steps", "N", "number of steps, warmup included", dest="num_steps", type=count),
    *HYPERPARAMETERS,
    *SPECIAL,
    examples="""
  bert-keras pretrain tiny-hour --records records --output runs/tiny
  bert-keras pretrain distilbert --records records --from student --teacher bert-base \\
    --output runs/distil""",
)
def pretrain(options: argparse.Namespace) -> None:
    """Pretrain on records with a recipe; the same command continues an interrupted run."""
    _require_output(options)
    changes = _changes(options, "num_steps")
    recipe, teacher = settings.pretrain_settings(
        options.recipe, teacher=options.teacher, changes=changes
    )
    check_exists(options.records, expected="a folder of bert-tfrecords build")
    records_vocabulary(options.records)
    if not options.dry_run and not has_workers(options.strategy):  # only the first worker writes
        known = {**dataclasses.asdict(recipe), "records": os.path.realpath(options.records)}
        check_run(options.output, known)
    program.start_keras(options)
    from bert_keras.runs.pretrain import forecast, pretrain

    arguments = {"records": options.records, "pretrained": options.pretrained, "teacher": teacher}
    start = options.pretrained
    config = stored_config(start) if start else preset(recipe.size)
    with program.devices(options, hidden_size=config.hidden_size):
        if options.dry_run:
            print(forecast(recipe, **arguments))
            return
        result = pretrain(recipe, output=options.output, **arguments)
    _print_scores(result.scores, options.output)


@program.command(
    option("task", "TASK", program.TASK_HELP, type=program.TASK_NAME),
    HELP,
    "data, model and output",
    option("--train", "FILE", "training file: .csv, .tsv, .txt, .json, .jsonl, or CoNLL for ner"),
    option("--dev", "FILE", "held-out examples (default: a tenth of --train)"),
    option("--data", "DIR", "folder of official files or tfds:NAME, in place of --train and --dev"),
    required("--from", "CHECKPOINT", FROM, dest="pretrained"),
    required("-o --output", "DIR", "folder of the run", type=checked(check_folder)),
    option("--recipe", "NAME", BY_SIZE, type=one_of(FINETUNE.keys, what="recipe")),
    HEADING,
    option("--epochs", "N", "number of passes over the examples", dest="num_epochs", type=count),
    option("--max-length", "N", "maximum number of tokens of a text; the rest is cut", type=count),
    option("--warmup-ratio", "RATE", "share of steps in which the rate rises", type=float),
    *HYPERPARAMETERS,
    "several runs",
    option("--seeds", "N", "number of runs, with the seeds 1 to N, to compare", 1, type=count),
    option("--learning-rates", "RATE", RATES, type=float, nargs="*"),
    *SPECIAL,
    examples="""
  bert-keras finetune classification --train films.csv --from google-bert/bert-base-uncased \\
    --output runs/films
  bert-keras finetune mrpc --data glue --from runs/tiny/model --output runs/mrpc
  bert-keras finetune classification --train news.csv --set text_columns=title,body \\
    label_column=topic --from runs/tiny/model --output runs/news
  bert-keras finetune rte --data glue --from google-bert/bert-base-uncased --output runs/rte \\
    --seeds 5 --learning-rates 5e-5 3e-5 2e-5""",
)
def finetune(options: argparse.Namespace) -> None:
    """Fine-tune on a task and keep the best epoch; the same command continues a stopped run."""
    data = _finetuning_data(options)
    changes = _changes(options, "num_epochs", "max_length", "warmup_ratio")
    rates = options.learning_rates  # None without the option, [] for the rates of the recipe
    is_study = options.seeds != 1 or rates is not None
    names = {change.partition("=")[0] for change in changes}
    if is_study and ("seed" in names or (rates is not None and "learning_rate" in names)):
        raise InputError("a study sets the seed and the --learning-rates; omit their other options")
    if detect_format(locate(options.pretrained)) is keras_hub_preset:
        program.start_keras(options)  # before KerasHub computes the configuration
    arguments = {"changes": changes, **program.values(options, "pretrained", "teacher")}
    task, recipe, teacher = settings.finetune_settings(options.task, options.recipe, **arguments)
    if not any(map(is_tfds, data.values() if isinstance(data, dict) else [data])):
        data = settings.read_task_data(task, data)
    config = stored_config(options.pretrained)
    task.check_encoder(config)
    is_worker = has_workers(options.strategy)  # only the first worker writes
    if isinstance(data, settings.TaskData) and not is_study and not is_worker:
        known = data.run_settings(recipe, teacher, pretrained=options.pretrained)
        check_run(options.output, known)
    program.start_keras(options)
    from bert_keras.runs.finetune import finetune

    def run(recipe: FinetuneRecipe, output: StrPath) -> dict:
        features = os.path.join(options.output, "features")
        inputs = {"pretrained": options.pretrained, "data": data, "teacher": teacher}
        return finetune(task, recipe, output=output, features=features, **inputs).scores

    with program.devices(options, hidden_size=config.hidden_size, trains_several=is_study):
        if is_study:
            from bert_keras.runs.study import study

            rates = [recipe.learning_rate] if rates is None else rates or recipe.learning_rates
            arguments = {"learning_rates": rates, **program.values(options, "seeds", "output")}
            print(study(run, recipe, metric=task.metric, **arguments))
            print_field("report", os.path.join(options.output, "report.html"))
            return
        scores = run(recipe, options.output)
    total = recipe.num_epochs
    epoch = scores["best_step"] * total // scores["steps"] if scores else 0
    which = f" (epoch {epoch} of {total}, the best by {task.metric})"
    _print_scores(scores, options.output, which=which)
    model = quote(f"{options.output}/model")
    texts = KINDS[task.model].inputs or " ".join(["TEXT"] * max(1, len(task.input_names)))
    print_field("next", f"bert-keras predict {model} {texts}")
    print_field("", f"bert-keras export {model} NAME")


def _finetuning_data(options: argparse.Namespace) -> str | dict[str, str]:
    """Returns the folder or the files of the examples, as `bert_keras.finetune` takes them."""
    data, train, dev = options.data, options.train, options.dev
    if bool(data) == bool(train) or (data and dev):
        raise InputError("give either --data DIR, or --train FILE with or without --dev FILE")
    if (data and os.path.isfile(data)) or (train and os.path.isdir(train)):
        if data:
            raise InputError(f"--data {data} is a file; give it as --train {data}")
        raise InputError(f"--train {train} is a folder; give it as --data {train}")
    return data or ({"train": train, "dev": dev} if dev else {"train": train})


@program.command(
    option("table", "TABLE", TABLES, choices=tuple(EXPERIMENTS)),
    option("--scale", "SCALE", "tiny (an hour), small or paper (GPUs)", "tiny", choices=(*SCALES,)),
    required("--data", "DIR", "folder with corpus/*.txt, glue/MNLI, squad, ..."),
    option("-o --output", "DIR", "folder of all runs (required without --dry-run)"),
    flag("--dry-run", "print the stages and their steps and write nothing"),
    *program.DEVICES,
    examples="  bert-keras reproduce table5 --scale small --data data --output table5",
)
def reproduce(options: argparse.Namespace) -> None:
    """Repeat a table or figure of the paper; the same command continues an interrupted run."""
    _require_output(options)
    experiment, scale = EXPERIMENTS[options.table], SCALES[options.scale]
    scale.experiment(experiment).inputs(options.data)  # raises InputError without data
    program.start_keras(options)
    from bert_keras.experiments.run import plan, reproduce

    if options.dry_run:
        print(plan(experiment, scale, data=options.data))
        return
    with program.devices(options, trains_several=True):
        reproduce(experiment, scale, data=options.data, output=options.output)
    print_field("report", f"{options.output}/report.html and report.md")
