"""Small questions about small contexts, and a way to write SQuAD's files."""

import json

import pytest

from bert_keras.tasks.squad.questions import Answer, Question
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = (
    *SPECIAL_PIECES,
    *LETTERS,
    *"(),.-?'",
    "who",
    "won",
    "lyon",
    "japan",
    "##ese",
    "cafe",
    "北",
    "京",
)


@pytest.fixture(scope="session")
def tokenizer():
    return WordPieceTokenizer(Vocabulary(PIECES))


@pytest.fixture
def ask():
    """A question about a context whose answer is the given part of it."""

    def question(context, answer=None, *, asked="who ?", identity="q", start=None, **fields):
        answers = ()
        if answer is not None:
            answers = (Answer(answer, context.index(answer) if start is None else start),)
        return Question(id=identity, question=asked, context=context, answers=answers, **fields)

    return question


@pytest.fixture
def squad_file(tmp_path):
    """Writes one article with one paragraph a pair (context, questions)."""

    def write(*paragraphs, name="train-v1.1.json"):
        listed = [{"context": context, "qas": qas} for context, qas in paragraphs]
        values = {"version": "1.1", "data": [{"title": "T", "paragraphs": listed}]}
        path = tmp_path / name
        path.write_text(json.dumps(values), encoding="utf-8")
        return path

    return write
