"""Predicts for texts on the command line, and prints the answers."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bert_keras.checkpoints import native
from bert_keras.checkpoints.formats import detect_format
from bert_keras.checkpoints.hub import located
from bert_keras.errors import check, counted

Columns = Sequence[list[str]]  # the first texts, the second ones, ...
Answers = list[tuple[str, dict]]  # what is asked, and the answer


def answers(name: str, texts: Sequence[str]) -> Answers:
    """Returns the answer of a model for each text, pair or question; see `ANSWERS`.

    Raises:
        InputError: The model predicts nothing, or the number of texts does not fit it.
    """
    from bert_keras.models import load_model

    model = load_model(name)
    check(model.tokenizer is not None, f"{name} has no vocabulary; copy its vocab.txt there")
    kind, names = type(model).__name__, model.stored_metadata(model.tokenizer).text_columns
    num_texts = _num_texts(name, kind, names, count=len(texts))
    return ANSWERS[kind](model, tuple([*texts[first::num_texts]] for first in range(num_texts)))


def check_texts(name: str, texts: Sequence[str]) -> None:
    """Raises the errors of `answers` that need no Keras, for models whose files name the class."""
    folder = located(name)
    if detect_format(folder) is native:
        metadata = native.read_metadata(folder)
        _num_texts(name, metadata.model, metadata.text_columns, count=len(texts))
    elif (folder / "1_Pooling").is_dir():  # of sentence-transformers
        _num_texts(name, "BertSentenceEncoder", (), count=len(texts))


def _num_texts(name: str, kind: str, columns: Sequence[str], *, count: int) -> int:
    """Returns how many texts get one answer; raises InputError if `count` texts do not fit."""
    check(kind in ANSWERS, f"{name} is a {kind}, which predicts nothing for texts; fine-tune it")
    if kind in LEAST:
        least, does = LEAST[kind]
        check(count >= least, f"{name} {does}, but received {counted(count, 'text')}")
        return count
    number = 2 if kind == "BertQuestionAnswering" else max(1, len(columns))
    check(count % number == 0, f"{name} takes {number} texts together, but received {count}")
    return number


def lines(found: Answers) -> list[str]:
    """Returns a readable line for each answer, or for each entity or mask of it."""
    pairs = [(shown, asked) for asked, answer in found for shown in _shown(answer)]
    return [shown if len(found) == 1 else f"{shown}    {asked}" for shown, asked in pairs]


def _shown(answer: dict) -> list[str]:
    if "label" in answer:
        pairs = dict(zip(answer["labels"], answer["probabilities"], strict=True))
        names = [answer["label"]] if answer["label"] in pairs else answer["label"].split(",")
        return [", ".join(f"{each} {pairs[each]:.3f}" for each in names if each) or "no label"]
    if "entities" in answer:
        rows = zip(answer["entities"], answer["labels"], answer["scores"], strict=True)
        return [f"{entity} {kind} {score:.3f}" for entity, kind, score in rows] or ["no entity"]
    if "answer" in answer:
        return [answer["answer"] or "no answer"]
    if "choice" in answer:
        choice = answer["choice"]
        return [f"ending {choice + 1} {answer['probabilities'][choice]:.3f}"]
    if "tokens" in answer:
        masks = zip(answer["tokens"], answer["probabilities"], strict=True)
        return [", ".join(map("{} {:.3f}".format, *mask)) for mask in masks]
    return [f"{number:.3f}" for number in answer.values()]  # a score or a cosine


def _asked(model: Any, columns: Columns) -> Answers:
    found = model.predict(columns if len(columns) > 1 else columns[0], verbose=0)
    asked = [" | ".join(each) for each in zip(*columns, strict=True)]
    return list(zip(asked, found, strict=True))


def _choice(model: Any, columns: Columns) -> Answers:
    (answer,) = model.predict(columns, verbose=0)
    return [(columns[1 + int(answer["choice"])][0], answer)]


def _cosines(model: Any, columns: Columns) -> Answers:
    vectors = model.encode(texts := [text for (text,) in columns])
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = itertools.combinations(range(len(texts)), 2)
    return [(f"{texts[i]} | {texts[j]}", {"cosine": float(units[i] @ units[j])}) for i, j in pairs]


LEAST = {  # the least number of texts, which get one answer
    "BertSentenceEncoder": (2, "compares 2 texts (bert-keras embed writes the vector of each)"),
    "BertMultipleChoice": (3, "reads a context and at least 2 endings"),
}
_ASKED = ["Classifier", "QuestionAnswering", "TokenClassifier", "MaskedLM", "Pretrainer"]
# Class of a model -> its answers
ANSWERS: dict[str, Callable[[Any, Columns], Answers]] = {
    **{f"Bert{name}": _asked for name in _ASKED},
    "BertMultipleChoice": _choice,
    "BertSentenceEncoder": _cosines,
}
