"""Predictions as SQuAD's official scripts read them: written to files, and read from them."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.storage import json_object, whole_file
from bert_keras.tasks.squad.predictions import Prediction
from bert_keras.tasks.squad.questions import Question


def nbest_path(path: Path) -> Path:
    """nbest_predictions.json beside predictions.json, as run_squad.py names it."""
    return path.with_name(f"nbest_{path.name}")


def null_odds_path(path: Path) -> Path:
    """null_odds.json beside predictions.json, as run_squad.py names it."""
    part = "predictions"
    name = path.name.replace(part, "null_odds") if part in path.name else f"null_odds_{path.name}"
    return path.with_name(name)


def write_predictions(
    path: Path, questions: Sequence[Question], predictions: Sequence[Prediction]
) -> None:
    """{id: text}; beside it the n-best lists and null odds, where there are such."""
    pairs = list(zip(questions, predictions, strict=True))
    _write(path, {question.id: each.text for question, each in pairs})
    nbest = {question.id: [*map(asdict, each.candidates)] for question, each in pairs}
    odds = {question.id: each.null_odds for question, each in pairs}
    if all(nbest.values()):
        _write(nbest_path(path), nbest)
    if None not in odds.values():
        _write(null_odds_path(path), odds)


def read_predictions(path: Path, questions: Sequence[Question]) -> list[Prediction | None]:
    """With the null odds of the file beside it, if there is one; None for a question without.

    Raises InputError where no question has a prediction, or one has no odds where others have.
    """
    texts = json_object(path)
    beside = null_odds_path(path)
    odds = json_object(beside) if beside.is_file() else None
    missing = [question.id for question in questions if question.id not in texts]
    if len(missing) == len(questions):
        raise InputError(
            f"{path} has none of the {len(questions)} questions; it begins with "
            f"{next(iter(texts), 'nothing')!r}, the questions with {missing[0]!r}"
        )
    if missing:
        print(
            f"{path} has no prediction for {len(missing)} of {len(questions)} questions, such as "
            f"{missing[0]}; they score 0",
            file=sys.stderr,
        )
    return [_prediction(question.id, texts, odds, path, beside) for question in questions]


def _prediction(
    identity: str, texts: dict, odds: dict | None, path: Path, beside: Path
) -> Prediction | None:
    if identity not in texts:
        return None
    if not isinstance(texts[identity], str):
        raise InputError(f"{path}: the prediction of {identity} is no text")
    if odds is None:
        return Prediction(texts[identity])
    null_odds = odds.get(identity)
    if isinstance(null_odds, bool) or not isinstance(null_odds, int | float):
        raise InputError(f"{beside}: expected a number for {identity}, as for all in {path.name}")
    return Prediction(texts[identity], null_odds)


def _write(path: Path, values: dict) -> None:
    with whole_file(path) as part:
        part.write_text(json.dumps(values, indent=4) + "\n", encoding="utf-8")
