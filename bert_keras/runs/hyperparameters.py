"""The hyperparameters of pretraining and fine-tuning runs; `recipes.py` has named sets of them."""

import math
from dataclasses import dataclass

from bert_keras.data.masking import MaskingPolicy, replacement_shares
from bert_keras.errors import LARGEST_SIZE, InputError, check_choice, check_least, check_range
from bert_keras.models.initial_weights import check_local_attention
from bert_keras.presets import preset
from bert_keras.runs.objectives import PRETRAINING_OBJECTIVES


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

    size: str  # a name of bert_keras/presets.py
    batch_size: int  # sequences of all devices together
    num_steps: int  # end of the schedule, steps of the starting checkpoint included
    num_warmup_steps: int
    learning_rate: float  # at the end of the warmup
    weight_decay_rate: float = 0.01
    # "linear" decays to 0 from step 0 on. "warmup-stable-decay" keeps the peak until the last 20 %.
    schedule: str = "linear"
    optimizer: str = "adamw"  # or "lamb" or "muon"
    beta_2: float = 0.999  # of AdamW and LAMB, and of the weights that Muon leaves to AdamW
    bias_correction: bool = False  # of AdamW; the original has none; LAMB always has it
    max_gradient_norm: float = 1.0  # clips the global norm of the gradients; 0 for no limit
    gradient_accumulation_steps: int = 1  # parts of the batch of each device
    recomputes: bool = False  # whether the backward pass recomputes each block, to save memory
    last_step: int = 0  # ends the run before its schedule, for a next phase; 0 for no early end
    max_skipped: int = 0  # allowed steps with non-finite gradients between two log points
    skip_broken: bool = False  # whether to skip the rest of a truncated record file
    dropout_rate: float = 0.1
    initializer_stddev: float = 0.02
    # "normal" is BERT's. "local-attention" lets the first block attend to neighbouring tokens
    # (bert_keras/models/initial_weights.py).
    initial_weights: str = "normal"
    steps_per_log: int = 50  # steps between two log points
    logs_per_checkpoint: int = 10  # log points between two checkpoints and two held-out scores
    keep_checkpoints: int = 3  # number of newest states to keep
    # Fraction of the tokens to predict. This and the next three fields mask records of plain ids
    # while they are read (bert_keras/data/masking.py).
    mask_rate: float = 0.15
    mask_unit: str = "piece"  # or "word"
    max_ngram: int = 1  # maximum number of consecutive units that are masked together
    replacement: str = "80-10-10"  # percent [MASK], unchanged, random
    # "bert" predicts masked tokens and, if the records have labels, next sentences. "masked-lm"
    # predicts only masked tokens. "left-to-right" predicts the next token of plain ids with a
    # causal encoder. "replaced-token" trains a generator, which predicts masked tokens, and a
    # discriminator, which detects those that the generator replaced (ELECTRA).
    objective: str = "bert"
    # Size of the generator of "replaced-token" relative to the discriminator
    # (bert_keras/checkpoints/generator.py). A generator of the starting point keeps its size.
    generator_size: float = 0.25
    seed: int = 1

    def __post_init__(self):
        preset(self.size)
        intervals = ("steps_per_log", "logs_per_checkpoint", "keep_checkpoints")
        check_least(self, 1, "batch_size", most=LARGEST_SIZE)
        check_least(self, 1, "num_steps", "gradient_accumulation_steps", *intervals)
        check_least(self, 0, "num_warmup_steps", "max_skipped")
        check_range(self, "0 to 4294967295", "seed")
        check_range(self, "a rate in [0, 1)", "dropout_rate", "beta_2")
        check_range(self, "more than 0, up to 1", "generator_size")
        check_range(self, "a number above 0", "learning_rate", "initializer_stddev")
        check_range(self, "0 or a number above it", "weight_decay_rate", "max_gradient_norm")
        check_choice(self, "optimizer", ("adamw", "lamb", "muon"))
        check_choice(self, "schedule", ("linear", "warmup-stable-decay"))
        check_choice(self, "objective", PRETRAINING_OBJECTIVES)
        check_choice(self, "initial_weights", ("normal", "local-attention"))
        if self.initial_weights == "local-attention":
            check_local_attention(preset(self.size))
            if self.objective == "replaced-token" and self.generator_size != 1:
                raise InputError(
                    "initial_weights is local-attention, but generator_size is "
                    f"{self.generator_size}; set generator_size=1 or initial_weights=normal"
                )
        if self.num_warmup_steps >= self.num_steps:
            raise InputError(
                f"num_warmup_steps is {self.num_warmup_steps}; expected less than num_steps, "
                f"{self.num_steps}"
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

    batch_size: int  # rows per step, over all devices
    num_epochs: int
    learning_rate: float  # peak of the schedule
    warmup_rate: float = 0.1  # fraction of the steps
    weight_decay_rate: float = 0.01
    bias_correction: bool = False  # of AdamW; the original has none
    layer_rate_decay: float = 1.0  # ratio of a layer's learning rate to that of the next layer
    gradient_accumulation_steps: int = 1  # parts of the batch of each device
    dropout_rate: float = 0.1
    learning_rates: tuple[float, ...] = (5e-5, 4e-5, 3e-5, 2e-5)  # candidates of a search
    patience: int = 0  # epochs without a better dev score after which to stop; 0 for all epochs
    # "random" uses only the configuration and vocabulary of the pretrained checkpoint. This
    # baseline shows the effect of pretraining.
    initial_weights: str = "pretrained"
    num_lstm_layers: int = 0  # BiLSTM layers between encoder and head (section 5.1, "+ BiLSTM")
    max_train_examples: int = 0  # training examples, evenly spaced over the file; 0 for all
    logs_per_epoch: int = 10  # points on the curves
    keep_checkpoints: int = 1  # number of newest states to keep
    seed: int = 1

    def __post_init__(self):
        check_least(self, 1, "batch_size", most=LARGEST_SIZE)
        check_least(self, 1, "gradient_accumulation_steps", "num_epochs")
        check_least(self, 1, "logs_per_epoch", "keep_checkpoints")
        check_least(self, 0, "patience", "num_lstm_layers", "max_train_examples")
        check_range(self, "0 to 4294967295", "seed")
        check_range(self, "a rate in [0, 1)", "dropout_rate", "warmup_rate")
        check_range(self, "a number above 0", "learning_rate", "learning_rates")
        check_range(self, "0 or a number above it", "weight_decay_rate")
        check_range(self, "more than 0, up to 1", "layer_rate_decay")
        check_choice(self, "initial_weights", ("pretrained", "random"))
