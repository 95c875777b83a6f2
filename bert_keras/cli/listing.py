"""Defines the command list, which prints the names of tasks, recipes, models and sizes."""

import argparse

from bert_keras.arguments import option
from bert_keras.cli.program import command
from bert_keras.downstream.catalog import ALIASES, DESCRIPTIONS, ZERO_SHOT
from bert_keras.families import hub_names, presets

# Recipe -> result: the masked-LM loss on held-out text, and in brackets the loss of guessing by the
# frequency of the tokens (docs/reference/recipes.md).
MEASURED = {
    "pretrain laptop-10min": "27 MB of text: loss 3.70 (by frequency 6.87) in 16 CPU minutes",
    "pretrain laptop-hour": "27 MB of text: loss 2.90 (6.85) in 128 CPU minutes",
    "pretrain gpu-hour": "27 MB of text, 4,983 steps: loss 2.35 (6.87) in 11 minutes of an H100",
    "pretrain gpu-day": "not run here: a day of one GPU",
    "pretrain bert-hour": "BERT's own layers; 27 MB of text: loss 3.65 (6.87) in 94 CPU minutes",
    "pretrain tiny-hour": "27 MB of text: loss 6.14 (7.08) in 34 minutes on two cores",
    "pretrain electra-tiny": "27 MB of text: generator's loss 4.96 (6.87) in 12 CPU minutes",
    "pretrain roberta-tiny": "9 MB of text: loss 6.74 (7.46) after 2,000 steps",
    "pretrain albert-tiny": "9 MB of text: loss 6.70 (7.03) after 2,000 steps",
    "pretrain demo": "text of the demo: loss 4.44 (5.96) in 87 CPU seconds",
    "pretrain continue": "--from a tiny model, 4 MB of text: loss 1.88 a character, before 2.19",
    "pretrain paper-128": "not run here: the first 900,000 steps of the paper",
    "pretrain paper-512": "not run here: its last 100,000 steps, --from paper-128",
    "pretrain distilbert": "not run here: --teacher BERT-base",
    "finetune paper": "for base and larger, with the values of the paper; not run on base here",
    "finetune small-models": "hidden sizes below 768; tiny-hour on SST-2: 0.876 in 2.5 minutes",
    "finetune laptop": "for laptop-10min; on SST-2: 0.844",
    "finetune demo": "paragraphs of four topics: 0.831 in 25 CPU seconds",
}


def _tasks() -> dict[str, str]:
    return DESCRIPTIONS | ZERO_SHOT | {name: f"same as {task}" for name, task in ALIASES.items()}


def _models() -> dict[str, str]:
    names = {name: family for name, family in hub_names().items() if "L-" not in name}
    miniatures = "bert; N = 2, 4 to 12; D = 128, 256, 512, 768; M = D/64"
    return names | {"google/bert_uncased_L-N_H-D_A-M": miniatures}


def _sizes() -> dict[str, str]:
    rows = {}
    for name, size in presets().items():
        if "L-" not in name:
            layers = f"{size.num_layers} layers of {size.hidden_size}, {size.num_heads} heads"
            limits = f"{size.vocab_size:,} tokens, length {size.max_positions:,}"
            kind = ", rotary, pre-norm" if size.norm_position == "pre" else ""
            rows[f"size={name}"] = f"{layers}, {limits}{kind}"
    return rows | {"size=L-N_H-D_A-M": "N layers of D with M heads"}


LISTS = {  # name of a list -> its heading, and the function that returns a text for each name
    "tasks": ("tasks, for finetune, evaluate and predict", _tasks),
    "recipes": ("recipes with results; values: bert-keras pretrain RECIPE --help", MEASURED.copy),
    "models": ("checkpoints of Hugging Face, by family, for --from", _models),
    "sizes": ("sizes of new models, for pretrain --set", _sizes),
}


@command(
    option("list", "[LIST]", "tasks, recipes, models or sizes", nargs="?", choices=tuple(LISTS)),
    examples="  bert-keras list tasks",
)
def list_(options: argparse.Namespace) -> None:
    """List the names of tasks, recipes, models or sizes of models."""
    if options.list is None:
        rows = {f"bert-keras list {name}": heading for name, (heading, _) in LISTS.items()}
    else:
        heading, read_rows = LISTS[options.list]
        print(f"{heading}:")
        rows = read_rows()
    width = max(map(len, rows))
    for name, text in rows.items():
        print(f"{name:<{width}}  {text}")
