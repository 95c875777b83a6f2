"""Recipes: the named hyperparameters of pretraining and fine-tuning runs."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

from bert_keras.data.masking import MaskingPolicy, replacement_shares
from bert_keras.errors import InputError, check_name
from bert_keras.options import check_choice, check_least, check_range, with_changes
from bert_keras.presets import preset
from bert_keras.runs.objectives import OBJECTIVES


@dataclass(frozen=True, kw_only=True)
class PretrainRecipe:
    """The hyperparameters of a pretraining run."""

    size: str  # a name of bert_keras/presets.py
    batch_size: int  # sequences of all devices together
    num_steps: int  # end of the schedule, steps of the starting checkpoint included
    num_warmup_steps: int
    learning_rate: float  # at the end of the warmup
    weight_decay_rate: float = 0.01
    optimizer: str = "adamw"  # or "lamb"
    beta_2: float = 0.999  # of AdamW and LAMB
    max_gradient_norm: float = 1.0  # clips the global norm of the gradients; 0 for no limit
    gradient_accumulation_steps: int = 1  # parts of the batch of each device
    recomputes: bool = False  # whether the backward pass recomputes each block, to save memory
    last_step: int = 0  # ends the run before its schedule, for a next phase; 0 for no early end
    max_skipped: int = 0  # steps without finite gradients that are skipped between two log points
    skip_broken: bool = False  # whether to skip the rest of a truncated record file
    dropout_rate: float = 0.1
    initializer_stddev: float = 0.02
    steps_per_log: int = 50  # steps of one log point
    logs_per_checkpoint: int = 10  # log points of one checkpoint and one held-out score
    keep_checkpoints: int = 3  # newest states that are kept
    # Fraction of the tokens to predict. This and the next three fields mask records of plain ids
    # while they are read (bert_keras/data/masking.py).
    mask_rate: float = 0.15
    mask_unit: str = "piece"  # or "word"
    max_ngram: int = 1  # most units that are masked in a row
    replacement: str = "80-10-10"  # percent [MASK], unchanged, random
    # "bert": masked tokens and, where the records have labels, next sentences; "masked-lm": masked
    # tokens alone; "left-to-right": the next token of plain ids, with a causal encoder.
    objective: str = "bert"
    seed: int = 1

    def __post_init__(self):
        preset(self.size)
        intervals = ("steps_per_log", "logs_per_checkpoint", "keep_checkpoints")
        check_least(self, 1, "batch_size", "num_steps", "gradient_accumulation_steps", *intervals)
        check_least(self, 0, "num_warmup_steps", "max_skipped")
        check_range(self, "0 to 4294967295", "seed")
        check_range(self, "a rate in [0, 1)", "dropout_rate", "beta_2")
        check_range(self, "a number above 0", "learning_rate", "initializer_stddev")
        check_range(self, "0 or a number above it", "weight_decay_rate", "max_gradient_norm")
        check_choice(self, "optimizer", ("adamw", "lamb"))
        check_choice(self, "objective", OBJECTIVES)
        if self.num_warmup_steps >= self.num_steps:
            raise InputError(
                f"num_warmup_steps is {self.num_warmup_steps} of num_steps {self.num_steps}; "
                "expected fewer"
            )
        if not 0 <= self.last_step < self.num_steps:
            raise InputError(
                f"last_step is {self.last_step}; expected 0 or more, less than num_steps"
            )
        self.masking_policy(max_length=1)

    @property
    def end(self) -> int:
        """The last step of the run."""
        return self.last_step or self.num_steps

    def masking_policy(self, *, max_length: int) -> MaskingPolicy:
        """Returns the masking policy for records of plain ids of at most `max_length` tokens."""
        return MaskingPolicy(
            mask_rate=self.mask_rate,
            max_predictions=max(1, math.ceil(self.mask_rate * max_length)),
            unit=self.mask_unit,
            max_ngram=self.max_ngram,
            **replacement_shares(self.replacement),
        )

    def masking_changes(self) -> list[str]:
        """Returns the fields of the masking policy that do not have their default value."""
        names = ("mask_rate", "mask_unit", "max_ngram", "replacement")
        return [name for name in names if getattr(self, name) != getattr(PretrainRecipe, name)]


@dataclass(frozen=True, kw_only=True)
class FinetuneRecipe:
    """The hyperparameters of a fine-tuning run."""

    batch_size: int
    num_epochs: int
    learning_rate: float
    warmup_rate: float = 0.1
    weight_decay_rate: float = 0.01
    bias_correction: bool = False  # of AdamW; the original has none
    layer_rate_decay: float = 1.0  # factor of the learning rate from each layer to the one below
    gradient_accumulation_steps: int = 1  # parts of the batch of each device
    dropout_rate: float = 0.1
    learning_rates: tuple[float, ...] = (5e-5, 4e-5, 3e-5, 2e-5)  # of a search
    patience: int = 0  # epochs without a better dev score after which to stop; 0 for all epochs
    # "random" takes only configuration and vocabulary from the given folder: the baseline that
    # shows what pretraining gave.
    initial_weights: str = "pretrained"
    num_lstm_layers: int = 0  # a BiLSTM between encoder and head (section 5.1, "+ BiLSTM")
    max_train_examples: int = 0  # training examples, evenly spaced over the file; 0 for all
    logs_per_epoch: int = 10
    keep_checkpoints: int = 1
    seed: int = 1

    def __post_init__(self):
        check_least(self, 1, "batch_size", "gradient_accumulation_steps", "num_epochs")
        check_least(self, 1, "logs_per_epoch", "keep_checkpoints")
        check_least(self, 0, "patience", "num_lstm_layers", "max_train_examples")
        check_range(self, "0 to 4294967295", "seed")
        check_range(self, "a rate in [0, 1)", "dropout_rate", "warmup_rate")
        check_range(self, "a number above 0", "learning_rate", "learning_rates")
        check_range(self, "0 or a number above it", "weight_decay_rate")
        check_range(self, "more than 0, up to 1", "layer_rate_decay")
        check_choice(self, "initial_weights", ("pretrained", "random"))


# Appendix A.2: 90 % of the steps on sequences of 128, the rest of 512, under one schedule.
PAPER_BASE = PretrainRecipe(
    size="base",
    batch_size=256,
    num_steps=1_000_000,
    num_warmup_steps=10_000,
    learning_rate=1e-4,
    steps_per_log=1_000,
)

# docs/benchmarks/training-2026-11.md: 27 MB of text, 30,522 pieces, within an hour on 2 cores.
TINY_HOUR = PretrainRecipe(
    size="tiny",
    batch_size=32,
    num_steps=10_000,
    num_warmup_steps=1_000,
    learning_rate=2e-3,
    dropout_rate=0.0,
    steps_per_log=100,
    logs_per_checkpoint=5,
)

# Dropout is left out where a run sees each sentence a few times only (Geiping and Goldstein 2022).
PRETRAIN: dict[str, PretrainRecipe] = {
    # `bert-keras demo`: two minutes on 2 cores. At a hidden size of 128 the paper's 0.02 hardly
    # passes a signal on, and a run this short would stay at the unigram's loss; 0.08 is about
    # 1 / sqrt(128).
    "demo": PretrainRecipe(
        size="tiny",
        batch_size=16,
        num_steps=3_000,
        num_warmup_steps=100,
        learning_rate=5e-4,
        dropout_rate=0.0,
        initializer_stddev=0.08,
        steps_per_log=100,
    ),
    "tiny-hour": TINY_HOUR,
    # A day of one GPU that takes 1,200 sequences of 128 a second: 102 million. Batch and rate are
    # near those of Geiping and Goldstein 2022.
    "gpu-day": PretrainRecipe(
        size="base",
        batch_size=4_096,
        num_steps=25_000,
        num_warmup_steps=1_500,
        learning_rate=1e-3,
        dropout_rate=0.0,
        gradient_accumulation_steps=16,
        steps_per_log=100,
    ),
    # The second begins from the first's model, which holds the training state.
    "paper-128": dataclasses.replace(PAPER_BASE, last_step=900_000),
    "paper-512": PAPER_BASE,
    # With --teacher: three times through 3.3 billion words in records of 512. Section 3 of Sanh et
    # al. 2019 and the defaults of its code, which clips at 5 and draws rare pieces more often.
    "distilbert": PretrainRecipe(
        size="distilbert",
        batch_size=4_096,
        num_steps=6_200,
        num_warmup_steps=310,
        learning_rate=5e-4,
        weight_decay_rate=0.0,
        gradient_accumulation_steps=64,
        objective="masked-lm",
        steps_per_log=10,
    ),
    # Batches, rates, warmups and steps of NVIDIA's two LAMB phases for the large size; the parts
    # are those of 8 GPUs. The second begins from the first's model.
    "lamb-128": PretrainRecipe(
        size="large",
        optimizer="lamb",
        batch_size=65_536,
        num_steps=7_038,
        num_warmup_steps=2_001,
        learning_rate=6e-3,
        gradient_accumulation_steps=128,
        steps_per_log=10,
    ),
    "lamb-512": PretrainRecipe(
        size="large",
        optimizer="lamb",
        batch_size=32_768,
        num_steps=1_563,
        num_warmup_steps=200,
        learning_rate=4e-3,
        gradient_accumulation_steps=256,
        steps_per_log=10,
    ),
    # docs/how-to/pretrain-relatives.md: records of plain ids, --objective full-sentences.
    "roberta-tiny": dataclasses.replace(TINY_HOUR, size="roberta-tiny"),
    # Liu et al. 2019, table 9: records of 512, 8 thousand a batch; the parts are those of 8 GPUs.
    "roberta-base": PretrainRecipe(
        size="roberta-base",
        batch_size=8_192,
        num_steps=500_000,
        num_warmup_steps=24_000,
        learning_rate=6e-4,
        beta_2=0.98,
        max_gradient_norm=0.0,
        gradient_accumulation_steps=32,
        steps_per_log=100,
    ),
    # docs/how-to/pretrain-relatives.md: records of plain ids, --objective sop.
    "albert-tiny": dataclasses.replace(
        TINY_HOUR, size="albert-tiny", mask_unit="word", max_ngram=3
    ),
    # Lan et al. 2019, sections 3.1 and 4.1, the warmup of its code; records of 512. The parts are
    # those of 8 GPUs.
    "albert-base": PretrainRecipe(
        size="albert-base",
        optimizer="lamb",
        batch_size=4_096,
        num_steps=125_000,
        num_warmup_steps=3_125,
        learning_rate=1.76e-3,
        gradient_accumulation_steps=16,
        mask_unit="word",
        max_ngram=3,
        steps_per_log=100,
    ),
}

# The small models' rates and batches: google-research/bert README.
SMALL_MODELS = FinetuneRecipe(
    batch_size=32, num_epochs=4, learning_rate=1e-4, learning_rates=(3e-4, 1e-4, 5e-5, 3e-5)
)
# Section 4.1: batch 32, 3 epochs, of these rates the best on the dev set.
PAPER = FinetuneRecipe(batch_size=32, num_epochs=3, learning_rate=3e-5)

# Section 5.3 says nothing of how its BiLSTM was trained: what suits fresh weights.
TAGGER = FinetuneRecipe(
    batch_size=32, num_epochs=10, learning_rate=1e-3, learning_rates=(3e-3, 1e-3, 3e-4)
)

# By recipe, then by task; "" stands for every task that is not named.
FINETUNE: dict[str, dict[str, FinetuneRecipe]] = {
    "paper": {
        "": PAPER,
        "squad1": dataclasses.replace(PAPER, learning_rate=5e-5),  # section 4.2
        "squad2": dataclasses.replace(  # section 4.3
            PAPER, learning_rate=5e-5, num_epochs=2, batch_size=48
        ),
        "swag": dataclasses.replace(PAPER, learning_rate=2e-5, batch_size=16),  # section 4.4
        "ner-features": TAGGER,
    },
    "small-models": {"": SMALL_MODELS, "ner-features": TAGGER},
    # `bert-keras demo`: half a minute on 2 cores.
    "demo": {"": FinetuneRecipe(batch_size=16, num_epochs=8, learning_rate=1e-3)},
}


def named_recipe(recipes: dict, name: str, *, changes: Iterable[str] = ()):
    """Returns the recipe of a name with changes FIELD=VALUE.

    Raises:
        InputError: The name, a field or a value is unknown.
    """
    check_name(name, recipes, what="recipe")
    return with_changes(recipes[name], changes=changes)[0]


def task_recipes(task: str) -> dict[str, FinetuneRecipe]:
    """Returns the fine-tuning recipes for the task of a name."""
    return {name: recipes.get(task, recipes[""]) for name, recipes in FINETUNE.items()}
