"""Defines the scales of experiments: the vocabulary size, records, recipes and seeds."""

from dataclasses import dataclass, field, replace

from bert_keras.experiments.experiments import Arm, Experiment
from bert_keras.runs import recipes
from bert_keras.runs.recipes import PRETRAIN, FinetuneRecipe, PretrainRecipe
from bert_keras.runs.settings import with_changes


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The fine-tuning of a task."""

    recipe: FinetuneRecipe  # its `learning_rates` are the candidates of the search
    changes: tuple[str, ...] = ()  # FIELD=VALUE changes of the task's settings


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The sizes and recipes of an experiment. All arms read the same records, without masks."""

    note: str  # what the scale can and cannot show
    vocab_size: int
    max_length: int = 128  # tokens of a record
    recipe: PretrainRecipe  # of the pretraining
    tunings: dict[str, Tuning]  # task -> fine-tuning; "" applies to every task not listed
    num_seeds: int  # seeds of each fine-tuning
    duplicates: int = 5  # see BuildSettings
    held_out_rate: float = 0.01  # see BuildSettings
    seed: int = 1  # seed of the records
    # FIELD=VALUE changes of an arm, such as large sizes -> the changes that replace them
    stand_ins: dict[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ("table5", "table6", "c2", "labels")  # names of experiments

    def remarks(self, experiment: Experiment) -> list[str]:
        """Returns sentences about what differs from the paper."""
        used = {change for arm in experiment.arms for change in arm.pretraining}
        return [f"{new} replaces {old}." for old, new in self.stand_ins.items() if old in used]

    def pretraining(self, arm: Arm) -> PretrainRecipe:
        """Returns the pretraining recipe of an arm."""
        changes = [self.stand_ins.get(change, change) for change in arm.pretraining]
        return with_changes(self.recipe, changes=changes)[0]


def _at_rate(learning_rate: float, recipe: FinetuneRecipe, **changes) -> FinetuneRecipe:
    """Returns a recipe with one learning rate and no search."""
    rates = {"learning_rate": learning_rate, "learning_rates": (learning_rate,)}
    return replace(recipe, **rates, **changes)


_TWO_EPOCHS = FinetuneRecipe(batch_size=32, num_epochs=2, learning_rate=3e-4)
_TINY = _at_rate(3e-4, _TWO_EPOCHS, max_train_examples=10_000, logs_per_epoch=5)
_TAGGER = _at_rate(recipes.TAGGER.learning_rate, recipes.TAGGER)
_SMALL_TAGGER = ("layers=last", "lstm_units=64")
_WINDOWS = ("max_length=128", "stride=96", "max_question_length=32")  # for SQuAD
# After laptop-10min, which has no dropout, one seed: MNLI 50.9 % and QNLI 61.0 % without dropout,
# 49.9 % and 60.4 % with 0.1. A learning rate of 3e-3 gave MNLI 48.8 %, 1e-3 gave 50.0 %.
_CHANGES = {"num_epochs": 5, "max_train_examples": 10_000, "dropout_rate": 0.0}
_SMALL = _at_rate(1e-3, recipes.LAPTOP_TASKS, **_CHANGES)

SCALES = {
    # The stddev is about 1 / sqrt(128). With 0.02, some arms stay at the unigram loss by chance.
    "tiny": Scale(
        note="2 layers of size 128, 2,000 steps of 16 sequences of 128 tokens, less than a "
        "millionth of the paper's computation. It shows what a model learns first: whether a "
        "pretraining task helps the fine-tuning tasks at all, and what attention in one direction "
        "costs. It is too short for the paper's comparison of fully trained models: scores on "
        "small dev sets vary by several points with the seed, so smaller differences between arms "
        "have no meaning.",
        vocab_size=8_000,
        recipe=replace(
            recipes.TINY_HOUR,
            batch_size=16,
            num_steps=2_000,
            num_warmup_steps=200,
            learning_rate=1e-3,
            initializer_stddev=0.08,
        ),
        tunings={
            "": Tuning(recipe=_TINY, changes=("max_length=96",)),
            "mrpc": Tuning(recipe=_at_rate(5e-4, _TINY, num_epochs=4), changes=("max_length=96",)),
            "squad1": Tuning(
                recipe=_at_rate(5e-4, _TINY, num_epochs=1, max_train_examples=5_000),
                changes=_WINDOWS,
            ),
            "ner": Tuning(recipe=_at_rate(1e-3, _TINY, num_epochs=6)),
            "ner-features": Tuning(recipe=replace(_TAGGER, num_epochs=6), changes=_SMALL_TAGGER),
        },
        num_seeds=2,
        duplicates=2,
        # A third of the layers, a sixth of the hidden size and half the size of the heads.
        stand_ins={
            "size=L-3_H-768_A-12": "size=L-1_H-128_A-4",
            "size=L-6_H-768_A-3": "size=L-2_H-128_A-1",
            "size=L-6_H-768_A-12": "size=L-2_H-128_A-4",
            "size=L-12_H-768_A-12": "size=L-4_H-128_A-4",
            "size=L-12_H-1024_A-16": "size=L-4_H-160_A-5",
            "size=L-24_H-1024_A-16": "size=L-8_H-160_A-5",
        },
    ),
    "small": Scale(
        note="2 layers of size 128 with pre-norm and rotary positions, 7,500 steps of 32 sequences "
        "of 128 tokens (the recipe laptop-10min), three seeds of each fine-tuning. The classifiers "
        "of all arms read the mean of the states.",
        vocab_size=8_000,
        recipe=PRETRAIN["laptop-10min"],
        tunings={
            "": Tuning(recipe=replace(_SMALL, classifier_pooling="mean")),
            "squad1": Tuning(recipe=replace(_SMALL, num_epochs=3), changes=_WINDOWS),
            "ner": Tuning(recipe=replace(_SMALL, num_epochs=12)),
            "pos": Tuning(recipe=replace(_SMALL, num_epochs=8)),
            "ner-features": Tuning(recipe=_TAGGER, changes=_SMALL_TAGGER),
        },
        num_seeds=3,
        tables=("table5", "c2", "labels"),
    ),
}
