"""Defines the commands pretrain and finetune, and curves, which plots the curves of such a run."""

import os
from dataclasses import dataclass
from typing import ClassVar

from bert_keras.cli.tasks import print_table
from bert_keras.commands import Command
from bert_keras.errors import InputError
from bert_keras.options import argument, option


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(Command):
    """The devices and the precision of a command."""

    strategy: str = option(
        "auto",
        metavar="NAME",
        help="auto, one, mirrored, multiworker or tpu",
        default_text="auto: all GPUs, or the workers of TF_CONFIG",
    )
    precision: str = option(
        "auto",
        metavar="NAME",
        help="auto, float32, bfloat16 or float16",
        default_text="auto: bfloat16 on TPUs, and on GPUs and (for hidden sizes from 256) "
        "processors that support it",
    )

    def hidden_size(self) -> int:
        """Return the hidden size of the model that the command trains, 0 if it trains several."""
        return 0

    def is_study(self) -> bool:
        """Return whether the command trains several models."""
        return False


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(DeviceOptions):
    """Options that pretraining and fine-tuning share."""

    changes: tuple[str, ...] = option(
        (),
        flags=["--set"],
        metavar="FIELD=VALUE",
        help="change fields of the recipe or task, such as num_epochs=4 max_length=256 seed=2",
    )
    teacher: str | None = option(
        None,
        metavar="DIR",
        help="a model of the same kind for distillation; see --set temperature, alpha_soft, "
        "alpha_labels, alpha_cosine",
    )


@dataclass(frozen=True, kw_only=True)
class Pretrain(TrainingOptions):
    """Pretrain on records with a recipe; the same command continues an interrupted run."""

    examples: ClassVar[str] = (
        "bert-keras pretrain tiny-hour --records records --output runs/tiny\n"
        "  bert-keras pretrain distilbert --records records --from student --teacher bert-base "
        "\\\n    --output runs/distil"
    )

    recipe: str = argument(
        "RECIPE", help="a recipe of bert_keras/runs/recipes.py; an unknown name lists all recipes"
    )
    records: str = option(
        metavar="DIR", help="a folder with records and vocabulary, written by bert-tfrecords build"
    )
    start: str | None = option(
        None,
        flags=["--from"],
        metavar="DIR",
        help="continue from a checkpoint of any format (see convert), at its step if it has a "
        "training state",
    )
    output: str | None = option(None, metavar="DIR", help="the folder of the run")
    profile: str | None = option(
        None, metavar="FIRST:LAST", help="the steps to profile in TensorBoard, such as 20:25"
    )
    dry_run: bool = option(False, help="take ten steps, print the cost of the run, write nothing")

    def hidden_size(self) -> int:
        from bert_keras.presets import preset
        from bert_keras.runs.settings import pretrain_settings

        if self.start:
            return _hidden_size(self.start)
        recipe, _ = pretrain_settings(self.recipe, teacher=self.teacher, changes=self.changes)
        return preset(recipe.size).hidden_size

    def run(self) -> None:
        from bert_keras.runs.forecast import forecast
        from bert_keras.runs.pretrain import pretrain
        from bert_keras.runs.settings import pretrain_settings
        from bert_keras.training.tensorboard.performance import steps_to_profile

        recipe, teacher = pretrain_settings(self.recipe, teacher=self.teacher, changes=self.changes)
        arguments = {"records": self.records, "start": self.start, "teacher": teacher}
        if self.dry_run:
            self.check_unused("profile", reason="with --dry-run")
            print(forecast(recipe, **arguments))
            return
        if self.output is None:
            raise InputError("--output DIR is missing; name a new folder or use --dry-run")
        if self.profile:
            arguments["profile"] = steps_to_profile(self.profile)
        _print_scores(pretrain(recipe, output=self.output, **arguments).scores, self.output)


