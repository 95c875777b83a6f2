"""Curves that are too good or do not move are told once."""

import keras
import pytest

from bert_keras.training.alarms import Alarms
from bert_keras.training.best_model import BestModel
from bert_keras.training.optimizer import BertAdamW


class Stub(keras.Model):
    def at(self, step):
        self.optimizer.iterations.assign(step)
        return self


@pytest.fixture
def model():
    stub = Stub()
    stub.compile(optimizer=BertAdamW())
    stub.optimizer.build([])
    return stub


def test_too_good_and_too_bad_are_told_once(model, capsys):
    asked = []
    alarms = Alarms(num_steps=1000, num_warmup_steps=150, unigram=lambda: asked.append(1) or 7.0)
    alarms.set_params({"steps": 20})
    alarms.set_model(model)
    points = [
        (20, {"next_sentence_accuracy": 0.9, "masked_lm_loss": 7.5}),
        (40, {"next_sentence_accuracy": 0.999, "masked_lm_loss": 7.5}),
        (60, {"next_sentence_accuracy": 1.0, "masked_lm_loss": 7.2}),
        (200, {"next_sentence_accuracy": 1.0, "masked_lm_loss": 6.0}),
        (400, {"next_sentence_accuracy": 1.0, "masked_lm_loss": 6.99}),
        (600, {"next_sentence_accuracy": 1.0, "masked_lm_loss": 6.99}),
    ]
    told = []
    for step, logs in points:
        model.at(step)
        alarms.on_epoch_end(0, {"loss": 9.0, **logs})
        told.append(capsys.readouterr().err)
    assert told[0] == told[2] == told[3] == told[5] == ""
    assert "next-sentence accuracy is 0.999 after 40 steps" in told[1]
    assert "masked-LM loss is 6.990 after 400 steps" in told[4] and "give 7.000" in told[4]
    assert len(asked) == 1


def test_the_best_model_is_kept_over_a_restart(model, tmp_path):
    saved = []

    def save(folder):
        folder.mkdir()
        (folder / "weights").write_text(str(saved.append(int(model.optimizer.iterations))))

    def run(step, loss):
        best = BestModel(tmp_path / "best", save)
        best.set_model(model.at(step))
        best.on_epoch_end(0, {} if loss is None else {"val_loss": loss})
        return best.scores

    assert run(10, 3.0) == {"step": 10, "held_out_loss": 3.0}
    assert run(20, None) == run(30, float("nan")) == run(40, 3.5) == run(50, 3.0)
    assert run(60, 2.5) == {"step": 60, "held_out_loss": 2.5}
    assert saved == [10, 60]
    assert sorted(path.name for path in (tmp_path / "best").iterdir()) == ["scores.json", "weights"]
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
