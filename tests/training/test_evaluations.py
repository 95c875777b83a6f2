"""Scores after every epoch, the best weights, patience, and resumed runs."""

import copy
import json
import math

import keras
import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.training.evaluations import Evaluations
from bert_keras.training.loop import fit_resumable
from bert_keras.training.tensorboard import read_curves
from tests.training.test_loop import assert_same, batches, compiled, settings, values

SCORES = [0.5, 0.7, 0.6, 0.7]


def train(model, output, *, scores=SCORES, num_steps=16, patience=0):
    """Trains with four steps per epoch; `scores` has the score of each epoch."""
    seen = []

    def evaluate():
        epoch = int(model.optimizer.iterations) // 4 - 1
        seen.append(keras.ops.convert_to_numpy(model.classification.dense.bias))
        return {"f1": scores[epoch], "loss": 0.5 + epoch / 10}

    output.mkdir(exist_ok=True)
    evaluations = Evaluations(evaluate, metric="f1", folder=output, patience=patience)
    changes = {"num_steps": num_steps, "epochs_per_checkpoint": 1, "points_per_epoch": 2}
    fit_resumable(model, batches, settings(output, **changes), evaluations=evaluations)
    return evaluations, seen


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The values of a model after a run of four epochs, its evaluations, and the run's folder."""
    model, folder = compiled(), tmp_path_factory.mktemp("whole")
    evaluations, seen = train(model, folder)
    return values(model), evaluations, seen, folder


def test_the_best_epoch_is_kept_and_of_equal_scores_that_of_the_lowest_loss(whole):
    last, evaluations, seen, folder = whole
    assert evaluations.best == {"step": 8, "f1": 0.7, "loss": 0.6}
    later = copy.copy(evaluations)
    later.history = [*evaluations.history, {"step": 20, "f1": 0.7, "loss": 0.5}]
    assert later.best["step"] == 20
    restored = compiled()
    evaluations.restore_best(restored)
    best = keras.ops.convert_to_numpy(restored.classification.dense.bias)
    np.testing.assert_array_equal(best, seen[1])
    assert any(np.array_equal(seen[3], value) for value in last)
    assert np.abs(best - seen[3]).max() > 0
    runs = read_curves(folder / "logs")
    assert [step for step, _ in runs["train"]["loss/total"]] == [2, 4, 6, 8, 10, 12, 14, 16]
    assert runs["held_out"]["score/f1"] == [
        (4 * (epoch + 1), pytest.approx(score)) for epoch, score in enumerate(SCORES)
    ]


@pytest.mark.parametrize(
    ("scores", "patience", "last"),
    [(SCORES, 1, 12), (SCORES, 2, 16), ([math.nan, 0.1, math.nan, 0.0], 0, 16)],
)
def test_patience_ends_the_training_and_nan_is_the_worst_score(tmp_path, scores, patience, last):
    evaluations, _ = train(compiled(), tmp_path, scores=scores, patience=patience)
    assert (evaluations.best["step"], evaluations.history[-1]["step"]) == (8, last)
    again, seen = train(compiled(), tmp_path, scores=scores, patience=patience)
    assert str(again.history) == str(evaluations.history) and seen == []


def test_a_resumed_run_continues_its_history(whole, tmp_path):
    last, unbroken, _, _ = whole
    train(compiled(), tmp_path / "broken", num_steps=8)
    history = tmp_path / "broken" / "evaluations.json"
    beyond = [*json.loads(history.read_text()), {"step": 12, "f1": 0.9, "loss": 0.0}]
    history.write_text(json.dumps(beyond))  # as if the state of this step was not saved
    rest = compiled(seed=99)
    goes_on, seen = train(rest, tmp_path / "broken")
    assert len(seen) == 2 and goes_on.history == unbroken.history
    assert_same(values(rest), last)


@pytest.mark.parametrize("file", ["best.npz", "evaluations.json"])
def test_a_missing_file_is_refused(tmp_path, file):
    train(compiled(), tmp_path, num_steps=8)
    (tmp_path / file).unlink()
    with pytest.raises(InputError):
        evaluations, _ = train(compiled(), tmp_path)
        evaluations.restore_best(compiled())


def test_values_that_are_not_finite_end_the_training(tmp_path):
    model = compiled()
    evaluations = Evaluations(lambda: {"f1": 0.5, "loss": math.nan}, metric="f1", folder=tmp_path)
    evaluations.set_model(model)
    with pytest.raises(InputError):
        evaluations.on_epoch_end(0, {"loss": 0.5})
    assert not [*tmp_path.iterdir()]
    model.optimizer.skipped.assign(2)
    with pytest.raises(InputError):
        train(model, tmp_path)
