"""Questions of files in SQuAD's format and of TFDS builders, and error messages."""

import pytest

from bert_keras.downstream.squad.task import drop_misplaced, read_questions
from bert_keras.errors import InputError
from bert_keras.kinds.windows import Answer


def qa(identity="q1", *, question="who?", **fields):
    return {"id": identity, "question": question, **fields}


def answer(text, start):
    return {"text": text, "answer_start": start}


def test_files_in_the_format_of_squad_are_read(squad_file):
    path = squad_file(
        ("Lyon won.", [qa(answers=[answer("Lyon", 0), answer("won", 5)])]),
        ("No one.", [qa("q2", answers=[], is_impossible=True), qa("q3", answers=None)]),
    )
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # a byte order mark
    first, second, third = read_questions(str(path))
    assert (first.id, first.question, first.context) == ("q1", "who?", "Lyon won.")
    assert first.answers == (Answer("Lyon", 0), Answer("won", 5))
    assert not first.is_impossible and second.is_impossible
    assert second.context is third.context
    assert first.location == f"{path}, data[0], paragraphs[0], qas[0] (id q1)"


def test_invalid_files_are_refused(squad_file, tmp_path):
    for questions in (
        [qa(answers={"text": ["Lyon"], "answer_start": [0]})],
        [qa(answers=[answer("Lyon", 0)], is_impossible=True)],
        [qa(), qa()],
    ):
        path = squad_file(("Lyon won.", questions))
        with pytest.raises(InputError, match=f"{path}, "):
            read_questions(str(path))
    without_context = '{"data": [{"paragraphs": [{"qas": [{"id": "a"}]}]}]}'
    for text in ('{"data": [\n{"paragraphs": [', '{"data": [{}]}', without_context, '{"data": []}'):
        (tmp_path / "train.json").write_text(text)
        with pytest.raises(InputError):
            read_questions(str(tmp_path / "train.json"))


def test_the_target_is_the_first_answer_at_its_start(ask):
    assert ask("Lyon won.", "won").target == Answer("won", 5)
    assert ask("Lyon won.", "lyon", start=0).target == Answer("lyon", 0)  # as in TriviaQA
    assert ask("Lyon won.", "won", start=4).target is None
    assert ask("Lyon won.", "won", start=-4).target is None
    assert ask("Lyon won.", "", start=0).target is None
    assert ask("Lyon won.").target is None


def test_misplaced_answers_are_listed(ask, capsys):
    usable = [ask("Lyon won.", "Lyon"), ask("Lyon won.", is_impossible=True)]
    misplaced = [ask("Lyon won.", "won", start=4, location=f"at {n}") for n in range(9)]
    assert drop_misplaced([*misplaced, *usable], path="f.json") == usable
    note = capsys.readouterr().err
    assert "9 of 11 questions of f.json" in note and "at 0: " in note and "4 more" in note
    with pytest.raises(InputError):
        drop_misplaced(misplaced, path="f.json")