@dataclass(frozen=True, kw_only=True)
class Finetune(TrainingOptions):
    """Fine-tune on a task and keep the best epoch; the same command continues a stopped run."""

    examples: ClassVar[str] = (
        "bert-keras finetune mrpc --data glue/MRPC --from bert-base-uncased --output runs/mrpc\n"
        "  bert-keras finetune squad2 --data squad --from bert-base-uncased --output runs/squad2\n"
        "  bert-keras finetune classification --train train.csv --dev dev.csv \\\n"
        "    --set text_columns=title,body label_column=topic --from runs/tiny/model \\\n"
        "    --recipe small-models --output runs/topics\n"
        "  bert-keras finetune rte --data glue/RTE --from bert-base-uncased --output runs/rte \\\n"
        "    --seeds 5 --learning-rates 5e-5 3e-5 2e-5\n"
        "  bert-keras finetune sst2 --data glue/SST-2 --from distilbert --teacher runs/sst2/model "
        "\\\n    --output runs/distilled"
    )

    task: str = argument("TASK", help="a name of a task; an unknown name lists all tasks")
    pretrained: str = option(
        flags=["--from"],
        metavar="DIR",
        help="OUTPUT/model of a run, or a checkpoint of any format (see convert)",
    )
    data: str = option(
        "", metavar="DIR", either="data", help="a folder of the task's official files, or tfds:NAME"
    )
    train: str = option("", metavar="FILE", either="data", help="a training file; needs --dev")
    dev: str = option("", metavar="FILE", help="a file of held-out examples")
    output: str = option(metavar="DIR", help="the folder of the run")
    recipe: str = option(
        "paper",
        metavar="NAME",
        help="paper, small-models for hidden sizes under 768, laptop for models of laptop-10min, "
        "or demo",
    )
    seeds: int = option(
        1, metavar="N", help="train with each of the seeds 1 to N; report median, best and spread"
    )
    learning_rates: tuple[float, ...] | None = option(
        None, metavar="RATE", nargs="*", help="train with each RATE, or with those of the recipe"
    )

    def hidden_size(self) -> int:
        return _hidden_size(self.pretrained)

    def is_study(self) -> bool:
        return self.seeds != 1 or self.learning_rates is not None

    def run(self) -> None:
        from bert_keras.runs.finetune import finetune
        from bert_keras.runs.settings import finetune_settings
        from bert_keras.runs.study import study

        task, recipe, teacher = finetune_settings(
            self.task, self.recipe, teacher=self.teacher, changes=self.changes
        )
        if self.data and self.dev:
            raise InputError("--dev cannot be used with --data; use --train and --dev instead")
        if self.train and not self.dev:
            raise InputError("--train requires --dev, a file of held-out examples")

        def run(recipe, output) -> dict:
            return finetune(
                task,
                recipe,
                pretrained=self.pretrained,
                data=self.data or {"train": self.train, "dev": self.dev},
                output=output,
                teacher=teacher,
                features=os.path.join(self.output, "features"),
            ).scores

        rates = self.learning_rates
        changed = {change.partition("=")[0] for change in self.changes}
        if "learning_rates" in changed and rates != ():
            raise InputError(
                "--set learning_rates has an effect only with --learning-rates without values"
            )
        if not self.is_study():
            _print_scores(run(recipe, self.output), self.output)
            return
        for name, is_replaced in (("seed", True), ("learning_rate", rates is not None)):
            if is_replaced and name in changed:
                raise InputError(f"--set {name} has no effect on a study, which sets it; omit it")
        rates = (recipe.learning_rate,) if rates is None else rates or recipe.learning_rates
        summary = study(
            run,
            recipe,
            seeds=self.seeds,
            learning_rates=rates,
            metric=task.metric,
            output=self.output,
        )
        print(f"{summary}\nreport: {os.path.join(self.output, 'report.html')}")


@dataclass(frozen=True, kw_only=True)
class Curves(Command):
    """Plot the losses and accuracies in the TensorBoard logs of a run."""

    examples: ClassVar[str] = "bert-keras curves runs/tiny/logs curves.png"

    logs: str = argument("LOGS", help="OUTPUT/logs of a run")
    picture: str = argument("PICTURE", help="the .png or .svg file to write")

    def run(self) -> None:
        from bert_keras.reports.curves import plot_curves

        plot_curves(self.logs, self.picture)
        print(self.picture)


def _hidden_size(checkpoint: str) -> int:
    from bert_keras.checkpoints.formats import open_checkpoint

    return open_checkpoint(checkpoint).metadata.config.hidden_size


def _print_scores(scores: dict, output: str) -> None:
    if not scores:
        print("the first worker writes the scores and the model")
        return
    print_table(scores)
    print(f"model: {output}/model   curves: tensorboard --logdir {output}/logs")
