"""Recipes: the hyperparameters of pretraining and fine-tuning runs, and named sets of them."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

from bert_keras.config import FINE_TUNING, WARMUP_RATIO
from bert_keras.data.masking import UNITS, MaskingPolicy, replacement_shares
from bert_keras.errors import LARGEST_SIZE, InputError, check_choice, check_least, check_range
from bert_keras.families import preset
from bert_keras.fields import document_fields, setting

# Value of `objective` in recipes -> `runs.pretraining_tasks.PretrainingTask`, or
# "module:attribute", which is imported on first use.
PRETRAINING_TASKS: dict[str, Any] = {
    "bert": "bert_keras.runs.pretraining_tasks:BERT",
    "masked-lm": "bert_keras.runs.pretraining_tasks:MASKED_LM",
    "left-to-right": "bert_keras.runs.pretraining_tasks:LEFT_TO_RIGHT",
    "replaced-token": "bert_keras.runs.pretraining_tasks:REPLACED_TOKEN",
}


@document_fields
@dataclass(frozen=True, kw_only=True)
class PretrainRecipe:
    """The hyperparameters of a pretraining run.

    Example:

    ```python
    recipe = PretrainRecipe(
        size="tiny", batch_size=32, num_steps=1_000, num_warmup_steps=100, learning_rate=5e-4
    )
    ```
    """

    size: str = field(metadata={"help": "of the model, see bert-keras list sizes"})
    batch_size: int = field(metadata={"help": "sequences of a step, of all devices together"})
    num_steps: int = field(metadata={"help": "end of the schedule, a checkpoint's steps included"})
    num_warmup_steps: int = field(metadata={"help": "steps in which the learning rate rises"})
    learning_rate: float = field(metadata={"help": "at the end of the warmup"})
    weight_decay_rate: float = setting(0.01, "decay of weights, but not of biases and layer norms")
    schedule: str = setting("linear", '"linear", or "warmup-stable-decay": decay in the last 20 %')
    optimizer: str = setting("adamw", '"adamw" or "muon"')
    beta_2: float = setting(0.999, "decay rate of AdamW's squared gradients")
    bias_correction: bool = setting(False, "whether AdamW corrects its averages; BERT's does not")
    max_gradient_norm: float = setting(1.0, "maximum global norm of the gradients; 0 for no limit")
    gradient_accumulation_steps: int = setting(1, "parts of a device's batch, one after the other")
    gradient_checkpointing: bool = setting(False, "less memory: the backward pass repeats blocks")
    last_step: int = setting(0, "end of the run before the schedule's end, for a next phase; or 0")
    first_share: float = setting(0.0, 'share of the steps with first_changes, in folder "first"')
    first_changes: tuple[str, ...] = setting((), "changes FIELD=VALUE of these first steps")
    max_skipped: int = setting(0, "allowed steps with non-finite gradients between two log points")
    dropout_rate: float = setting(0.1, "for hidden states and attention probabilities")
    initializer_stddev: float = setting(0.02, "of the truncated normal distribution of new weights")
    initial_weights: str = setting("normal", '"normal", or "local-attention" in the first block')
    steps_per_log: int = setting(50, "steps between two log points")
    logs_per_checkpoint: int = setting(10, "log points between two checkpoints and held-out scores")
    keep_checkpoints: int = setting(3, "number of newest states to keep")
    mask_rate: float = setting(0.15, "share to predict; like the next three, for plain records")
    mask_unit: str = setting("token", '"token" or "word"')
    max_ngram: int = setting(1, "maximum number of consecutive units that are masked together")
    replacement: str = setting("80-10-10", "percentages of [MASK], same, random token")
    objective: str = setting("bert", '"bert", "masked-lm", "left-to-right" or "replaced-token"')
    generator_size: float = setting(0.25, 'of "replaced-token", relative to the discriminator')
    seed: int = setting(1, "seed of all random numbers")

    def __post_init__(self):
        preset(self.size)
        check_least(self, 1, "batch_size", most=LARGEST_SIZE)
        check_least(self, 1, "num_steps", "gradient_accumulation_steps", "steps_per_log")
        check_least(self, 1, "logs_per_checkpoint", "keep_checkpoints")
        check_least(self, 0, "max_skipped")
        check_range(self, "0 to 4294967295", "seed")
        check_range(self, "a rate in [0, 1)", "dropout_rate", "beta_2", "first_share")
        check_range(self, "more than 0, up to 1", "generator_size", "learning_rate")
        check_range(self, "a number above 0", "initializer_stddev")
        check_range(self, "0 or a number above it", "weight_decay_rate", "max_gradient_norm")
        check_choice(self, "optimizer", ("adamw", "muon"))
        check_choice(self, "schedule", ("linear", "warmup-stable-decay"))
        check_choice(self, "objective", PRETRAINING_TASKS)
        check_choice(self, "initial_weights", ("normal", "local-attention"))
        check_choice(self, "mask_unit", UNITS)
        after_first_part = self.first_steps + 1 if self.last_step else 0
        for name, least in (("num_warmup_steps", 0), ("last_step", after_first_part)):
            if not least <= (step := getattr(self, name)) < self.num_steps:
                raise InputError(f"{name} is {step}; expected {least:,} or more, below num_steps")
        self.masking_policy(max_length=1)

    @property
    def first_steps(self) -> int:
        """The steps of the first part."""
        return int(self.first_share * self.num_steps)

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


@document_fields
@dataclass(frozen=True, kw_only=True)
class FinetuneRecipe:
    """The hyperparameters of a fine-tuning run.

    Example:

    ```python
    recipe = FinetuneRecipe(batch_size=16, num_epochs=4, learning_rate=3e-5, seed=2)
    ```
    """

    batch_size: int = field(metadata={"help": "rows of a step, of all devices together"})
    num_epochs: int = field(metadata={"help": "number of passes over the rows"})
    learning_rate: float = field(metadata={"help": "largest rate of the schedule"})
    warmup_ratio: float = setting(WARMUP_RATIO, "share of the steps in which the rate rises")
    weight_decay_rate: float = setting(0.01, "decay of weights, but not of biases and layer norms")
    bias_correction: bool = setting(False, "whether AdamW corrects its averages; BERT's does not")
    layerwise_lr_decay: float = setting(1.0, "learning rate of a layer relative to the next one")
    gradient_accumulation_steps: int = setting(1, "parts of a device's batch, one after the other")
    gradient_checkpointing: bool = setting(False, "less memory: the backward pass repeats blocks")
    dropout_rate: float = setting(0.1, "for hidden states and attention probabilities")
    learning_rates: tuple[float, ...] = setting((5e-5, 4e-5, 3e-5, 2e-5), "compared by a search")
    patience: int = setting(0, "epochs without a better dev score after which to stop; 0: never")
    initial_weights: str = setting("pretrained", '"pretrained", or "random" as a baseline')
    num_lstm_layers: int = setting(0, "BiLSTM layers between encoder and head (section 5.1)")
    classifier_pooling: str = setting("", '"cls", "mean", or "" as in the checkpoint')
    max_train_examples: int = setting(0, "training examples, evenly spaced in the file; 0 for all")
    logs_per_epoch: int = setting(10, "points on the training curves of an epoch")
    keep_checkpoints: int = setting(1, "number of newest states to keep")
    seed: int = setting(1, "seed of all random numbers")

    def __post_init__(self):
        check_least(self, 1, "batch_size", most=LARGEST_SIZE)
        check_least(self, 1, "gradient_accumulation_steps", "num_epochs")
        check_least(self, 1, "logs_per_epoch", "keep_checkpoints")
        check_least(self, 0, "patience", "num_lstm_layers", "max_train_examples")
        check_range(self, "0 to 4294967295", "seed")
        check_range(self, "a rate in [0, 1)", "dropout_rate", "warmup_ratio")
        check_range(self, "more than 0, up to 1", "learning_rate", "learning_rates")
        check_range(self, "more than 0, up to 1", "layerwise_lr_decay")
        check_range(self, "0 or a number above it", "weight_decay_rate")
        check_choice(self, "initial_weights", ("pretrained", "random"))
        check_choice(self, "classifier_pooling", ("", "cls", "mean"))


# Appendix A.2: 90 % of the steps use sequences of 128 tokens and the rest sequences of 512, under
# one schedule.
PAPER_BASE = PretrainRecipe(
    size="base",
    batch_size=256,
    num_steps=1_000_000,
    num_warmup_steps=10_000,
    learning_rate=1e-4,
    steps_per_log=1_000,
)

# docs/benchmarks/archive/training-2026-11.md: 27 MB of text take less than an hour on 2 cores.
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

# The models of these recipes: docs/benchmarks/archive/pretraining.md.
LAPTOP = PretrainRecipe(
    size="modern-tiny",
    batch_size=32,
    num_steps=7_500,
    num_warmup_steps=375,
    learning_rate=5e-3,
    schedule="warmup-stable-decay",
    optimizer="muon",
    dropout_rate=0.0,
    initializer_stddev=0.088,
    steps_per_log=100,
)

_LOCAL_START: dict[str, Any] = {"optimizer": "adamw", "bias_correction": True}
_LOCAL_START["initial_weights"] = "local-attention"


def _laptop(num_steps: int, **changes) -> PretrainRecipe:
    """Returns `LAPTOP` with other settings and a warmup of 5 % of the steps."""
    warmup = num_steps // 20
    return replace(LAPTOP, num_steps=num_steps, num_warmup_steps=warmup, **changes)


# Runs that read each sentence only a few times use no dropout (Geiping and Goldstein 2022).
PRETRAIN: dict[str, PretrainRecipe] = {
    "laptop-10min": LAPTOP,
    # Next sentences and a mask rate of 0.15 in the last fifth, in which the learning rate decays.
    "laptop-hour": _laptop(
        12_000,
        size="modern-mini",
        learning_rate=2e-3,
        initializer_stddev=0.0625,
        first_share=0.8,
        first_changes=("objective=masked-lm", "mask_rate=0.3"),
    ),
    "bert-hour": _laptop(
        11_500, size="mini", learning_rate=1e-3, initializer_stddev=0.0625, **_LOCAL_START
    ),
    # The steps fill an hour and a day of a GPU that computes 84 TFLOP/s, 27 % of the 312 TFLOP/s in
    # bfloat16 of an A100, with records of 128 tokens and a vocabulary of 30,522. Batch size and
    # learning rate of gpu-day are close to the values of Geiping and Goldstein 2022.
    "gpu-hour": _laptop(
        13_400,
        size="modern-medium",
        batch_size=1_024,
        learning_rate=2e-3,
        initializer_stddev=0.044,
        gradient_accumulation_steps=4,
    ),
    "gpu-day": _laptop(
        25_000,
        size="modern-base",
        batch_size=4_096,
        learning_rate=1e-3,
        initializer_stddev=0.036,
        gradient_accumulation_steps=32,
    ),
    # docs/quickstart.md: the settings of laptop-10min for 0.3 MB of text and 64 tokens.
    "demo": _laptop(2_200, batch_size=16, learning_rate=3e-3),
    "tiny-hour": TINY_HOUR,
    # paper-512 starts from the model of paper-128, which includes the training state.
    "paper-128": replace(PAPER_BASE, last_step=900_000),
    "paper-512": PAPER_BASE,
    # Used with --from, whose size replaces this one, on the text of a domain. Learning rate, batch
    # size and smallest number of steps are from the README of google-research/bert.
    "continue": PretrainRecipe(
        size="base",
        batch_size=32,
        num_steps=10_000,
        num_warmup_steps=1_000,
        learning_rate=2e-5,
        steps_per_log=100,
    ),
    # Used with --teacher: three epochs over 3.3 billion words in records of 512 tokens. Section 3
    # of Sanh et al. 2019 and the defaults of its code. Unlike this recipe, that code clips
    # gradients at norm 5 and masks rare tokens more often.
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
    # For records of plain ids (docs/how-to/pretrain-variants.md), of --objective full-sentences for
    # roberta-tiny and sop for albert-tiny. As in Clark et al. 2020, the generator of electra-tiny
    # reads [MASK] at every masked position. A smaller generator learns too late
    # (docs/benchmarks/archive/pretraining.md).
    "roberta-tiny": replace(TINY_HOUR, size="roberta-tiny"),
    "albert-tiny": replace(TINY_HOUR, size="albert-tiny", mask_unit="word", max_ngram=3),
    "electra-tiny": _laptop(
        3_000,
        size="electra-tiny",
        learning_rate=2e-3,
        objective="replaced-token",
        generator_size=1.0,
        replacement="100-0-0",
        **_LOCAL_START,
    ),
}

# Learning rates and batch size for the small models, from the google-research/bert README.
SMALL_MODELS = FinetuneRecipe(
    **FINE_TUNING["small-models"], learning_rates=(3e-4, 1e-4, 5e-5, 3e-5)
)
# For the models of laptop-10min; laptop-hour needs 3e-4 (docs/benchmarks/archive/pretraining.md).
_HIGH_RATES: dict[str, Any] = {"learning_rate": 1e-3, "learning_rates": (3e-3, 1e-3, 3e-4)}
LAPTOP_TASKS = FinetuneRecipe(batch_size=32, num_epochs=3, bias_correction=True, **_HIGH_RATES)
# Section 4.1: batch size 32, 3 epochs, and the best of the `learning_rates` on dev.
PAPER = FinetuneRecipe(**FINE_TUNING["paper"])

# Section 5.3 does not describe the training of its BiLSTM. These values suit fresh weights.
TAGGER = FinetuneRecipe(batch_size=32, num_epochs=10, **_HIGH_RATES)

# Reimers and Gurevych 2019, section 4.2, and training_stsbenchmark.py of sentence-transformers.
_PAIRS = {"batch_size": 16, "num_epochs": 4, "learning_rate": 2e-5}
# training_nli_v2.py of sentence-transformers.
_RETRIEVAL = {"batch_size": 128, "num_epochs": 1, "learning_rate": 5e-5}
EMBEDDINGS = {
    "sentence-pairs": FinetuneRecipe(**_PAIRS, bias_correction=True),
    "retrieval": FinetuneRecipe(**_RETRIEVAL, bias_correction=True),
}

# run_all.sh of KLUE-benchmark/KLUE-baseline, for the base sizes. Its AdamW has an epsilon of 1e-8.
KLUE = FinetuneRecipe(
    batch_size=32, num_epochs=4, learning_rate=5e-5, weight_decay_rate=0.0, bias_correction=True
)
# finetune/config/TASK/koelectra-base-v3.json of monologg/KoELECTRA, with the same AdamW.
KOELECTRA = replace(KLUE, num_epochs=10, warmup_ratio=0.0)

# Recipe name -> task name -> recipe. "" applies to every task that is not listed.
FINETUNE: dict[str, dict[str, FinetuneRecipe]] = {
    "paper": {
        "": PAPER,
        # Sections 4.2 to 4.4
        "squad1": replace(PAPER, learning_rate=5e-5),
        "squad2": replace(PAPER, learning_rate=5e-5, num_epochs=2, batch_size=48),
        "swag": replace(PAPER, learning_rate=2e-5, batch_size=16),
        "ner-features": TAGGER,
        **EMBEDDINGS,
        "klue-tc": KLUE,
        "klue-sts": KLUE,
        "klue-nli": replace(KLUE, num_epochs=5),
        "klue-mrc": replace(
            KLUE, num_epochs=5, batch_size=16, learning_rate=3e-5, warmup_ratio=0.0
        ),
        "klue-ner": replace(KLUE, num_epochs=3, warmup_ratio=0.0),
        "nsmc": KOELECTRA,
        "kornli": replace(KOELECTRA, num_epochs=15, batch_size=64),
        "korsts": KOELECTRA,
        "naver-ner": replace(KOELECTRA, num_epochs=20),
        "korquad": replace(KOELECTRA, num_epochs=7, batch_size=8),
    },
    "small-models": {"": SMALL_MODELS, "ner-features": TAGGER, **EMBEDDINGS},
    "laptop": {"": LAPTOP_TASKS, "ner-features": TAGGER},
    "demo": {
        "": FinetuneRecipe(batch_size=8, num_epochs=20, learning_rate=1e-3, bias_correction=True)
    },
}
