"""BERT's relatives have the same signatures as BERT."""

import dataclasses

import pytest
import tensorflow as tf

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.downstream.catalog import named_task
from bert_keras.exporting.export import export
from bert_keras.families import family_of
from bert_keras.models import MODELS
from tests.factories import with_noise
from tests.relatives import CHANGES, KINDS, KOREAN

# Each traces the same graph as BERT; how text becomes ids is tested in text_ops/test_rules.py.
pytestmark = pytest.mark.slow

EACH_FAMILY = ["albert", "roberta", "modernbert", "electra", "xlm-roberta", "klue-roberta"]
WITH_RULES = ("albert", "roberta", "modernbert", "xlm-roberta")
SQUAD = dataclasses.replace(named_task("squad1"), max_length=24, max_question_length=4, stride=4)
LABELS = ("O", "B-LOC", "B-PER", "I-LOC", "I-PER")
NER = dataclasses.replace(named_task("ner"), max_length=24, labels=LABELS)
# Class of the model -> name in signatures.json, fields of the metadata. A classifier of each family
# is served in tests/journey/test_relatives.py.
HEADS = {
    "BertMaskedLM": ("masked_lm", {}),
    "BertQuestionAnswering": ("question_answering", {"task": SQUAD.settings()}),
    "BertTokenClassifier": ("token_labels", {"task": NER.settings(), "labels": LABELS}),
    "BertMultipleChoice": ("multiple_choice", {}),
}
CASES = [(name, "BertMaskedLM") for name in EACH_FAMILY]  # each has its own mask token
CASES += [(name, head) for name in ("modernbert", "xlm-roberta") for head in [*HEADS][1:]]


@pytest.fixture
def exported(vocabulary_of, tmp_path):
    """Returns a function that exports a model of a relative."""

    def make(name: str, model: str):
        vocabulary = vocabulary_of(name)
        sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_positions": 32}
        changes = CHANGES[name] | ({"pooling": "mean"} if name == "modernbert" else {})
        config = BertConfig(vocab_size=len(vocabulary), **{**sizes, **changes})
        family = family_of(config, vocabulary)
        assert family is not None and family.kind == KINDS.get(name, name)
        lowercase = name not in ("roberta", *KOREAN)
        _, fields = HEADS[model]
        metadata = ModelMetadata(
            model=model, config=config, lowercase=lowercase, max_length=24, **fields
        )
        instance = with_noise(MODELS[model].from_metadata(metadata), stddev=0.2)
        save_model(instance, tmp_path / "model", metadata=metadata, vocabulary=vocabulary)
        return export(tmp_path / "model", tmp_path / "family" / "1")

    return make


@pytest.mark.parametrize(("family", "model"), CASES)
def test_signatures_are_frozen(exported, family, model, assert_frozen):
    folder = exported(family, model)
    assert_frozen(HEADS[model][0], folder)
    asset = "tokenizer.json" if family in WITH_RULES else "vocab.txt"
    assert [path.name for path in (folder / "assets").iterdir()] == [asset]
    if model == "BertMaskedLM":
        served = tf.saved_model.load(folder).signatures["serving_default"]
        outputs = served(text=tf.constant(["the [MASK] license"]))
        assert {tuple(value.shape[:2]) for value in outputs.values()} == {(1, 1)}
