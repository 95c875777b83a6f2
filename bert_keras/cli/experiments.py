"""Defines the commands that run many stages: demo and reproduce."""

from dataclasses import dataclass
from typing import ClassVar

from bert_keras.cli.training import DeviceOptions
from bert_keras.commands import Command
from bert_keras.errors import InputError, check_name
from bert_keras.options import argument, option


@dataclass(frozen=True, kw_only=True)
class Demo(Command):
    """Run every stage once, from text to a served prediction, in minutes on two CPU cores."""

    examples: ClassVar[str] = "bert-keras demo --corpus wiki.txt books.txt --output demo"

    corpus: tuple[str, ...] = option(
        (),
        metavar="FILE",
        help="UTF-8 text files with a paragraph on each line and a blank line between documents",
        default_text="CPython's language reference",
    )
    output: str = option("demo", metavar="DIR", help="the parent folder of all demos")
    steps: int | None = option(
        None,
        metavar="N",
        help="the number of pretraining steps; fewer steps save time and give a worse model",
        default_text="that of the recipe demo",
    )
    seed: int = option(1, help="the seed of all random numbers")

    def run(self) -> None:
        from bert_keras.demo import demo

        demo(corpus=self.corpus, output=self.output, num_steps=self.steps, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class Reproduce(DeviceOptions):
    """Repeat a table or figure of the paper; the same command continues an interrupted run."""

    examples: ClassVar[str] = (
        "bert-keras reproduce table5 --scale small --data data --output table5\n"
        "  bert-keras reproduce c2 --scale paper --data data --output c2 --dry-run"
    )

    table: str = argument(
        "TABLE",
        help="table5 (pretraining tasks), table6 (model size), c1 (number of steps) or c2 (masking "
        "strategies)",
    )
    scale: str = option(
        "tiny",
        metavar="SCALE",
        help="tiny (about an hour on two CPU cores), small (table5 and c2, at most six hours for "
        "both on two CPU cores) or paper (needs GPUs or TPUs)",
    )
    data: str = option(
        metavar="DIR",
        help="a folder with corpus/*.txt and any of glue/MNLI, glue/QNLI, glue/MRPC, glue/SST-2, "
        "squad and ner/conll2003",
    )
    output: str | None = option(
        None, flags=["-o", "--output"], metavar="DIR", help="the folder of all runs"
    )
    dry_run: bool = option(
        False,
        help="take a few steps of each kind, print the runs and their duration, write nothing",
    )

    def is_study(self) -> bool:
        return True

    def run(self) -> None:
        from bert_keras.experiments.experiments import EXPERIMENTS
        from bert_keras.experiments.scales import SCALES

        check_name(self.table, EXPERIMENTS, what="table")
        check_name(self.scale, SCALES, what="scale")
        experiment, scale = EXPERIMENTS[self.table], SCALES[self.scale]
        if self.dry_run:
            from bert_keras.experiments.plan import plan

            print(plan(experiment, scale, data=self.data))
            return
        if self.output is None:
            raise InputError("--output DIR is missing; name a new folder or use --dry-run")
        from bert_keras.experiments.run import reproduce

        reproduce(experiment, scale, data=self.data, output=self.output)
        print(f"report: {self.output}/report.html and report.md")
