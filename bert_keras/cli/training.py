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
from bert_keras.errors import InputError, check_name, print_field
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


class SettingsHelp(argparse.Action):
    """Prints the help text with the settings of the task or recipe that precedes --help."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, *_: Any) -> None:
        task, recipe, found = getattr(namespace, "task", None), namespace.recipe, ()
        others = {"teacher": "teacher", "changes": ()}
        if task:
            recipe = recipe or "paper"
            found = settings.finetune_settings(str(task), recipe, pretrained="", **others)
        elif recipe:
            found = settings.pretrain_settings(recipe, **others)
        for each in found:
            title = f"--set FIELD=VALUE of {type(each).__name__}"
            if hasattr(each, "batch_size"):
                title += f" in the recipe {recipe}"
            group = parser.add_argument_group(title)
            for field, text in settings.describe_settings(each).items():
                group.add_argument(field, metavar=field, help=text.replace("%", "%%"))
        parser.print_help()
        parser.exit()


HELP_TEXT = "show this help; after the task or the recipe, also the settings for --set"
HELP = (("-h", "--help"), {"action": SettingsHelp, "nargs": 0, "help": HELP_TEXT})
RECIPE = "name of a recipe, see bert-keras list recipes"
FINETUNE_RECIPE = f"{RECIPE} (default: small-models for hidden sizes below 768, otherwise paper)"
PRETRAIN_RECIPE = "laptop-10min, laptop-hour or another recipe, see bert-keras list recipes"
HEADING = "hyperparameters (default: as in the recipe)"
HYPERPARAMETERS = (
    option("--learning-rate", "RATE", "largest learning rate, such as 3e-5", type=float),
    option("--batch-size", "N", "rows of a step, on all devices together", type=count),
    option("--seed", "N", "seed of all random numbers", type=int),
    option("--set", "FIELD=VALUE", "other settings, see -h", [], dest="changes", nargs="+"),
)
RATES = "learning rates to compare (without values: the rates of the recipe)"
TABLES = "table5 (tasks), table6 (sizes), c2 (masking) or labels (labelled examples)"
FROM = "checkpoint to start from: a folder, or a name as in bert-keras list models"
SPECIAL = (
    "distillation, devices and errors",
    option("--teacher", "MODEL", "model of the same kind to distil from; see --set alpha_soft"),
    *program.DEVICES,
)


def _changes(options: argparse.Namespace, *names: str) -> list[str]:
    """Returns as FIELD=VALUE the values of --set, and of options such as --seed for one field."""
    given = program.values(options, "learning_rate", "batch_size", "seed", *names)
    return [*options.changes, *(f"{n}={value}" for n, value in given.items() if value is not None)]


def _print_scores(scores: dict, output: str, *, note: str = "") -> None:
    """Prints the scores of a run, and then the folder of its model, followed by `note`."""
    if not scores:
        print("the first worker writes the scores and the model")
        return
    program.print_table(scores)
    print_field("model", f"{output}/model{note}")
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
    option("recipe", "RECIPE", PRETRAIN_RECIPE, type=one_of(PRETRAIN.keys, what="recipe")),
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
  bert-keras pretrain laptop-10min --records records --output runs/tiny
  bert-keras pretrain distilbert --records records --from student --teacher bert-base \\
    --output runs/distil""",
)
def pretrain(options: argparse.Namespace) -> None:
    """Pretrain on records with a recipe; the same command continues an interrupted run."""
    if not (options.output or options.dry_run):
        raise InputError("--output DIR is missing; name a new folder")
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

    start = options.pretrained
    arguments = {"records": options.records, "pretrained": start, "teacher": teacher}
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
    option("--recipe", "NAME", FINETUNE_RECIPE, type=one_of(FINETUNE.keys, what="recipe")),
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
    is_study = options.seeds != 1 or rates is not None  # trains several models
    names = {change.partition("=")[0] for change in changes}
    if is_study and ("seed" in names or (rates is not None and "learning_rate" in names)):
        raise InputError("a study sets the seed and the --learning-rates; omit their other options")
    if detect_format(locate(options.pretrained)) is keras_hub_preset:
        program.start_keras(options)  # before KerasHub computes the configuration
    arguments = {"changes": changes, **program.values(options, "pretrained", "teacher")}
    task, recipe, teacher = settings.finetune_settings(options.task, options.recipe, **arguments)
    config = stored_config(options.pretrained)
    task.check_encoder(config)
    paths = data.values() if isinstance(data, dict) else [data]
    if not any(is_tfds(path) for path in paths):  # TFDS needs TensorFlow
        data = settings.read_task_data(task, data)
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
    num_epochs = recipe.num_epochs
    best_epoch = scores["best_step"] * num_epochs // scores["steps"] if scores else 0
    note = f" (epoch {best_epoch} of {num_epochs}, the best by {task.metric})"
    _print_scores(scores, options.output, note=note)
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
    option("--scale", "SCALE", "tiny (an hour) or small (hours)", "tiny", choices=(*SCALES,)),
    required("--data", "DIR", "folder with corpus/*.txt, glue/MNLI, squad, ..."),
    required("-o --output", "DIR", "folder of all runs"),
    *program.DEVICES,
    examples="  bert-keras reproduce table5 --scale small --data data --output table5",
)
def reproduce(options: argparse.Namespace) -> None:
    """Repeat a table of the paper; the same command continues an interrupted run."""
    experiment, scale = EXPERIMENTS[options.table], SCALES[options.scale]
    check_name(experiment.name, scale.tables, what=f"table of the scale {options.scale}")
    experiment.inputs(options.data)  # raises InputError without data
    program.start_keras(options)
    from bert_keras.experiments.run import reproduce

    with program.devices(options, trains_several=True):
        reproduce(experiment, scale, data=options.data, output=options.output)
    print_field("report", f"{options.output}/report.html and report.md")
