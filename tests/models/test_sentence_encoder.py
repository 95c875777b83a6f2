"""The sentence encoder: pooling with masks, groups of texts, saving and loading."""

import dataclasses
import re

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, BertSentenceEncoder, NormalizeModule
from bert_keras.config import TEXT_POOLINGS, BertConfig, DenseModule, EmbeddingConfig
from bert_keras.errors import InputError
from bert_keras.text.packing import encode
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.tensorflow_or_skip import tf

CONFIG = BertConfig(vocab_size=40, hidden_size=16, num_layers=1, num_heads=2, max_positions=12)
MODULES = (DenseModule(units=6), NormalizeModule())
PROMPTED = {"prompts": {"query": "find: "}, "default_prompt_name": "query"}
DENSE = EmbeddingConfig(pooling=("cls", "mean"), modules=MODULES, **PROMPTED)


def batch(*, num_texts=4, length=8):
    random = np.random.default_rng(0)
    x = {
        "input_ids": random.integers(5, 40, (num_texts, length), dtype="int32"),
        "input_mask": np.ones((num_texts, length), "int32"),
        "segment_ids": np.zeros((num_texts, length), "int32"),
    }
    x["input_mask"][0, length // 2 :] = 0
    return x


def test_groups_of_texts_have_the_embeddings_of_single_texts():
    model, x = BertSentenceEncoder(CONFIG, embedding=DENSE), batch()
    single = np.asarray(model(x))
    groups = model({name: array.reshape(2, 2, -1) for name, array in x.items()})
    assert groups.shape == (2, 2, model.embedding_size) == (2, 2, 6)
    np.testing.assert_allclose(np.asarray(groups).reshape(4, 6), single, rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(single, axis=1), 1, atol=1e-6)


def test_vectors_stay_finite_without_tokens():
    """A row of padding in a group, as of an example with fewer negatives."""
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


def test_loads_from_any_encoder(tmp_path):
    folder, load = tmp_path / "encoder", BertSentenceEncoder.from_pretrained
    BertEncoder(CONFIG).save_pretrained(folder)
    assert load(folder).metadata.embedding == EmbeddingConfig()
    cls = EmbeddingConfig(pooling=("cls",))
    model = load(folder, embedding=cls)
    assert model.embedding == model.metadata.embedding == cls
    model = load(folder, embedding=DENSE)
    assert model.load_report.new == ("sentence/dense_0/kernel", "sentence/dense_0/bias")
    model.save_pretrained(tmp_path / "sentences")
    assert BertEncoder.from_pretrained(tmp_path / "sentences").metadata.embedding is None


def test_impossible_values():
    for changes in (
        *({"pooling": each} for each in ((), ("mean", "mean"), ("median",))),
        *({"similarity": "angle"}, {"default_prompt_name": "query"}),
    ):
        with pytest.raises(InputError):
            EmbeddingConfig(**changes)
    for units, activation in ((0, "tanh"), (1, "swish")):
        with pytest.raises(InputError):
            DenseModule(units=units, activation=activation)


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


def test_encode_in_several_chunks(model, capsys):
    vectors = model.encode(TEXTS * 1_700, batch_size=1_000)
    np.testing.assert_allclose(vectors, np.tile(model.encode(TEXTS), (1_700, 1)), rtol=0, atol=1e-6)
    assert re.search("encode: .*8500/8500", capsys.readouterr().err.splitlines()[-1])


def test_dimensions_are_cut_and_scaled(model):
    vectors = model.encode(TEXTS)[:, :3]
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(model.encode(TEXTS, dimensions=3), expected, rtol=0, atol=1e-6)
    plain = BertSentenceEncoder(model.config, embedding=EmbeddingConfig(modules=()))
    plain.tokenizer = model.tokenizer
    np.testing.assert_array_equal(plain.encode(TEXTS, dimensions=3), plain.encode(TEXTS)[:, :3])


def test_encode_refuses(model):
    wrong = {"dimensions": 0}, {"dimensions": 7}, {"batch_size": 0}, {"prompt_name": "title"}
    wrong = *wrong, {"prompt": "a", "prompt_name": "query"}
    for texts, arguments in (*((TEXTS, each) for each in wrong), ("a b", {}), ([None], {})):
        with pytest.raises(InputError):
            model.encode(texts, **arguments)
