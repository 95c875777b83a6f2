"""Defines recipes, the hyperparameters of pretraining and fine-tuning runs."""

import math
from dataclasses import dataclass
from typing import Any

from bert_keras.config import WARMUP_RATIO
from bert_keras.data.masking import MaskingPolicy, check_unit, replacement_shares
from bert_keras.errors import LARGEST_SIZE, InputError, check_choice, check_least, check_range
from bert_keras.families import preset

# Value of `objective` in recipes -> `runs.pretraining_tasks.PretrainingTask`, or
# "module:attribute", which is imported on first use.
PRETRAINING_TASKS: dict[str, Any] = {
    "bert": "bert_keras.runs.pretraining_tasks:BERT",
    "masked-lm": "bert_keras.runs.pretraining_tasks:MASKED_LM",
    "left-to-right": "bert_keras.runs.pretraining_tasks:LEFT_TO_RIGHT",
    "replaced-token": "bert_keras.runs.pretraining_tasks:REPLACED_TOKEN",
}


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

    size: str  # of the model, see bert-keras list sizes
    batch_size: int  # sequences of a step, of all devices together
    num_steps: int  # end of the schedule, steps of the starting checkpoint included
    num_warmup_steps: int  # steps in which the learning rate rises
    learning_rate: float  # at the end of the warmup
    weight_decay_rate: float = 0.01  # decay of weights, but not of biases and layer norms
    schedule: str = "linear"  # "linear", or "warmup-stable-decay" with decay in the last 20 %
    optimizer: str = "adamw"  # "adamw" or "muon"
    beta_2: float = 0.999  # decay rate of AdamW's squared gradients
    bias_correction: bool = False  # whether AdamW corrects its averages; BERT's does not
    max_gradient_norm: float = 1.0  # maximum global norm of the gradients; 0 for no limit
    gradient_accumulation_steps: int = 1  # parts of a device's batch, one after the other
    gradient_checkpointing: bool = False  # less memory: the backward pass repeats each block
    last_step: int = 0  # end of the run before its schedule, for a next phase; 0 for no early end
    first_share: float = 0.0  # share of the steps that run first, with changes, in folder "first"
    first_changes: tuple[str, ...] = ()  # changes FIELD=VALUE of these first steps
    max_skipped: int = 0  # allowed steps with non-finite gradients between two log points
    dropout_rate: float = 0.1  # for hidden states and attention probabilities
    initializer_stddev: float = 0.02  # of the truncated normal distribution of new weights
    initial_weights: str = "normal"  # "normal", or "local-attention" in the first block
    steps_per_log: int = 50  # steps between two log points
    logs_per_checkpoint: int = 10  # log points between two checkpoints and two held-out scores
    keep_checkpoints: int = 3  # number of newest states to keep
    mask_rate: float = 0.15  # share to predict; as the next three fields, for records of plain ids
    mask_unit: str = "token"  # "token" or "word"
    max_ngram: int = 1  # maximum number of consecutive units that are masked together
    replacement: str = "80-10-10"  # percentages of [MASK], same, random token
    # "bert": masked tokens and, with labels, next sentences; "masked-lm": masked tokens alone;
    # "left-to-right": next tokens; "replaced-token": tokens that a generator replaced (ELECTRA)
    objective: str = "bert"
    generator_size: float = 0.25  # of "replaced-token", relative to the discriminator
    seed: int = 1  # seed of all random numbers

    def __post_init__(self):
        preset(self.size)
        intervals = ("steps_per_log", "logs_per_checkpoint", "keep_checkpoints")
        check_least(self, 1, "batch_size", most=LARGEST_SIZE)
        check_least(self, 1, "num_steps", "gradient_accumulation_steps", *intervals)
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
        check_unit(self, "mask_unit")
        after_first_part = self.first_steps + 1 if self.last_step else 0
        for name, least in (("num_warmup_steps", 0), ("last_step", after_first_part)):
            if not least <= (step := getattr(self, name)) < self.num_steps:
                raise InputError(
                    f"{name} is {step}; expected {least:,} or more, and less than num_steps, "
                    f"{self.num_steps:,}"
                )
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

    def masking_changes(self) -> list[str]:
        """Returns the names of the masking fields that differ from their default value."""
        names = ("mask_rate", "mask_unit", "max_ngram", "replacement")
        return [name for name in names if getattr(self, name) != getattr(PretrainRecipe, name)]


@dataclass(frozen=True, kw_only=True)
class FinetuneRecipe:
    """The hyperparameters of a fine-tuning run.

    Example:

    ```python
    recipe = FinetuneRecipe(batch_size=16, num_epochs=4, learning_rate=3e-5, seed=2)
    ```
    """

    batch_size: int  # rows of a step, of all devices together
    num_epochs: int  # number of passes over the rows
    learning_rate: float  # largest rate of the schedule
    warmup_ratio: float = WARMUP_RATIO  # share of the steps in which the rate rises
    weight_decay_rate: float = 0.01  # decay of weights, but not of biases and layer norms
    bias_correction: bool = False  # whether AdamW corrects its averages; BERT's does not
    layerwise_lr_decay: float = 1.0  # learning rate of a layer relative to the next one
    gradient_accumulation_steps: int = 1  # parts of a device's batch, one after the other
    gradient_checkpointing: bool = False  # less memory: the backward pass repeats each block
    dropout_rate: float = 0.1  # for hidden states and attention probabilities
    learning_rates: tuple[float, ...] = (5e-5, 4e-5, 3e-5, 2e-5)  # rates that a search compares
    patience: int = 0  # epochs without a better dev score after which to stop; 0 for all epochs
    initial_weights: str = "pretrained"  # "pretrained", or "random" as a baseline
    num_lstm_layers: int = 0  # BiLSTM layers between encoder and head (section 5.1, "+ BiLSTM")
    classifier_pooling: str = ""  # "cls", "mean" of all hidden states, or as in the checkpoint
    max_train_examples: int = 0  # training examples, evenly spaced over the file; 0 for all
    logs_per_epoch: int = 10  # points on the training curves of an epoch
    keep_checkpoints: int = 1  # number of newest states to keep
    seed: int = 1  # seed of all random numbers

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
