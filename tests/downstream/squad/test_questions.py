"""Questions of files in SQuAD's format and of TFDS builders, and error messages."""

import json

import pytest

from bert_keras.downstream.squad.questions import Answer, read_questions, without_misplaced
from bert_keras.errors import InputError


def qa(identity="q1", *, question="who?", **fields):
    return {"id": identity, "question": question, **fields}


def answer(text, start):
    return {"text": text, "answer_start": start}


def read(path):
    return read_questions(str(path))


def test_files_in_the_format_of_squad_are_read(squad_file):
    path = squad_file(
        ("Lyon won.", [qa(answers=[answer("Lyon", 0), answer("won", 5)])]),
        ("No one.", [qa("q2", answers=[], is_impossible=True), qa("q3")]),
    )
    first, second, third = read(path)
    assert (first.id, first.question, first.context) == ("q1", "who?", "Lyon won.")
    assert first.answers == (Answer("Lyon", 0), Answer("won", 5))
    assert not first.is_impossible and second.is_impossible
    assert second.context is third.context
    assert first.location == f"{path}, data[0].paragraphs[0].qas[0] (id q1)"


def test_a_byte_order_mark_is_ignored(squad_file):
    path = squad_file(("Lyon won.", [qa()]))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read(path)[0].id == "q1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, r"qas\[0\] lacks 'id'; it has id, question"),
        ({"id": 7}, r"qas\[0\]: 'id' is 7; expected a text"),
        ({"question": None}, r"\(id q1\) lacks 'question'"),
        ({"answers": {}}, "'answers' is {}; expected a list"),
        ({"answers": ["Lyon"]}, "an answer is \"Lyon\"; expected an object with 'text'"),
        ({"answers": [{"text": "Lyon"}]}, "an answer lacks 'answer_start'; it has text"),
        ({"answers": [answer("Lyon", "0")]}, "'answer_start' is \"0\"; expected an integer"),
        ({"answers": [answer("Lyon", 0)], "is_impossible": True}, "has answers and is_impossible"),
        ({"is_impossible": "no"}, "'is_impossible' is \"no\"; expected a boolean"),
        ({"question": "\ud83d?"}, "'question' has half of a surrogate pair"),
    ],
)
def test_invalid_questions_are_refused(squad_file, change, message):
    path = squad_file(("Lyon won.", [{**qa(), **change}]))
    with pytest.raises(InputError, match=message) as error:
        read(path)
    assert str(error.value).startswith(f"{path}, data[0].paragraphs[0]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON in SQuAD's format: Expecting value: line 1"),
        ('{"data": [\n{"paragraphs": [', "not valid JSON .* line 2 column 17"),
        ("[]", r"is \[\]; expected an object with 'data'"),
        ('{"rows": []}', "lacks 'data'; it has rows"),
        ('{"data": [{}]}', r"data\[0\] lacks 'paragraphs'"),
        ('{"data": [{"paragraphs": [{"qas": [{"id": "a"}]}]}]}', "(id a).* lacks 'context'"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_invalid_files_are_refused(tmp_path, text, message):
    path = tmp_path / "train.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        read(path)
    assert str(path) in str(error.value)


def test_empty_contexts_and_repeated_ids_are_refused(squad_file):
    with pytest.raises(InputError, match="empty context"):
        read(squad_file((" \n", [qa()])))
    with pytest.raises(InputError, match=r"qas\[1\] has the id 'q1' of .*qas\[0\]; expected"):
        read(squad_file(("Lyon won.", [qa(), qa()])))


def test_the_target_is_the_first_answer_at_its_start(ask):
    assert ask("Lyon won.", "won").target == Answer("won", 5)
    assert ask("Lyon won.", "lyon", start=0).target == Answer("lyon", 0)  # as in TriviaQA
    assert ask("Lyon won.", "won", start=4).target is None
    assert ask("Lyon won.", "won", start=-4).target is None
    assert ask("Lyon won.", "", start=0).target is None
    assert ask("Lyon won.").target is None


def test_misplaced_answers_are_listed(ask, capsys):
    usable = [ask("Lyon won.", "Lyon"), ask("Lyon won.", is_impossible=True)]
    misplaced = [ask("Lyon won.", "won", start=4, location="a"), ask("Lyon won.", location="b")]
    assert without_misplaced([*misplaced, *usable], path="f.json") == usable
    assert capsys.readouterr().err.splitlines()[1:] == [
        "  a: the context has ' wo' at 4, not 'won'",
        "  b: no answer",
    ]
    assert without_misplaced(usable, path="f.json") == usable
    assert capsys.readouterr().err == ""


def test_rows_of_a_builder_are_read(monkeypatch):
    row = {
        "id": "q1",
        "question": "who?",
        "context": "Lyon won.",
        "answers": {"text": ["Lyon"], "answer_start": [0]},
        "is_impossible": False,
    }
    monkeypatch.setattr("bert_keras.downstream.squad.questions.tfds_rows", lambda path: [row])
    (question,) = read_questions("tfds:squad/v2.0:train")
    assert question.answers == (Answer("Lyon", 0),)
    assert question.location == "tfds:squad/v2.0:train, row 1 (id q1)"
    row["answers"] = []
    with pytest.raises(InputError, match=r"row 1: 'answers' is \[\]; expected an object"):
        read_questions("tfds:squad:train")


def test_all_questions_of_the_shared_file_are_read(shared_data):
    expected = json.loads((shared_data / "squad/dev-v2.0.json").read_text())
    ids = [q["id"] for a in expected["data"] for p in a["paragraphs"] for q in p["qas"]]
    questions = read(shared_data / "squad/dev-v2.0.json")
    assert [question.id for question in questions] == ids
    assert sum(question.is_impossible for question in questions) == 1_479
    assert without_misplaced(questions, path="f") == questions
