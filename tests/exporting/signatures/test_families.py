"""BERT's relatives have the same signatures as BERT."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.downstream.catalog import named_task
from bert_keras.exporting.export import export
from bert_keras.exporting.variants.litert import litert_run, write_litert
from bert_keras.families import family_of
from bert_keras.models import MODELS
from tests.relatives import CHANGES, KINDS, KOREAN

# Each traces the same graph as BERT; how text becomes ids is tested in text_ops/test_rules.py.
pytestmark = pytest.mark.slow


EACH_FAMILY = ["albert", "roberta", "modernbert", "electra", "xlm-roberta", "klue-roberta"]
WITH_RULES = ("albert", "roberta", "modernbert", "xlm-roberta", "kobert")


@pytest.fixture
def saved(vocabulary_of, tmp_path):
    """Returns a function that saves a model in the layout of a relative."""

    def make(name: str, model: str, **fields):
        vocabulary = vocabulary_of(name)
        sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_positions": 32}
        changes = CHANGES[name] | ({"pooling": "mean"} if name == "modernbert" else {})
        config = BertConfig(vocab_size=len(vocabulary), **{**sizes, **changes})
        family = family_of(config, vocabulary)
        assert family is not None and family.kind == KINDS.get(name, name)
        lowercase = name not in ("roberta", *KOREAN)
        metadata = ModelMetadata(
            model=model, config=config, lowercase=lowercase, max_length=24, **fields
        )
        keras.utils.set_random_seed(3)
        instance = MODELS[model].from_metadata(metadata)
        for weight in instance.weights:  # initial weights give nearly equal outputs
            weight.assign(weight + keras.random.normal(weight.shape, stddev=0.2))
        save_model(instance, tmp_path / "model", metadata=metadata, vocabulary=vocabulary)
        return tmp_path / "model"

    return make


@pytest.mark.parametrize("family", [*CHANGES])
def test_classifier_signatures_are_frozen(saved, tmp_path, family, assert_frozen):
    fields = {"labels": ("no", "yes", "perhaps"), "text_columns": ("question", "answer")}
    folder = export(saved(family, "BertClassifier", **fields), tmp_path / "family" / "1")
    assert_frozen("classifier_of_pairs", folder)
    asset = "tokenizer.json" if family in WITH_RULES else "vocab.txt"
    assert [path.name for path in (folder / "assets").iterdir()] == [asset]


@pytest.mark.parametrize("family", EACH_FAMILY)
def test_masked_lm_signatures_are_frozen(saved, tmp_path, family, assert_frozen):
    model = saved(family, "BertMaskedLM")
    folder = export(model, tmp_path / "family" / "1")
    assert_frozen("masked_lm", folder)
    served = tf.saved_model.load(folder).signatures["serving_default"]
    outputs = served(text=tf.constant(["the [MASK] license"]))
    assert json.loads((model / "bert_keras.json").read_text())["max_length"] == 24
    assert {name: tuple(value.shape[:2]) for name, value in outputs.items()} == {
        name: (1, 1) for name in outputs
    }


SQUAD = dataclasses.replace(named_task("squad1"), max_length=24, max_question_length=4, stride=4)
LABELS = ("O", "B-LOC", "B-PER", "I-LOC", "I-PER")
NER = dataclasses.replace(named_task("ner"), max_length=24, labels=LABELS)


@pytest.mark.parametrize("family", EACH_FAMILY)
def test_question_answering_signatures_are_frozen(saved, tmp_path, family, assert_frozen):
    model = saved(family, "BertQuestionAnswering", task=SQUAD.settings())
    assert_frozen("question_answering", export(model, tmp_path / "family" / "1"))


@pytest.mark.parametrize("family", EACH_FAMILY)
def test_token_classifier_signatures_are_frozen(saved, tmp_path, family, assert_frozen):
    model = saved(family, "BertTokenClassifier", task=NER.settings(), labels=LABELS)
    assert_frozen("token_labels", export(model, tmp_path / "family" / "1"))


@pytest.mark.parametrize("family", EACH_FAMILY)
def test_multiple_choice_signatures_are_frozen(saved, tmp_path, family, assert_frozen):
    model = saved(family, "BertMultipleChoice")
    assert_frozen("multiple_choice", export(model, tmp_path / "family" / "1"))


@pytest.mark.parametrize("family", ["albert", "roberta", "modernbert"])
def test_a_litert_model_approximates_the_export(saved, tmp_path, family):
    """It needs neither the tables of the tokenizer nor ops that LiteRT lacks."""
    model = saved(family, "BertTokenClassifier", task=NER.settings(), labels=LABELS)
    folder = export(model, tmp_path / "family" / "1")
    run = litert_run(write_litert(folder, tmp_path / "litert"))
    names = ("input_ids", "input_mask", "segment_ids")
    inputs = {name: np.full((2, 11), name != "segment_ids", np.int32) for name in names}
    expected = tf.saved_model.load(folder).signatures["tensors"](**inputs)
    actual = run(inputs)["probabilities"]
    np.testing.assert_allclose(actual, expected["probabilities"], atol=0.05)
