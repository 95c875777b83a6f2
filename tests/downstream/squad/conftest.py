"""Fixtures for small questions, their tokenizer, and files in SQuAD's format."""

import json

import pytest

from bert_keras.kinds.windows import Answer, Question
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import letter_vocabulary


@pytest.fixture(scope="session")
def tokenizer():
    words = ("who", "won", "lyon", "japan", "##ese", "cafe", "北", "京")
    return WordPieceTokenizer(letter_vocabulary(*words))


@pytest.fixture
def ask():
    """Makes a question about a context; the answer is a part of the context."""

    def make(context, answer=None, *, question="who ?", identity="q", start=None, **fields):
        answers = ()
        if answer is not None:
            answers = (Answer(answer, context.index(answer) if start is None else start),)
        return Question(id=identity, question=question, context=context, answers=answers, **fields)

    return make


@pytest.fixture
def squad_file(tmp_path):
    """Writes one article with a paragraph for each pair (context, questions)."""

    def write(*paragraphs, name="train-v1.1.json"):
        items = [{"context": context, "qas": qas} for context, qas in paragraphs]
        values = {"version": "1.1", "data": [{"title": "T", "paragraphs": items}]}
        path = tmp_path / name
        path.write_text(json.dumps(values), encoding="utf-8")
        return path

    return write
