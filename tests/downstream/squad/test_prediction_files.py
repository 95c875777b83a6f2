"""Files of predictions, n-best lists and null odds, as run_squad.py writes them."""

import json

import pytest

from bert_keras.downstream.squad.predictions import Candidate, Prediction
from bert_keras.downstream.squad.task import SQUAD_TASKS
from bert_keras.errors import InputError

read_predictions = SQUAD_TASKS["squad2"].read_predictions
write_predictions = SQUAD_TASKS["squad2"].write_predictions


@pytest.fixture
def questions(ask):
    return [ask("a b", identity="1"), ask("c d", identity="2")]


def test_files_equal_those_of_run_squad(tmp_path, questions):
    path = tmp_path / "predictions.json"
    predictions = [
        Prediction("é", -1.5, (Candidate("é", 0.75, 2.0, 1.0), Candidate("", 0.25, 1.0, 0.5))),
        Prediction("", 2.5, (Candidate("", 1.0, 1.0, 2.0),)),
    ]
    write_predictions(path, questions, predictions)
    assert json.loads(path.read_text("ascii")) == {"1": "é", "2": ""}
    nbest = json.loads((tmp_path / "nbest_predictions.json").read_text())
    assert nbest["1"][0] == {
        "text": "é", "probability": 0.75, "start_logit": 2.0, "end_logit": 1.0
    }  # fmt: skip
    assert json.loads((tmp_path / "null_odds.json").read_text()) == {"1": -1.5, "2": 2.5}
    assert read_predictions(path, questions) == [Prediction("é", -1.5), Prediction("", 2.5)]


def test_predictions_without_odds_and_candidates_are_one_file(tmp_path, questions):
    path = tmp_path / "predictions.json"
    write_predictions(path, questions, [Prediction("a"), Prediction("c")])
    assert [each.name for each in tmp_path.iterdir()] == ["predictions.json"]
    assert read_predictions(path, questions) == [Prediction("a"), Prediction("c")]


def test_each_prediction_file_has_its_null_odds_file(tmp_path, questions):
    for name, odds in (("dev_predictions.json", 1.0), ("b.json", 2.0)):
        write_predictions(tmp_path / name, questions, [Prediction("a", odds)] * 2)
    assert {each.name for each in tmp_path.iterdir()} == {
        "dev_predictions.json", "dev_null_odds.json", "b.json", "null_odds_b.json"
    }  # fmt: skip
    assert read_predictions(tmp_path / "dev_predictions.json", questions)[0].null_odds == 1.0


def test_missing_predictions_are_reported(tmp_path, questions, capsys):
    path = tmp_path / "predictions.json"
    path.write_text('{"2": "c", "9": "x"}')
    assert read_predictions(path, questions) == [None, Prediction("c")]
    assert "no prediction for 1 of 2 questions, such as 1; they score 0" in capsys.readouterr().err
    path.write_text('{"9": "x"}')
    with pytest.raises(
        InputError,
        match="none of the 2 questions; its first id is '9'",
    ):
        read_predictions(path, questions)


@pytest.mark.parametrize(
    ("predictions", "odds", "message"),
    [
        ('{"1": "a", "2": 3}', None, "the prediction of 2 is not a text"),
        ('{"1": "a", "2": "b"}', '{"1": 0.5}', "null_odds.json has no number for 2, which is in "),
        ('{"1": "a", "2": "b"}', '{"1": "x", "2": 1}', "has no number for 1"),
        ('{"1": "a"', None, "is not valid JSON"),
    ],
)
def test_invalid_files_are_refused(tmp_path, questions, predictions, odds, message):
    path = tmp_path / "predictions.json"
    path.write_text(predictions)
    if odds is not None:
        (tmp_path / "null_odds.json").write_text(odds)
    with pytest.raises(InputError, match=message):
        read_predictions(path, questions)
