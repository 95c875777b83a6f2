"""Builds a tiny model of each task that has a score, and a file of labelled examples."""

import dataclasses
import json
from pathlib import Path

import keras

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.downstream.catalog import named_task
from bert_keras.models.loading import MODELS
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.factories import add_noise, random_metadata

WORDS = ("anna", "bob", "lyon", "good", "bad", "film", "a", "in", "met", "?")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS))
TEXTS = [f"{a} {b} {c}" for a in WORDS[:4] for b in WORDS[3:7] for c in WORDS[6:9]]
TABLES = {
    "classification": [("text", "label"), *((t, ("no", "yes")[len(t) % 2]) for t in TEXTS)],
    "multi-label": [("text", "label"), *((t, ("no", "no,yes")[len(t) % 2]) for t in TEXTS)],
    "regression": [("text", "label"), *((t, str(len(t))) for t in TEXTS)],
    "sentence-pairs": [("sentence1", "sentence2", "score")],
    "swag": [("sent1", "sent2", *(f"ending{n}" for n in range(4)), "label")],
}
TABLES["sentence-pairs"] += [(t, TEXTS[len(t)], str(len(t) / 20)) for t in TEXTS]
TABLES["swag"] += [(t, "a", "bob", "lyon", "good film", "in", str(len(t) % 4)) for t in TEXTS]
LABELS = dict.fromkeys(("classification", "multi-label"), ("no", "yes"))
LABELS |= {"regression": ("label",), "ner": ("O", "B-LOC", "B-PER")}
SIZES = {"vocab_size": len(VOCABULARY), "hidden_size": 32, "intermediate_size": 128}
SIZES |= {"num_layers": 1, "max_positions": 16}
SETTINGS = {"squad1": {"max_question_length": 4, "stride": 4}}


def fine_tuned(name: str, folder: Path, *, seed: int = 3) -> tuple[Path, Path]:
    """Returns the model folder of a task and a file of labelled examples."""
    task = dataclasses.replace(
        named_task(name), max_length=16, labels=LABELS.get(name, ()), **SETTINGS.get(name, {})
    )
    fields = {"labels": task.labels, "text_columns": task.input_names, "task": task.settings()}
    fields |= {"max_length": 16, "problem_type": task.problem_type}
    metadata = random_metadata(task.model, config=SIZES, **fields)
    keras.utils.set_random_seed(seed)
    model = MODELS[metadata.model].from_metadata(metadata)
    add_noise(model, stddev=0.2)  # initial weights give nearly equal outputs
    save_model(model, folder / "model", metadata=metadata, vocabulary=VOCABULARY)
    return folder / "model", _examples(name, folder)


def _examples(name: str, folder: Path) -> Path:
    if name == "squad1":
        paragraphs = []
        for number, text in enumerate(TEXTS):
            word = text.split()[1]
            answer = {"text": word, "answer_start": text.index(word)}
            question = {"id": str(number), "question": "met a film ?", "answers": [answer]}
            paragraphs.append({"context": text, "qas": [question]})
        content, ending = json.dumps({"data": [{"paragraphs": paragraphs}]}), ".json"
    elif name == "ner":
        tags = {"anna": "B-PER", "bob": "B-PER", "lyon": "B-LOC"}
        rows = [[f"{word} {tags.get(word, 'O')}\n" for word in text.split()] for text in TEXTS]
        content, ending = "\n".join(map("".join, rows)), ".conll"
    else:
        ending, separator = (".csv", ",") if name == "swag" else (".tsv", "\t")
        content = "".join(separator.join(row) + "\n" for row in TABLES[name])
    (folder / f"dev{ending}").write_text(content)
    return folder / f"dev{ending}"
