"""Lists the named recipes of pretraining and fine-tuning."""

import dataclasses
from typing import Any

from bert_keras.config import FINE_TUNING
from bert_keras.runs.recipes import FinetuneRecipe, PretrainRecipe

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

_LOCAL_START: dict[str, Any] = {
    "optimizer": "adamw",
    "bias_correction": True,
    "initial_weights": "local-attention",
}


def _laptop(num_steps: int, **changes) -> PretrainRecipe:
    """Returns `LAPTOP` with other settings and a warmup of 5 % of the steps."""
    warmup = num_steps // 20
    return dataclasses.replace(LAPTOP, num_steps=num_steps, num_warmup_steps=warmup, **changes)


GPU_FLOPS_PER_SECOND = 84e12  # 27 % of the 312 TFLOP/s in bfloat16 of an A100

# Runs that read each sentence only a few times use no dropout (Geiping and Goldstein 2022).
PRETRAIN: dict[str, PretrainRecipe] = {
    # docs/quickstart.md: the settings of laptop-10min for 0.3 MB of text and 64 tokens.
    "demo": _laptop(2_200, batch_size=16, learning_rate=3e-3),
    "tiny-hour": TINY_HOUR,
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
    # The steps fill an hour and a day of a GPU that computes GPU_FLOPS_PER_SECOND, with records of
    # 128 tokens and 30,522 tokens in the vocabulary. Batch size and learning rate of gpu-day are
    # close to the values of Geiping and Goldstein 2022.
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
    # paper-512 starts from the model of paper-128, which includes the training state.
    "paper-128": dataclasses.replace(PAPER_BASE, last_step=900_000),
    "paper-512": PAPER_BASE,
    # Used with --from, whose size replaces this one, on the text of a domain. Learning rate, batch
    # size and least number of steps are those in the README of google-research/bert for this.
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
    # For records of plain ids and --objective full-sentences (docs/how-to/pretrain-variants.md).
    "roberta-tiny": dataclasses.replace(TINY_HOUR, size="roberta-tiny"),
    # For records of plain ids and --objective sop (docs/how-to/pretrain-variants.md).
    "albert-tiny": dataclasses.replace(
        TINY_HOUR, size="albert-tiny", mask_unit="word", max_ngram=3
    ),
    # For records of plain ids (docs/how-to/pretrain-variants.md). As in Clark et al. 2020, the
    # generator reads [MASK] at every masked position. A smaller generator learns too late
    # (docs/benchmarks/archive/pretraining.md).
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

# Reimers and Gurevych 2019, section 4.2; training_stsbenchmark.py of sentence-transformers has the
# same batch size, epochs and warmup.
SENTENCE_PAIRS = FinetuneRecipe(
    batch_size=16, num_epochs=4, learning_rate=2e-5, bias_correction=True
)
# training_nli_v2.py of sentence-transformers.
IN_BATCH_NEGATIVES = FinetuneRecipe(
    batch_size=128, num_epochs=1, learning_rate=5e-5, bias_correction=True
)
EMBEDDINGS = {"sentence-pairs": SENTENCE_PAIRS, "retrieval": IN_BATCH_NEGATIVES}

# run_all.sh of KLUE-benchmark/KLUE-baseline, for the base sizes. Its AdamW has an epsilon of 1e-8.
KLUE = FinetuneRecipe(
    batch_size=32, num_epochs=4, learning_rate=5e-5, weight_decay_rate=0.0, bias_correction=True
)
# finetune/config/TASK/koelectra-base-v3.json of monologg/KoELECTRA, with the same AdamW.
KOELECTRA = dataclasses.replace(KLUE, num_epochs=10, warmup_ratio=0.0)

# Recipe name -> task name -> recipe. "" applies to every task that is not listed.
FINETUNE: dict[str, dict[str, FinetuneRecipe]] = {
    "paper": {
        "": PAPER,
        "squad1": dataclasses.replace(PAPER, learning_rate=5e-5),  # section 4.2
        "squad2": dataclasses.replace(  # section 4.3
            PAPER, learning_rate=5e-5, num_epochs=2, batch_size=48
        ),
        "swag": dataclasses.replace(PAPER, learning_rate=2e-5, batch_size=16),  # section 4.4
        "ner-features": TAGGER,
        **EMBEDDINGS,
        "klue-tc": KLUE,
        "klue-sts": KLUE,
        "klue-nli": dataclasses.replace(KLUE, num_epochs=5),
        "klue-mrc": dataclasses.replace(
            KLUE, num_epochs=5, batch_size=16, learning_rate=3e-5, warmup_ratio=0.0
        ),
        "klue-ner": dataclasses.replace(KLUE, num_epochs=3, warmup_ratio=0.0),
        "nsmc": KOELECTRA,
        "kornli": dataclasses.replace(KOELECTRA, num_epochs=15, batch_size=64),
        "korsts": KOELECTRA,
        "naver-ner": dataclasses.replace(KOELECTRA, num_epochs=20),
        "korquad": dataclasses.replace(KOELECTRA, num_epochs=7, batch_size=8),
    },
    "small-models": {"": SMALL_MODELS, "ner-features": TAGGER, **EMBEDDINGS},
    "laptop": {"": LAPTOP_TASKS, "ner-features": TAGGER},
    "demo": {
        "": FinetuneRecipe(batch_size=8, num_epochs=20, learning_rate=1e-3, bias_correction=True)
    },
}
