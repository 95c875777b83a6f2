import json

import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.squad.questions import (
    Answer,
    read_questions,
    without_misplaced,
)


def qa(identity="q1", *, question="who?", **fields):
    return {"id": identity, "question": question, **fields}


def answer(text, start):
    return {"text": text, "answer_start": start}


def read(path):
    return read_questions(str(path))


def test_a_file_as_squads(squad_file):
    path = squad_file(
        ("Lyon won.", [qa(answers=[answer("Lyon", 0), answer("won", 5)])]),
        ("No one.", [qa("q2", answers=[], is_impossible=True), qa("q3")]),
    )
    first, second, third = read(path)
    assert (first.id, first.question, first.context) == ("q1", "who?", "Lyon won.")
    assert first.answers == (Answer("Lyon", 0), Answer("won", 5))
    assert not first.is_impossible and second.is_impossible
    assert second.context is third.context
    assert first.place == f"{path}, data[0].paragraphs[0].qas[0] (id q1)"


def test_a_byte_order_mark_is_no_part_of_the_json(squad_file):
    path = squad_file(("Lyon won.", [qa()]))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read(path)[0].id == "q1"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": None}, r"qas\[0\] lacks 'id'; it has id, question"),
        ({"id": 7}, r"qas\[0\]: 'id' is 7; expected a text"),
        ({"question": None}, r"\(id q1\) lacks 'question'"),
        ({"answers": {}}, "'answers' is {}; expected a list"),
        ({"answers": ["Lyon"]}, "an answer is \"Lyon\"; expected an object with 'text'"),
        ({"answers": [{"text": "Lyon"}]}, "an answer lacks 'answer_start'; it has text"),
        ({"answers": [answer("Lyon", "0")]}, "'answer_start' is \"0\"; expected an integer"),
        ({"answers": [answer("Lyon", 0)], "is_impossible": True}, "is_impossible, yet has answers"),
        ({"is_impossible": "no"}, "'is_impossible' is \"no\"; expected a boolean"),
        ({"question": "\ud83d?"}, "'question' holds half a character"),
    ],
)
def test_what_a_question_must_have(squad_file, change, told):
    path = squad_file(("Lyon won.", [{**qa(), **change}]))
    with pytest.raises(InputError, match=told) as error:
        read(path)
    assert str(error.value).startswith(f"{path}, data[0].paragraphs[0]")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not whole JSON in SQuAD's format: Expecting value: line 1"),
        ('{"data": [\n{"paragraphs": [', "not whole JSON .* line 2 column 17"),
        ("[]", r"is \[\]; expected an object with 'data'"),
        ('{"rows": []}', "lacks 'data'; it has rows"),
        ('{"data": [{}]}', r"data\[0\] lacks 'paragraphs'"),
        ('{"data": [{"paragraphs": [{"qas": [{"id": "a"}]}]}]}', "(id a).* lacks 'context'"),
        ("[" * 100_000, "not whole JSON"),
    ],
)
def test_what_a_file_must_have(tmp_path, text, told):
    path = tmp_path / "train.json"
    path.write_text(text)
    with pytest.raises(InputError, match=told) as error:
        read(path)
    assert str(path) in str(error.value)


def test_an_empty_context_and_an_id_that_comes_twice(squad_file):
    with pytest.raises(InputError, match="empty context"):
        read(squad_file((" \n", [qa()])))
    with pytest.raises(InputError, match=r"qas\[1\] has the id 'q1', as .*qas\[0\] has"):
        read(squad_file(("Lyon won.", [qa(), qa()])))


def test_the_first_answer_in_its_place_is_the_target(ask):
    assert ask("Lyon won.", "won").target == Answer("won", 5)
    assert ask("Lyon won.", "lyon", start=0).target == Answer("lyon", 0)  # as TriviaQA has it
    assert ask("Lyon won.", "won", start=4).target is None
    assert ask("Lyon won.", "won", start=-4).target is None
    assert ask("Lyon won.", "", start=0).target is None
    assert ask("Lyon won.").target is None


def test_misplaced_answers_are_listed(ask, capsys):
    kept = [ask("Lyon won.", "Lyon"), ask("Lyon won.", is_impossible=True)]
    misplaced = [ask("Lyon won.", "won", start=4, place="a"), ask("Lyon won.", place="b")]
    assert without_misplaced([*misplaced, *kept], path="f.json") == kept
    assert capsys.readouterr().err.splitlines()[1:] == [
        "  a: the answer 'won' is not at 4, where ' wo' is",
        "  b: no answer",
    ]
    assert without_misplaced(kept, path="f.json") == kept
    assert capsys.readouterr().err == ""


def test_rows_of_a_builder(monkeypatch):
    row = {
        "id": "q1",
        "question": "who?",
        "context": "Lyon won.",
        "answers": {"text": ["Lyon"], "answer_start": [0]},
        "is_impossible": False,
    }
    monkeypatch.setattr("bert_keras.tasks.squad.questions.tfds_rows", lambda place: [row])
    (question,) = read_questions("tfds:squad/v2.0:train")
    assert question.answers == (Answer("Lyon", 0),)
    assert question.place == "tfds:squad/v2.0:train, row 1 (id q1)"
    row["answers"] = []
    with pytest.raises(InputError, match=r"row 1: 'answers' is \[\]; expected an object"):
        read_questions("tfds:squad:train")


def test_the_shared_files(shared_data):
    expected = json.loads((shared_data / "squad/dev-v2.0.json").read_text())
    ids = [q["id"] for a in expected["data"] for p in a["paragraphs"] for q in p["qas"]]
    questions = read(shared_data / "squad/dev-v2.0.json")
    assert [question.id for question in questions] == ids
    assert sum(question.is_impossible for question in questions) == 1_479
    assert without_misplaced(questions, path="f") == questions
