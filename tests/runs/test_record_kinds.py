"""Pretraining on every kind of records."""

import numpy as np
import pytest

from bert_keras import BertClassifier, BertMaskedLM, BertPretrainer
from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from bert_keras.runs.pretrain import pretrain
from bert_keras.runs.recipes import PRETRAIN
from bert_keras.runs.settings import named_recipe
from tests.factories import tiny_vocabulary, write_records

CHANGES = ["batch_size=8", "num_steps=4", "steps_per_log=2", "num_warmup_steps=1"]
KINDS = {  # settings of the records: plain ids without labels, and two labelled pairs in a record
    "plain": {"objective": "full-sentences", "max_predictions": 0},
    "labelled": {"objective": "nsp", "max_predictions": 4, "sequences_per_record": 2},
}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """The folders of records by kind; plain ids have 6 held-out records of 22 tokens."""
    folder = tmp_path_factory.mktemp("records")
    settings = {"max_length": 24, "held_out_rate": 0.3, "shards": 1}
    return {kind: write_records(folder / kind, **settings, **KINDS[kind]) for kind in KINDS}


def run(output, records, *changes, start=None):
    recipe = named_recipe(PRETRAIN, "demo", changes=[*CHANGES, *changes])
    scores = pretrain(recipe, records=records, output=output, pretrained=start).scores
    return scores, load_model(output / "model")


@pytest.mark.slow
def test_plain_ids_without_labels_train_a_masked_lm(records, tmp_path):
    scores, model = run(tmp_path / "run", records["plain"], "mask_rate=0.3", "max_ngram=2")
    assert not [name for name in scores if "next_sentence" in name]
    assert scores["held_out_examples"] == 6
    assert scores["held_out_predictions"] == 6 * 7  # 0.3 of 22 tokens
    assert 0 < scores["held_out_masked_lm_loss"] < 2 * np.log(len(tiny_vocabulary()))
    assert scores["unigram_masked_lm_loss"] > 0
    assert type(model) is BertMaskedLM and model.encoder.pooler is None
    options = {"labels": ("no", "yes"), "new": ("classification", "pooler")}
    classifier = BertClassifier.from_pretrained(tmp_path / "run" / "model", **options)
    blocks = classifier.encoder.blocks[0].weights, model.encoder.blocks[0].weights
    for weight, expected in zip(*blocks, strict=True):
        np.testing.assert_array_equal(weight, expected)


@pytest.mark.slow
def test_plain_ids_train_a_causal_model(records, tmp_path):
    changes = ["size=tiny", "optimizer=adamw", "num_steps=40", "learning_rate=0.003"]
    causal = [*changes, "objective=left-to-right"]
    scores, model = run(tmp_path / "run", records["plain"], *causal)
    assert scores["held_out_predictions"] == 6 * 21  # each token but the last
    assert 0 < scores["held_out_masked_lm_loss"] < np.log(len(tiny_vocabulary()))
    assert (type(model), model.config.is_causal) == (BertMaskedLM, True)
    with pytest.raises(InputError):
        run(tmp_path / "next", records["plain"], start=tmp_path / "run" / "model")


@pytest.mark.slow
@pytest.mark.parametrize("size", ["tiny", "modern-tiny"])
def test_several_labelled_pairs_in_a_record_train_both_objectives(records, tmp_path, size):
    changes = [f"size={size}", "learning_rate=0.002"]
    scores, model = run(tmp_path / "run", records["labelled"], *changes)
    assert 0 <= scores["held_out_next_sentence_accuracy"] <= 1
    assert 0 < scores["held_out_next_sentence_loss"] < 3
    assert scores["held_out_examples"] == 10 and type(model) is BertPretrainer


def test_unsuitable_settings_are_refused(records, tmp_path):
    for kind, changes in (
        ("labelled", ["objective=right-to-left"]),
        ("labelled", ["objective=left-to-right"]),
        ("labelled", ["objective=replaced-token"]),
        ("labelled", ["mask_rate=0.3"]),
        ("plain", ["objective=left-to-right", "replacement=0-0-100"]),
    ):
        with pytest.raises(InputError):
            run(tmp_path / "run", records[kind], *changes)
    assert not (tmp_path / "run" / "model").exists()
