import json

import pytest
import tensorflow as tf

from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.exporting.saved_model import export_metadata, write_metadata
from bert_keras.exporting.version_folder import METADATA

MODEL_METADATA = ModelMetadata(
    model="BertClassifier",
    config=BertConfig(vocab_size=8, hidden_size=8, num_layers=1, num_heads=2),
    lowercase=False,
    max_length=24,
    text_columns=("review",),
    labels=("schlecht", "größer"),
    problem_type="single_label_classification",
    task={"name": "classification", "long_texts": "error"},
)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "recipe.json").write_text('{"seed": 3}')
    (tmp_path / "run" / "scores.json").write_text('{"accuracy": 0.93}')
    return tmp_path / "run"


def test_metadata_run_and_versions_are_stored(tmp_path, run):
    write_metadata(tmp_path / "1", export_metadata(MODEL_METADATA, model_folder=run / "model"))
    text = (tmp_path / "1" / METADATA).read_text("utf-8")
    assert "größer" in text
    stored = json.loads(text)
    metadata = stored["card"]
    assert BertConfig.from_dict(metadata.pop("config")) == MODEL_METADATA.config
    assert metadata == {
        "model": "BertClassifier",
        "lowercase": False,
        "max_length": 24,
        "text_columns": ["review"],
        "labels": ["schlecht", "größer"],
        "problem_type": "single_label_classification",
        "task": {"name": "classification", "long_texts": "error"},
    }
    assert stored["training"] == {"recipe": {"seed": 3}, "scores": {"accuracy": 0.93}}
    assert stored["versions"]["tensorflow"] == tf.__version__
    assert set(stored["versions"]) == {"bert-keras", "keras", "tensorflow", "tensorflow-text"}


def test_a_model_without_a_run_has_no_training(tmp_path, run):
    for model_folder in (run / "converted", tmp_path / "other" / "model"):
        assert export_metadata(MODEL_METADATA, model_folder=model_folder)["training"] == {}
