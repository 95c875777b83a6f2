"""Defines the commands that train: demo, pretrain, finetune and reproduce."""

import argparse
import os

from bert_keras.cli.listing import task_names
from bert_keras.cli.program import DEVICES, argument, command, devices, one_of
from bert_keras.cli.tasks import print_table
from bert_keras.errors import InputError, check
from bert_keras.runs.recipes import FINETUNE, PRETRAIN

TRAINING = (
    argument(
        "--set",
        "FIELD=VALUE",
        "change fields of the recipe or task, such as num_epochs=4 max_length=256 seed=2",
        dest="changes",
        default=[],
        nargs="+",
    ),
    argument("--learning-rate", "RATE", "--set learning_rate=RATE", type=float),
    argument("--batch-size", "N", "--set batch_size=N", type=int),
    argument("--seed", "N", "--set seed=N", type=int),
    argument(
        "--teacher",
        "DIR",
        "a model of the same kind for distillation; see --set temperature, alpha_soft, "
        "alpha_labels, alpha_cosine",
    ),
    *DEVICES,
)


def _changes(options: argparse.Namespace, *names: str) -> list[str]:
    """Returns the values of --set and of the options that stand for some of them."""
    names = ("learning_rate", "batch_size", "seed", *names)
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return [*options.changes, *(f"{name}={value}" for name, value in given.items())]


def _hidden_size(checkpoint: str) -> int:
    from bert_keras.checkpoints.formats import open_checkpoint

    return open_checkpoint(checkpoint).metadata.config.hidden_size


def _print_scores(scores: dict, output: str) -> None:
    if not scores:
        print("the first worker writes the scores and the model")
        return
    print_table(scores)
    print(f"model: {output}/model   curves: tensorboard --logdir {output}/logs")


@command(
    argument(
        "--corpus",
        "FILE",
        "texts, a paragraph a line, a blank line between documents (default: CPython's reference)",
        default=[],
        nargs="+",
    ),
    argument("--output", "DIR", "the parent folder of all demos", default="demo"),
    argument(
        "--steps", "N", "the number of pretraining steps (default: that of the recipe)", type=int
    ),
    argument("--seed", "N", "the seed of all random numbers", default=1),
    examples="""
  bert-keras demo --steps 300
  bert-keras demo --corpus wiki.txt books.txt --output demo""",
)
def demo(options: argparse.Namespace) -> None:
    """Run every stage once, from text to a served prediction, in minutes on two CPU cores."""
    from bert_keras.demo import demo

    demo(corpus=options.corpus, output=options.output, num_steps=options.steps, seed=options.seed)


@command(
    argument(
        "recipe",
        "RECIPE",
        "a recipe; see bert-keras list recipes",
        type=one_of(PRETRAIN.keys, what="recipe"),
    ),
    argument("--records", "DIR", "a folder that bert-tfrecords build wrote", required=True),
    argument(
        "--from",
        "DIR",
        "a checkpoint to continue from, at its step if it has a training state",
        dest="start",
    ),
    argument("--output", "DIR", "the folder of the run"),
    argument("--profile", "FIRST:LAST", "the steps to profile in TensorBoard, such as 20:25"),
    argument("--dry-run", "", "take ten steps, print the cost of the run, write nothing"),
    argument("--steps", "N", "--set num_steps=N", dest="num_steps", type=int),
    *TRAINING,
    is_continued=True,
    examples="""
  bert-keras pretrain tiny-hour --records records --output runs/tiny
  bert-keras pretrain distilbert --records records --from student --teacher bert-base \\
    --output runs/distil""",
)
def pretrain(options: argparse.Namespace) -> None:
    """Pretrain on records with a recipe; the same command continues an interrupted run."""
    from bert_keras.presets import preset
    from bert_keras.runs.forecast import forecast
    from bert_keras.runs.pretrain import pretrain
    from bert_keras.runs.settings import pretrain_settings
    from bert_keras.training.tensorboard.performance import steps_to_profile

    recipe, teacher = pretrain_settings(
        options.recipe, teacher=options.teacher, changes=_changes(options, "num_steps")
    )
    arguments = {"records": options.records, "start": options.start, "teacher": teacher}

    def hidden_size() -> int:
        return _hidden_size(options.start) if options.start else preset(recipe.size).hidden_size

    check(options.dry_run or options.output, "--output DIR is missing; name a new folder")
    with devices(options, hidden_size=hidden_size):
        if options.dry_run:
            print(forecast(recipe, **arguments))
            return
        profile = steps_to_profile(options.profile) if options.profile else None
        result = pretrain(recipe, output=options.output, profile=profile, **arguments)
    _print_scores(result.scores, options.output)


