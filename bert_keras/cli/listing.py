"""Defines the command list, which prints the names of tasks, recipes, models and sizes."""

import argparse

from bert_keras.arguments import option
from bert_keras.cli.program import command
from bert_keras.downstream.catalog import DESCRIPTIONS, ZERO_SHOT
from bert_keras.families import hub_names, presets
from bert_keras.runs.recipes import FINETUNE, PRETRAIN


def _recipes() -> dict[str, str]:
    rows = {}
    for name, recipe in PRETRAIN.items():
        steps = f"{recipe.num_steps:,} steps of {recipe.batch_size:,} sequences"
        rows[f"pretrain {name}"] = f"{steps}, size {recipe.size}"
    for name, recipes in FINETUNE.items():
        recipe = recipes[""]  # of most tasks
        epochs = f"{recipe.num_epochs} epochs in batches of {recipe.batch_size}"
        rows[f"finetune {name}"] = f"{epochs}, learning rate {recipe.learning_rate:g}"
    return rows


def _models() -> dict[str, str]:
    names = {name: family for name, family in hub_names().items() if "L-" not in name}
    miniatures = "bert; N = 2, 4 to 12; D = 128, 256, 512, 768; M = D/64"
    return names | {"google/bert_uncased_L-N_H-D_A-M": miniatures}


def _sizes() -> dict[str, str]:
    rows = {}
    for name, size in presets().items():
        if "L-" not in name:
            layers = f"{size.num_layers} layers of {size.hidden_size}, {size.num_heads} heads"
            kind = ", rotary, pre-norm" if size.norm_position == "pre" else ""
            rows[f"size={name}"] = f"{layers}, length {size.max_positions:,}{kind}"
    return rows | {"size=L-N_H-D_A-M": "N layers of D with M heads"}


LISTS = {  # name of a list -> its heading, and the function that returns a text for each name
    "tasks": ("tasks, for finetune, evaluate and predict", lambda: DESCRIPTIONS | ZERO_SHOT),
    "recipes": ("recipes, with all values in bert-keras pretrain RECIPE --help", _recipes),
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
