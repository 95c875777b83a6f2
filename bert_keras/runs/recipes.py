"""Recipes: the named hyperparameters of pretraining and fine-tuning runs."""

import dataclasses

from bert_keras.runs.hyperparameters import FinetuneRecipe, PretrainRecipe

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

# docs/benchmarks/training-2026-11.md: 27 MB of text take less than an hour on 2 cores.
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

# docs/benchmarks/pretraining.md: 20 processor minutes, with the vocabulary of 8,000 tokens there.
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

GPU_FLOPS_PER_SECOND = 84e12  # 27 % of the 312 TFLOP/s in bfloat16 of an A100

# Runs that read each sentence only a few times use no dropout (Geiping and Goldstein 2022).
PRETRAIN: dict[str, PretrainRecipe] = {
    # docs/quickstart.md: the settings of laptop-10min for 0.3 MB of text and 64 tokens.
    "demo": dataclasses.replace(
        LAPTOP,
        batch_size=16,
        num_steps=2_200,
        num_warmup_steps=110,
        learning_rate=3e-3,
    ),
    "tiny-hour": TINY_HOUR,
    "laptop-10min": LAPTOP,
    # docs/benchmarks/pretraining.md: 76 processor minutes. At a learning rate of 5e-3, the loss
    # after 2,000 steps is 0.5 higher.
    "laptop-hour": dataclasses.replace(
        LAPTOP,
        size="modern-mini",
        num_steps=8_000,
        num_warmup_steps=400,
        learning_rate=2e-3,
        initializer_stddev=0.0625,
    ),
    # docs/benchmarks/pretraining.md: 94 processor minutes. BERT's own architecture.
    "bert-hour": dataclasses.replace(
        LAPTOP,
        size="mini",
        num_steps=11_500,
        num_warmup_steps=575,
        learning_rate=1e-3,
        optimizer="adamw",
        bias_correction=True,
        initializer_stddev=0.0625,
        initial_weights="local-attention",
    ),
    # Not run. The steps fill an hour and a day of a GPU that computes GPU_FLOPS_PER_SECOND, with
    # records of 128 tokens and 30,522 tokens in the vocabulary (docs/how-to/pretrain.md). Batch
    # size and learning rate of gpu-day are close to those of Geiping and Goldstein 2022.
    "gpu-hour": dataclasses.replace(
        LAPTOP,
        size="modern-medium",
        batch_size=1_024,
        num_steps=13_400,
        num_warmup_steps=670,
        learning_rate=2e-3,
        initializer_stddev=0.044,
        gradient_accumulation_steps=4,
    ),
    "gpu-day": dataclasses.replace(
        LAPTOP,
        size="modern-base",
        batch_size=4_096,
        num_steps=25_000,
        num_warmup_steps=1_250,
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
    # Batch sizes, learning rates, warmups and steps of NVIDIA's two LAMB phases for the large size.
    # gradient_accumulation_steps is chosen for 8 GPUs. lamb-512 starts from the model of lamb-128.
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
    # For records of plain ids and --objective full-sentences (docs/how-to/pretrain-relatives.md).
    "roberta-tiny": dataclasses.replace(TINY_HOUR, size="roberta-tiny"),
    # Liu et al. 2019, table 9: records of 512 tokens in batches of 8 thousand.
    # gradient_accumulation_steps is chosen for 8 GPUs.
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
    # For records of plain ids and --objective sop (docs/how-to/pretrain-relatives.md).
    "albert-tiny": dataclasses.replace(
        TINY_HOUR, size="albert-tiny", mask_unit="word", max_ngram=3
    ),
    # For records of plain ids (docs/how-to/pretrain-relatives.md). As in Clark et al. 2020, the
    # generator reads [MASK] at every masked position. A smaller generator learns too late
    # (docs/benchmarks/pretraining.md).
    "electra-tiny": dataclasses.replace(
        LAPTOP,
        size="electra-tiny",
        num_steps=3_000,
        num_warmup_steps=150,
        learning_rate=2e-3,
        optimizer="adamw",
        bias_correction=True,
        initial_weights="local-attention",
        objective="replaced-token",
        generator_size=1.0,
        replacement="100-0-0",
    ),
    # Lan et al. 2019, sections 3.1 and 4.1, with the warmup of its code and records of 512 tokens.
    # gradient_accumulation_steps is chosen for 8 GPUs.
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

# Learning rates and batch size for the small models, from the google-research/bert README.
SMALL_MODELS = FinetuneRecipe(
    batch_size=32, num_epochs=4, learning_rate=1e-4, learning_rates=(3e-4, 1e-4, 5e-5, 3e-5)
)
# For the models of laptop-10min; laptop-hour needs 3e-4 (docs/benchmarks/pretraining.md).
LAPTOP_TASKS = FinetuneRecipe(
    batch_size=32,
    num_epochs=3,
    learning_rate=1e-3,
    bias_correction=True,
    learning_rates=(3e-3, 1e-3, 3e-4),
)
# Section 4.1: batch size 32, 3 epochs, and the best of the `learning_rates` on dev.
PAPER = FinetuneRecipe(batch_size=32, num_epochs=3, learning_rate=3e-5)

# Section 5.3 does not describe the training of its BiLSTM. These values suit fresh weights.
TAGGER = FinetuneRecipe(
    batch_size=32, num_epochs=10, learning_rate=1e-3, learning_rates=(3e-3, 1e-3, 3e-4)
)

# Reimers and Gurevych 2019, section 4.2; batch size, epochs and warmup are also those of
# sentence-transformers' training_stsbenchmark.py.
SENTENCE_PAIRS = FinetuneRecipe(
    batch_size=16, num_epochs=4, learning_rate=2e-5, bias_correction=True
)
# training_nli_v2.py and train_stsb_simcse.py of sentence-transformers.
IN_BATCH_NEGATIVES = FinetuneRecipe(
    batch_size=128, num_epochs=1, learning_rate=5e-5, bias_correction=True
)

# run_all.sh of KLUE-benchmark/KLUE-baseline, for the base sizes. Its AdamW has an epsilon of 1e-8.
KLUE = FinetuneRecipe(
    batch_size=32, num_epochs=4, learning_rate=5e-5, weight_decay_rate=0.0, bias_correction=True
)
# finetune/config/TASK/koelectra-base-v3.json of monologg/KoELECTRA, with the same AdamW.
KOELECTRA = dataclasses.replace(KLUE, num_epochs=10, warmup_rate=0.0)

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
        "sentence-pairs": SENTENCE_PAIRS,
        "simcse": IN_BATCH_NEGATIVES,
        "retrieval": IN_BATCH_NEGATIVES,
        "klue-tc": KLUE,
        "klue-sts": KLUE,
        "klue-nli": dataclasses.replace(KLUE, num_epochs=5),
        "klue-mrc": dataclasses.replace(
            KLUE, num_epochs=5, batch_size=16, learning_rate=3e-5, warmup_rate=0.0
        ),
        "klue-ner": dataclasses.replace(KLUE, num_epochs=3, warmup_rate=0.0),
        "nsmc": KOELECTRA,
        "kornli": dataclasses.replace(KOELECTRA, num_epochs=15, batch_size=64),
        "korsts": KOELECTRA,
        "naver-ner": dataclasses.replace(KOELECTRA, num_epochs=20),
        "korquad": dataclasses.replace(KOELECTRA, num_epochs=7, batch_size=8),
    },
    "small-models": {"": SMALL_MODELS, "ner-features": TAGGER},
    "laptop": {"": LAPTOP_TASKS, "ner-features": TAGGER},
    "demo": {
        "": FinetuneRecipe(batch_size=8, num_epochs=20, learning_rate=1e-3, bias_correction=True)
    },
}
