"""What the models of pretraining do beyond the battery of test_task_models.py."""

import dataclasses

import keras
import numpy as np
import pytest

from bert_keras.config import BertConfig
from bert_keras.models import BertClassifier, BertMaskedLM, BertPretrainer
from bert_keras.models.pretrained import named_weights
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import BertAdamW

CONFIG = BertConfig(vocab_size=40, hidden_size=16, num_layers=2, num_heads=2, max_positions=12)


def examples(*, batch: int = 8, length: int = 10):
    random = np.random.default_rng(0)
    x = {
        "input_ids": random.integers(5, 40, (batch, length), dtype="int32"),
        "input_mask": np.ones((batch, length), "int32"),
        "segment_ids": random.integers(0, 2, (batch, length), dtype="int32"),
        "masked_lm_positions": random.permuted(
            np.tile(np.arange(length, dtype="int32"), (batch, 1)), axis=1
        )[:, :3],
    }
    y = {
        "masked_lm": random.integers(5, 40, (batch, 3), dtype="int32"),
        "next_sentence": random.integers(0, 2, batch, dtype="int32"),
    }
    weights = {
        "masked_lm": np.tile(np.array([1, 1, 0], "float32"), (batch, 1)),
        "next_sentence": np.ones(batch, "float32"),
    }
    return x, y, weights


def test_initial_pretraining_losses_are_at_chance_and_summed():
    keras.utils.set_random_seed(1)
    model = BertPretrainer(CONFIG)
    model.compile(loss=pretraining_losses(), weighted_metrics=pretraining_metrics())
    x, y, weights = examples()
    scores = model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    assert scores["masked_lm_loss"] == pytest.approx(np.log(40), rel=0.1)
    assert scores["next_sentence_loss"] == pytest.approx(np.log(2), rel=0.1)
    assert scores["loss"] == pytest.approx(
        scores["masked_lm_loss"] + scores["next_sentence_loss"], rel=1e-5
    )
    assert {"masked_lm_accuracy", "next_sentence_accuracy"} < set(scores)


def test_masked_lm_metrics_have_the_names_of_pretraining():
    model = BertMaskedLM(CONFIG)
    outputs = ["masked_lm"]
    model.compile(loss=pretraining_losses(outputs), weighted_metrics=pretraining_metrics(outputs))
    x, y, weights = ({k: v for k, v in part.items() if k != "next_sentence"} for part in examples())
    scores = model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    assert sorted(scores) == ["loss", "masked_lm_accuracy"]


def test_packed_rows_have_the_losses_of_separate_sequences():
    """Two sequences share each row, the last row holds one: losses and accuracies agree."""
    keras.utils.set_random_seed(1)
    model = BertPretrainer(CONFIG)
    model.compile(loss=pretraining_losses(), weighted_metrics=pretraining_metrics())
    x, y, weights = examples(batch=5, length=6)
    alone = model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)

    def shared(values, filler=0):
        values = np.concatenate([values, np.full_like(values[:1], filler)])
        return values.reshape(3, -1)

    numbers = np.repeat([[1, 2], [1, 2], [1, 0]], 6, axis=1).astype("int32")
    real = (numbers > 0).astype("int32")
    masked_at = np.concatenate([x["masked_lm_positions"], x["masked_lm_positions"][:1]])
    masked_at = (masked_at.reshape(3, 2, 3) + np.array([[0], [6]])).reshape(3, 6).astype("int32")
    packed = {
        "input_ids": shared(x["input_ids"]),
        "input_mask": real,
        "segment_ids": shared(x["segment_ids"]),
        "position_ids": np.tile(np.arange(6, dtype="int32"), (3, 2)) * real,
        "sequence_ids": numbers,
        "masked_lm_positions": masked_at,
        "next_sentence_positions": np.array([[0, 6], [0, 6], [0, 0]], "int32"),
    }
    together = model.evaluate(
        packed,
        {name: shared(values) for name, values in y.items()},
        sample_weight={name: shared(values) for name, values in weights.items()},
        batch_size=3,
        verbose=0,
        return_dict=True,
    )
    assert together == pytest.approx(alone, rel=1e-5)
    assert model(packed)["next_sentence"].shape == (3, 2, 2)


def test_decoder_is_tied_to_the_token_table():
    model = BertPretrainer(CONFIG)
    x, _, _ = examples()
    before = model.predict(x, verbose=0)["masked_lm"]
    table = model.encoder.token_table
    unused = next(row for row in range(5) if row not in x["input_ids"])
    rows = keras.ops.convert_to_numpy(table).copy()
    rows[unused] += np.arange(16)  # LayerNorm's output sums to 0: a constant would not show
    table.assign(rows)
    after = model.predict(x, verbose=0)["masked_lm"]
    changed = np.abs(before - after).max(axis=(0, 1)) > 1e-6
    assert changed.tolist() == [column == unused for column in range(40)]


def test_weight_names_of_the_encoder_are_public():
    names = list(named_weights(BertClassifier(CONFIG, num_labels=3, name="mine")))
    assert len(names) == len(set(names)) == 5 + 2 * 16 + 2 + 2
    assert names[0] == "encoder/embeddings/token"
    assert "encoder/layer_1/attention/query/kernel" in names
    assert "encoder/layer_0/feed_forward/output/bias" in names
    assert {"encoder/pooler/kernel", "encoder/pooler/bias"} < set(names)


def test_same_seed_same_weights():
    def weights():
        keras.utils.set_random_seed(7)
        return BertPretrainer(CONFIG).get_weights()

    for ours, theirs in zip(weights(), weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_from_config_leaves_the_config_unchanged():
    config = BertClassifier(CONFIG, num_labels=3).get_config()
    first, second = (BertClassifier.from_config(config) for _ in range(2))
    assert first.get_config() == second.get_config() == config


def test_a_compiled_model_that_keras_loads_continues_its_training(tmp_path):
    x, y, weights = examples()
    keras.utils.set_random_seed(1)
    model = BertPretrainer(dataclasses.replace(CONFIG, hidden_dropout_rate=0.0))
    model.compile(
        BertAdamW(1e-3),
        loss=pretraining_losses(),
        weighted_metrics=pretraining_metrics(),
        gradient_accumulation_steps=2,
    )
    model.train_on_batch(x, y, sample_weight=weights)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.gradient_accumulation_steps == 2
    logs = [
        each.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
        for each in (model, again)
    ]
    assert logs[0] == pytest.approx(logs[1]) and "masked_lm_accuracy" in logs[1]
    for ours, theirs in zip(model.optimizer.variables, again.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    again.train_on_batch(x, y, sample_weight=weights)
    assert int(again.optimizer.iterations) == 2
