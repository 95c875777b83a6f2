"""Pretraining on every kind of records."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.masking import Masker, MaskingPolicy
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, BertMaskedLM, BertPretrainer, load_model
from bert_keras.runs.pretrain import pretrain
from bert_keras.runs.recipes import PRETRAIN
from bert_keras.runs.settings import named_recipe
from bert_keras.text.packing import TextSpans, packed, packing_features
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *(f"w{number}" for number in range(60))))
LENGTH, PER_ROW = 24, 2
CHANGES = ["batch_size=8", "num_steps=4", "steps_per_log=2", "num_warmup_steps=1"]


def rows(random, *, num_rows: int, per_row: int):
    """Returns packed pairs, `per_row` sequences of 8 to 12 tokens in each row."""
    count = num_rows * per_row
    lengths = random.integers(3, 5, (count, 2))
    tokens = random.integers(5, len(VOCABULARY), 500)
    number = np.repeat(np.tile(np.arange(per_row), num_rows), 2)
    starts = random.integers(0, 490, (count, 2))
    ends = np.cumsum(lengths + 1, axis=1)  # within the sequence, with [CLS] or [SEP]
    spans = TextSpans(
        rows=np.repeat(np.arange(num_rows), 2 * per_row),
        columns=number * LENGTH // per_row + (ends - lengths).ravel(),
        starts=starts.ravel(),
        lengths=lengths.ravel(),
        segments=np.tile([0, 1], count),
        sequences=number + 1,
    )
    shape = {"num_rows": num_rows, "length": LENGTH}
    return packed(tokens, spans, vocabulary=VOCABULARY, **shape), packing_features(spans, **shape)


def write(path, features):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in range(len(features["input_ids"])):
            record = {
                name: tf.train.Feature(float_list=tf.train.FloatList(value=values[row]))
                if "weights" in name
                else tf.train.Feature(int64_list=tf.train.Int64List(value=values[row]))
                for name, values in features.items()
            }
            example = tf.train.Example(features=tf.train.Features(feature=record))
            writer.write(example.SerializeToString())


@pytest.fixture
def plain(tmp_path):
    """Plain ids without labels, one sequence a record."""
    folder = tmp_path / "records"
    folder.mkdir()
    VOCABULARY.save(folder / "vocab.txt")
    for name, seed in (("train", 1), ("held-out", 2)):
        features, _ = rows(np.random.default_rng(seed), num_rows=40, per_row=1)
        write(folder / f"{name}.tfrecord", features)
    return folder


@pytest.fixture
def labelled(tmp_path):
    """Masked pairs with labels, two in a record."""
    folder = tmp_path / "records"
    folder.mkdir()
    VOCABULARY.save(folder / "vocab.txt")
    masker = Masker(MaskingPolicy(max_predictions=4), VOCABULARY)
    for name, seed in (("train", 1), ("held-out", 2)):
        random = np.random.default_rng(seed)
        features, apart = rows(random, num_rows=20, per_row=PER_ROW)
        labels = {
            "next_sentence_positions": np.tile([0, LENGTH // 2, 0], (20, 1)),
            "next_sentence_labels": random.integers(0, 2, (20, 3)) * [1, 1, 0],
            "next_sentence_weights": np.tile([1.0, 1.0, 0.0], (20, 1)),
        }
        masked = masker.mask(features["input_ids"], generator=random)
        write(folder / f"{name}.tfrecord", features | apart | masked | labels)
    return folder


@pytest.mark.slow
def test_plain_ids_without_labels_train_a_masked_lm(plain, tmp_path):
    recipe = named_recipe(PRETRAIN, "demo", changes=[*CHANGES, "mask_rate=0.3", "max_ngram=2"])
    scores = pretrain(recipe, records=plain, output=tmp_path / "run").scores
    assert not [name for name in scores if "next_sentence" in name]
    assert scores["held_out_examples"] == 40
    assert 40 * 2 <= scores["held_out_predictions"] <= 40 * 8  # 0.3 of 9 to 11 tokens: about 3
    assert 0 < scores["held_out_masked_lm_loss"] < 2 * np.log(len(VOCABULARY))
    assert scores["unigram_masked_lm_loss"] > 0
    model = load_model(tmp_path / "run" / "model")
    assert type(model) is BertMaskedLM
    assert model.encoder.pooler is None
    classifier = BertClassifier.from_pretrained(
        tmp_path / "run" / "model", labels=("no", "yes"), new=("classification", "pooler")
    )
    for weight, expected in zip(
        classifier.encoder.blocks[0].weights, model.encoder.blocks[0].weights, strict=True
    ):
        np.testing.assert_array_equal(weight, expected)


@pytest.mark.slow
def test_plain_ids_train_a_causal_model(plain, tmp_path):
    changes = [*CHANGES, "size=tiny", "optimizer=adamw", "num_steps=40", "learning_rate=0.003"]
    changes.append("objective=left-to-right")
    recipe = named_recipe(PRETRAIN, "demo", changes=changes)
    scores = pretrain(recipe, records=plain, output=tmp_path / "run").scores
    assert 40 * 8 <= scores["held_out_predictions"] <= 40 * 10  # 9 to 11 tokens, each but the last
    assert 0 < scores["held_out_masked_lm_loss"] < np.log(len(VOCABULARY))
    model = load_model(tmp_path / "run" / "model")
    assert (type(model), model.config.is_causal) == (BertMaskedLM, True)
    both_ways = named_recipe(PRETRAIN, "demo", changes=CHANGES)
    with pytest.raises(InputError, match="is_causal"):
        pretrain(
            both_ways, records=plain, output=tmp_path / "next", start=tmp_path / "run" / "model"
        )


@pytest.mark.slow
@pytest.mark.parametrize("size", ["tiny", "modern-tiny"])
def test_several_labelled_pairs_in_a_record_train_both_objectives(labelled, tmp_path, size):
    recipe = named_recipe(PRETRAIN, "demo", changes=[*CHANGES, f"size={size}"])
    scores = pretrain(recipe, records=labelled, output=tmp_path / "run").scores
    assert 0 <= scores["held_out_next_sentence_accuracy"] <= 1
    assert 0 < scores["held_out_next_sentence_loss"] < 3
    assert scores["held_out_examples"] == 20
    assert type(load_model(tmp_path / "run" / "model")) is BertPretrainer


@pytest.mark.slow
def test_the_objective_masked_lm_ignores_labels(labelled, tmp_path):
    recipe = named_recipe(PRETRAIN, "demo", changes=[*CHANGES, "objective=masked-lm"])
    scores = pretrain(recipe, records=labelled, output=tmp_path / "run").scores
    assert not [name for name in scores if "next_sentence" in name]
    model = load_model(tmp_path / "run" / "model")
    assert (type(model), model.encoder.pooler) == (BertMaskedLM, None)


@pytest.mark.parametrize(
    ("kind", "changes", "word"),
    [
        ("labelled", ["objective=right-to-left"], "'right-to-left'"),
        ("labelled", ["objective=left-to-right"], "plain ids"),
        ("labelled", ["mask_rate=0.3"], "mask_rate"),
        ("plain", ["objective=left-to-right", "replacement=0-0-100"], "replacement"),
    ],
)
def test_unsuitable_settings_are_refused(request, tmp_path, kind, changes, word):
    with pytest.raises(InputError, match=word):
        recipe = named_recipe(PRETRAIN, "demo", changes=[*CHANGES, *changes])
        pretrain(recipe, records=request.getfixturevalue(kind), output=tmp_path / "run")
    assert not (tmp_path / "run" / "model").exists()
