"""Defines the command list, which prints the names of tasks, recipes and models."""

import argparse
import os
import sys

from bert_keras.arguments import one_of
from bert_keras.cli.program import command, option
from bert_keras.downstream.names import ALIASES
from bert_keras.families import hub_names, presets

# The names of `downstream.catalog.TASKS`, without importing TensorFlow.
TASKS = {
    "cola": "GLUE: is a sentence acceptable",
    "sst2": "GLUE: is a review positive",
    "mrpc": "GLUE: do two sentences mean the same",
    "stsb": "GLUE: similarity of two sentences, 0 to 5",
    "qqp": "GLUE: are two questions the same",
    "mnli": "GLUE: entailment, neutral or contradiction",
    "qnli": "GLUE: does a sentence answer a question",
    "rte": "GLUE: entailment or not",
    "wnli": "GLUE: what a pronoun refers to",
    "squad1": "SQuAD 1.1: the span that answers a question",
    "squad2": "SQuAD 2.0: the same, or no answer",
    "swag": "SWAG: one of four endings",
    "klue-tc": "KLUE: topic of a headline",
    "klue-sts": "KLUE: similarity of two sentences",
    "klue-nli": "KLUE: entailment, neutral or contradiction",
    "nsmc": "Naver movie reviews: positive or negative",
    "kornli": "KorNLI: entailment, neutral or contradiction",
    "korsts": "KorSTS: similarity of two sentences",
    "korquad": "KorQuAD 1.0: the span that answers a question",
    "klue-mrc": "KLUE: the same, or no answer",
    "klue-ner": "KLUE: names in a sentence, by characters",
    "naver-ner": "Naver NER: names in a sentence, by words",
    "ner": "CoNLL files: names in a sentence",
    "ner-features": "the same with a BiLSTM over frozen features",
    "classification": "your table (.csv, .tsv, .jsonl): one label for a text or a pair",
    "multi-label": "your table: several labels",
    "regression": "your table: a number",
    "sentence-pairs": "your table: embeddings from pairs with a score",
    "retrieval": "your table: embeddings of queries and passages",
}

# What each recipe gave, with masked-LM losses on held-out text and those of guessing by frequency
# (docs/reference/recipes.md). Recipes of published values that nobody has run here are missing.
MEASURED = {
    "pretrain demo": "text of the demo: loss 4.46 of 5.96 in 87 CPU seconds",
    "pretrain tiny-hour": "27 MB of text: loss 6.14 of 7.08 in 34 minutes on two cores",
    "pretrain laptop-10min": "27 MB of text: loss 3.70 of 6.87 in 16 CPU minutes",
    "pretrain laptop-hour": "27 MB of text: loss 3.32 of 6.87 in 76 CPU minutes",
    "pretrain bert-hour": "BERT's own layers; 27 MB of text: loss 3.65 of 6.87 in 94 CPU minutes",
    "pretrain gpu-hour": "27 MB of text, 4,983 steps: loss 2.35 of 6.87 in 11 minutes of an H100",
    "pretrain electra-tiny": "27 MB of text: loss 4.96 of 6.87 (generator) in 12 CPU minutes",
    "pretrain roberta-tiny": "9 MB of text: loss 6.74 of 7.46 after 2,000 steps",
    "pretrain albert-tiny": "9 MB of text: loss 6.70 of 7.03 after 2,000 steps",
    "pretrain continue": "--from a tiny model, 4 MB of text: loss a character 1.88, was 2.19",
    "finetune paper": "for base and larger; 13 tasks: the scores of transformers",
    "finetune small-models": "hidden sizes below 768; tiny-hour on SST-2: 0.876 in 2.5 minutes",
    "finetune laptop": "for laptop-10min; on SST-2: 0.844",
    "finetune demo": "paragraphs of four topics: 0.863 in 25 CPU seconds",
}


def task_names() -> list[str]:
    """Returns the names of all tasks, with aliases and those that a program has added."""
    catalog = sys.modules.get("bert_keras.downstream.catalog")
    return [*dict.fromkeys([*TASKS, *(catalog.TASKS if catalog else ()), *ALIASES])]


def checkpoint(text: str) -> str:
    """Returns the name of a checkpoint; the type of the arguments that name one."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the name is empty; expected a folder or a name of a hub")
    if text in TASKS and not os.path.exists(text):
        raise argparse.ArgumentTypeError(f"{text!r} is a task; expected a model, and --task {text}")
    return text


MODEL = option("model", "MODEL", "OUTPUT/model of a run, or any checkpoint", type=checkpoint)


def _rows(what: str) -> dict[str, str]:
    if what == "tasks":
        return TASKS | {name: f"another name of {task}" for name, task in ALIASES.items()}
    if what == "models":
        names = {name: f"on Hugging Face: {kind}" for name, kind in hub_names().items()}
        return {
            name: f"{config.num_layers} layers of {config.hidden_size}, {config.num_heads} heads, "
            f"{config.vocab_size:,} tokens, {config.max_positions:,} positions"
            for name, config in presets().items()
        } | names
    return MEASURED


@command(
    option(
        "what",
        "WHAT",
        "tasks, recipes or models (sizes and relatives of BERT)",
        type=one_of(lambda: ("tasks", "recipes", "models"), what="list"),
    ),
    examples="  bert-keras list tasks",
)
def list_(options: argparse.Namespace) -> None:
    """List the names of tasks, recipes or models."""
    rows = _rows(options.what)
    width = 2 + max(map(len, rows))
    for name, text in rows.items():
        print(f"{name:<{width}}{text}")
