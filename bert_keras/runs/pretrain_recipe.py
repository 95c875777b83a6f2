"""The settings of a pretraining run; `recipes` holds the named ones."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

from bert_keras.data.masking import MaskingPolicy, replacement_shares
from bert_keras.errors import InputError
from bert_keras.presets import preset
from bert_keras.runs.objectives import OBJECTIVES, named_objective


def check_counts(recipe, *names: str) -> None:
    """Raises InputError unless the named fields are at least 1, and the seed at least 0."""
    for name, least in (*((name, 1) for name in names), ("seed", 0)):
        if getattr(recipe, name) < least:
            raise InputError(f"{name} is {getattr(recipe, name)}; expected at least {least}")
    if recipe.seed >= 2**32:  # NumPy's bound
        raise InputError(f"seed is {recipe.seed}; expected less than {2**32}")


def check_rates(recipe, *, shares: Iterable[str] = ("dropout_rate",)) -> None:
    """Raises InputError unless learning rates are above 0 and `shares` are fields in [0, 1)."""
    for rate in (recipe.learning_rate, *getattr(recipe, "learning_rates", ())):
        if not 0 < rate < math.inf:
            raise InputError(f"a learning_rate is {rate}; expected a number above 0, such as 5e-5")
    if not 0 <= recipe.weight_decay_rate < math.inf:
        raise InputError(
            f"weight_decay_rate is {recipe.weight_decay_rate}; expected 0 or a number above it"
        )
    for name in shares:
        if not 0 <= getattr(recipe, name) < 1:
            raise InputError(f"{name} is {getattr(recipe, name)}; expected a rate in [0, 1)")


@dataclass(frozen=True, kw_only=True)
class PretrainRecipe:
    """Pretraining of one size: `num_steps` batches, one point on the curves every `steps_per_log`
    steps, the state saved and the held-out records scored every `logs_per_checkpoint` points.
    `last_step` ends the run before its schedule, which another then goes on with; 0 does not.
    `beta_2` is Adam's and LAMB's; gradients are scaled down to `max_gradient_norm`, 0 leaves them.
    Each device takes its batch in `gradient_accumulation_steps` parts; `recomputes` computes every
    block anew for its gradients. More than `max_skipped` steps between two
    points whose gradients are not finite stop the run; `skip_broken` leaves out what follows where
    a record file breaks off. `mask_rate`, `mask_unit`, `max_ngram` and `replacement` say how
    records of plain ids are masked while they are read (bert_keras/data/masking.py). `objective`:
    "bert", masked words and, where the records have labels, next sentences; "masked-lm" leaves
    labels out; "left-to-right" trains a causal encoder to tell the next of plain ids.
    """

    size: str
    batch_size: int
    num_steps: int
    num_warmup_steps: int
    learning_rate: float
    weight_decay_rate: float = 0.01
    optimizer: str = "adamw"
    beta_2: float = 0.999
    max_gradient_norm: float = 1.0
    gradient_accumulation_steps: int = 1
    recomputes: bool = False
    last_step: int = 0
    max_skipped: int = 0
    skip_broken: bool = False
    dropout_rate: float = 0.1
    initializer_stddev: float = 0.02
    steps_per_log: int = 50
    logs_per_checkpoint: int = 10
    keep_checkpoints: int = 3
    mask_rate: float = 0.15
    mask_unit: str = "piece"
    max_ngram: int = 1
    replacement: str = "80-10-10"
    objective: str = "bert"
    seed: int = 1

    def __post_init__(self):
        preset(self.size)
        intervals = ("steps_per_log", "logs_per_checkpoint", "keep_checkpoints")
        check_counts(self, "batch_size", "num_steps", "gradient_accumulation_steps", *intervals)
        if self.optimizer not in (known := ("adamw", "lamb")):
            raise InputError(f"optimizer is {self.optimizer!r}; expected one of {known}")
        check_rates(self, shares=("dropout_rate", "beta_2"))
        if not 0 <= self.max_gradient_norm < math.inf:
            raise InputError(
                f"max_gradient_norm is {self.max_gradient_norm}; expected 0 or a number above it"
            )
        if not 0 <= self.num_warmup_steps < self.num_steps:
            raise InputError(
                f"num_warmup_steps is {self.num_warmup_steps} of num_steps {self.num_steps}; "
                "expected fewer"
            )
        for name, most in (("last_step", self.num_steps - 1), ("max_skipped", math.inf)):
            if not 0 <= getattr(self, name) <= most:
                raise InputError(
                    f"{name} is {getattr(self, name)}; expected 0 or more, less than num_steps"
                )
        if not 0 < self.initializer_stddev < math.inf:
            raise InputError(
                f"initializer_stddev is {self.initializer_stddev}; expected a number above 0"
            )
        if self.objective not in OBJECTIVES:
            raise InputError(
                f"objective is {self.objective!r}; expected one of {', '.join(OBJECTIVES)}"
            )
        self.masking_policy(max_length=1)

    @property
    def end(self) -> int:
        """The step that the run ends with."""
        return self.last_step or self.num_steps

    @property
    def is_causal(self) -> bool:
        return named_objective(self.objective).is_causal

    def masking_policy(self, *, max_length: int) -> MaskingPolicy:
        """For records of plain ids; with room for all predictions of the longest sequence."""
        return MaskingPolicy(
            mask_rate=self.mask_rate,
            max_predictions=max(1, math.ceil(self.mask_rate * max_length)),
            unit=self.mask_unit,
            max_ngram=self.max_ngram,
            **replacement_shares(self.replacement),
        )

    def masking_changes(self) -> list[str]:
        """The fields of the masking policy that are not as they stand above."""
        masking = ("mask_rate", "mask_unit", "max_ngram", "replacement")
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        return [name for name in masking if getattr(self, name) != usual[name]]
