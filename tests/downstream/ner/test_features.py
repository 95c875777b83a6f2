"""NER from frozen features: the stored files, and training on them instead of the full model."""

import dataclasses
import shutil

import keras
import numpy as np
import pytest

from bert_keras import BertFeatureTagger
from bert_keras.config import BertConfig
from bert_keras.downstream.ner import features
from bert_keras.downstream.ner.features import NER_FEATURES_TASK
from bert_keras.kinds.words import Sentence
from tests.downstream.ner.test_task import LABELS, TOKENIZER
from tests.downstream.ner.test_task import SENTENCES as TWO_SENTENCES

SIZES = {"vocab_size": 12, "hidden_size": 8, "num_layers": 4, "num_heads": 2, "max_positions": 16}
CONFIG = BertConfig(**SIZES, hidden_dropout_rate=0.0, has_pooler=False)
SETTINGS = {"layers": "weighted-sum-last-four", "lstm_units": 12, "max_length": 8}
TASK = dataclasses.replace(NER_FEATURES_TASK, labels=LABELS, **SETTINGS)


def random_sentence(random: np.random.Generator) -> Sentence:
    """Returns a sentence of 1 to 9 words; a longer one has several rows."""
    words = random.choice([*"abcdef", "aa", "baa"], random.integers(1, 10)).tolist()
    return Sentence(tuple(words), tuple("B-x" if word in "ab" else "O" for word in words), 0, 1)


RANDOM = np.random.default_rng(0)
SENTENCES = [random_sentence(RANDOM) for _ in range(500)]  # several batches
ENCODED = TASK.encode(SENTENCES, TOKENIZER)


def new(task=TASK, seed=1):
    keras.utils.set_random_seed(seed)
    options = {"layers": task.layers, "lstm_units": task.lstm_units}
    return BertFeatureTagger(CONFIG, num_labels=3, **options)


@pytest.fixture(scope="module")
def model():
    return new()


@pytest.fixture(scope="module")
def stored(model, tmp_path_factory):
    return TASK.prepared(ENCODED, model, folder=tmp_path_factory.mktemp("features"))


@pytest.fixture
def computed_rows(monkeypatch):
    """The rows of tokens from which vectors were computed."""
    computed = []
    batch = features.PositionedWords.batch

    def counted(self, rows):
        computed.extend(rows)
        return batch(self, rows)

    monkeypatch.setattr(features.PositionedWords, "batch", counted)
    return computed


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_inputs_have_the_positions_of_the_words():
    inputs, label_ids, weights = TASK.encode(TWO_SENTENCES, TOKENIZER).batch(np.array([1, 0]))
    assert inputs["word_positions"].tolist() == [[1, 2, 0], [1, 3, 4]]
    assert label_ids.tolist() == [[0, 1, 0], [1, 2, 0]]
    assert weights.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert inputs["input_ids"].shape == (2, 6)
    assert {a.dtype.name for a in (*inputs.values(), label_ids)} == {"int32"}


@pytest.mark.slow
def test_stored_features_give_the_logits_and_targets_of_the_full_model(model, stored):
    assert len(stored) == len(ENCODED) > len(SENTENCES)
    assert all(isinstance(each, np.memmap) and not each.flags.writeable for each in stored.vectors)
    for rows in (np.array([0]), np.arange(20), np.array([20, 2, 9])):
        features, *targets = stored.batch(rows)
        inputs, *expected = ENCODED.batch(rows)
        np.testing.assert_array_equal(features["word_mask"], inputs["word_positions"] > 0)
        np.testing.assert_allclose(model.tagger(features), model(inputs), atol=1e-5)
        for target, other in zip(targets, expected, strict=True):
            np.testing.assert_array_equal(target, other)


def test_vectors_are_computed_once(model, stored, computed_rows, tmp_path):
    folder = tmp_path / "features"
    shutil.copytree(stored.vectors[0].filename.parents[1], folder)
    assert files(folder) == [f"layer_{number}.npy" for number in (1, 2, 3, 4)]
    TASK.prepared(ENCODED, model, folder=folder)
    assert not computed_rows
    last = dataclasses.replace(TASK, layers="last")
    last.prepared(ENCODED, new(last), folder=folder)
    assert sorted(computed_rows) == list(range(len(ENCODED)))
    assert files(folder) == [f"layer_{number}.npy" for number in (1, 2, 3, 4, 4)]


def test_other_weights_or_words_are_computed_again(model, stored, computed_rows):
    folder = stored.vectors[0].filename.parents[1]
    other = TASK.prepared(ENCODED, new(seed=2), folder=folder).vectors[0]
    assert np.abs(stored.vectors[0] - other).max() > 0.01
    shorter = TASK.encode(SENTENCES[:-1], TOKENIZER)
    assert TASK.prepared(shorter, model, folder=folder).vectors[0].shape[0] < len(other)
    assert len(computed_rows) == len(ENCODED) + len(shorter)
