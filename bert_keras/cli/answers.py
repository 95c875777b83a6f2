"""Predicts for texts on the command line, and prints the answers."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bert_keras.errors import InputError, check
from bert_keras.models import load_model

Answers = list[tuple[str, dict]]  # what is asked, and the answer


def answers(name: str, texts: Sequence[str]) -> Answers:
    """Returns the answer of a model for each text, pair or question; see `ANSWERS`.

    Raises:
        InputError: The model predicts nothing, or the number of texts does not fit it.
    """
    model = load_model(name)
    check(model.tokenizer is not None, f"{name} has no vocabulary; copy its vocab.txt there")
    kind = type(model).__name__
    if kind not in ANSWERS:
        raise InputError(f"{name} is a {kind}, which predicts nothing for texts; fine-tune it")
    return ANSWERS[kind](model, texts)


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


def _asked(model: Any, texts: Sequence[str]) -> Answers:
    columns = model.stored_metadata(model.tokenizer).text_columns
    num_texts = 2 if model.stored_as == "BertQuestionAnswering" else max(1, len(columns))
    check(
        len(texts) % num_texts == 0,
        f"the model takes {num_texts} texts together, but received {len(texts)} in all",
    )
    columns = tuple([*texts[first::num_texts]] for first in range(num_texts))
    found = model.predict(columns if num_texts > 1 else columns[0], verbose=0)
    asked = [" | ".join(each) for each in zip(*columns, strict=True)]
    return list(zip(asked, found, strict=True))


def _choice(model: Any, texts: Sequence[str]) -> Answers:
    check(len(texts) > 2, f"received {len(texts)} texts; expected a context and at least 2 endings")
    (answer,) = model.predict(tuple([text] for text in texts), verbose=0)
    return [(texts[1 + int(answer["choice"])], answer)]


def _cosines(model: Any, texts: Sequence[str]) -> Answers:
    check(len(texts) > 1, "the model embeds texts; give 2 to compare, or use bert-keras embed")
    vectors = model.encode([*texts])
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = itertools.combinations(range(len(texts)), 2)
    return [(f"{texts[i]} | {texts[j]}", {"cosine": float(units[i] @ units[j])}) for i, j in pairs]


_ASKED = ["Classifier", "QuestionAnswering", "TokenClassifier", "MaskedLM", "Pretrainer"]
# Class of a model -> its answers
ANSWERS: dict[str, Callable[[Any, Sequence[str]], Answers]] = {
    **{f"Bert{name}": _asked for name in _ASKED},
    "BertMultipleChoice": _choice,
    "BertSentenceEncoder": _cosines,
}
