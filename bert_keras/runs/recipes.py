"""Named, frozen, complete settings of a run: its numbers stand here and nowhere else."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from bert_keras.errors import InputError, check_name
from bert_keras.options import check_choice, check_least, with_changes
from bert_keras.runs.pretrain_recipe import PretrainRecipe, check_counts, check_rates


@dataclass(frozen=True, kw_only=True)
class FinetuneRecipe:
    """Fine-tuning on a task. `initial_weights` "pretrained" takes the encoder from the given
    folder, "random" only its config and vocabulary (the baseline that shows what pretraining gave).
    `bias_correction` is AdamW's, which the original leaves out; `layer_rate_decay` is BertAdamW's.
    Each device takes its batch in `gradient_accumulation_steps` parts. `patience` ends a run after
    so many epochs without a better score on dev, 0 never does. `learning_rates` are those that a
    search tries. `num_lstm_layers` of a BiLSTM with random weights come between encoder and head
    (section 5.1, "+ BiLSTM"). Of more than `max_train_examples` every so many-th is taken, the same
    for all seeds; 0 takes all.
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
    max_train_examples: int = 0
    logs_per_epoch: int = 10
    keep_checkpoints: int = 1
    seed: int = 1

    def __post_init__(self):
        counts = ("num_epochs", "logs_per_epoch", "keep_checkpoints")
        check_counts(self, "batch_size", "gradient_accumulation_steps", *counts)
        check_rates(self, shares=("dropout_rate", "warmup_rate"))
        if not 0 < self.layer_rate_decay <= 1:
            raise InputError(
                f"layer_rate_decay is {self.layer_rate_decay}; expected more than 0, up to 1"
            )
        check_least(self, 0, "patience", "num_lstm_layers", "max_train_examples")
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

# docs/pretrain.md: 27 MB of text, 30,522 pieces, within an hour on 2 cores.
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
    # docs/relatives.md: records of plain ids, --objective full-sentences.
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
    # docs/relatives.md: records of plain ids, --objective sop.
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
    """A recipe by name, changed. Raises InputError for an unknown name or a wrong change."""
    check_name(name, recipes, what="recipe")
    return with_changes(recipes[name], changes=changes)[0]


def task_recipes(task: str) -> dict[str, FinetuneRecipe]:
    """The recipes of FINETUNE as they are for the task of this name."""
    return {name: recipes.get(task, recipes[""]) for name, recipes in FINETUNE.items()}
