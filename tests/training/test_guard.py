"""Runs with gradients that are not finite or with an exploding loss, and warnings."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.training import guard
from bert_keras.training.callbacks import FitSettings
from bert_keras.training.checkpoints import BestModel
from bert_keras.training.guard import PretrainingWarnings
from bert_keras.training.loop import fit_resumable
from bert_keras.training.optimizer import BertAdamW
from tests.training.test_loop import assert_same, batches, compiled, values

STEPS = 12


def train(output, *, bad_steps=(), max_skipped=0, loss_of=None):
    """Trains 12 steps in three epochs; in `bad_steps` the weight of one row is NaN."""

    def weighted(step, batch):
        x, y = batch
        bad = tf.reduce_any(step == tf.constant([-1, *bad_steps], "int64"))
        weight = tf.where(tf.range(8) == 3, tf.where(bad, np.nan, 1.0), 1.0)
        return x, y, weight if loss_of is None else loss_of(step) * tf.ones(8)

    model = compiled()
    fit_resumable(
        model,
        lambda: batches().repeat().enumerate().map(weighted),
        FitSettings(
            stage="test",
            output=output,
            num_steps=STEPS,
            steps_per_epoch=4,
            epochs_per_checkpoint=10,
            keep_checkpoints=2,
            batch_size=8,
            tokens_per_example=6,
            max_skipped=max_skipped,
        ),
    )
    return model


def test_a_bad_batch_stops_the_run_which_then_continues_after_it(tmp_path):
    with pytest.raises(InputError) as messages:
        train(tmp_path, bad_steps=(5,))
    assert "the gradients of 1 step are not finite, the last at step 5" in str(messages.value)
    assert "the state of step 8 is saved" in str(messages.value)

    batch = np.load(tmp_path / "faults" / "step-5" / "batch.npz")
    assert np.isnan(batch["weight"][3]) and np.isfinite(batch["weight"][:3]).all()
    x, y = list(batches())[5]
    np.testing.assert_array_equal(batch["x.input_ids"], x["input_ids"])
    np.testing.assert_array_equal(batch["y"], y)
    rows = (tmp_path / "faults" / "step-5" / "weights.tsv").read_text().splitlines()[1:]
    norms = {row.split("\t")[0]: row.split("\t")[2:] for row in rows}
    assert len(norms) == len(compiled().trainable_variables)
    kernel = next(name for name in norms if name.endswith("query/kernel"))
    assert float(norms[kernel][0]) > 0 and norms[kernel][1] == "nan"

    rest = train(tmp_path, bad_steps=(5,))
    assert int(rest.optimizer.iterations) == STEPS
    resumed = values(rest)
    skipping = train(tmp_path / "skipping", bad_steps=(5,), max_skipped=1)
    assert int(skipping.optimizer.skipped) == 1
    assert_same(resumed, values(skipping))
    assert all(np.isfinite(value).all() for value in resumed)


def test_more_than_max_skipped_steps_stop_the_run(tmp_path):
    with pytest.raises(
        InputError, match="the gradients of 3 steps are not finite, the last at step"
    ):
        train(tmp_path, bad_steps=(4, 5, 7), max_skipped=2)


def test_an_explosion_stops_and_is_not_saved(tmp_path):
    def rising(step):
        return tf.where(step < 4, 1.0, 5.0)

    with pytest.raises(InputError, match=r"the loss has exploded: its mean over the steps up to 8"):
        train(tmp_path, loss_of=rising)
    assert (tmp_path / "faults" / "step-7" / "weights.tsv").is_file()
    assert tf.train.latest_checkpoint(tmp_path / "checkpoints") is None


def test_a_falling_loss_does_not_stop_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "MAX_LOSS_RATIO", 1.5)
    train(tmp_path, loss_of=lambda step: 1 / (1 + tf.cast(step, "float32")))
    assert not (tmp_path / "faults").exists()


@pytest.mark.slow
def test_a_data_error_saves_the_state_before_it(tmp_path):
    """The data set ends with an error of TensorFlow after six batches."""

    def broken(step, batch):
        check = tf.debugging.Assert(step < 6, ["ParseExample"])
        with tf.control_dependencies([check]):
            return tf.nest.map_structure(tf.identity, batch)

    model = compiled()
    usual = {
        "stage": "test",
        "num_steps": STEPS,
        "steps_per_epoch": 4,
        "epochs_per_checkpoint": 10,
        "keep_checkpoints": 2,
        "batch_size": 8,
        "tokens_per_example": 6,
        "output": tmp_path,
    }
    with pytest.raises(tf.errors.InvalidArgumentError):
        fit_resumable(
            model, lambda: batches().repeat().enumerate().map(broken), FitSettings(**usual)
        )
    rest = compiled(seed=9)
    assert fit_resumable(rest, batches().repeat, FitSettings(**usual)) == 6
    resumed, whole = values(rest), compiled()
    fit_resumable(whole, batches().repeat, FitSettings(**(usual | {"output": tmp_path / "whole"})))
    assert_same(resumed, values(whole))


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


def test_each_warning_is_printed_once(model, capsys):
    calls = []
    warnings = PretrainingWarnings(
        num_steps=1000, num_warmup_steps=150, unigram=lambda: calls.append(1) or 7.0
    )
    warnings.set_params({"steps": 20})
    warnings.set_model(model)
    points = [
        (20, {"next_sentence_accuracy": 0.9, "masked_lm_loss": 7.5}),
        (40, {"next_sentence_accuracy": 0.999, "masked_lm_loss": 7.5}),
        (60, {"next_sentence_accuracy": 1.0, "masked_lm_loss": 7.2}),
        (200, {"next_sentence_accuracy": 1.0, "masked_lm_loss": 6.0}),
        (400, {"next_sentence_accuracy": 1.0, "masked_lm_loss": 6.99}),
        (600, {"next_sentence_accuracy": 1.0, "masked_lm_loss": 6.99}),
    ]
    messages = []
    for step, logs in points:
        model.at(step)
        warnings.on_epoch_end(0, {"loss": 9.0, **logs})
        messages.append(capsys.readouterr().err)
    assert messages[0] == messages[2] == messages[3] == messages[5] == ""
    assert "next-sentence accuracy is 0.999 after 40 steps" in messages[1]
    assert "masked-LM loss is 6.990 after 400 steps" in messages[4] and "give 7.000" in messages[4]
    assert len(calls) == 1


def test_the_best_model_survives_a_restart(model, tmp_path, capsys):
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
    assert capsys.readouterr().err == ""
    assert sorted(path.name for path in (tmp_path / "best").iterdir()) == ["scores.json", "weights"]
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
    (tmp_path / "best" / "scores.json").write_text('{"step":')
    assert run(70, 2.7) == {"step": 70, "held_out_loss": 2.7}
    assert "scores.json is missing or damaged; the next model" in capsys.readouterr().err
