import json

import pytest
import tensorflow as tf

from bert_keras.checkpoints.card import ModelCard
from bert_keras.config import BertConfig
from bert_keras.export.saved_model import METADATA, metadata_of, write_metadata

CARD = ModelCard(
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


def test_card_run_and_versions_travel(tmp_path, run):
    write_metadata(tmp_path / "1", metadata_of(CARD, model_folder=run / "model"))
    text = (tmp_path / "1" / METADATA).read_text("utf-8")
    assert "größer" in text
    told = json.loads(text)
    card = told["card"]
    assert BertConfig.from_dict(card.pop("config")) == CARD.config
    assert card == {
        "model": "BertClassifier",
        "lowercase": False,
        "max_length": 24,
        "text_columns": ["review"],
        "labels": ["schlecht", "größer"],
        "problem_type": "single_label_classification",
        "task": {"name": "classification", "long_texts": "error"},
    }
    assert told["training"] == {"recipe": {"seed": 3}, "scores": {"accuracy": 0.93}}
    assert told["versions"]["tensorflow"] == tf.__version__
    assert set(told["versions"]) == {"bert-keras", "keras", "tensorflow", "tensorflow-text"}


def test_a_model_of_another_origin_has_no_training(tmp_path, run):
    for model_folder in (run / "theirs", tmp_path / "other" / "model"):
        assert metadata_of(CARD, model_folder=model_folder)["training"] == {}
