"""A causal encoder does not depend on later tokens: training, XLA, recomputation, export."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError
from bert_keras.exporting.export import export
from bert_keras.exporting.verify import run_requests
from bert_keras.models import BertClassifier, BertMaskedLM, BertPretrainer
from tests.exporting.variants.fine_tuned import VOCABULARY
from tests.models.test_encoder import CONFIG, inputs, packed, random_encoder

CAUSAL = dataclasses.replace(
    CONFIG, is_causal=True, hidden_dropout_rate=0.0, attention_dropout_rate=0.0
)


@pytest.fixture(scope="module")
def encoder():
    return random_encoder(CAUSAL)


@pytest.mark.parametrize("recomputes", [False, True])
def test_later_tokens_give_no_gradient(recomputes):
    """Of each position to each token: through the rows of a token table of as many rows."""
    encoder = random_encoder(CAUSAL)
    encoder.recomputes = recomputes
    ids = np.arange(9)[None]
    batch = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
    table = encoder.token_table
    for position in (0, 3, 8):
        with tf.GradientTape() as tape:
            outputs = encoder(batch, training=True)
            heard = tf.reduce_sum(outputs["sequence_output"][0, position] * np.arange(1.0, 13.0))
        gradient = np.abs(tf.convert_to_tensor(tape.gradient(heard, table.value))).max(axis=1)
        assert (gradient[: position + 1] > 0).all()
        assert (gradient[position + 1 :] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_later_tokens_change_nothing_bit_for_bit(encoder, dtype):
    rebuilt = type(encoder).from_config(encoder.get_config() | {"dtype": dtype})
    rebuilt.build()
    rebuilt.set_weights(encoder.get_weights())
    batch = inputs()
    other = batch | {"input_ids": np.where(np.arange(9) < 5, batch["input_ids"], 3)}
    ours, theirs = (
        np.asarray(rebuilt(each)["sequence_output"], "float32") for each in (batch, other)
    )
    np.testing.assert_array_equal(ours[:, :5], theirs[:, :5])
    assert np.abs(ours[:, 5:] - theirs[:, 5:]).max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("num_lstm_layers", [0, 1])
def test_xla_computes_the_same(num_lstm_layers):
    encoder = random_encoder(
        dataclasses.replace(CAUSAL, num_layers=1, num_lstm_layers=num_lstm_layers)
    )
    compiled = tf.function(lambda batch: encoder(batch), jit_compile=True)
    for length in (9, 6):
        batch = {name: array[:, :length] for name, array in inputs().items()}
        for name, array in compiled(batch).items():
            np.testing.assert_allclose(array, encoder(batch)[name], atol=1e-5)


def test_packed_causal_sequences_equal_separate_ones(encoder):
    batch = inputs(batch=6)
    lengths = batch["input_mask"].sum(axis=1)
    alone = encoder(batch)["sequence_output"]
    together = encoder(packed(batch, per_row=2, padding=2))["sequence_output"]
    for number, length in enumerate(lengths):
        row, begin = number // 2, lengths[number // 2 * 2 : number].sum()
        np.testing.assert_allclose(
            together[row, begin : begin + length], alone[number, :length], atol=1e-5
        )


@pytest.mark.slow
def test_a_classifier_learns_from_the_last_word():
    """Which a pooled vector of [CLS] could not hear."""
    keras.utils.set_random_seed(2)
    model = BertClassifier(dataclasses.replace(CAUSAL, num_layers=1), num_labels=2)
    batch = inputs(batch=64)
    last = batch["input_mask"].sum(axis=1) - 1
    labels = np.arange(64) % 2
    batch["input_ids"][np.arange(64), last] = 10 + labels
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = model.fit(batch, labels, batch_size=64, epochs=40, verbose=0)
    assert history.history["accuracy"][-1] == 1


@pytest.mark.slow
@pytest.mark.parametrize("num_lstm_layers", [0, 1])
def test_an_exported_causal_classifier_has_the_same_logits(tmp_path, num_lstm_layers):
    config = dataclasses.replace(
        CAUSAL, vocab_size=len(VOCABULARY), num_lstm_layers=num_lstm_layers
    )
    keras.utils.set_random_seed(3)
    model = BertClassifier(config, num_labels=2)
    for weight in model.weights:
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    metadata = ModelMetadata(
        model="BertClassifier", config=config, lowercase=True, max_length=16, labels=("no", "yes")
    )
    save_model(model, tmp_path / "model", metadata=metadata, vocabulary=VOCABULARY)
    folder = export(tmp_path / "model", tmp_path / "served" / "1")
    rows = {
        "input_ids": [[2, 5, 6, 3, 0], [2, 7, 3, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]],
        "segment_ids": [[0] * 5] * 2,
    }
    (served,) = run_requests(folder, [{"signature": "tensors", "inputs": rows}])
    expected = tf.nn.softmax(model({name: np.array(each) for name, each in rows.items()}))
    np.testing.assert_allclose(served["probabilities"], expected, atol=1e-4)


def test_unsupported_uses_of_a_causal_encoder_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"\[CLS\] of a causal encoder attends only to itself"):
        BertPretrainer(CAUSAL)
    config = dataclasses.replace(CAUSAL, vocab_size=len(VOCABULARY), has_pooler=False)
    metadata = ModelMetadata(model="BertMaskedLM", config=config, lowercase=True, max_length=16)
    save_model(BertMaskedLM(config), tmp_path / "model", metadata=metadata, vocabulary=VOCABULARY)
    with pytest.raises(InputError, match=r"causal language model, which does not predict \[MASK\]"):
        export(tmp_path / "model", tmp_path / "served" / "1")
    assert not (tmp_path / "served").exists()
