"""The sentence encoder: pooling with masks, groups of texts, training, saving and loading."""

import dataclasses
import re

import keras
import numpy as np
import pytest

from bert_keras.config import (
    TEXT_POOLINGS,
    BertConfig,
    DenseModule,
    EmbeddingConfig,
    ModelMetadata,
    NormalizeModule,
)
from bert_keras.errors import InputError
from bert_keras.layers.sentence import pooled
from bert_keras.models import BertEncoder, BertSentenceEncoder, load_model
from bert_keras.text.encode import encode
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

CONFIG = BertConfig(vocab_size=40, hidden_size=16, num_layers=1, num_heads=2, max_positions=12)
DENSE = EmbeddingConfig(
    pooling=("cls", "mean"),
    modules=(DenseModule(units=6), NormalizeModule()),
    prompts={"query": "find: "},
    default_prompt_name="query",
)


def batch(*, num_texts=4, length=8):
    random = np.random.default_rng(0)
    x = {
        "input_ids": random.integers(5, 40, (num_texts, length), dtype="int32"),
        "input_mask": np.ones((num_texts, length), "int32"),
        "segment_ids": np.zeros((num_texts, length), "int32"),
    }
    x["input_mask"][0, length // 2 :] = 0
    return x


def expected(states, *, positions, mode):
    """One row's vector in plain NumPy; `positions` are those of its pooled tokens, from 0."""
    states = states[positions]
    if mode in ("cls", "lasttoken"):
        return states[0 if mode == "cls" else -1]
    if mode == "max":
        return states.max(axis=0)
    if mode == "weightedmean":
        weights = np.array(positions)[:, None] + 1
        return (states * weights).sum(axis=0) / weights.sum()
    return states.sum(axis=0) / len(positions) ** (1 if mode == "mean" else 0.5)


@pytest.mark.parametrize("mode", TEXT_POOLINGS)
def test_pooling_reads_the_tokens_of_the_mask(mode):
    states = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])
    vectors = pooled(states, mask, modes=(mode,))
    for row, vector in enumerate(np.asarray(vectors)):
        positions = np.flatnonzero(mask[row])
        right = expected(states[row], positions=positions, mode=mode)
        np.testing.assert_allclose(vector, right, rtol=1e-6, atol=1e-7)
    without_prompt = mask.copy()
    without_prompt[:, :2] = 0
    vectors = np.asarray(pooled(states, mask, without_prompt, modes=(mode,)))
    for row in (0, 1):
        positions = np.flatnonzero(without_prompt[row])
        right = expected(states[row], positions=positions, mode=mode)
        np.testing.assert_allclose(vectors[row], right, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(vectors[2], 0)


def test_groups_of_texts_have_the_embeddings_of_single_texts():
    model = BertSentenceEncoder(CONFIG, embedding=DENSE)
    x = batch()
    single = np.asarray(model(x))
    groups = model({name: array.reshape(2, 2, -1) for name, array in x.items()})
    assert groups.shape == (2, 2, model.embedding_size) == (2, 2, 6)
    np.testing.assert_allclose(np.asarray(groups).reshape(4, 6), single, rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(single, axis=1), 1, atol=1e-6)


def test_default_is_the_normalized_mean():
    model = BertSentenceEncoder(CONFIG)
    x = batch()
    states = np.asarray(model.encoder(x)["sequence_output"])
    sums = (states * x["input_mask"][..., None]).sum(axis=1)
    right = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(model(x)), right, rtol=0, atol=1e-6)


def test_vectors_stay_finite_without_tokens():
    """A row of padding in a group, as of an example with fewer negatives."""
    import tensorflow as tf

    for mode in TEXT_POOLINGS:
        model = BertSentenceEncoder(CONFIG, embedding=EmbeddingConfig(pooling=(mode,)))
        x = batch()
        x["input_mask"][1] = 0
        with tf.GradientTape() as tape:
            vectors = model(x, training=True)
            loss = tf.reduce_sum(vectors**3)
        np.testing.assert_array_equal(vectors[1], 0)
        gradients = tape.gradient(loss, model.trainable_variables)
        assert all(np.isfinite(tf.convert_to_tensor(g)).all() for g in gradients if g is not None)


def test_training_changes_every_weight_and_saving_keeps_them(tmp_path):
    keras.utils.set_random_seed(1)
    model = BertSentenceEncoder(CONFIG, embedding=DENSE)
    before = [np.array(weight) for weight in model.trainable_weights]
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    x = batch()
    model.fit(x, np.eye(4, 6), verbose=0)
    for old, weight in zip(before, model.trainable_weights, strict=True):
        assert not np.array_equal(old, np.array(weight)), weight.path
    model.save_pretrained(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, BertSentenceEncoder)
    assert loaded.metadata.embedding == DENSE
    np.testing.assert_array_equal(loaded(x), model(x))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    np.testing.assert_array_equal(again(x), model(x))


