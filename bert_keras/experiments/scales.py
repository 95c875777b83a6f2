"""How large an experiment is: vocabulary, records, recipes, seeds, and what that can show."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field

from bert_keras.experiments.experiments import Arm, Experiment
from bert_keras.options import with_changes
from bert_keras.runs.recipes import PAPER, PRETRAIN, TAGGER, FinetuneRecipe, PretrainRecipe


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One pretraining, on records of `max_length`; it begins where the one before it ended."""

    max_length: int
    recipe: PretrainRecipe


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The fine-tuning of a task: recipe, with as many `learning_rates` as are to be tried, and
    FIELD=VALUE changes of the task."""

    recipe: FinetuneRecipe
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes and recipes of all runs of an experiment.

    Records hold pairs of plain ids: every arm reads the same tokens, in the same order.
    """

    note: str  # what it can show and what not
    vocab_size: int
    phases: tuple[Phase, ...]
    tunings: dict[str, Tuning]  # by task; "" for every task that is not named
    num_seeds: int
    duplicates: int = 5
    held_out_rate: float = 0.01
    seed: int = 1
    stand_ins: dict[str, str] = field(default_factory=dict)  # changes in place of those of an arm

    def tuning(self, task: str) -> Tuning:
        """The fine-tuning of a task."""
        return self.tunings[task if task in self.tunings else ""]

    def step(self, arm: Arm) -> int:
        """The pretraining step from which this arm is fine-tuned."""
        return round(arm.share * self.phases[-1].recipe.end)

    def pretraining(self, arm: Arm, *, ends: Iterable[int] = ()) -> list[Phase]:
        """The phases as the arm changes them, cut where steps of `ends` are. Each part of a phase
        has a seed of its own: the records, which it reads from their beginning, come otherwise.
        """
        parts, begin = [], 0
        for phase in self.phases:
            changes = [self.stand_ins.get(change, change) for change in arm.pretraining]
            (recipe,) = with_changes(phase.recipe, changes=changes)
            within = {end for end in ends if begin < end < recipe.end}
            for number, end in enumerate(sorted({*within, recipe.end})):
                last_step = end if end < recipe.num_steps else 0
                part = dataclasses.replace(recipe, last_step=last_step, seed=recipe.seed + number)
                parts.append(dataclasses.replace(phase, recipe=part))
            begin = recipe.end
        return parts

    def needed(self, experiment: Experiment) -> "Scale":
        """As much of it as the outcome of the experiment hangs on."""
        tasks = {column.task for column in experiment.columns}
        changes = {change for arm in experiment.arms for change in arm.pretraining}
        return dataclasses.replace(
            self,
            note="",
            tunings={task: self.tuning(task) for task in sorted(tasks)},
            stand_ins={old: new for old, new in self.stand_ins.items() if old in changes},
        )


def _in_parts(name: str) -> PretrainRecipe:
    """From left to right all positions have logits: 2 GB of them in a part of 32 x 512."""
    return dataclasses.replace(PRETRAIN[name], gradient_accumulation_steps=8)


_TINY = FinetuneRecipe(
    batch_size=32,
    num_epochs=2,
    learning_rate=3e-4,
    learning_rates=(3e-4,),
    max_train_examples=10_000,
    logs_per_epoch=5,
)


def _at(learning_rate: float, recipe: FinetuneRecipe, **changes) -> FinetuneRecipe:
    """That rate alone, none to search."""
    rates = {"learning_rate": learning_rate, "learning_rates": (learning_rate,)}
    return dataclasses.replace(recipe, **rates, **changes)


_TAGGER = _at(TAGGER.learning_rate, TAGGER)

SCALES = {
    # As in the demo: with initial weights of 0.02 some arms stay at the unigram by chance.
    "tiny": Scale(
        note="2 layers of 128, 2,000 steps of 16 sequences of 128 pieces: less than a millionth of "
        "the paper's computing. It shows what is learnt first: whether a pretraining task reaches "
        "the tasks at all, and what attention in one direction costs. It is too short for what the "
        "paper compares, models trained to the end: scores of small dev sets move by points with "
        "the seed, and arms that lie closer than that are not ordered by it.",
        vocab_size=8_000,
        phases=(
            Phase(
                max_length=128,
                recipe=dataclasses.replace(
                    PRETRAIN["demo"],
                    num_steps=2_000,
                    num_warmup_steps=200,
                    learning_rate=1e-3,
                    logs_per_checkpoint=5,
                ),
            ),
        ),
        tunings={
            "": Tuning(recipe=_TINY, changes=("max_length=96",)),
            "mrpc": Tuning(recipe=_at(5e-4, _TINY, num_epochs=4), changes=("max_length=96",)),
            "squad1": Tuning(
                recipe=_at(5e-4, _TINY, num_epochs=1, max_train_examples=5_000),
                changes=("max_length=128", "stride=96", "max_question_length=32"),
            ),
            "ner": Tuning(recipe=_at(1e-3, _TINY, num_epochs=6)),
            "ner-features": Tuning(
                recipe=dataclasses.replace(_TAGGER, num_epochs=6),
                changes=("layers=last", "lstm_units=64"),
            ),
        },
        num_seeds=2,
        duplicates=2,
        # A third of the layers, a sixth of the width, heads of half the size.
        stand_ins={
            "size=L-3_H-768_A-12": "size=L-1_H-128_A-4",
            "size=L-6_H-768_A-3": "size=L-2_H-128_A-1",
            "size=L-6_H-768_A-12": "size=L-2_H-128_A-4",
            "size=L-12_H-768_A-12": "size=L-4_H-128_A-4",
            "size=L-12_H-1024_A-16": "size=L-4_H-160_A-5",
            "size=L-24_H-1024_A-16": "size=L-8_H-160_A-5",
        },
    ),
    # Appendix A.2 and sections 4 and 5.1, on Wikipedia and books of one's own.
    "paper": Scale(
        note="the paper's own: BERT-base, a million steps of 256 sequences, five seeds and four "
        "learning rates a task.",
        vocab_size=30_522,
        phases=(
            Phase(max_length=128, recipe=_in_parts("paper-128")),
            Phase(max_length=512, recipe=_in_parts("paper-512")),
        ),
        tunings={
            "": Tuning(recipe=PAPER),
            "squad1": Tuning(recipe=_at(5e-5, PAPER)),
            "ner-features": Tuning(recipe=_TAGGER),
        },
        num_seeds=5,
    ),
}
