"""A sentence encoder learns from columns of texts, with each loss."""

import keras
import numpy as np
import pytest

import bert_keras
from bert_keras.config import BertConfig
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.tensorflow_or_skip import tf

TOPICS = ("boat", "train", "bank", "film", "snow", "bread")
WORDS = ("where", "is", "the", "a", "near", "old", "my", "no")
TOKENIZER = bert_keras.WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, *TOPICS, *WORDS)))
CONFIG = BertConfig(
    vocab_size=len(TOKENIZER.vocabulary), hidden_size=16, num_layers=1, num_heads=2,
    intermediate_size=32, max_positions=16, initializer_stddev=0.2,
)  # fmt: skip


def sentences(topics, *, seed):
    """One sentence for each topic: its word among three others."""
    random = np.random.default_rng(seed)
    words = ([TOPICS[topic], *random.choice(WORDS, 3)] for topic in topics)
    return [" ".join(random.permutation(each)) for each in words]


TOPIC = np.random.default_rng(0).integers(0, len(TOPICS), 32)
OTHER = (TOPIC + np.random.default_rng(1).integers(1, len(TOPICS), 32)) % len(TOPICS)
QUERIES, POSITIVES, NEGATIVES = (
    sentences(topics, seed=seed) for seed, topics in enumerate((TOPIC, TOPIC, OTHER), start=2)
)
IS_SAME = np.arange(32) % 2
PAIRS = QUERIES, [(NEGATIVES, POSITIVES)[same][row] for row, same in enumerate(IS_SAME)]
TRIPLETS = QUERIES, POSITIVES, NEGATIVES
RANKING = bert_keras.MultipleNegativesRankingLoss
DATA = {
    "ranking": (RANKING(), (QUERIES, POSITIVES), None),
    "cosent": (bert_keras.CoSENTLoss(), PAIRS, IS_SAME),
    "matryoshka": (bert_keras.MatryoshkaLoss(RANKING(), dimensions=[16, 4]), TRIPLETS, None),
}


def model_of(loss, **compiling):
    keras.utils.set_random_seed(1)
    model = bert_keras.BertSentenceEncoder(CONFIG)
    model.preprocessor = bert_keras.Preprocessor(TOKENIZER, max_length=9)
    model.compile(keras.optimizers.Adam(1e-2), loss=loss, **compiling)
    return model


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "ranking" else pytest.mark.slow) for n in DATA]
)
def test_the_loss_falls_and_depends_only_on_the_seed(name):
    loss, texts, y = DATA[name]
    losses, first = (
        model_of(loss, run_eagerly=True)
        .fit(texts, y, batch_size=16, epochs=epochs, verbose=0)
        .history["loss"]
        for epochs in (12, 1)
    )
    assert losses[-1] < 0.9 * losses[0] and first == losses[:1]


@pytest.mark.parametrize("as_tensors", [list, np.array, tf.constant])
def test_columns_of_texts_are_groups(as_tensors):
    x = model_of(RANKING()).preprocessor(tuple(map(as_tensors, TRIPLETS)))
    columns = [bert_keras.encode(TOKENIZER, column, max_length=9) for column in TRIPLETS]
    assert x.keys() == columns[0].keys()
    for name, array in x.items():
        np.testing.assert_array_equal(array, np.stack([each[name] for each in columns], axis=1))


@pytest.mark.slow
def test_a_data_set_of_columns_gives_the_same_embeddings_and_loss():
    model = model_of(RANKING())
    expected = model.predict(TRIPLETS, verbose=0)
    assert expected.shape == (32, 3, 16)
    dataset = tf.data.Dataset.from_tensor_slices((TRIPLETS,)).batch(10)
    np.testing.assert_allclose(model.predict(dataset, verbose=0), expected, atol=1e-6)
    single = model.predict(QUERIES, verbose=0)
    np.testing.assert_allclose(single, expected[:, 0], atol=1e-6)
    singles = tf.data.Dataset.from_tensor_slices((QUERIES,)).batch(10)
    np.testing.assert_allclose(model.predict(singles, verbose=0), single, atol=1e-6)
    losses = [model.evaluate(x, verbose=0) for x in (TRIPLETS, dataset.unbatch().batch(32))]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert model.fit(dataset, validation_data=(TRIPLETS,), verbose=0).history["val_loss"]