@command(
    argument(
        "task", "TASK", "a task; see bert-keras list tasks", type=one_of(task_names, what="task")
    ),
    argument(
        "--from",
        "DIR",
        "OUTPUT/model of a run, or a checkpoint of any format (see convert)",
        dest="pretrained",
        required=True,
    ),
    argument("--data", "DIR", "a folder of the task's official files, or tfds:NAME"),
    argument("--train", "FILE", "a training file in place of --data; needs --dev"),
    argument("--dev", "FILE", "a file of held-out examples"),
    argument("--output", "DIR", "the folder of the run", required=True),
    argument(
        "--recipe",
        "NAME",
        "paper, small-models for hidden sizes under 768, laptop for models of laptop-10min, "
        "or demo",
        type=one_of(FINETUNE.keys, what="recipe"),
        default="paper",
    ),
    argument(
        "--seeds",
        "N",
        "train with each of the seeds 1 to N; report median, best and spread",
        default=1,
    ),
    argument(
        "--learning-rates",
        "RATE",
        "train with each RATE, or with those of the recipe",
        type=float,
        nargs="*",
    ),
    argument("--epochs", "N", "--set num_epochs=N", dest="num_epochs", type=int),
    argument("--max-length", "N", "--set max_length=N", type=int),
    argument("--warmup", "RATE", "--set warmup_rate", dest="warmup_rate", type=float),
    *TRAINING,
    is_continued=True,
    examples="""
  bert-keras finetune mrpc --data glue/MRPC --from bert-base-uncased --output runs/mrpc
  bert-keras finetune squad2 --data squad --from bert-base-uncased --output runs/squad2
  bert-keras finetune classification --train train.csv --dev dev.csv \\
    --set text_columns=title,body label_column=topic --from runs/tiny/model \\
    --recipe small-models --output runs/topics
  bert-keras finetune rte --data glue/RTE --from bert-base-uncased --output runs/rte \\
    --seeds 5 --learning-rates 5e-5 3e-5 2e-5
  bert-keras finetune sst2 --data glue/SST-2 --from distilbert --teacher runs/sst2/model \\
    --output runs/distilled""",
)
def finetune(options: argparse.Namespace) -> None:
    """Fine-tune on a task and keep the best epoch; the same command continues a stopped run."""
    from bert_keras.runs.finetune import finetune
    from bert_keras.runs.settings import finetune_settings
    from bert_keras.runs.study import study

    changes = _changes(options, "num_epochs", "max_length", "warmup_rate")
    task, recipe, teacher = finetune_settings(
        options.task, options.recipe, teacher=options.teacher, changes=changes
    )
    check(
        bool(options.data) != bool(options.train) and bool(options.train) == bool(options.dev),
        "expected --data DIR, or --train FILE with --dev FILE",
    )
    rates, changed = options.learning_rates, {change.partition("=")[0] for change in changes}
    is_study = options.seeds != 1 or rates is not None
    for name, is_set in (("seed", is_study), ("learning_rate", rates is not None)):
        if is_set and name in changed:
            raise InputError(f"--set {name} has no effect on a study, which sets it; omit it")
    rates = (recipe.learning_rate,) if rates is None else rates or recipe.learning_rates

    def run(recipe, output) -> dict:
        return finetune(
            task,
            recipe,
            pretrained=options.pretrained,
            data=options.data or {"train": options.train, "dev": options.dev},
            output=output,
            teacher=teacher,
            features=os.path.join(options.output, "features"),
        ).scores

    with devices(
        options, hidden_size=lambda: _hidden_size(options.pretrained), trains_several=is_study
    ):
        if not is_study:
            _print_scores(run(recipe, options.output), options.output)
            return
        summary = study(
            run,
            recipe,
            seeds=options.seeds,
            learning_rates=rates,
            metric=task.metric,
            output=options.output,
        )
    print(f"{summary}\nreport: {os.path.join(options.output, 'report.html')}")


@command(
    argument(
        "table",
        "TABLE",
        "table5 (pretraining tasks), table6 (model size), c1 (number of steps) or c2 (masking"
        " strategies)",
        choices=("table5", "table6", "c1", "c2"),
    ),
    argument(
        "--scale",
        "SCALE",
        "tiny (about an hour on two CPU cores), small (table5 and c2, at most six hours for "
        "both on two CPU cores) or paper (needs GPUs or TPUs)",
        choices=("tiny", "small", "paper"),
        default="tiny",
    ),
    argument(
        "--data",
        "DIR",
        "a folder with corpus/*.txt and any of glue/MNLI, glue/QNLI, glue/MRPC, glue/SST-2, "
        "squad and ner/conll2003",
        required=True,
    ),
    argument(("-o", "--output"), "DIR", "the folder of all runs"),
    argument(
        "--dry-run",
        "",
        "take a few steps of each kind, print the runs and their duration, write nothing",
    ),
    *DEVICES,
    is_continued=True,
    examples="""
  bert-keras reproduce table5 --scale small --data data --output table5
  bert-keras reproduce c2 --scale paper --data data --output c2 --dry-run""",
)
def reproduce(options: argparse.Namespace) -> None:
    """Repeat a table or figure of the paper; the same command continues an interrupted run."""
    from bert_keras.experiments.experiments import EXPERIMENTS
    from bert_keras.experiments.plan import plan
    from bert_keras.experiments.run import reproduce
    from bert_keras.experiments.scales import SCALES

    check(options.dry_run or options.output, "--output DIR is missing; name a new folder")
    experiment, scale = EXPERIMENTS[options.table], SCALES[options.scale]
    with devices(options, trains_several=True):
        if options.dry_run:
            print(plan(experiment, scale, data=options.data))
            return
        reproduce(experiment, scale, data=options.data, output=options.output)
    print(f"report: {options.output}/report.html and report.md")
