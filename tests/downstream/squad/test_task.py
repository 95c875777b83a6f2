"""SQuAD tasks: settings, files, null threshold, training and predictions."""

import dataclasses

import pytest

from bert_keras.downstream.squad.task import SQUAD_TASKS
from bert_keras.errors import InputError
from bert_keras.kinds.span import Candidate, Prediction

SQUAD1, SQUAD2 = SQUAD_TASKS["squad1"], SQUAD_TASKS["squad2"]


def qa(identity, *answers, **fields):
    items = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": identity, "question": "who?", "answers": items, **fields}


def test_invalid_settings_are_refused():
    for field, value in {"version": "3", "stride": 0, "max_length": 64, "num_best": 1}.items():
        with pytest.raises(InputError):
            dataclasses.replace(SQUAD2, **{field: value})


def test_files_of_a_folder_are_found(tmp_path):
    for name in ("train-v1.1.json", "dev.json", "dev-v1.1.json", "test.json", "dev-v2.0.json"):
        (tmp_path / name).write_text("{}")
    names = {"train": "train-v1.1.json", "dev": "dev-v1.1.json", "test": "test.json"}
    assert SQUAD1.files(tmp_path) == {split: str(tmp_path / n) for split, n in names.items()}
    with pytest.raises(InputError):
        SQUAD2.files(tmp_path)


def test_misplaced_answers_are_excluded_only_from_training(squad_file, capsys):
    rows = [qa("1", ("Lyon", 0)), qa("2", ("won", 4)), qa("3", ("x", 1), ("won", 5))]
    path = squad_file(("Lyon won.", rows))
    assert [each.id for each in SQUAD1.read(path, split="train")] == ["1", "3"]
    assert "1 of 3 questions" in capsys.readouterr().err
    assert [each.id for each in SQUAD1.read(path, split="dev")] == ["1", "2", "3"]
    assert capsys.readouterr().err == ""


def test_questions_of_test_files_need_no_answers(squad_file):
    path = squad_file(("Lyon won.", [qa("1", ("Lyon", 0)), qa("2", is_impossible=True)]))
    assert SQUAD2.read(path)[1].is_impossible
    path = squad_file(("Lyon won.", [{"id": "1", "question": "who?"}]), name="test.json")
    (question,) = SQUAD1.read(path, split="test")
    for task in (SQUAD1, SQUAD2):
        with pytest.raises(InputError):
            task.check_labels([question])


def test_the_threshold_is_tuned_on_the_best_answers(ask):
    questions = [ask("x y", "x", identity="1"), ask("x y", identity="2", is_impossible=True)]

    def prediction(text, odds):
        return Prediction(text, odds, (Candidate("", 0.5, 1.0, 1.0), Candidate("x", 0.5, 1.0, 1.0)))

    predictions = [prediction("", 3.0), prediction("", 5.0)]  # with the present threshold
    assert SQUAD2.score(questions, predictions)["f1"] == 0.5
    assert SQUAD2.tuned(questions, predictions).null_threshold == 3.0
    assert SQUAD1.tuned(questions, predictions) is SQUAD1
    # It is below all null odds if no answer is best.
    candidates = (Candidate("y", 0.5, 1.0, 1.0), Candidate("", 0.5, 1.0, 1.0))
    predictions = [Prediction("y", odds, candidates) for odds in (-7.0, -5.0)]
    assert SQUAD2.score(questions, predictions)["best_f1_thresh"] == 0.0
    assert SQUAD2.tuned(questions, predictions).null_threshold < -7.0
