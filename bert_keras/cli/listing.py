"""Defines the command list, which prints the names of tasks, recipes and models."""

import argparse

from bert_keras.arguments import option
from bert_keras.cli.program import command
from bert_keras.downstream.catalog import ALIASES, DESCRIPTIONS, ZERO_SHOT
from bert_keras.families import hub_names, presets

LISTS = ("tasks", "recipes", "models", "sizes")
# Recipe -> result: the masked-LM loss on held-out text and, in brackets, the loss of guessing by
# frequency (docs/reference/recipes.md).
MEASURED = {
    "pretrain demo": "text of the demo: loss 4.44 (5.96) in 87 CPU seconds",
    "pretrain tiny-hour": "27 MB of text: loss 6.14 (7.08) in 34 minutes on two cores",
    "pretrain laptop-10min": "27 MB of text: loss 3.70 (6.87) in 16 CPU minutes",
    "pretrain laptop-hour": "27 MB of text: loss 2.90 (6.85) in 128 CPU minutes",
    "pretrain bert-hour": "BERT's own layers; 27 MB of text: loss 3.65 (6.87) in 94 CPU minutes",
    "pretrain gpu-hour": "27 MB of text, 4,983 steps: loss 2.35 (6.87) in 11 minutes of an H100",
    "pretrain electra-tiny": "27 MB of text: generator's loss 4.96 (6.87) in 12 CPU minutes",
    "pretrain roberta-tiny": "9 MB of text: loss 6.74 (7.46) after 2,000 steps",
    "pretrain albert-tiny": "9 MB of text: loss 6.70 (7.03) after 2,000 steps",
    "pretrain continue": "--from a tiny model, 4 MB of text: loss 1.88 a character, before 2.19",
    "pretrain gpu-day": "not run here: a day of one GPU",
    "pretrain paper-128": "not run here: the first 900,000 steps of the paper",
    "pretrain paper-512": "not run here: its last 100,000 steps, --from paper-128",
    "pretrain distilbert": "not run here: --teacher BERT-base",
    "finetune paper": "for base and larger, with the values of the paper; not run on base here",
    "finetune small-models": "hidden sizes below 768; tiny-hour on SST-2: 0.876 in 2.5 minutes",
    "finetune laptop": "for laptop-10min; on SST-2: 0.844",
    "finetune demo": "paragraphs of four topics: 0.831 in 25 CPU seconds",
}


@command(
    option("kind", "|".join(LISTS), "what to list", choices=LISTS),
    examples="  bert-keras list tasks",
)
def list_(options: argparse.Namespace) -> None:
    """List the names of tasks, recipes, models or sizes of models."""
    groups: dict[str, dict[str, str]]  # heading -> name -> text
    if options.kind == "tasks":
        others = {name: f"another name of {task}" for name, task in ALIASES.items()}
        groups = {"tasks, for finetune, evaluate and predict:": DESCRIPTIONS | ZERO_SHOT | others}
    elif options.kind == "sizes":
        sizes = {
            f"size={name}": f"{size.num_layers} layers of {size.hidden_size}, {size.num_heads} "
            f"heads, {size.vocab_size:,} tokens, length {size.max_positions:,}"
            + (", rotary, pre-norm" if size.norm_position == "pre" else "")
            for name, size in presets().items()
            if "L-" not in name
        }
        sizes["size=L-N_H-D_A-M"] = "N layers of D with M heads"
        groups = {"sizes of new models, for pretrain --set:": sizes}
    elif options.kind == "models":
        names = {name: text for name, text in hub_names().items() if "L-" not in name}
        miniatures = "N = 2, 4 to 12; D = 128, 256, 512, 768; M = D/64"
        names["google/bert_uncased_L-N_H-D_A-M"] = miniatures
        heading = "checkpoints of Hugging Face, for --from:"
        groups = {heading: names, "sizes of new models: bert-keras list sizes": {}}
    else:
        guess = "in brackets the losses of guessing by frequency"
        heading = f"masked-LM losses on held-out text, {guess}"
        values = "all values: bert-keras pretrain RECIPE --help, bert-keras finetune TASK --help"
        groups = {heading: MEASURED, values: {}}
    for heading, rows in groups.items():
        print(heading)
        for name, text in rows.items():
            print(f"{name:<{2 + max(map(len, rows))}}{text}".rstrip())
