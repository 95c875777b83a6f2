"""Named, frozen, complete settings of a run: its numbers stand here and nowhere else."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

from bert_keras.data.masking import MaskingPolicy, replacement_shares
from bert_keras.data.objectives import OBJECTIVES
from bert_keras.errors import InputError
from bert_keras.presets import preset
from bert_keras.runs.changes import changed


def _check_counts(recipe, *names: str) -> None:
    for name, least in (*((name, 1) for name in names), ("seed", 0)):
        if getattr(recipe, name) < least:
            raise InputError(f"{name} is {getattr(recipe, name)}; expected at least {least}")
    if recipe.seed >= 2**32:  # NumPy's bound
        raise InputError(f"seed is {recipe.seed}; expected less than {2**32}")


def _check_rates(recipe, *, shares: Iterable[str] = ("dropout_rate",)) -> None:
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
        _check_counts(self, "batch_size", "num_steps", "gradient_accumulation_steps", *intervals)
        if self.optimizer not in (known := ("adamw", "lamb")):
            raise InputError(f"optimizer is {self.optimizer!r}; expected one of {known}")
        _check_rates(self)
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
        return self.objective == "left-to-right"

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


@dataclass(frozen=True, kw_only=True)
class FinetuneRecipe:
    """Fine-tuning on a task. `initial_weights` "pretrained" takes the encoder from the given
    folder, "random" only its config and vocabulary (the baseline that shows what pretraining gave).
    `bias_correction` is AdamW's, which the original leaves out; `layer_rate_decay` is BertAdamW's.
    Each device takes its batch in `gradient_accumulation_steps` parts. `patience` ends a run after
    so many epochs without a better score on dev, 0 never does. `learning_rates` are those that a
    search tries. `num_lstm_layers` of a BiLSTM with random weights come between encoder and head
    (section 5.1, "+ BiLSTM").
    """

    batch_size: int
    num_epochs: int
    learning_rate: float
    warmup_rate: float = 0.1
    weight_decay_rate: float = 0.01
    bias_correction: bool = False
    layer_rate_decay: float = 1.0
    gradient_accumulation_steps: int = 1
    dropout_rate: float = 0.1
    learning_rates: tuple[float, ...] = (5e-5, 4e-5, 3e-5, 2e-5)
    patience: int = 0
    initial_weights: str = "pretrained"
    num_lstm_layers: int = 0
    logs_per_epoch: int = 10
    keep_checkpoints: int = 1
    seed: int = 1

    def __post_init__(self):
        counts = ("num_epochs", "logs_per_epoch", "keep_checkpoints")
        _check_counts(self, "batch_size", "gradient_accumulation_steps", *counts)
        _check_rates(self, shares=("dropout_rate", "warmup_rate"))
        if not 0 < self.layer_rate_decay <= 1:
            raise InputError(
                f"layer_rate_decay is {self.layer_rate_decay}; expected more than 0, up to 1"
            )
        for name in ("patience", "num_lstm_layers"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 0")
        if self.initial_weights not in (known := ("pretrained", "random")):
            raise InputError(
                f"initial_weights is {self.initial_weights!r}; expected one of {known}"
            )


# Appendix A.2: 90 % of the steps on sequences of 128, the rest of 512, under one schedule.
PAPER_BASE = PretrainRecipe(
    size="base",
    batch_size=256,
    num_steps=1_000_000,
    num_warmup_steps=10_000,
    learning_rate=1e-4,
    steps_per_log=1_000,
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
    # docs/pretrain.md: 27 MB of text, 30,522 pieces, within an hour on 2 cores.
    "tiny-hour": PretrainRecipe(
        size="tiny",
        batch_size=32,
        num_steps=10_000,
        num_warmup_steps=1_000,
        learning_rate=2e-3,
        dropout_rate=0.0,
        steps_per_log=100,
        logs_per_checkpoint=5,
    ),
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
    """A recipe by name, changed. Raises InputError for an unknown name, and as `changed` does."""
    if name not in recipes:
        raise InputError(f"no recipe is called {name!r}; known: {', '.join(recipes)}")
    return changed(recipes[name], changes=changes)[0]


def task_recipes(task: str) -> dict[str, FinetuneRecipe]:
    """The recipes of FINETUNE as they are for the task of this name."""
    return {name: recipes.get(task, recipes[""]) for name, recipes in FINETUNE.items()}