def test_loads_from_any_encoder(tmp_path):
    BertEncoder(CONFIG).save_pretrained(tmp_path / "encoder")
    model = BertSentenceEncoder.from_pretrained(tmp_path / "encoder")
    assert model.metadata.embedding == EmbeddingConfig()
    cls = EmbeddingConfig(pooling=("cls",))
    model = BertSentenceEncoder.from_pretrained(tmp_path / "encoder", embedding=cls)
    assert model.embedding == model.metadata.embedding == cls
    with pytest.raises(InputError, match=r"without weights of sentence; .* new=\('sentence',\)"):
        BertSentenceEncoder.from_pretrained(tmp_path / "encoder", embedding=DENSE)
    model = BertSentenceEncoder.from_pretrained(
        tmp_path / "encoder", embedding=DENSE, new=("sentence",)
    )
    assert model.load_report.new == ("sentence/dense_0/kernel", "sentence/dense_0/bias")
    model.save_pretrained(tmp_path / "sentences")
    assert BertEncoder.from_pretrained(tmp_path / "sentences").metadata.embedding is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"pooling": ()}, r"pooling is \(\); expected one or more different names"),
        ({"pooling": ("mean", "mean")}, "expected one or more different names"),
        ({"pooling": ("median",)}, "no pooling is called 'median'"),
        ({"similarity": "angle"}, "no similarity is called 'angle'; known: cosine"),
        ({"prompts": {"query": 1}}, "prompts is {'query': 1}; expected texts by their names"),
        ({"default_prompt_name": "query"}, "no prompt is called 'query'; known: none"),
    ],
)
def test_impossible_values(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        EmbeddingConfig(**changes)


def test_metadata_has_an_embedding_only_for_sentence_encoders():
    metadata = ModelMetadata(model="BertEncoder", config=CONFIG, lowercase=True, max_length=8)
    with pytest.raises(InputError, match=r"BertEncoder has the embedding .*; expected None"):
        dataclasses.replace(metadata, embedding=DENSE)
    metadata = dataclasses.replace(metadata, model="BertSentenceEncoder")
    assert metadata.embedding == EmbeddingConfig()
    with pytest.raises(InputError, match="units is 0; expected at least 1"):
        DenseModule(units=0)
    with pytest.raises(InputError, match="no activation of a dense module is called 'swish'"):
        DenseModule(units=1, activation="swish")


VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefghij:", *(f"##{letter}" for letter in "abcdef")))
TEXTS = ["a", "abc d e", "", "b c d e f g h i j a b c d", "ab"]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    config = dataclasses.replace(CONFIG, vocab_size=len(VOCABULARY), initializer_stddev=0.3)
    model = BertSentenceEncoder(config, embedding=DENSE)
    model.tokenizer = WordPieceTokenizer(VOCABULARY)
    return model


def test_encode_returns_one_vector_for_each_text_in_order(model):
    vectors = model.encode(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((5, 6), np.float32)
    for row, text in enumerate(TEXTS):
        inputs = encode(model.tokenizer, ["find: " + text], max_length=12)
        np.testing.assert_allclose(vectors[row], model(inputs)[0], rtol=0, atol=1e-6)
        alone = model.encode([text], batch_size=1)
        np.testing.assert_allclose(vectors[row], alone[0], rtol=0, atol=1e-6)
    for batch_size in (1, 2, 5):
        again = model.encode(TEXTS, batch_size=batch_size)
        np.testing.assert_allclose(vectors, again, rtol=0, atol=1e-6)
    assert model.encode([]).shape == (0, 6)
    without = model.encode(TEXTS, prompt="")
    assert np.abs(without - vectors).max() > 1e-3
    np.testing.assert_array_equal(vectors, model.encode(TEXTS, prompt_name="query"))


def test_encode_in_several_chunks(model, monkeypatch, capsys):
    vectors = model.encode(TEXTS)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("bert_keras.models.sentence_encoder.CHUNK_SIZE", 2)
    monkeypatch.setattr("bert_keras.models.sentence_encoder.NUM_SILENT", 4)
    np.testing.assert_allclose(vectors, model.encode(TEXTS), rtol=0, atol=1e-6)
    assert re.search(r"encode: .* 5/5 ", capsys.readouterr().err.splitlines()[-1])


def test_dimensions_are_cut_and_scaled(model):
    vectors = model.encode(TEXTS)[:, :3]
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(model.encode(TEXTS, dimensions=3), expected, rtol=0, atol=1e-6)
    plain = BertSentenceEncoder(model.config, embedding=EmbeddingConfig(modules=()))
    plain.tokenizer = model.tokenizer
    np.testing.assert_array_equal(plain.encode(TEXTS, dimensions=3), plain.encode(TEXTS)[:, :3])


def test_encode_reads_the_current_weights(model):
    before = model.encode(TEXTS)
    kernel = model.sentence.dense_layers[0].kernel
    kernel.assign(-kernel)
    after = model.encode(TEXTS)
    kernel.assign(-kernel)
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_array_equal(model.encode(TEXTS), before)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"dimensions": 0}, "dimensions is 0; expected 1 to 6"),
        ({"dimensions": 7}, "dimensions is 7; expected 1 to 6"),
        ({"batch_size": 0}, "batch_size is 0; expected at least 1"),
        ({"prompt_name": "title"}, "no prompt is called 'title'; known: query"),
        ({"prompt": "a", "prompt_name": "query"}, "the prompts 'a' and 'query' are given"),
    ],
)
def test_encode_refuses(model, arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        model.encode(TEXTS, **arguments)
    with pytest.raises(InputError, match="texts is the string 'a b'; expected a list of strings"):
        model.encode("a b")


def test_a_model_saved_after_encode(model, tmp_path):
    vectors = model.encode(TEXTS)
    model.save(tmp_path / "model.keras")
    model.save_pretrained(tmp_path / "model")
    loaded = BertSentenceEncoder.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(TEXTS), vectors)


def test_predict_takes_a_generator():
    encoder, inputs = BertSentenceEncoder(CONFIG), batch()
    expected = encoder.predict(inputs, verbose=0)
    actual = encoder.predict(((inputs,) for _ in range(1)), verbose=0)
    np.testing.assert_allclose(actual, expected, atol=1e-6)
